"""Whole-number solutions of A s = 0, few unknowns, by exact integer arithmetic."""

import numpy as np


def integer_kernel(A: np.ndarray) -> np.ndarray:
    """A basis (m, r) of the lattice {s ∈ Zᵐ : A s = 0}, for whole numbers A (k, m).

    Column operations of determinant ±1 bring A to lower echelon form; those columns of the
    transformation that meet only zeros are the basis. Python integers: nothing overflows.
    """
    rows, m = np.shape(A)
    work = [[int(x) for x in row] for row in np.asarray(A).tolist()]
    basis = [[int(i == j) for j in range(m)] for i in range(m)]

    def combine(to: int, source: int, times: int) -> None:
        for row in (*work, *basis):
            row[to] -= times * row[source]

    def swap(one: int, two: int) -> None:
        for row in (*work, *basis):
            row[one], row[two] = row[two], row[one]

    done = 0
    for i in range(rows):
        while True:
            left = [j for j in range(done, m) if work[i][j] != 0]
            if len(left) <= 1:
                break
            least = min(left, key=lambda j: abs(work[i][j]))
            for j in left:
                if j != least:
                    combine(j, least, work[i][j] // work[i][least])
        if left:
            swap(done, left[0])
            done += 1
    return np.array([row[done:] for row in basis], dtype=np.int64).reshape(m, m - done)


def solutions(basis: np.ndarray, low: np.ndarray, high: np.ndarray, most: int) -> np.ndarray | None:
    """All points (p, m) of the lattice with low ≤ s ≤ high; None where there may be over `most`.

    Args:
        basis: (m, r), r ≤ 2.
        low, high: (m,) whole numbers.
        most: candidates to try at most.
    """
    m, r = basis.shape
    if r == 0:
        return np.zeros((int(np.all((low <= 0) & (high >= 0))), m), dtype=np.int64)
    # reduced, so that the box in coordinates is hardly larger than what it holds
    basis = _reduced(basis)
    inverse = np.linalg.pinv(basis.astype(float))
    ends = np.stack([inverse * low, inverse * high])
    first = np.floor(ends.min(0).sum(1) - 1e-9).astype(np.int64)
    last = np.ceil(ends.max(0).sum(1) + 1e-9).astype(np.int64)
    if np.prod((last - first + 1).astype(float)) > most:
        return None
    grids = np.meshgrid(*(np.arange(a, b + 1) for a, b in zip(first, last, strict=True)))
    points = np.stack([g.ravel() for g in grids], axis=1) @ basis.T
    return points[np.all((points >= low) & (points <= high), axis=1)]


def _reduced(basis: np.ndarray) -> np.ndarray:
    """Gauss's reduction of a lattice basis of one or two vectors: the shortest ones."""
    if basis.shape[1] < 2:
        return basis
    u, v = basis[:, 0], basis[:, 1]
    while True:
        if u @ u > v @ v:
            u, v = v, u
        times = round(float(u @ v) / float(u @ u))
        if times == 0:
            return np.stack([u, v], axis=1)
        v = v - times * u
