"""The Mills ratio of the standard normal, and differences of it that do not cancel."""

import numpy as np
from scipy.special import erfcx

_SQRT_HALF_PI = np.sqrt(np.pi / 2)
_SQRT_HALF = np.sqrt(0.5)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_FRACTION_FROM = 4.0
_FRACTION_TERMS = 32


def mills_ratio(t: np.ndarray) -> np.ndarray:
    """Mills ratio R(t) = (1 − Φ(t)) / φ(t).

    Args:
      t: any shape; overflows below −38.

    Returns:
      R(t), to a few units in the last place.
    """
    return _SQRT_HALF_PI * erfcx(np.asarray(t, dtype=float) * _SQRT_HALF)


def mills_difference(x: np.ndarray, width: np.ndarray) -> np.ndarray:
    """R(x) − R(x + width) to about 1e-14 *relative*, however small it is.

    Three forms, none of which cancels: the continued fraction, differenced term by term, for
    large x; an integral of −R′(t) = 1 − t R(t) for narrow steps; else the plain difference.

    Args:
      x: (m,) at least about −1 (further left the caller has a better form).
      width: (m,) above zero, may be infinite.

    Returns:
      (m,) differences, above zero.
    """
    out = np.empty_like(x)
    far = x >= _FRACTION_FROM
    narrow = ~far & (width <= 1.0)
    plain = ~far & ~narrow
    out[far] = _by_fraction(x[far], width[far])
    out[narrow] = _by_integral(x[narrow], width[narrow])
    out[plain] = mills_ratio(x[plain]) - mills_ratio(x[plain] + width[plain])
    return out


def _by_fraction(x: np.ndarray, width: np.ndarray) -> np.ndarray:
    # R(t) = 1/(t + f₁), f_k = k/(t + f_{k+1}) (Laplace). With y = x + width,
    # f_k(x) − f_k(y) = width·e_k and e_k = f_k(x) f_k(y) (1 − e_{k+1}) / k: e_k stays in (0, ½],
    # so nothing cancels. The tail starts at its fixed points, f ≈ (√(t² + 4k) − t)/2 and e ≈ ½.
    y = x + width
    k = _FRACTION_TERMS + 1
    fx, fy = (2 * k / (np.hypot(t, 2 * np.sqrt(k)) + t) for t in (x, y))
    e = np.full_like(x, 0.5)
    for k in range(_FRACTION_TERMS, 0, -1):
        fx, fy = k / (x + fx), k / (y + fy)
        e = fx * fy / k * (1 - e)
    # width/(y + f₁(y)) before the other factor: an infinite width gives R(x), not NaN.
    finite = np.isfinite(width)
    ratio = np.divide(width, y + fy, out=np.ones_like(x), where=finite)
    return ratio * (1 - e) / (x + fx)


def _by_integral(x: np.ndarray, width: np.ndarray) -> np.ndarray:
    half = 0.5 * width
    t = (x + half)[:, None] + half[:, None] * _NODES
    return half * ((1 - t * mills_ratio(t)) @ _WEIGHTS)
