from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from cdp_views._checks import UnsupportedError
from cdp_views.loss import delta_of_mu, epsilon_of_mu
from cdp_views.loss.pure import mu_of_pure, rho_of_pure
from cdp_views.neighbours import differences, relocations
from cdp_views.privacy import privacy_loss

SIGMA = (1.0, 2.0, 3.0, 4.0, 6.0)


def test_worked_example(one_total, conditioned, imaged):
    """One total, σ = (1, 2, 3, 4, 6): worst μ² is ν₁ + ν₂ = 1 + ¼ conditioned, .86244 imaged."""
    inv = one_total()
    assert privacy_loss(conditioned(inv, SIGMA), relocations(inv)).mu ** 2 == pytest.approx(1.25)
    omega = 1 / np.square(SIGMA)
    want = omega[0] + omega[1] - (omega[0] - omega[1]) ** 2 / omega.sum()
    got = privacy_loss(imaged(inv, SIGMA), relocations(inv)).mu ** 2
    assert got == pytest.approx(want)
    assert want == pytest.approx(0.86244, abs=5e-6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(sigma=st.lists(st.floats(0.1, 10), min_size=2, max_size=6), view=st.sampled_from("ci"))
def test_no_pair_is_worse_than_the_one_found(one_total, conditioned, imaged, sigma, view):
    inv = one_total(len(sigma))
    view = {"c": conditioned, "i": imaged}[view](inv, sigma)
    view = SimpleNamespace(
        invariant=inv, exposure=1 / np.asarray(sigma), loss=view.loss
    )  # a view orders its cells by scale
    every = np.array(
        [np.eye(inv.n)[i] - np.eye(inv.n)[j] for i, j in combinations(range(inv.n), 2)]
    )
    found = privacy_loss(view, relocations(inv))
    assert found.mu == pytest.approx(privacy_loss(view, differences(every)).mu, rel=1e-9)


def test_every_number_is_that_of_the_worst_difference(one_total, conditioned):
    inv = one_total()
    loss = privacy_loss(conditioned(inv, SIGMA), relocations(inv))
    mu = loss.mu
    assert loss.delta(1.0) == delta_of_mu(1.0, mu)
    assert loss.epsilon(1e-6) == epsilon_of_mu(1e-6, mu)
    assert loss.rho == mu**2 / 2
    assert loss.pure_epsilon == np.inf
    assert loss.guess_rate == pytest.approx((1 + loss.delta(0.0)) / 2)
    assert loss.sensitivity == pytest.approx(np.sqrt(2))
    assert (loss.kind, loss.stderr) == ("exact", None)
    assert all(
        isinstance(x, float)
        for x in (loss.delta(1), loss.epsilon(0.1), loss.mu, loss.rho, loss.guess_rate)
    )


def test_the_worst_difference_is_named(two_totals, conditioned):
    loss = privacy_loss(conditioned(two_totals, (5.0, 4.0, 3.0, 2.0, 1.0)), relocations(two_totals))
    assert loss.worst.cells == (2, 4)
    assert loss.worst.values == (-1.0, 1.0)
    assert loss.worst.group == "IL"
    assert str(loss.worst) == "-1 in cell 2, +1 in cell 4 (group IL)"


def test_a_difference_across_groups_has_no_one_group(two_totals, conditioned):
    view = conditioned(two_totals, np.ones(5))
    loss = privacy_loss(view, differences([[1, 1, -1, -1, 0]]))
    assert loss.worst.group is None
    assert loss.sensitivity == 2


def test_a_cell_in_no_group_belongs_to_none(conditioned):
    A = sparse.csr_array(np.array([[1.0, 1.0, 0.0]]))
    inv = SimpleNamespace(n=3, matrix=A, blocks=np.array([0, 0, -1]), names=["WI"])
    loss = privacy_loss(conditioned(inv, np.ones(3)), differences([[1, -1, 1]]))
    assert loss.worst.group is None


def test_an_invariant_without_names(one_total, conditioned):
    inv = one_total(3, names=None)
    loss = privacy_loss(conditioned(inv, np.ones(3)), relocations(inv))
    assert str(loss.worst) == "+1 in cell 0, -1 in cell 1"


def test_a_long_difference_is_shortened(one_total, conditioned):
    inv = one_total(8)
    V = np.r_[np.ones(7), -7.0]
    text = str(privacy_loss(conditioned(inv, np.ones(8)), differences(V)).worst)
    assert text.endswith("+1 in cell 5 and 2 more (group WI)")


def test_it_prints_what_one_wants_to_know(one_total, conditioned):
    inv = one_total()
    loss = privacy_loss(conditioned(inv, SIGMA), relocations(inv))
    assert str(loss) == repr(loss)
    relocations_text = (
        "one record moves between two cells without changing a published total (relocation)"
    )
    assert str(loss).splitlines() == [
        "Privacy loss (exact)",
        f"  unit of privacy: {relocations_text}",
        f"  epsilon {loss.epsilon(1e-10):.6g} at delta 1e-10",
        "  mu 1.11803, rho 0.625",
        "  guess rate 0.711925",
        "  least protected: +1 in cell 0, -1 in cell 1 (group WI)",
        "  totals: computed from the data and published with it",
    ]


def test_a_query_gives_away_less(one_total, conditioned):
    inv = one_total()
    view, V = conditioned(inv, SIGMA), differences([[1, 0, -1, 0, 0]])
    W = np.array([[1.0, 1, 0, 0, 0]])
    variance = (W @ view.covariance @ W.T).item()
    loss = privacy_loss(view, V, query=W)
    assert loss.mu == pytest.approx(1 / np.sqrt(variance))
    assert loss.mu < privacy_loss(view, V).mu


def test_a_saturated_guess_rate_still_finds_the_worst(one_total, conditioned):
    inv = one_total()
    view = conditioned(inv, np.array(SIGMA) / 1e6)
    V = [[0, 0, 0, 1, -1], [1, -1, 0, 0, 0], [0, 1, -1, 0, 0]]
    loss = privacy_loss(view, differences(V))
    assert loss.guess_rate == 1
    assert loss.worst.row == 1
    assert loss.mu == pytest.approx(1e6 * np.sqrt(1.25))


def test_a_loss_that_is_not_normal(one_total, bounded_view):
    inv = one_total(3)
    V = differences([[1, -1, 0], [1, 0, -1]])
    loss = privacy_loss(bounded_view(inv, bound=[1.0, 2.0], height=[0.5, 0.1]), V)
    # The profiles cross: the maximum is taken at each ε, not once.
    assert loss.delta(0.0) == pytest.approx(0.5)
    assert loss.delta(1.5) == pytest.approx(0.025)
    assert loss.epsilon(0.01) == pytest.approx(1.8)
    assert loss.epsilon(0.2) == pytest.approx(0.6)
    assert loss.pure_epsilon == 2
    assert loss.worst.cells == (0, 2)
    assert (loss.kind, loss.stderr) == ("bound", 0.005)
    assert "pure epsilon 2" in str(loss)
    assert "mu" not in str(loss).replace("number", "")
    # mu and rho are bounds, here no worse than those of pure epsilon.
    assert (loss.mu_kind, loss.rho_kind) == ("bound", "bound")
    assert 0 < loss.mu <= mu_of_pure(2.0) and 0 < loss.rho <= rho_of_pure(2.0)


def test_a_total_that_changes_is_refused(two_totals, conditioned):
    view = conditioned(two_totals, np.ones(5))
    V = [[1, 0, -1, 0, 0], [1, -1, 0, 0, 0], [1, 0, 0, 0, 0]]
    with pytest.raises(ValueError, match=r"^`neighbours` row 1 changes a published total[^\n]+$"):
        privacy_loss(view, differences(V))


def test_rounding_is_not_a_change(one_total, conditioned):
    inv = one_total(200)
    v = np.random.default_rng(0).normal(size=200) * 10.0 ** np.linspace(-8, 8, 200)
    v -= v.mean()
    assert v.sum() != 0
    privacy_loss(conditioned(inv, np.ones(200)), differences(v))
    v[-1] += 1e-9 * abs(v).sum()
    with pytest.raises(ValueError, match="row 0 changes a published total"):
        privacy_loss(conditioned(inv, np.ones(200)), differences(v))


def test_a_batch_is_refused(one_total, conditioned):
    inv = one_total()
    view = replace(conditioned(inv, SIGMA), batch_shape=(3,))
    with pytest.raises(
        ValueError, match=r"^`view` must be one release; got a batch of shape \(3,\)"
    ):
        privacy_loss(view, relocations(inv))


def test_a_view_of_other_cells_is_refused(one_total, conditioned):
    with pytest.raises(
        ValueError, match=r"^`neighbours` must cover the 5 cells of the view; got 4"
    ):
        privacy_loss(conditioned(one_total(), SIGMA), relocations(one_total(4)))


@pytest.mark.parametrize(
    ("key", "match"), [(None, r"Pass key=jax.random.key"), (0, r"no `sample` and `log_prob`")]
)
def test_a_stranger_is_refused_with_the_way_out(one_total, key, match):
    stranger = SimpleNamespace(sample=None, log_prob=None)
    with pytest.raises(
        UnsupportedError, match=rf"^`view`[^\n]* {match}[^\n]*use MaxEntropy|Use Max"
    ):
        privacy_loss(stranger, relocations(one_total()), key=key)
