"""A loss given by its profile answers as the same loss does in closed form."""

import numpy as np
import pytest

from cdp_views.loss import GaussianLoss, ProfileLoss
from cdp_views.loss.gaussian_dp import delta_of_mu

MU = np.array([0.2, 1.0, 4.0])
SUP = np.array([0.5, 2.0, 1e-9, 60.0])
DELTAS = np.array([0.0, 1e-300, 1e-12, 1e-3, 0.2, 0.9, 1.0])


def normal(**more):
    return ProfileLoss(lambda e: delta_of_mu(e, MU), np.full(3, np.inf), **more)


def one_cell(**more):
    """Laplace noise on one cell: δ = 1 − e^{(ε − sup)/2}."""
    return ProfileLoss(lambda e: -np.expm1(0.5 * np.minimum(e - SUP, 0)), SUP, **more)


def test_against_the_closed_form():
    law, truth = normal(), GaussianLoss(MU)
    for delta in (1e-250, 1e-10, 0.01, 0.3):
        np.testing.assert_allclose(law.epsilon(delta), truth.epsilon(delta), rtol=1e-12)
    np.testing.assert_array_equal(law.epsilon(1.0), np.zeros(3))
    np.testing.assert_array_equal(law.epsilon(0.0), np.full(3, np.inf))
    np.testing.assert_allclose(law.guess_rate, truth.guess_rate)
    law = one_cell()
    for delta in DELTAS:
        want = np.maximum(SUP + 2 * np.log1p(-delta), 0) if delta < 1 else np.zeros(4)
        np.testing.assert_allclose(law.epsilon(delta), want, rtol=1e-13, atol=1e-24)
    grid = law.epsilon(DELTAS[:, None])
    np.testing.assert_array_equal(grid[3], law.epsilon(DELTAS[3]))


@pytest.mark.parametrize("law", [normal(), one_cell()], ids=["normal", "laplace"])
def test_epsilon_is_on_the_safe_side(law):
    epsilon = law.epsilon(DELTAS[1:, None])
    kept = law.delta(np.minimum(epsilon, 1e300)) <= DELTAS[1:, None]
    assert (kept | np.isinf(epsilon)).all()


def test_parts():
    law = one_cell(alike=np.array([3, 1, 3, 0]))
    assert law.frontier().tolist() == [0, 1, 3] and normal().frontier().tolist() == [0, 1, 2]
    part = law.take(np.array([3, 1]))
    np.testing.assert_array_equal(part.delta(0.3), law.delta(0.3)[[3, 1]])
    both = np.array([[0.3, 0.1], [1.0, 5.0]])
    np.testing.assert_array_equal(part.delta(both)[:, 0], law.delta(both[:, :1])[:, 3])
    np.testing.assert_array_equal(part.take(np.array([1])).epsilon(0.1), law.epsilon(0.1)[[1]])
    np.testing.assert_array_equal(np.asarray(part.alike), [0, 1])
    assert part.sup.tolist() == [60.0, 2.0]


def test_a_profile_that_knows_its_parts_is_asked():
    class Known:
        def __init__(self, sup):
            self.sup = sup

        def __call__(self, epsilon):
            return -np.expm1(0.5 * np.minimum(epsilon - self.sup, 0))

        def take(self, indices):
            return Known(self.sup[indices])

    law = ProfileLoss(Known(SUP), SUP, kind="bound").take(np.array([1]))
    assert isinstance(law.profile, Known) and law.kind == "bound"
    assert law.profile.sup.tolist() == [2.0]


@pytest.mark.parametrize("sup", [[-1.0], [np.nan]])
def test_bad_supremum(sup):
    with pytest.raises(ValueError, match=r"^`sup` must be zero or more"):
        ProfileLoss(lambda e: 0 * e, sup)


def test_two_releases_together():
    """Two independent Laplace cells of one shift: 1 − e^{−x}(1 + min(x, a)/2), x = a − ε/2."""
    law = one_cell().take(np.array([1, 0])).repeated(2)
    assert law.kind == "bound" and law.sup.tolist() == [4.0, 1.0]
    for epsilon in (0.0, 0.6):
        a, x = SUP[[1, 0]], SUP[[1, 0]] - epsilon / 2
        want = 1 - np.exp(-x) * (1 + np.minimum(x, a) / 2)
        assert (law.delta(epsilon) >= want).all()
        np.testing.assert_allclose(law.delta(epsilon), want, atol=2e-6)


def test_the_ends():
    law = one_cell()
    assert law.delta(np.inf).tolist() == [0] * 4 and normal().delta(np.inf).tolist() == [0] * 3
    assert law.delta(SUP).tolist() == [0] * 4
    nothing = ProfileLoss(lambda e: 0 * e, np.zeros(1))
    assert nothing.epsilon(0.0).tolist() == [0.0] and nothing.delta(0.0).tolist() == [0.0]
