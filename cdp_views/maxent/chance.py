"""How often random weights or scales are out of balance, so that no maximum-entropy law exists."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import wofz

from cdp_views import _checks

_STEP, _REACH = 1 / 16, 12.0  # trapezoid in standard deviations of the saddle: error below 1e-15


@dataclass(frozen=True)
class Chance:
    """A probability, and how it is known.

    Attributes:
        probability: of the event.
        kind: "exact" (to rounding) or "estimate".
        stderr: standard error of an estimate, None if exact. Where no draw or every draw showed
            the event it is 1/draws, not 0.
    """

    probability: float
    kind: Literal["exact", "estimate"]
    stderr: float | None = None

    def __str__(self) -> str:
        error = "" if self.stderr is None else f" ± {self.stderr:.2g} (standard error)"
        return f"{self.probability:.6g}{error}, {self.kind}"


def unbalanced_chance(
    size: Any, entries: Any = "rayleigh", *, key: Any = None, draws: int = 100_000
) -> Chance:
    """The probability that one entry of a random vector is at least the sum of all the others.

    P(∪_i {c_i s_i ≥ Σ_{j≠i} c_j s_j}) = Σ_i P(c_i s_i ≥ Σ_{j≠i} c_j s_j),  s_i ≥ 0 independent.

    For exponential entries the term is Π_{j≠i} c_i/(c_i + c_j), so n·2^{1−n} for equal c. For
    Rayleigh entries, the random scales of Laplace noise, it is E exp(−S²/2c_i²), one integral.

    Args:
        size: c (n,), what multiplies the entries: |weight| for random scales of one law, typical
            size for random weights; `numpy.ones(n)` for identically distributed ones.
        entries: "exponential" or "rayleigh" (of scale 1), exact; or the law of s as any NumPyro
            distribution, or a sampler `(key, shape) -> array`, simulated. Signs are ignored.
        key: JAX key of a simulation.
        draws: draws of a simulation.

    Returns:
        Chance: probability, kind and, where simulated, stderr.

    Raises:
        ValueError: `size` is not a vector of positive numbers, or there is no key.

    Example:
        >>> import cdp_views as cdp, numpy as np
        >>> round(cdp.unbalanced_chance(np.ones(4)).probability, 7)
        0.0931003

    Reference: [L] §4.3. Its bound 2n·2^{−n} for Lomax entries does not hold: heavy tails are often
    out of balance (n = 20, shape 3: probability 0.030, bound 3.8e-5). For exponential entries the
    same number is not a bound but exact.
    """
    c = np.asarray(size, dtype=float)
    if c.ndim != 1 or len(c) == 0:
        raise ValueError(f"`size` must be a vector (n,); got shape {c.shape}. Use numpy.ones(n).")
    _checks.positive("size", c, "Leave out cells of weight 0: they cannot be out of balance.")
    if isinstance(entries, str):
        _checks.choice("entries", entries, _EXACT)
        alike, counts = np.unique(c, return_counts=True)
        terms = [
            many * _EXACT[entries](alike / alike[i], counts - (np.arange(len(alike)) == i))
            for i, many in enumerate(counts)
        ]
        return Chance(min(1.0, float(np.sum(terms))), "exact")
    if key is None:
        raise ValueError(
            "`key` must be given to simulate other laws; got None. Pass key=jax.random.key(...)."
        )
    return _simulated(c, getattr(entries, "sample", entries), key, draws)


def _exponential(ratio: np.ndarray, counts: np.ndarray) -> float:
    """P(s_0 ≥ S) = E e^{−S} = Π E exp(−ratio_j s_j), ratio_j occurring counts_j times."""
    return float(np.exp(-(counts * np.log1p(ratio)).sum()))


def _rayleigh(ratio: np.ndarray, counts: np.ndarray) -> float:
    """P(s_0 ≥ S) = E exp(−S²/2), S = Σ ratio_j s_j, ratio_j occurring counts_j times.

    exp(−S²/2) is the mean of exp(iSZ) over a standard normal Z. Moved to the line Im Z = y through
    the saddle of e^{w²/2}·Π L(ratio_j w), w = y − ix, the integrand does not oscillate against
    itself, so that even 1e-80 comes out to full relative accuracy.
    """

    def exponent(w: np.ndarray) -> np.ndarray:
        return w**2 / 2 + counts @ np.log(_laplace_transform(ratio[:, None] * w))

    # log L(w) decreases like −2 log w, so the saddle lies below √(2n)
    bounds = (0.0, np.sqrt(2 * counts.sum()) + 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Any = minimize_scalar(
            lambda y: np.real(exponent(np.array([y + 0j])))[0], bounds=bounds
        )
    x = np.arange(-_REACH, _REACH + _STEP / 2, _STEP)
    with np.errstate(divide="ignore", invalid="ignore"):  # far out the transform underflows to 0
        on_line = np.nan_to_num(np.real(np.exp(exponent(found.x - 1j * x))))
    return float(on_line.sum() * _STEP / np.sqrt(2 * np.pi))


def _laplace_transform(w: np.ndarray) -> np.ndarray:
    """E e^{−ws} of a Rayleigh variable of scale 1, complex w with Re w ≥ 0."""
    return 1 - w * np.sqrt(np.pi / 2) * wofz(1j * w / np.sqrt(2))


_EXACT: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "exponential": _exponential,
    "rayleigh": _rayleigh,
}


def _simulated(c: np.ndarray, sampler: Callable[..., Any], key: Any, draws: int) -> Chance:
    if draws < 2:
        raise ValueError(f"`draws` must be at least 2; got {draws}. Some 100 000 tell more.")
    s = np.abs(np.asarray(sampler(key, (draws, len(c))), dtype=float)) * c
    if s.shape != (draws, len(c)):
        raise ValueError(
            f"`entries` must draw one number per cell; got shape {s.shape} for {draws} draws of "
            f"{len(c)}. Give the law of one entry, with batch and event shape ()."
        )
    largest = s.max(axis=1)
    p = float(np.mean(largest >= s.sum(axis=1) - largest))
    return Chance(p, "estimate", max(float(np.sqrt(p * (1 - p) / draws)), 1 / draws))
