"""The law of one cell of Laplace noise with an exact total, and so what its cells share."""

from typing import Literal

import numpy as np

_POINTS = 2**18  # entropies of a cell are right to 1e-6
_WIDE = 60.0  # of the base's scale, and more for the sum of many


def cell_entropy(view: Literal["conditioned", "imaged", "max-entropy"], m: int) -> float:
    """Entropy in nats of a cell in a group of m cells, of base noise Laplace(1).

    Conditioned: p(x) ∝ e^{−|x|} f(x), f the density of the sum of the m − 1 others. Imaged:
    (1 − 1/m) U less a mth of the others' sum. Max-entropy: Laplace(1). Densities of sums come from
    their characteristic functions, (1 + t²)^{−k} of k of them.

    Args:
        view: how the noise keeps the total.
        m: cells of the group, at least 2.

    Example:
        >>> round(cell_entropy("conditioned", 2), 5)  # Laplace(1/2): 1 + log 1
        1.0

    Reference: Kotz, Kozubowski and Podgórski 2001, "The Laplace distribution and generalizations",
    §2.3 (sums).
    """
    if view == "max-entropy":
        return 1 + float(np.log(2))
    half = _WIDE + 8 * np.sqrt(2 * m)
    x = np.linspace(-half, half, _POINTS, endpoint=False)
    if view == "conditioned":
        density = np.exp(-np.abs(x)) * _sum(x, [(1.0, m - 1)])
    else:
        density = _sum(x, [(1 - 1 / m, 1), (1 / m, m - 1)])
    step = x[1] - x[0]
    density = np.maximum(density, 0.0)
    density /= density.sum() * step
    log = np.log(np.where(density > 0, density, 1.0))
    return -float((density * log).sum() * step)


def laplace_correlation(
    view: Literal["conditioned", "imaged", "max-entropy"],
    scale: float,
    sizes: np.ndarray,
    entropy: float,
) -> float:
    """Total correlation Σ_i h(X_i) − h(X) of all cells but one a group, of one scale.

    Args:
        view: how the noise keeps the totals.
        scale: λ of the base noise.
        sizes: (G,) cells of each group.
        entropy: h of the whole release on the tables that keep the totals, in nats; as exact, or
            as sure, as the answer will be.

    Example:
        >>> h = 1 + np.log(1.0) + 0.5 * np.log(2)  # one cell, on the line through (1, −1)
        >>> abs(laplace_correlation("conditioned", 1.0, np.array([2]), h)) < 1e-5  # nothing shared
        True

    Reference: Watanabe 1960, "Information theoretical analysis of multivariate correlation".
    """
    size, number = np.unique(sizes[sizes > 1], return_counts=True)
    cells = [(m - 1) * (cell_entropy(view, int(m)) + np.log(scale)) for m in size]
    # Coordinates of all cells but one stretch the subspace's own by √m.
    return float(number @ (np.array(cells) + 0.5 * np.log(size)) - entropy)


def _sum(x: np.ndarray, parts: list[tuple[float, int]]) -> np.ndarray:
    """Density on the grid x of a sum of k Laplace(s) for each (s, k)."""
    if len(parts) == 1 and parts[0][1] == 1:
        scale = parts[0][0]
        return np.exp(-np.abs(x) / scale) / (2 * scale)
    step = x[1] - x[0]
    t = 2 * np.pi * np.fft.fftfreq(x.size, step)
    transform = np.prod([(1 + (s * t) ** 2) ** (-float(k)) for s, k in parts], axis=0)
    return np.fft.fftshift(np.fft.ifft(transform).real) / step
