import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import norm

from cdp_views.loss import GaussianLoss, Loss, delta_of_mu, epsilon_of_mu

MU = np.array([0.0, 1e-6, 0.5, 2.0, 30.0, np.inf])


def test_it_is_a_loss():
    law = GaussianLoss(MU)
    assert isinstance(law, Loss)
    assert (law.kind, law.stderr) == ("exact", None)


def test_every_number_is_one_per_difference():
    law = GaussianLoss(MU)
    np.testing.assert_array_equal(law.delta(1.0), delta_of_mu(1.0, MU))
    np.testing.assert_array_equal(law.epsilon(1e-5), epsilon_of_mu(1e-5, MU))
    np.testing.assert_array_equal(law.sup, [0, *[np.inf] * 5])
    np.testing.assert_array_equal(law.rho, MU**2 / 2)
    np.testing.assert_allclose(law.guess_rate, norm.cdf(MU / 2), rtol=1e-15)
    np.testing.assert_allclose(law.guess_rate, (1 + law.delta(0.0)) / 2, rtol=1e-15)
    assert all(a.dtype == np.float64 for a in (law.mu, law.delta(1), law.epsilon(0.1)))


def test_the_frontier_holds_the_worst_difference_at_every_epsilon():
    law = GaussianLoss([1.0, 3.0, 2.0])
    assert law.frontier().tolist() == [1]
    worst = law.take(law.frontier())
    for epsilon in [0.0, 1.0, 10.0]:
        assert worst.delta(epsilon)[0] == law.delta(epsilon).max()


def test_guess_rate_at_the_usual_budget():
    """Normal noise at ε = 1, δ = 1e-10 is told apart with chance .53395 (mathematics.md §4)."""
    from cdp_views.loss import analytic_gaussian_mu

    law = GaussianLoss(analytic_gaussian_mu(1.0, 1e-10))
    assert law.guess_rate == pytest.approx([0.53395], abs=5e-6)


def test_mu_cannot_be_changed_behind_its_back():
    mine = np.array([1.0])
    law = GaussianLoss(mine)
    mine[0] = 2.0
    assert law.mu[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        law.mu[0] = 2.0


@pytest.mark.parametrize("bad", [[1.0, -1.0], [np.nan], ["a"]])
def test_bad_mu(bad):
    with pytest.raises(ValueError, match=r"^`mu` must [^\n]+$"):
        GaussianLoss(bad)


def test_many_differences():
    mu = np.random.default_rng(3).uniform(1e-6, 5, 20_000)
    law = GaussianLoss(mu)
    assert (law.delta(law.epsilon(1e-9)) <= 1e-9).all()


def test_the_room_never_imports_jax():
    code = "import sys, cdp_views.loss, cdp_views.neighbours; print('jax' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"
