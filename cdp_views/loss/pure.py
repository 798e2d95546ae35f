"""What pure ε alone proves in every other notion: the numbers of randomised response, rounded up.

Randomised response, L = ±ε with probabilities e^ε/(1 + e^ε) and 1/(1 + e^ε), dominates every pair
of laws with |L| ≤ ε (Kairouz, Oh and Viswanath 2015, Theorem 2), so each number here is attained.
"""

import numpy as np
from scipy.special import erfinv, log_expit, ndtri_exp

from cdp_views.loss._arguments import nonnegative, order

_UP = 1 + 16 * np.finfo(float).eps


def kl_of_pure(epsilon: float | np.ndarray) -> np.ndarray:
    """KL ≤ ε tanh(ε/2) in nats, for a pair of laws with |L| ≤ ε.

    Example:
      >>> kl_of_pure(1.0).round(6).item()
      0.462117
    """
    epsilon = nonnegative("epsilon", epsilon)
    return epsilon * np.tanh(0.5 * epsilon) * _UP


def rho_of_pure(epsilon: float | np.ndarray) -> np.ndarray:
    """ρ = ε tanh(ε/2): pure ε is ρ-zCDP, and no smaller ρ holds for all such pairs.

    Proof. With u = α − ½, randomised response has (α−1) D_α = log cosh(uε) − log cosh(ε/2), and
    log cosh(ε√w) is concave in w = u²; its tangent at w = ¼ gives (α−1) D_α ≤ α(α−1) ε tanh(ε/2).
    At α = 1, D_α = ε tanh(ε/2). Below ε²/2, the bound of Bun and Steinke 2016, Proposition 1.4.

    Args:
      epsilon: ε ≥ 0 (nats), any shape, may be infinite.

    Returns:
      ρ, rounded up.

    Example:
      >>> rho_of_pure([0.5, 1.0, 2.0]).round(6).tolist()
      [0.122459, 0.462117, 1.523188]

    Reference: the proof above; Kairouz, Oh and Viswanath 2015, Theorem 2, for the domination.
    """
    return kl_of_pure(epsilon)


def mu_of_pure(epsilon: float | np.ndarray) -> np.ndarray:
    """μ = 2 Φ⁻¹(e^ε/(1 + e^ε)): pure ε is μ-GDP, and no smaller μ holds for all such pairs.

    The trade-off curve of randomised response is two chords that meet where both errors are
    1/(1 + e^ε); a convex Gaussian curve lies below both as soon as it does at that corner.

    Args:
      epsilon: ε ≥ 0 (nats), any shape, may be infinite.

    Returns:
      μ, rounded up.

    Example:
      >>> mu_of_pure(1.0).round(6).item()
      1.232035

    Reference: the argument above; Liu, Sun, Jiang and Kong 2022, "Identification, amplification and
    measurement: a bridge to Gaussian differential privacy".
    """
    epsilon = nonnegative("epsilon", epsilon)
    # erf⁻¹ keeps its relative precision near 0, Φ⁻¹ of a logarithm far out.
    near = 2 * np.sqrt(2) * erfinv(np.tanh(0.5 * np.minimum(epsilon, 1.0)))
    far = -2 * ndtri_exp(log_expit(-np.clip(epsilon, 1.0, 1e300)))
    mu = np.where(epsilon < 1, near, far) * _UP
    return np.where(np.isinf(epsilon), np.inf, mu)


def total_variation_of_pure(epsilon: float | np.ndarray) -> np.ndarray:
    """TV ≤ tanh(ε/2), for a pair of laws with |L| ≤ ε.

    Example:
      >>> total_variation_of_pure(1.0).round(6).item()
      0.462117
    """
    return np.minimum(np.tanh(0.5 * nonnegative("epsilon", epsilon)) * _UP, 1.0)


def renyi_of_pure(alpha: float, epsilon: float | np.ndarray) -> np.ndarray:
    """D_α ≤ log[cosh((α − ½)ε) / cosh(ε/2)] / (α − 1) in nats, for a pair with |L| ≤ ε.

    Args:
      alpha: order α ≥ 1; 1 is KL, infinity is ε itself.
      epsilon: ε ≥ 0 (nats), any shape.

    Returns:
      D_α, never above ε.

    Example:
      >>> renyi_of_pure(2.0, 1.0).round(6).item()
      0.735326

    Reference: Mironov 2017, "Rényi differential privacy", Proposition 6 (randomised response).
    """
    alpha, epsilon = order(alpha), nonnegative("epsilon", epsilon)
    if alpha == np.inf:
        return epsilon * 1.0
    kl = kl_of_pure(epsilon)
    if alpha == 1:
        return kl
    t = alpha - 1
    finite = np.where(np.isinf(epsilon), 1.0, epsilon)
    # cosh(x + y) / cosh(x) = 1 + 2 sinh(y/2) sinh(x + y/2)/cosh(x): nothing cancels, x = ε/2.
    y = t * finite
    small = y < 1
    with np.errstate(over="ignore"):
        near = (
            2
            * np.sinh(0.5 * np.where(small, y, 0.0))
            * (
                np.sinh(0.5 * np.where(small, y, 0.0))
                + np.tanh(0.5 * finite) * np.cosh(0.5 * np.where(small, y, 0.0))
            )
        )
    far = y + np.log1p(np.exp(-2 * y - finite)) - np.log1p(np.exp(-finite))
    value = np.where(small, np.log1p(near), far) / t * _UP
    return np.where(np.isinf(epsilon), np.inf, np.minimum(np.minimum(value, epsilon), alpha * kl))
