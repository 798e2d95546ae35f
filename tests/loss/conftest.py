"""The profile of a normal loss at 60 digits: the oracle of this folder."""

import mpmath as mp
import pytest

DIGITS = 60


@pytest.fixture(scope="session")
def exact_delta():
    """(ε, μ) ↦ δ as an mpmath number."""
    return delta


def delta(epsilon, mu):
    """Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ), literally, with digits enough for its cancellation."""
    with mp.workdps(DIGITS):
        epsilon, mu = mp.mpf(epsilon), mp.mpf(mu)
        x, y = epsilon / mu - mu / 2, epsilon / mu + mu / 2
        return _upper(x) - mp.npdf(x) * _mills(y)  # e^ε φ(y) = φ(x)


def _upper(x):
    return mp.erfc(x / mp.sqrt(2)) / 2


def _mills(t):
    if t < 1000:
        return _upper(t) / mp.npdf(t)
    # 1/t − 1/t³ + 3/t⁵ − …: the first term left out is below 1e-60 from t = 1000 on.
    term, total = 1 / t, mp.mpf(0)
    for k in range(16):
        total += term
        term *= -(2 * k + 1) / t**2
    return total
