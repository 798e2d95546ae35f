"""Independent whole numbers given exact totals: their probability, marginals and exact draws."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from cdp_views._checks import UnsupportedError
from cdp_views.precision.lattice import integer_kernel, solutions
from cdp_views.precision.whole_sums import Mass, Sums

_MOST = 4_000_000  # combinations of class sums to try


class Part(NamedTuple):
    """Classes of cells that share totals: what their sums can be, and how likely each is."""

    classes: np.ndarray  # (m,)
    points: np.ndarray  # (p, m) whole-number sums that keep the totals
    share: np.ndarray  # (p,) their chances
    log_mass: float  # log P(A U = 0) of this part


class GivenTotals:
    """U independent with given masses, given A U = 0, for a matrix A of whole numbers.

    Cells with equal columns of A form a class; only the class sums meet the totals. Their few
    whole-number solutions are listed with their chances, and cells are split from their class
    sum: every draw is exact and independent of the others.
    """

    def __init__(self, matrix: sparse.csr_array, laws: np.ndarray, masses: Sequence[Mass]) -> None:
        """From A (k, n), and for each of the n cells which of the distinct `masses` is its law.

        Raises:
            UnsupportedError: totals that overlap in more ways than can be listed.
        """
        self.n, self.sums = matrix.shape[1], Sums()
        kinds = np.array([self.sums.leaf(i, m) for i, m in enumerate(masses)])[laws]
        label = _classes(matrix)
        self.order = np.lexsort((kinds, label))  # cells as the trees see them
        self.cell_kinds, sorted_label = kinds[self.order], label[self.order]
        self.begins = np.flatnonzero(np.append(True, np.diff(sorted_label) > 0))
        self.ends = np.append(self.begins[1:], self.n)
        groups = np.split(self.cell_kinds, self.begins[1:])
        self.class_kinds = np.array([self.sums.over(kinds) for kinds in groups])
        columns = sparse.csc_array(matrix)[:, self.order[self.begins]]
        self.parts = self._parts(sparse.csr_array(columns))
        self.log_mass = sum(part.log_mass for part in self.parts)

    def draw(self, rng: np.random.Generator, draws: int) -> np.ndarray:
        """Draws (draws, n) of U given A U = 0."""
        classes = self.begins.size
        sums = np.zeros((draws, classes), dtype=np.int64)
        for part in self.parts:
            if len(part.points) > 1:
                ladder = np.cumsum(part.share)
                place = np.searchsorted(ladder, rng.random(draws) * ladder[-1], side="right")
                sums[:, part.classes] = part.points[place]
            else:
                sums[:, part.classes] = part.points[0]
        out = np.empty(draws * self.n, dtype=np.int64)
        starts = (np.arange(draws)[:, None] * self.n + self.begins).ravel()
        self.sums.split(
            lambda start, _: rng.random(start.size),
            np.tile(self.class_kinds, draws),
            starts,
            sums.ravel(),
            out,
        )
        back = np.empty((draws, self.n), dtype=np.int64)
        back[:, self.order] = out.reshape(draws, self.n)
        return back

    def marginals(self) -> list[tuple[np.ndarray, Mass]]:
        """The law of single cells given the totals: (cells, normalised mass) for every law."""
        found = []
        for part in self.parts:
            for column, c in enumerate(part.classes):
                begin, end = self.begins[c], self.ends[c]
                kinds = self.cell_kinds[begin:end]
                values, place = np.unique(part.points[:, column], return_inverse=True)
                chance = np.bincount(place, weights=part.share)
                for kind in np.unique(kinds):
                    cells = self.order[begin + np.flatnonzero(kinds == kind)]
                    found.append((cells, self._marginal(kinds, int(kind), c, values, chance)))
        return found

    def _marginal(
        self, kinds: np.ndarray, kind: int, c: int, values: np.ndarray, chance: np.ndarray
    ) -> Mass:
        """P(U_i = x) = Σ_s P(S = s) p(x) rest(s − x)/P_S(s), S the sum of the cell's class."""
        own = self.sums.masses[kind]
        if len(kinds) == 1:
            p = np.zeros(own.p.size)
            p[values - own.low] = chance
            return Mass(own.low, p)
        first = int(np.flatnonzero(kinds == kind)[0])
        rest = self.sums.masses[self.sums.over(np.delete(kinds, first))]
        whole = self.sums.masses[self.class_kinds[c]].at(values)
        x = own.low + np.arange(own.p.size)
        p = sum(
            weight / mass * own.p * rest.at(s - x)
            for s, weight, mass in zip(values.tolist(), chance, whole, strict=True)
        )
        return Mass(own.low, np.asarray(p))

    def _parts(self, columns: sparse.csr_array) -> list[Part]:
        k = len(columns.indptr) - 1
        graph = sparse.block_array([[None, columns], [columns.T, None]])
        _, component = connected_components(graph, directed=False)
        of_class = component[k:]
        found = []
        order = np.argsort(of_class, kind="stable")
        touched = np.zeros(of_class.size, dtype=bool)
        touched[columns.indices] = True
        for members in np.split(order, np.flatnonzero(np.diff(of_class[order])) + 1):
            if members.size == 1:
                found.append(self._alone(members, bool(touched[members[0]])))
                continue
            rows = columns[:, members]
            used = np.flatnonzero(np.diff(rows.indptr))
            found.append(self._part(members, rows[used].toarray()))
        return found

    def _alone(self, members: np.ndarray, fixed: bool) -> Part:
        """A class that shares no total: its sum is 0, or free where it has no total at all."""
        mass = self.sums.masses[self.class_kinds[members[0]]]
        values = np.zeros(1, np.int64) if fixed else mass.low + np.arange(mass.p.size)
        return _weighed(members, values[:, None], mass.at(values))

    def _part(self, members: np.ndarray, rows: np.ndarray) -> Part:
        masses = [self.sums.masses[kind] for kind in self.class_kinds[members]]
        basis = integer_kernel(rows)
        low = np.array([mass.low for mass in masses])
        high = np.array([mass.high for mass in masses])
        points = solutions(basis, low, high, _MOST) if basis.shape[1] <= 2 else None
        if points is None:
            raise UnsupportedError(
                f"`invariant` has totals that overlap in {basis.shape[1]} free ways in whole "
                "numbers, too many to list. Use real noise (dist.Laplace, dist.Normal), or "
                "totals of disjoint or nested groups."
            )
        weights = [mass.at(p) for mass, p in zip(masses, points.T, strict=True)]
        return _weighed(members, points, np.prod(weights, axis=0))


def _weighed(members: np.ndarray, points: np.ndarray, weight: np.ndarray) -> Part:
    total = float(np.sum(weight))
    if not total > 0:
        return Part(members, points, weight, -np.inf)
    return Part(members, points, weight / total, float(np.log(total)))


def _classes(matrix: sparse.csr_array) -> np.ndarray:
    """A number (n,) for each distinct column of A."""
    columns = sparse.csc_array(matrix)
    columns.sort_indices()
    if np.all(np.diff(columns.indptr) == 1):  # disjoint totals of all cells, no loop
        pairs = np.stack([columns.indices, columns.data], axis=1)
        return np.unique(pairs, axis=0, return_inverse=True)[1].ravel()
    seen: dict[tuple[bytes, bytes], int] = {}
    label = np.empty(columns.shape[1], dtype=np.int64)
    ends = columns.indptr
    for j in range(label.size):
        part = slice(ends[j], ends[j + 1])
        key = (columns.indices[part].tobytes(), columns.data[part].tobytes())
        label[j] = seen.setdefault(key, len(seen))
    return label
