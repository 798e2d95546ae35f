"""Pure ε: the bound is randomised response, and no pair of laws within it does better."""

from itertools import product

import mpmath as mp
import numpy as np
import pytest
from scipy.optimize import linprog

from cdp_views.loss import BoundedLoss, Loss

SUP = np.array([0.0, 1e-300, 1e-9, 0.5, 1.0, 30.0, 800.0, 1e6, np.inf])


def exact(sup, epsilon):
    """(e^s − e^ε)/(e^s + 1) at 60 digits."""
    if epsilon >= sup:
        return mp.mpf(0)
    with mp.workdps(60):
        gap = mp.mpf(epsilon) - mp.mpf(sup)
        return -mp.expm1(gap) / (1 + mp.exp(-mp.mpf(sup)))


def test_it_is_a_loss():
    law = BoundedLoss(SUP)
    assert isinstance(law, Loss)
    assert (law.kind, law.sup_kind, law.stderr) == ("bound", "exact", None)
    assert law.delta_stderr(1.0) is None and law.epsilon_stderr(0.1) is None
    np.testing.assert_array_equal(law.sup, SUP)
    assert BoundedLoss(SUP, "bound").take(np.array([3])).sup_kind == "bound"
    assert law.take(np.array([3, 4])).sup.tolist() == [0.5, 1.0]


@pytest.mark.parametrize("epsilon", [0.0, 1e-12, 0.5, 1 - 1e-12, 29.999999, 799.0, 1e6 - 1e-9])
def test_delta_is_that_of_randomised_response_rounded_up(epsilon):
    for sup, delta in zip(SUP, BoundedLoss(SUP).delta(epsilon), strict=True):
        truth = exact(sup, epsilon)
        assert (
            truth
            <= mp.mpf(float(delta))
            <= min(truth * (1 + mp.mpf("4e-15")) + mp.mpf("1e-320"), 1)
        )


def test_nothing_is_left_beyond_the_supremum():
    law = BoundedLoss(SUP)
    assert (law.delta(np.nextafter(law.sup, np.inf)) == 0).all()
    assert (law.delta(law.sup) == 0).all()


def test_guess_rate_is_rounded_up():
    for sup, guess in zip(SUP, BoundedLoss(SUP).guess_rate, strict=True):
        with mp.workdps(60):
            truth = 1 / (1 + mp.exp(-mp.mpf(sup)))
        assert truth <= mp.mpf(float(guess)) <= min(truth * (1 + mp.mpf("4e-15")), 1)


@pytest.mark.parametrize("delta", [0.0, 1e-300, 1e-17, 1e-10, 0.1, 0.4621171572600097, 0.9, 1.0])
def test_epsilon_inverts_delta_and_rounds_up(delta):
    law = BoundedLoss(SUP)
    epsilon = law.epsilon(delta)
    assert (epsilon <= law.sup).all()
    assert (law.delta(epsilon) <= delta).all()
    less = np.maximum(epsilon * (1 - 1e-13) - 1e-13 * np.minimum(law.sup, 1), 0)
    shrunk = (epsilon > 1e-12) & np.isfinite(epsilon) & (delta > 1e-12)
    assert (law.delta(less)[shrunk] > delta).all()


def test_the_worst_is_the_largest():
    assert BoundedLoss([1.0, 3.0, 2.0]).frontier().tolist() == [1]


@pytest.mark.parametrize("sup", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.9])
def test_no_pair_within_the_supremum_does_better(sup, epsilon):
    """Every pair of laws on four outcomes, as a linear program over (p, p′), |L| ≤ sup.

    δ(ε) = max over events S of p(S) − e^ε p′(S): one program for each event.
    """
    n, best = 4, 0.0
    for event in product([0, 1], repeat=n):
        gain = np.r_[np.array(event), -np.exp(epsilon) * np.array(event)]
        limits = np.block(
            [[np.eye(n), -np.exp(sup) * np.eye(n)], [-np.exp(sup) * np.eye(n), np.eye(n)]]
        )
        sums = np.block([[np.ones(n), np.zeros(n)], [np.zeros(n), np.ones(n)]])
        found = linprog(-gain, A_ub=limits, b_ub=np.zeros(2 * n), A_eq=sums, b_eq=[1, 1])
        best = max(best, -found.fun)
    assert BoundedLoss([sup]).delta(epsilon)[0] == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("bad", [[1.0, -1.0], [np.nan], ["a"]])
def test_bad_sup(bad):
    with pytest.raises(ValueError, match=r"^`sup` must [^\n]+$"):
        BoundedLoss(bad)
