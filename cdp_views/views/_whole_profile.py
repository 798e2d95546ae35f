"""Profiles of whole-number noise: which cells change together, and the law of what they lose."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from cdp_views.loss import BoundedLoss
from cdp_views.loss.by_law import ByLaw, Profile
from cdp_views.precision import whole_losses
from cdp_views.precision.given_totals import GivenTotals, _classes
from cdp_views.precision.whole_losses import Listed
from cdp_views.precision.whole_sums import Mass

Change = tuple[tuple[int, int], ...]
"""(law, v) of each cell of one part of the table that changes, in order."""


class Noise(NamedTuple):
    """The base: its family, which law each cell has (n,), and masses and scale of each law."""

    family: str
    which: np.ndarray
    masses: Sequence[Mass]
    scales: Sequence[float]

    def alone(self, law: int, v: int) -> Listed:
        """The loss of one independent cell."""
        return whole_losses.alone(self.family, self.masses[law], v, self.scales[law])


def base_profile(noise: Noise, V: sparse.csr_array, fallback: Callable[[int], Profile]) -> ByLaw:
    """Profiles of independent cells, one law for each set of (scale, v).

    Args:
      noise: the base.
      V: (m, n) whole differences.
      fallback: row ↦ its profile, where the list of losses would be too long.
    """

    def make(parts: Change, row: int) -> Profile:
        if _entries(noise, parts) > 10**8:
            return fallback(row)
        laws = [noise.alone(law, v) for law, v in parts]
        return whole_losses.together(laws)[0].profile()

    keys: dict[Change, int] = {}
    law, makers = np.empty(len(V.indptr) - 1, dtype=np.int64), []
    for row in range(law.size):
        parts = _canonical(*_row(noise, V, row))
        if parts not in keys:
            keys[parts] = len(makers)
            makers.append(partial(make, parts, row))
        law[row] = keys[parts]
    return ByLaw(makers, law, np.full(len(makers), np.inf))


class Split:
    """The differences of a conditioned view, each taken apart into independent parts.

    Cells with equal columns of A form a class whose sum is what meets the totals. Where a
    difference stays within one class of each connected part of the totals, its loss is a sum of
    independent losses, each of which has a listed law.
    """

    def __init__(self, noise: Noise, matrix: sparse.csr_array, V: sparse.csr_array) -> None:
        n = matrix.shape[1]
        self.noise, self.V, self.label = noise, V, _classes(matrix)
        held = np.diff(sparse.csc_array(matrix).indptr) > 0
        graph = sparse.block_array([[None, matrix], [matrix.T, None]])
        component = connected_components(graph, directed=False)[1][matrix.shape[0] :]
        self.part = np.where(held, component, -1 - np.arange(n))
        self.parts = [self._of_row(row) for row in range(len(V.indptr) - 1)]

    @property
    def listed(self) -> np.ndarray:
        """(m,) whether the exact law of each difference can be listed."""
        return np.array([parts is not None for parts in self.parts])

    def profile(self, given: GivenTotals, fallback: Callable[[int], Profile]) -> ByLaw:
        """The profiles: of the rows that are not listed, what `fallback` proves."""
        classes = _ClassesOf(given)
        keys: dict[Any, int] = {}
        law, makers = np.empty(len(self.parts), dtype=np.int64), []
        known: dict[Any, Listed] = {}
        for row, parts in enumerate(self.parts):
            if parts is None:
                key, maker = ("row", row), partial(fallback, row)
            else:
                key = tuple(sorted((classes.name(cell), change) for cell, change in parts))
                maker = partial(self._make, classes, parts, known)
            if key not in keys:
                keys[key] = len(makers)
                makers.append(maker)
            law[row] = keys[key]
        return ByLaw(makers, law, np.full(len(makers), np.inf))

    def _of_row(self, row: int) -> list[tuple[int, Change]] | None:
        """A cell of each part that changes, and what changes in it; None where it is not listed."""
        cells, laws, changes = _row(self.noise, self.V, row)
        found = []
        for part in dict.fromkeys(self.part[cells].tolist()):
            here = np.flatnonzero(self.part[cells] == part)
            if np.any(self.label[cells[here]] != self.label[cells[here[0]]]):
                return None
            if part >= 0 and changes[here].sum() != 0:
                return None
            own = laws[here]
            sizes = [self.noise.masses[k].p.size for k in own.tolist()]
            equal = bool(np.all(own == own[0]))
            if not whole_losses.listable(self.noise.family, sizes, changes[here].tolist(), equal):
                return None
            found.append((int(cells[here[0]]), _canonical(cells[here], own, changes[here])))
        if len(found) > 1:
            size = float(np.prod([_entries(self.noise, change) for _, change in found]))
            if size > whole_losses.MOST_ENTRIES:
                return None
        return found

    def _make(
        self, classes: "_ClassesOf", parts: list[tuple[int, Change]], known: dict[Any, Listed]
    ) -> Profile:
        laws = []
        for cell, change in parts:
            key = (classes.name(cell), change)
            if key not in known:
                known[key] = self._law(classes, cell, change)
            laws.append(known[key])
        return whole_losses.together(laws)[0].profile()

    def _law(self, classes: "_ClassesOf", cell: int, change: Change) -> Listed:
        noise = self.noise
        if self.part[cell] < 0:
            return noise.alone(*change[0])
        laws, changes = zip(*change, strict=True)
        found = whole_losses.given_sum(
            noise.family,
            [noise.masses[k] for k in laws],
            changes,
            [noise.scales[k] for k in laws],
            classes.rest(cell, laws),
        )
        assert found is not None
        return found


class _ClassesOf:
    """The classes of cells behind `GivenTotals`, by cell."""

    def __init__(self, given: GivenTotals) -> None:
        self.given = given
        place = np.empty(given.n, dtype=np.int64)
        place[given.order] = np.arange(given.n)
        self.of_cell = np.searchsorted(given.begins, place, side="right") - 1
        self.at = {
            int(c): (k, j) for k, p in enumerate(given.parts) for j, c in enumerate(p.classes)
        }

    def name(self, cell: int) -> tuple[int, int]:
        """Equal for classes with equal cells under equal totals."""
        c = int(self.of_cell[cell])
        part, _ = self.at[c]
        simple = len(self.given.parts[part].classes) == 1
        return int(self.given.class_kinds[c]), -1 if simple else c

    def rest(self, cell: int, laws: Sequence[int]) -> Callable[[np.ndarray], np.ndarray]:
        """z ↦ Σ_s P(S = s)/mass(s) · P(the others = s − z), S the sum of the class."""
        given, c = self.given, int(self.of_cell[cell])
        part, column = self.at[c]
        kinds = given.cell_kinds[given.begins[c] : given.ends[c]]
        for law in laws:  # leaves are numbered as the laws are
            kinds = np.delete(kinds, int(np.flatnonzero(kinds == law)[0]))
        others = given.sums.masses[given.sums.over(kinds)] if kinds.size else Mass(0, np.ones(1))
        values, place = np.unique(given.parts[part].points[:, column], return_inverse=True)
        share = np.bincount(place.ravel(), weights=given.parts[part].share)
        share = share / given.sums.masses[given.class_kinds[c]].at(values)

        def weight(z: np.ndarray) -> np.ndarray:
            total = np.zeros(np.shape(z))
            for s, chance in zip(values.tolist(), share.tolist(), strict=True):
                total += chance * others.at(s - z)
            return total

        return weight


def delta_of_sup(sup: float) -> Profile:
    """The profile that a largest loss alone proves, of the shape of ε."""
    law = BoundedLoss(np.array([sup]))
    return lambda epsilon: law.delta(np.asarray(epsilon)[..., None])[..., 0]


def _row(noise: Noise, V: sparse.csr_array, row: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    part = slice(V.indptr[row], V.indptr[row + 1])
    cells, changes = V.indices[part], np.rint(V.data[part]).astype(np.int64)
    cells, changes = cells[changes != 0], changes[changes != 0]
    return cells, noise.which[cells], changes


def _canonical(_cells: np.ndarray, laws: np.ndarray, changes: np.ndarray) -> Change:
    """v and −v lose alike, as the noise is symmetric."""
    one = tuple(sorted(zip(laws.tolist(), changes.tolist(), strict=True)))
    other = tuple(sorted(zip(laws.tolist(), (-changes).tolist(), strict=True)))
    return max(one, other)


def _entries(noise: Noise, change: Change) -> float:
    """How many values the loss of these cells can take, at most."""
    if noise.family == "discrete-laplace":
        return float(np.prod([abs(v) + 1.0 for _, v in change]))
    laws = {law for law, _ in change}
    sizes = [noise.masses[law].p.size * (abs(v) if len(laws) == 1 else 1) for law, v in change]
    return float(np.sum(sizes) if len(laws) == 1 else np.prod(sizes))
