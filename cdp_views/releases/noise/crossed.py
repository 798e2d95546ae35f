"""Two families of totals at once, as rows and columns of a table: rounding and the nearest table.

A cell is an edge between the total that holds it in one family and the one in the other, so whole
tables are flows in a network, whose extreme points are whole. Three margins that overlap are no
such network: there may be no whole table near a given one.
"""

from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from cdp_views._checks import UnsupportedError
from cdp_views.invariants import Invariant

_NEAR = 1e-9  # a fraction that is as good as whole …
_LOST = 1e-5  # … and what additions may have moved one that must be


class Families(NamedTuple):
    """Which total of each family a cell is in, (n,); −1 for none."""

    first: np.ndarray
    second: np.ndarray


def families(invariant: Invariant) -> Families | None:
    """The two families of disjoint plain totals behind an invariant; None if there are no two.

    Totals of cells that are determined anyway, and totals that are sums of others, don't count.
    """
    rows = sparse.csr_array(invariant.matrix)
    free = ~np.asarray(invariant.determined, dtype=bool)
    if np.any(rows.data[rows.data != 0] != 1):
        return None
    parts = [rows.indices[a:b][rows.data[a:b] != 0] for a, b in zip(rows.indptr, rows.indptr[1:])]  # noqa: B905
    parts = [part[free[part]] for part in parts]
    labels = [np.full(invariant.n, -1), np.full(invariant.n, -1)]
    # The smallest first: what is then left over must be a union of totals that are there already.
    for number, part in enumerate(sorted(filter(len, parts), key=len)):
        for own in labels:
            if np.all(own[part] < 0):
                own[part] = number
                break
        else:
            if not any(_is_union(own, part) for own in labels):
                return None
    return Families(*labels)


def _is_union(labels: np.ndarray, part: np.ndarray) -> bool:
    inside = np.unique(labels[part])
    return bool(inside[0] >= 0) and np.count_nonzero(np.isin(labels, inside)) == part.size


def round_crossed(fractions: np.ndarray, two: Families, uniforms: Sequence[float]) -> np.ndarray:
    """Which cells (n,) are rounded up, so that both families keep their whole totals.

    Along a cycle of cells whose fractions are not whole, alternately up and down by the most that
    fits, or the other way round, with the chances that leave every mean: E[up_i] = f_i. Each cycle
    makes a cell whole.

    Args:
        fractions: (n,), from 0 to 1, whole sums in both families.
        two: which totals a cell is in.
        uniforms: one number for each cell, in (0, 1).

    Raises:
        UnsupportedError: totals that are not whole.

    Reference: Cox 1987, "A constructive procedure for unbiased controlled rounding", §3.
    """
    return _Walk(fractions, two, uniforms).run()


@final
class _Walk:
    """The cycles, found by walking on until a total comes again; vertex 0 is "in no total"."""

    def __init__(self, fractions: np.ndarray, two: Families, uniforms: Sequence[float]) -> None:
        offset = int(two.first.max(initial=-1)) + 2
        ends = np.stack([two.first + 1, np.where(two.second < 0, 0, two.second + offset)])
        self.f = fractions.tolist()
        self.uniforms = iter(uniforms)
        self.alive = [_NEAR < f < 1 - _NEAR for f in self.f]
        self.ends: list[list[int]] = ends.T.tolist()
        self.at: list[list[int]] = [[] for _ in range(int(ends.max(initial=0)) + 1)]
        for cell in np.flatnonzero(self.alive).tolist():
            a, b = self.ends[cell]
            self.at[a].append(cell)
            if a != b:
                self.at[b].append(cell)

    def run(self) -> np.ndarray:
        for start in range(len(self.at)):
            self._from(start)
        return np.array(self.f) > 0.5

    def _from(self, start: int) -> None:
        vertices, path, place = [start], [], {start: 0}
        while True:
            cell = self._next(vertices[-1], path[-1] if path else -1)
            if cell is None:
                if not path:
                    return
                # the only fraction left of a total that is whole
                last = path.pop()
                self._settle(last, float(round(self.f[last])), _LOST)
                del place[vertices.pop()]
                continue
            a, b = self.ends[cell]
            other = b if a == vertices[-1] else a
            if other not in place:
                place[other] = len(vertices)
                vertices.append(other)
                path.append(cell)
                continue
            first = place[other]
            self._turn([*path[first:], cell])
            for vertex in vertices[first + 1 :]:
                del place[vertex]
            del vertices[first + 1 :], path[first:]

    def _next(self, vertex: int, last: int) -> int | None:
        here = self.at[vertex]
        while here and not self.alive[here[-1]]:
            here.pop()
        if here and here[-1] == last:  # it comes from there: look below
            top = here.pop()
            while here and not self.alive[here[-1]]:
                here.pop()
            here.append(top)
            if len(here) == 1:
                return None
            here[-1], here[-2] = here[-2], here[-1]
        return here[-1] if here else None

    def _turn(self, cycle: list[int]) -> None:
        """Up on cells 0, 2, … and down on 1, 3, …, or the other way round."""
        room = [
            (1 - self.f[c], self.f[c]) if k % 2 == 0 else (self.f[c], 1 - self.f[c])
            for k, c in enumerate(cycle)
        ]
        up, down = min(r[0] for r in room), min(r[1] for r in room)
        forward = next(self.uniforms) * (up + down) < down
        move, side = (up, 0) if forward else (-down, 1)
        for k, c in enumerate(cycle):
            self.f[c] += move if k % 2 == 0 else -move
            if room[k][side] <= abs(move) + _NEAR:
                self._settle(c, float(round(self.f[c])), _LOST)

    def _settle(self, cell: int, whole: float, slack: float) -> None:
        if abs(self.f[cell] - whole) > slack:
            raise UnsupportedError(
                "A table is rounded to whole numbers where its totals are whole. Release it as it "
                "was drawn."
            )
        self.f[cell], self.alive[cell] = whole, False


def nearest_nonnegative(table: np.ndarray, invariant: Invariant, totals: np.ndarray) -> np.ndarray:
    """argmin Σ|z_i − y_i| over z ≥ 0, A z = totals: a linear program, here of a network.

    Args:
        table: y (n,).
        invariant: A.
        totals: (k,), of a table without negative cells.
    """
    rows = sparse.csr_array(invariant.matrix)
    cost, goal = np.ones(2 * table.size), totals - rows @ table
    # z = y + p − m with p, m ≥ 0 and m ≤ y where y ≥ 0; where y < 0, p ≥ −y
    low = np.concatenate([np.maximum(-table, 0), np.zeros(table.size)])
    high = np.concatenate([np.full(table.size, np.inf), np.maximum(table, 0)])
    found = linprog(
        cost,
        A_eq=sparse.hstack([rows, -rows]),
        b_eq=goal,
        bounds=np.stack([low, high], axis=1),
        method="highs",
    )
    if found.x is None:
        raise UnsupportedError("No table without negative cells has these totals to rounding.")
    return np.maximum(table + found.x[: table.size] - found.x[table.size :], 0.0)
