"""How far a released number is off, in one sentence for whoever reads nothing else."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import jax
import numpy as np
from scipy import sparse

from cdp_views._checks import UnsupportedError
from cdp_views.deviation import Deviation, SampledDeviation
from cdp_views.invariants import Margins, totals
from cdp_views.releases.mechanism import law
from cdp_views.releases.noise.drawing import draw
from cdp_views.releases.noise.secret import Secret
from cdp_views.usefulness.law import error_law
from cdp_views.usefulness.pooled import PooledDeviation, laws

if TYPE_CHECKING:
    from cdp_views.releases.result import Release

_LEVEL = 0.9
_DRAWS, _NUMBERS = 4_000, 400_000  # draws at most, and numbers of all of them
_FEWEST = 100  # draws below which a quantile of each sum says nothing
_CELLS = 500  # of whole groups that are drawn
_LARGEST = 2_000  # cells under totals of no known kind: dense algebra takes long beyond
_SUMS = 99
_PUBLIC = Secret(bytes(32))  # of draws that everybody may repeat; no release has it


@final
@dataclass(frozen=True)
class Margin:
    """One 90 % margin of error, in counts.

    Args:
        typical: the median over the cells, or over the sums.
        worst: the largest.
        stderr: of `typical`, 0 where it is exact.
        draws: that it was estimated from, 0 where it is exact.
    """

    typical: float
    worst: float
    stderr: float = 0.0
    draws: int = 0


@final
@dataclass(frozen=True)
class Everyday:
    """The margins of a cell, and of sums of `size` cells picked at random (None: too few cells)."""

    cell: Margin
    total: Margin | None
    size: int


def everyday(release: "Release", draws: np.ndarray | None = None) -> Everyday | None:
    """P(|error| ≤ margin) = 0.9 of a noisy cell, and of sums of five of them.

    Exact where the law of the errors is known, else estimated from draws that are the same at
    every call: of the whole table, or of some of its groups where it has many.

    Args:
        release: whose noise is asked; its counts play no part.
        draws: of its errors, (d, n), where somebody has made them already.

    Returns:
        The margins, None where no cell is noisy or too little can be drawn.

    Example:
        >>> import cdp_views as cdp
        >>> inv = cdp.totals(["a"] * 8)
        >>> made = cdp.release(range(8), inv, view="imaged", noise="normal", epsilon=1,
        ...                    delta=1e-6, neighbours=cdp.relocations(inv))
        >>> found = everyday(made)
        >>> round(found.total.typical / found.cell.typical, 3)  # √(5·(1 − 5/8) / (1 − 1/8))
        1.464

    Reference: `Release.margin`, which gives the margin of any one sum.
    """
    inv, free = release.invariant, np.flatnonzero(~np.asarray(release.invariant.determined))
    if free.size == 0:
        return None
    if inv.plain_groups is None and not isinstance(inv, Margins) and inv.n > _LARGEST:
        return None
    around = release.mechanism.law(np.zeros(inv.n))
    cells = _known(around, None)
    size = 5 if free.size >= 8 else 2
    rows = _picks(free, size, inv.n) if free.size >= 3 else None
    if cells is not None and (rows is None or release.metadata["noise"] == "normal"):
        sums = None if rows is None else _known(around, rows)
        if rows is None or sums is not None:
            both = None if sums is None else _margin(sums, slice(None))
            return Everyday(_margin(cells, free), both, size)
    drawn = _drawn(release, draws)
    if drawn is None:
        return None
    errors, own, classes = drawn
    few = len(errors) < _FEWEST  # of a group of very many cells
    if cells is None and few and classes is None:
        return None
    if cells is None:
        found = SampledDeviation(errors) if classes is None else PooledDeviation(errors, classes)
        cell = _margin(found, own, len(errors))
    else:
        cell = _margin(cells, free)
    if own.size < size or few:
        return Everyday(cell, None, size)
    picked = _picks(own, size, errors.shape[1])
    return Everyday(
        cell, _margin(SampledDeviation(errors @ picked.T), slice(None), len(errors)), size
    )


def _known(view: Any, rows: sparse.csr_array | None) -> Deviation | None:
    """The exact law of the errors, None where there is none."""
    try:
        found = error_law(view, rows, None, 0)
    except UnsupportedError:
        return None
    return found if found.kind == "exact" else None


def _margin(found: Deviation, which: Any, draws: int = 0) -> Margin:
    width = np.asarray(found.margin(_LEVEL), dtype=np.float64)[which]
    error = found.margin_stderr(_LEVEL) if draws else None
    stderr = 0.0 if error is None else float(np.median(np.asarray(error)[which]))
    return Margin(float(np.median(width)), float(width.max()), stderr, draws)


def _picks(cells: np.ndarray, size: int, n: int) -> sparse.csr_array:
    """Sums of `size` of these cells, picked at random: (99, n)."""
    rng = np.random.default_rng(0)
    chosen = np.concatenate([rng.choice(cells, size, replace=False) for _ in range(_SUMS)])
    where = (np.repeat(np.arange(_SUMS), size), chosen)
    return sparse.csr_array((np.ones(chosen.size), where), (_SUMS, n))


def _drawn(
    release: "Release", draws: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None] | None:
    """Errors (draws, m) of m cells, which of these are noisy, and which have the same law."""
    told, inv = release.metadata, release.invariant
    groups = inv.plain_groups
    if groups is None or told["view"] == "max-entropy":
        number = min(_DRAWS, _NUMBERS // inv.n)
        if draws is None and number < 40:
            return None
        with jax.enable_x64(True):
            made: Any = release.mechanism.law(np.zeros(inv.n))
            try:
                if draws is None:
                    draws = np.asarray(made.sample_noise(jax.random.key(0), (number,)), np.float64)
            except UnsupportedError:
                return None
        return draws, np.flatnonzero(~np.asarray(inv.determined)), laws(made)
    labels = np.asarray(groups.labels)
    some = _some(labels, groups.count)
    copies = min(_DRAWS, _NUMBERS // some.size)
    if copies < 4:
        return None
    scale = release.scale[some] if release.scale.ndim else release.scale
    names, at = np.unique(labels[some], return_inverse=True)
    # As one table in which every group stands many times: drawn as releases are, nothing compiled.
    many = totals((at + names.size * np.arange(copies)[:, None]).ravel())
    ids = np.stack([np.arange(many.n, dtype=np.uint64), np.zeros(many.n, dtype=np.uint64)])
    spread = np.tile(scale, copies) if scale.ndim else scale
    errors = draw(_PUBLIC, ids, told["view"], told["noise"], spread, many)[0]
    one = totals(at)
    view = law(told["view"], told["noise"], np.zeros(some.size), scale, one)
    noisy = np.flatnonzero(~np.asarray(one.determined))
    return errors.reshape(copies, some.size), noisy, laws(view)


def _some(labels: np.ndarray, count: int) -> np.ndarray:
    """Cells of whole groups, about 500 in all, the groups evenly spread over the sizes."""
    sizes = np.bincount(labels[labels < count], minlength=count)
    order = np.argsort(-sizes, kind="stable")
    order = order[sizes[order] > 1]
    step = max(1, int(np.ceil(sizes[order].sum() / _CELLS)))
    return np.flatnonzero(np.isin(labels, order[::step]))
