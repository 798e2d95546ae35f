"""Parts of a table that share no total, each with its own geometry."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import sparse

from cdp_views._checks import InfeasibleError
from cdp_views.invariants._base import Invariant
from cdp_views.invariants._joint import Joint
from cdp_views.invariants._precision import Precision
from cdp_views.invariants.orthonormal import Orthonormal
from cdp_views.invariants.totals import Totals


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class Blocks(Invariant):
    """V = V₁ ⊕ V₂ ⊕ …: disjoint totals keep their O(n) geometry beside totals that overlap.

    `cells` are each part's cells (int32); `place` (n,) is where each cell stands when the parts
    are put one after another. Coordinates and totals are those of the parts, in this order.
    """

    parts: tuple[Totals | Orthonormal, ...]
    cells: tuple[Array, ...]
    place: Array

    @staticmethod
    def of(parts: Sequence[Totals | Orthonormal], cells: Sequence[np.ndarray]) -> "Blocks":
        """From geometries and the cells of each, which together are all cells."""
        order = np.concatenate(cells)
        place = np.empty(order.size, dtype=np.int32)
        place[order] = np.arange(order.size)
        where = tuple(jnp.asarray(c, dtype=jnp.int32) for c in cells)
        return Blocks(tuple(parts), where, jnp.asarray(place))

    def split(self, x: Any) -> list[Array]:
        """Each part's cells of x (…, n); one number for all cells (…, 1) stays that."""
        x = self._shaped("x", x)
        if x.shape[-1] == 1 != self.n:
            return [x] * len(self.parts)
        return [x[..., cells] for cells in self.cells]

    def join(self, parts: Sequence[Any]) -> Array:
        """The parts' cells in the table's order: inverse of `split`."""
        shape = jnp.broadcast_shapes(*(jnp.shape(x)[:-1] for x in parts))
        whole = [
            jnp.broadcast_to(x, (*shape, part.n)) for x, part in zip(parts, self.parts, strict=True)
        ]
        return jnp.concatenate(whole, -1)[..., self.place]

    def split_rows(self, queries: sparse.csr_array) -> list[sparse.csr_array]:
        """The columns (q, n_part) of each part's cells, on the host."""
        columns = sparse.csc_array(queries)
        return [sparse.csr_array(columns[:, np.asarray(cells)]) for cells in self.cells]

    def join_rows(self, parts: Sequence[sparse.csr_array]) -> sparse.csr_array:
        """Inverse of `split_rows`."""
        whole = sparse.csc_array(sparse.hstack(parts, format="csc"))
        return sparse.csr_array(whole[:, np.asarray(self.place)])

    @property
    def n(self) -> int:
        return sum(part.n for part in self.parts)

    @property
    def rank(self) -> int:
        return sum(part.rank for part in self.parts)

    @property
    def leverage(self) -> Array:
        return self.join([part.leverage for part in self.parts])

    @property
    def determined(self) -> np.ndarray:
        return np.concatenate([part.determined for part in self.parts])[np.asarray(self.place)]

    @property
    def matrix(self) -> sparse.csr_array:
        rows = sparse.csc_array(sparse.block_diag([p.matrix for p in self.parts], format="csc"))
        return sparse.csr_array(rows[:, np.asarray(self.place)])

    def evaluate(self, x: Any) -> Array:
        whole = jnp.broadcast_to(x, (*jnp.shape(x)[:-1], self.n))
        return self._concatenated("evaluate", self.split(whole))

    def gross(self, x: Any) -> Array:
        whole = jnp.broadcast_to(x, (*jnp.shape(x)[:-1], self.n))
        return self._concatenated("gross", self.split(whole))

    def lift(self, total: Any) -> Array:
        t, ends = jnp.asarray(total), np.cumsum([part.rank for part in self.parts])[:-1]
        own = jnp.split(t, ends, axis=-1)
        return self.join([p.lift(x) for p, x in zip(self.parts, own, strict=True)])

    def project(self, x: Any) -> Array:
        own = self.split(x)
        return self.join([p.project(x) for p, x in zip(self.parts, own, strict=True)])

    def embed(self, z: Any) -> Array:
        z, ends = jnp.asarray(z), np.cumsum([part.dim for part in self.parts])[:-1]
        own = jnp.split(z, ends, axis=-1)
        return self.join([p.embed(x) for p, x in zip(self.parts, own, strict=True)])

    def coordinates(self, x: Any) -> Array:
        return self._concatenated("coordinates", self.split(x))

    def projected_variance(self, variance: Any) -> Array:
        own = self.split(variance)
        return self.join([p.projected_variance(v) for p, v in zip(self.parts, own, strict=True)])

    def project_rows(self, queries: sparse.csr_array) -> sparse.csr_array:
        own = self.split_rows(queries)
        return self.join_rows([p.project_rows(q) for p, q in zip(self.parts, own, strict=True)])

    def restrict(self, nu: Any) -> Precision:
        own = self.split(nu)
        laws = [part.restrict(x) for part, x in zip(self.parts, own, strict=True)]
        return Joint(self, tuple(laws))

    def equalize(self, variance: Any) -> Precision:
        laws: list[Precision] = []
        for part, cells, own in zip(self.parts, self.cells, self.split(variance), strict=True):
            try:
                laws.append(part.equalize(own))
            except InfeasibleError as error:
                raise InfeasibleError(_renumbered(str(error), np.asarray(cells))) from None
        return Joint(self, tuple(laws))

    def _concatenated(self, operation: str, own: list[Array]) -> Array:
        results = [getattr(p, operation)(x) for p, x in zip(self.parts, own, strict=True)]
        return jnp.concatenate(results, -1)


def _renumbered(message: str, cells: np.ndarray) -> str:
    """A part counts its own cells; the user knows the table's."""
    return re.sub(r"\bcell (\d+)", lambda found: f"cell {cells[int(found[1])]}", message)
