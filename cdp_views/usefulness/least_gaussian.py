"""The Gaussian of least workload error under one privacy loss: a small convex problem.

minimise tr(G S) over S ⪰ 0 with vᵀS⁻¹v ≤ 1 for all neighbouring differences v. Its dual is to
maximise f(p)² over weights p ≥ 0 of the differences that add up to 1,

  f(p) = tr (G^½ M(p) G^½)^½,   M(p) = Σ_v p_v v vᵀ,   2 ∂f/∂p_v = vᵀS⁻¹v,

with S⁻¹ = G^½ (G^½ M G^½)^{−½} G^½. Every p bounds the least error from below by f², and scaling S
until all differences keep their loss bounds it from above by f · max_v vᵀS⁻¹v: both certify.
"""

from typing import NamedTuple

import numpy as np

_GAP = 1e-4  # of the least mean square: 5e-5 of its root
_MOST_STEPS = 3_000
_ZERO = 1e-12


class Kinds(NamedTuple):
    """Cells in kinds: changing two of one kind changes neither totals, differences nor G.

    Args:
        size: c (K,) cells of each kind.
        own: a (K,) eigenvalue of G on what differs within a kind.
        gram: (K, K) G between the kinds, in the coordinates Σ x_i/√c.
        first, second: (m,) kinds of the two cells of a difference e_i − e_j, may be the same.
    """

    size: np.ndarray
    own: np.ndarray
    gram: np.ndarray
    first: np.ndarray
    second: np.ndarray


class Least(NamedTuple):
    """Bounds of the least tr(G Σ) at μ = 1; they are equal where the answer is a closed form."""

    low: float
    high: float
    steps: int


def least_by_kinds(kinds: Kinds) -> Least:
    """The least tr(G Σ) where one record moves between any two cells of a block.

    Some best Σ is unchanged when cells of one kind change places, by convexity: it is a number on
    what differs within a kind, and a matrix between kinds. A part that G does not see costs
    nothing, whatever its noise; so this is an infimum.

    Args:
        kinds: of cells that hang together, all pairs of kinds that one record can move between.

    Example:
        >>> one = Kinds(*map(np.asarray, ([5.0], [1.0], [[1.0]], [0], [0])))
        >>> [round(x, 9) for x in least_by_kinds(one)[:2]]  # 2 (5 − 1)
        [8.0, 8.0]

    Reference: Li et al. 2015, "The matrix mechanism: optimizing linear counting queries under
    differential privacy", §5 (the semidefinite program); Pukelsheim 2006, "Optimal design of
    experiments", ch. 7 and 9 (the dual and its multiplicative algorithm).
    """
    size, own, first, second = kinds.size, kinds.own, kinds.first, kinds.second
    within = first == second
    across = ~within
    if len(size) == 1 and not across.any():
        least = 2.0 * float(own[0]) * (float(size[0]) - 1)
        return Least(least, least, 0)
    half = _root(kinds.gram)
    step = 1 / np.sqrt(size)

    def between(p: np.ndarray) -> np.ndarray:
        """Σ p (b_k − b_l)(b_k − b_l)ᵀ over pairs of different kinds."""
        one, other, weight = first[across], second[across], p[across]
        K = len(size)
        both = np.bincount(one * K + other, -weight * step[one] * step[other], K * K).reshape(K, K)
        each = np.bincount(one, weight, K) + np.bincount(other, weight, K)
        return both + both.T + np.diag(each * step**2)

    def inside(p: np.ndarray) -> np.ndarray:
        """m_k, what M is on the differences within kind k."""
        shared = p / size[first] * across
        m = np.bincount(first, shared, len(size))
        m += np.bincount(second, p / size[second] * across, len(size))
        least_size = np.maximum(size - 1, 1)
        return m + np.bincount(first, 2 * p / least_size[first] * within, len(size))

    def losses(p: np.ndarray) -> tuple[float, np.ndarray]:
        """f, and vᵀS⁻¹v of every difference."""
        alone = np.sqrt(own * inside(p))
        f = float(((size - 1) * alone).sum())
        stiff = np.divide(own, alone, out=np.zeros_like(own), where=alone > 0)
        inverse, trace = _stiffness(half, between(p))
        f += trace
        diagonal = np.diag(inverse)
        g = 2 * stiff[first] * within
        part = (1 - 1 / size) * stiff + diagonal * step**2
        cross = part[first] + part[second] - 2 * inverse[first, second] * step[first] * step[second]
        return f, np.where(within, g, cross)

    return _ascend(np.full(len(first), 1 / len(first)), losses)


def least_by_differences(gram: np.ndarray, differences: np.ndarray) -> Least:
    """The same for any differences (m, n), all of which are tried.

    Args:
        gram: G (n, n).
        differences: dense rows.

    Example:
        >>> [round(x, 9) for x in least_by_differences(np.eye(2), np.array([[1.0, -1.0]]))[:2]]
        [2.0, 2.0]

    Reference: as `least_by_kinds`.
    """
    half = _root(gram)

    def losses(p: np.ndarray) -> tuple[float, np.ndarray]:
        inverse, trace = _stiffness(half, differences.T @ (p[:, None] * differences))
        return trace, np.sum((differences @ inverse) * differences, axis=1)

    return _ascend(np.full(len(differences), 1 / len(differences)), losses)


def _ascend(p: np.ndarray, losses: object) -> Least:
    """Weights grow where the loss is above what all have on average: p ← p (loss/f)².

    Where differences do not share a direction this is exact in one step, and elsewhere it is the
    damped fixed point. The lower bound is kept from the best step.
    """
    low, high = 0.0, np.inf
    steps = 0
    for steps in range(1, _MOST_STEPS + 1):
        f, loss = losses(p)  # pyright: ignore[reportCallIssue]
        if f <= 0:
            return Least(0.0, 0.0, steps)
        low, high = max(low, f * f), min(high, f * float(loss.max()))
        if high <= low * (1 + _GAP):
            break
        p = p * (loss / f) ** 2
        p /= p.sum()
    return Least(low, high, steps)


def _root(gram: np.ndarray) -> np.ndarray:
    """R (r, n) with RᵀR = G, r the rank of G."""
    value, vector = np.linalg.eigh((gram + gram.T) / 2)
    kept = value > _ZERO * max(float(value[-1]), 0.0)
    return np.sqrt(value[kept])[:, None] * vector[:, kept].T


def _stiffness(half: np.ndarray, M: np.ndarray) -> tuple[np.ndarray, float]:
    """(S⁻¹, tr(R M Rᵀ)^½) with S⁻¹ = Rᵀ (R M Rᵀ)^{−½} R on the range."""
    value, vector = np.linalg.eigh(half @ M @ half.T)
    root = np.sqrt(np.maximum(value, 0.0))
    if not root.size or root[-1] == 0:
        return np.zeros_like(M), 0.0
    kept = root > 1e-7 * root[-1]
    side = (vector[:, kept] / np.sqrt(root[kept])).T @ half
    return side.T @ side, float(root.sum())
