"""Laws side by side: every notion is that of the part it belongs to, rounded to its safe side."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from cdp_views._checks import UnsupportedError
from cdp_views.loss import BoundedLoss, GaussianLoss, ProfileLoss, SampledLoss
from cdp_views.loss.concentrated import RhoLoss
from cdp_views.privacy import PrivacyLoss, WorstDifference
from cdp_views.privacy.joined import JoinedLoss

RATES = np.array([0.5, 2.0])
LAPLACE = ProfileLoss(lambda e: -np.expm1(0.5 * np.minimum(e - RATES, 0)), RATES)
PARTS = {
    "normal and bounded": [GaussianLoss([0.8, 0.3]), BoundedLoss([0.4, 1.5])],
    "laplace and bounded": [LAPLACE, BoundedLoss([1.0], "bound")],
    "normal and rho": [GaussianLoss([0.8]), RhoLoss(np.array([0.1]))],
}
NOTIONS = {
    "delta": lambda law: law.delta(0.3),
    "epsilon": lambda law: law.epsilon(1e-3),
    "guess_rate": lambda law: law.guess_rate,
    "total_variation": lambda law: law.total_variation,
    "kl": lambda law: law.kl,
    "renyi": lambda law: law.renyi(3.0),
    "sup": lambda law: np.asarray(law.sup),
    "zcdp": lambda law: law.zcdp,
    "gdp": lambda law: law.gdp,
    "tradeoff": lambda law: law.tradeoff(0.2),
}


@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
@pytest.mark.parametrize("notion", NOTIONS.values(), ids=NOTIONS)
def test_each_number_is_that_of_its_part(parts, notion):
    joined = JoinedLoss(parts)
    assert_allclose(notion(joined), np.concatenate([notion(p) for p in parts]), rtol=1e-12)
    some = np.array([np.size(joined.sup) - 1, 0])
    assert_allclose(notion(joined.take(some)), notion(joined)[some], rtol=1e-12)


@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_arguments_of_one_column_for_each_difference(parts):
    joined, m = JoinedLoss(parts), sum(np.size(p.sup) for p in parts)
    for name, values in (("delta", [0.1, 0.7]), ("epsilon", [1e-3, 0.1]), ("tradeoff", [0.1, 0.6])):
        each = [getattr(joined, name)(x) for x in values]
        grid = np.tile(np.array(values)[:, None], (1, m))
        close = {"rtol": 1e-4 if name == "tradeoff" else 1e-12}  # a curve's search stops for all
        assert_allclose(getattr(joined, name)(grid), each, **close)
        assert_allclose(getattr(joined, name)(grid[:, :1]), each, **close)


def test_kinds_are_those_of_the_weakest_part_and_of_the_largest_loss():
    joined = JoinedLoss([LAPLACE, BoundedLoss([1.0], "bound")])
    assert (joined.kind, joined.sup_kind, joined.gdp_kind) == ("bound", "exact", "bound")
    assert JoinedLoss([LAPLACE, BoundedLoss([3.0], "bound")]).sup_kind == "bound"
    tied = [BoundedLoss([2.0], "bound"), LAPLACE]
    assert JoinedLoss(tied).sup_kind == JoinedLoss(tied[::-1]).sup_kind == "exact"
    assert JoinedLoss([LAPLACE]).kind == "exact"
    normal = JoinedLoss([GaussianLoss([1.0]), GaussianLoss([0.5])])
    assert (normal.kind, normal.gdp_kind, normal.stderr) == ("exact", "exact", None)
    # what is estimated keeps its error beside what is proved
    drawn = JoinedLoss([SampledLoss([[0.5, -0.2, 0.4]]), BoundedLoss([0.1])])
    assert drawn.kind == "estimate" and drawn.stderr[1] == 0 < drawn.stderr[0]
    assert drawn.delta_stderr(0.1).shape == (2,) and drawn.epsilon_stderr(0.5)[1] == 0


@pytest.mark.parametrize("parts", list(PARTS.values())[:2], ids=list(PARTS)[:2])
def test_a_result_of_them_is_ordered_and_errs_upwards(parts):
    """Every notion at least each part's own; Pinsker, KL ≤ ρ, TV ≤ 2Φ(μ/2) − 1."""
    loss = PrivacyLoss(
        JoinedLoss(parts), WorstDifference(0, (0, 1), (1.0, -1.0)), 2**0.5, "one record moves"
    )
    single = [PrivacyLoss(p, loss.worst, 2**0.5, "one record moves") for p in parts]
    for name in ("guess_rate", "total_variation", "kl", "rho", "mu", "pure_epsilon"):
        assert getattr(loss, name) == max(getattr(s, name) for s in single), name
    assert loss.total_variation <= np.sqrt(loss.kl / 2) * (1 + 1e-9)
    assert loss.kl <= loss.rho * (1 + 1e-9)
    assert loss.tradeoff(0.2) == min(s.tradeoff(0.2) for s in single)
    assert loss.delta(loss.epsilon(0.01)) <= 0.01


def test_what_is_not_proved_is_refused_in_one_line():
    loss = PrivacyLoss(
        JoinedLoss([LAPLACE, RhoLoss(np.array([0.1]))]),
        WorstDifference(0, (0, 1), (1.0, -1.0)),
        2**0.5,
        "one record moves",
    )
    with pytest.raises(UnsupportedError, match=r"^`mu` is proved for [^\n]+$"):
        _ = loss.mu
    assert loss.rho >= 0.1 and loss.pure_epsilon == np.inf and loss.pure_kind == "bound"
