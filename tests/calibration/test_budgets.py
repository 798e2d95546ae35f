"""Any notion, several levels, several tables, and the same profile for several views."""

from types import SimpleNamespace

import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import sparse
from scipy.stats import norm

import cdp_views as cdp
from cdp_views.loss import BoundedLoss, GaussianLoss, ProfileLoss, mu_of_pure, rho_of_pure
from cdp_views.neighbours import relocations
from cdp_views.privacy import privacy_loss

INV = SimpleNamespace(
    n=3, blocks=np.zeros(3, int), matrix=sparse.csr_array(np.ones((1, 3))), names=None
)
NEAR = relocations(INV)


def family(law):
    return lambda scale: SimpleNamespace(
        invariant=INV, exposure=np.ones(3), loss=lambda V, query=None: law(scale)
    )


def laplace(scale):
    rate = np.array([2.0 / scale])
    return ProfileLoss(lambda e: -np.expm1(0.5 * np.minimum(e - rate, 0)), rate)


normal = family(lambda s: GaussianLoss([3.0 / s]))
bounded = family(lambda s: BoundedLoss([2.0 / s]))
one_cell = family(laplace)

BUDGETS = [
    ({"rho": 0.7}, lambda loss: loss.rho),
    ({"mu": 0.2}, lambda loss: loss.mu),
    ({"kl": 0.05}, lambda loss: loss.kl),
    ({"renyi": (5.0, 0.4)}, lambda loss: loss.renyi(5.0)),
    ({"total_variation": 0.3}, lambda loss: loss.total_variation),
    ({"guess_rate": 0.6}, lambda loss: loss.guess_rate),
    ({"epsilon": 0.3, "delta": 0.05}, lambda loss: loss.delta(0.3)),
]


@pytest.mark.parametrize("view", [normal, bounded, one_cell], ids=["normal", "pure", "laplace"])
@pytest.mark.parametrize(("budget", "spent"), BUDGETS, ids=[next(iter(b)) for b, _ in BUDGETS])
def test_every_notion_is_kept_and_used_up(view, budget, spent):
    scale = cdp.calibrate(view, NEAR, **budget)
    goal = budget.get("delta", next(iter(budget.values())))
    goal = goal[1] if isinstance(goal, tuple) else goal
    assert spent(privacy_loss(view(scale), NEAR)) <= goal
    assert spent(privacy_loss(view(scale * (1 - 1e-5)), NEAR)) > goal


def test_closed_forms_of_normal_noise():
    assert cdp.calibrate(normal, NEAR, mu=0.2) == pytest.approx(15.0, rel=1e-12)
    assert cdp.calibrate(normal, NEAR, rho=0.5) == pytest.approx(3.0, rel=1e-12)
    assert cdp.calibrate(normal, NEAR, kl=0.5) == pytest.approx(3.0, rel=1e-12)
    rate = float(norm.cdf(0.5))
    assert cdp.calibrate(normal, NEAR, guess_rate=rate) == pytest.approx(3.0, rel=1e-12)


def test_closed_forms_of_a_bounded_loss():
    scale = cdp.calibrate(bounded, NEAR, rho=0.7)
    assert rho_of_pure(2 / scale) == pytest.approx(0.7, rel=1e-6)
    assert mu_of_pure(2 / cdp.calibrate(bounded, NEAR, mu=0.7)) == pytest.approx(0.7, rel=1e-6)


GRID = [(e, d) for e in (1e-12, 1e-3, 1.0, 1e3, 1e6) for d in (1e-300, 1e-10, 0.5, 1 - 1e-12)]


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_realised_delta_never_exceeds_its_target(epsilon, delta):
    for view in (normal, bounded, one_cell):
        scale = cdp.calibrate(view, NEAR, epsilon=epsilon, delta=delta)
        assert privacy_loss(view(scale), NEAR).delta(epsilon) <= delta


def test_levels_are_kept_at_once():
    inv = cdp.totals(["a"] * 4)

    def view(scale):
        return cdp.Conditioned(dist.Normal(np.zeros(4), scale), inv)

    W = np.array([[1.0, 1.0, 0, 0]])
    nb = cdp.relocations(inv)
    fine = {"epsilon": 1.0, "delta": 1e-6}
    alone = cdp.calibrate(view, nb, **fine)
    # A looser coarse level costs nothing, a stricter one decides.
    assert cdp.calibrate(view, nb, **fine, levels=[(W, None, {"mu": 5.0})]) == alone
    both = cdp.calibrate(view, nb, levels=[(None, nb, fine), (W, nb, {"mu": 0.01})])
    strict = cdp.calibrate(view, nb, query=W, mu=0.01)
    assert both == pytest.approx(strict, rel=1e-6) and both > alone
    assert privacy_loss(view(both), nb, query=W).mu <= 0.01
    # for the same difference, a query never sees more than the table
    assert cdp.calibrate(view, nb, query=W, **fine) <= alone * (1 + 1e-6)


def test_contradictory_levels():
    fine = {"epsilon": 1.0, "delta": 1e-6}
    with pytest.raises(ValueError, match=r"^`levels` must not contradict[^\n]+Keep the stricter"):
        cdp.calibrate(normal, NEAR, **fine, levels=[(None, None, {"epsilon": 1.0, "delta": 1e-9})])
    with pytest.raises(ValueError, match="contradict"):
        cdp.calibrate(normal, NEAR, levels=[(None, None, {"mu": 1.0}), (None, NEAR, {"mu": 2.0})])
    # two points of one profile, or two notions, are no contradiction
    scale = cdp.calibrate(
        normal,
        NEAR,
        **fine,
        levels=[(None, None, {"epsilon": 3.0, "delta": 1e-15}), (None, None, {"mu": 1.0})],
    )
    loss = privacy_loss(normal(scale), NEAR)
    assert loss.delta(1.0) <= 1e-6 and loss.delta(3.0) <= 1e-15 and loss.mu <= 1


@pytest.mark.parametrize(
    ("levels", "match"),
    [
        ([None], "must hold"),
        ([(None, None)], "must hold"),
        ([(None, None, 1.0)], "must end in a budget"),
        ([(None, None, {"epsilom": 1.0})], "must state its budget"),
    ],
)
def test_bad_levels(levels, match):
    with pytest.raises(ValueError, match=rf"^`levels`[^\n]*{match}[^\n]*$"):
        cdp.calibrate(normal, NEAR, levels=levels)


def test_tables_share_a_budget():
    budget = {"epsilon": 1.0, "delta": 1e-8}
    one = cdp.calibrate(normal, NEAR, **budget)
    assert cdp.calibrate(normal, NEAR, **budget, tables=9) == pytest.approx(3 * one, rel=1e-12)
    pure = cdp.calibrate(one_cell, NEAR, epsilon=1.0)
    assert cdp.calibrate(one_cell, NEAR, epsilon=1.0, tables=7) == pytest.approx(7 * pure)
    assert cdp.calibrate(one_cell, NEAR, kl=0.1, tables=4) > cdp.calibrate(one_cell, NEAR, kl=0.1)
    with pytest.raises(ValueError, match="`tables` must be a whole number"):
        cdp.calibrate(normal, NEAR, **budget, tables=0)


def test_tables_of_other_noise_share_delta_by_composition():
    pytest.importorskip("dp_accounting")
    budget = {"epsilon": 1.0, "delta": 1e-6}
    many = cdp.calibrate(one_cell, NEAR, **budget, tables=30)
    assert 30 * 2 / many > 1.1  # adding up would allow a pure epsilon of 1 in all
    from cdp_views.privacy.composition import repeated

    loss = repeated(privacy_loss(one_cell(many), NEAR), 30)
    assert loss.delta(1.0) <= 1e-6
    less = repeated(privacy_loss(one_cell(many * (1 - 1e-4)), NEAR), 30)
    assert less.delta(1.0) > 1e-6


def test_equal_profiles():
    views = {"normal": normal, "laplace": one_cell}
    reference = privacy_loss(one_cell(1.0), NEAR)
    equal = cdp.equal_profile(views, NEAR, epsilon=0.5, reference=reference)
    assert equal.delta == reference.delta(0.5)
    assert equal.scales["laplace"] == pytest.approx(1.0, rel=1e-6)
    for loss in equal.losses.values():
        assert equal.delta * (1 - 1e-6) <= loss.delta(0.5) <= equal.delta
    assert "laplace: scale 1 (delta" in str(equal)
    guess = cdp.equal_profile(views, NEAR, epsilon=0.0, reference=reference)
    for loss in guess.losses.values():
        assert loss.guess_rate == pytest.approx(reference.guess_rate, rel=1e-6)
    pure = cdp.equal_profile({"laplace": one_cell}, NEAR, epsilon=2.0, reference=reference)
    assert pure.delta == 0 and pure.scales["laplace"] == pytest.approx(1.0)
    with pytest.raises(ValueError, match=r"^`views` must name"):
        cdp.equal_profile({}, NEAR, epsilon=1.0, reference=0.1)
    with pytest.raises(ValueError, match=r"^`reference` must have a delta"):
        cdp.equal_profile(views, NEAR, epsilon=1.0, reference=1.0)
    with pytest.raises(ValueError, match=r"^`epsilon` must be one finite"):
        cdp.equal_profile(views, NEAR, epsilon=-1.0, reference=0.1)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({}, "budget"),
        ({"epsilon": 1.0, "rho": 1.0}, "budget"),
        ({"rho": 1.0, "delta": 0.1}, "delta"),
        ({"rho": 1.0, "bound": "tail"}, "delta"),
        ({"rho": -1.0}, "rho"),
        ({"mu": np.nan}, "mu"),
        ({"kl": np.inf}, "kl"),
        ({"guess_rate": 0.5}, "guess_rate"),
        ({"guess_rate": 1.0}, "guess_rate"),
        ({"total_variation": 0.0}, "total_variation"),
        ({"renyi": (0.5, 1.0)}, "renyi"),
        ({"renyi": 2.0}, "renyi"),
        ({"epsilon": True}, "epsilon"),
    ],
)
def test_bad_budgets(arguments, name):
    with pytest.raises(ValueError, match=rf"^`{name}`[^\n]* must [^\n]+$|^`{name}` must [^\n]+$"):
        cdp.calibrate(normal, NEAR, **arguments)


def test_what_is_not_proved_is_refused():
    endless = family(lambda s: ProfileLoss(lambda e: np.exp(-1 - e * s), np.array([np.inf])))
    with pytest.raises(cdp.UnsupportedError, match=r"^`rho` is proved for normal and for bounded"):
        cdp.calibrate(endless, NEAR, rho=1.0)


def test_tail_bound_keeps_its_meaning():
    with pytest.raises(cdp.UnsupportedError, match=r'^`bound` "tail" [^\n]+$'):
        cdp.calibrate(one_cell, NEAR, epsilon=1.0, delta=0.1, bound="tail")
