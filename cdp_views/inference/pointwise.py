"""The likelihood of a release by the units that can be left out: its groups."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import xarray as xr
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from cdp_views import _checks
from cdp_views._float64 import float64, in_float64
from cdp_views.invariants import Invariant, linear, totals

Law = Callable[[Any, Any, Any], Any]


@in_float64
def log_likelihood_by_group(
    law: Law,
    draws: Any,
    *,
    released: Any,
    scale: Any,
    invariant: Invariant | None,
) -> xr.DataArray:
    """log p(y_g | q_g) for every draw and every group g that exact totals tie together.

    Leave-one-out asks for p(y_i | y_−i, q). Under exact totals that is no density: a cell is
    determined by the others of its group, so y_i is known for certain, and leaving it out tests
    nothing. Groups that share no total are independent,

        p(y | q) = Π_g p_g(y_g | q_g),

    each with respect to Hausdorff measure on its own subspace, so the unit to leave out is a
    **group**: the released cells, not the total, which stays known. A cell in no group is a unit of
    its own; cells that the totals determine are in none. For independent noise (`invariant=None`)
    the units are cells.

    What is left out takes its own latent cells along, so with one latent per cell importance
    sampling often fails: ArviZ then reports Pareto k above 0.7, and rightly.

    Args:
        law: `law(q, scale, invariant)`, the view of a table, such as
            `lambda q, s, inv: cdp.Imaged(dist.Laplace(q, s), inv)`; called for each group with its
            cells. For independent noise `invariant` is None.
        draws: posterior draws of the true table, (chain, draw, n), counts.
        released: y (n,), counts.
        scale: of the noise: (), (n,), or by draw (chain, draw, 1 or n).
        invariant: what the release keeps exact.

    Returns:
        `released`, nats, dimensions (chain, draw, group) or (chain, draw, cell).

    Raises:
        ValueError: draws of other shape, or without the exact totals of `released`.
        UnsupportedError: totals that tie all cells together: there is one unit, so nothing can be
            left out.

    Example:
        >>> import cdp_views as cdp, numpy as np, numpyro.distributions as dist
        >>> inv = cdp.totals(["a", "a", "b", "b"])
        >>> log_likelihood_by_group(
        ...     lambda q, s, i: cdp.Conditioned(dist.Normal(q, s), i), np.full((1, 3, 4), 5.0),
        ...     released=[4.0, 6.0, 5.0, 5.0], scale=2.0, invariant=inv).sizes
        Frozen({'chain': 1, 'draw': 3, 'group': 2})

    Reference: Vehtari, Gelman and Gabry 2017; leave-group-out, Roberts et al. 2017.
    """
    given = np.asarray(draws)
    precision = given.dtype if np.issubdtype(given.dtype, np.floating) else np.dtype(float)
    q, y = given.astype(np.float64), np.asarray(released, dtype=np.float64)
    if q.ndim != 3 or y.shape != q.shape[-1:]:
        raise ValueError(
            f"`draws` must have shape (chain, draw, n) with n that of `released`; got {q.shape} "
            f"and {y.shape}. Take mcmc.get_samples(group_by_chain=True)."
        )
    q = q.reshape(-1, y.size)
    s = np.broadcast_to(_flat(scale, given.shape), q.shape)
    shape = given.shape[:2]
    if invariant is None:
        by_cell = np.asarray(law(float64(q), float64(s), None).log_prob(float64(y)))
        return xr.DataArray(
            by_cell.reshape(*shape, y.size), dims=("chain", "draw", "cell"), name="released"
        )
    q = _on_subspace(q, y, invariant, float(np.finfo(precision).eps))
    units = _units(invariant)
    if len(units) < 2:
        raise _checks.UnsupportedError(
            f"The totals tie the cells together in {len(units)} unit, so no part can be left out. "
            "Compare models by posterior predictive checks, or by a second release."
        )
    found = np.empty((len(units), q.shape[0]))
    for alike in _alike(units):
        rows, _, part = units[alike[0]]
        one = _sub_invariant(part, rows.size)
        cells = np.stack([units[u][1] for u in alike])

        def of_group(group: Any, one: Invariant = one) -> Any:
            y_g, q_g, s_g = group
            return law(q_g, s_g, one).log_prob(y_g)

        # One group after another: the arrays of all groups and draws at once may not fit.
        columns = (y[cells], np.moveaxis(q[:, cells], 1, 0), np.moveaxis(s[:, cells], 1, 0))
        found[alike] = np.asarray(jax.lax.map(of_group, jax.tree.map(float64, columns)))
    return xr.DataArray(
        found.T.reshape(*shape, len(units)),
        dims=("chain", "draw", "group"),
        coords={"group": np.asarray([_called(invariant, unit) for unit in units])},
        name="released",
    )


def _flat(scale: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The scale broadcast against draws whose two leading axes became one."""
    s = np.asarray(scale, dtype=np.float64)
    _checks.positive("scale", s)
    if s.ndim < 3:
        return s
    return np.broadcast_to(s, (*shape[:2], s.shape[-1])).reshape(-1, s.shape[-1])


def _on_subspace(q: np.ndarray, y: np.ndarray, invariant: Invariant, eps: float) -> np.ndarray:
    """Draws moved onto {A q = A y}, from which rounding (and only that) has taken them."""
    off, size = (np.asarray(a) for a in invariant.residual(float64(q), float64(y)))
    bad = off > 8 * eps * size
    if bad.any():
        row = int(np.argwhere(bad)[0][-1])
        names = invariant.names
        called = f"total {row}" if names is None else f'total "{names[row]}"'
        raise ValueError(
            f"`draws` do not have the exact totals of `released`: {called} is off by "
            f"{off[..., row].max():.3g}. Take the latent from cdp.Restricted, or as released minus "
            "noise."
        )
    return y - np.asarray(invariant.project(float64(y - q)))


def _units(invariant: Invariant) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Rows, cells and matrix of every set of cells that totals tie together, if noise moves it."""
    rows = sparse.csr_array(invariant.matrix)
    k, n = rows.indptr.size - 1, invariant.n  # redundant rows count
    graph = sparse.block_array([[None, rows], [rows.T, None]]) if k else sparse.csr_array((n, n))
    label = connected_components(graph, directed=False)[1]
    of_cell, of_row = label[k:], label[:k]
    cells_in, rows_in = (np.argsort(of, kind="stable") for of in (of_cell, of_row))
    count = int(label.max()) + 1
    cell_ends = np.searchsorted(of_cell[cells_in], np.arange(count + 1))
    row_ends = np.searchsorted(of_row[rows_in], np.arange(count + 1))
    units = []
    for u in range(count):
        cells = cells_in[cell_ends[u] : cell_ends[u + 1]]
        mine = rows_in[row_ends[u] : row_ends[u + 1]]
        part = rows[mine][:, cells].toarray() if mine.size else np.zeros((0, cells.size))
        if cells.size > np.linalg.matrix_rank(part):
            units.append((mine, cells, part))
    return units


def _alike(units: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> list[list[int]]:
    """Units with the same matrix have the same view: one compilation serves them all."""
    found: dict[tuple[tuple[int, ...], bytes], list[int]] = {}
    for u, (_, _, part) in enumerate(units):
        found.setdefault((part.shape, part.tobytes()), []).append(u)
    return list(found.values())


def _sub_invariant(part: np.ndarray, count: int) -> Invariant:
    labels: list[str | None] = ["g"] * part.shape[1]
    if count == 0:
        return totals([None] * part.shape[1], missing="free")
    return totals(labels, weights=part[0]) if count == 1 else linear(part)


def _called(invariant: Invariant, unit: tuple[np.ndarray, np.ndarray, np.ndarray]) -> str:
    rows, cells, _ = unit
    if rows.size == 0:
        return f"cell {cells[0]}"
    if rows.size == 1 and invariant.names is not None:
        return str(invariant.names[rows[0]])
    return f"totals {', '.join(map(str, rows))}"
