"""The privacy profile of one cell of Student-t or logistic noise that moves by a of its scales.

Logistic noise is log-concave, so L > ε on a half-line; the tails of Student-t fall slower than any
shift can tell, so L > ε between the two roots of a quadratic. All δ(ε) are for 0 ≤ ε < sup.
"""

from typing import Any

import numpy as np
from scipy.special import stdtr

_UP = 1 + 16 * np.finfo(float).eps
_ROUNDING = 1e-14  # of differences of Student's distribution function


def logistic_cell(epsilon: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """δ(ε) = (e^{a/2} − e^{ε/2})²/(e^a − 1) for the density e^{−x}/(1 + e^{−x})²; sup is a.

    Proof: with A = e^{a/2} and ρ = e^{ε/2}, L > ε from e^x = (Aρ − 1)/(A(A − ρ)) on, where
    P − e^ε Q = A(A − ρ)/(A² − 1) − ρ(A − ρ)/(A² − 1).

    Example:
      >>> logistic_cell(np.array(0.0), np.array([1.0])).round(6).tolist()  # tanh(a/4)
      [0.244919]
    """
    gap = np.minimum(epsilon - shift, 0.0)
    below = np.where(shift > 0, -np.expm1(-shift), 1.0)
    return np.minimum(np.expm1(0.5 * gap) ** 2 / below * _UP, 1.0)


def student_cell(epsilon: np.ndarray, shift: np.ndarray, df: Any) -> np.ndarray:
    """δ(ε) of Student-t noise with ν degrees of freedom, to 1e-14; sup is (ν + 1) asinh(a/2√ν).

    With d = e^{2ε/(ν+1)} − 1, L > ε on (νd − a²)/(a + r) < x < (a + r)/d, r² = (1 + d)a² − νd².

    Example:
      >>> student_cell(np.array(0.0), np.array([1.0]), 3.0).round(6).tolist()  # 2F(a/2) − 1
      [0.348552]
    """
    d = np.expm1(2 * epsilon / (df + 1))
    root = np.sqrt(np.maximum((1 + d) * shift**2 - df * d * d, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        left = (df * d - shift**2) / np.where(shift + root > 0, shift + root, 1.0)
        right = np.where(d > 0, (shift + root) / d, np.inf)
    own = _between(left, right, df)
    other = np.exp(epsilon) * _between(left + shift, right + shift, df)
    return np.where(shift > 0, np.clip(own - other + _ROUNDING, 0.0, 1.0), 0.0)


def _between(left: np.ndarray, right: np.ndarray, df: Any) -> np.ndarray:
    """P(left < X < right), from the tail that both lie in."""
    flip = left > 0
    low, high = np.where(flip, -right, left), np.where(flip, -left, right)
    return stdtr(df, high) - stdtr(df, low)
