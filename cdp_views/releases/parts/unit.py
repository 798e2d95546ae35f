"""The unit of privacy of a release in parts, and its scale: by groups that stand for all."""

from collections.abc import Mapping, Sequence
from typing import Literal

import jax
import numpy as np

from cdp_views import _checks
from cdp_views.calibration import calibrate
from cdp_views.invariants import Totals, totals
from cdp_views.neighbours import Contributions, Neighbours, Relocations, relocations
from cdp_views.privacy import privacy_loss
from cdp_views.releases.mechanism import NOISES, law

_SAMPLED = 16  # cells of a group; the guarantee of whole noise is the same in all larger ones

Contribution = Literal["disjoint"] | np.ndarray | Sequence[float] | Sequence[Sequence[float]] | None


def kinds_of(contribution: Contribution, columns: int, noise: str) -> np.ndarray | None:
    """(kinds, columns) what a person adds in each column, None where it is in one of them only.

    Raises:
        ValueError: missing for several columns, given for one, no such matrix, or a column in which
            nobody is counted.
        UnsupportedError: such a matrix with noise whose guarantee is not pure.
    """
    if isinstance(contribution, str) and contribution == "disjoint":
        return None
    if columns == 1:
        if contribution is None:
            return None
        raise ValueError("`contribution` is for several columns of counts. Leave it out.")
    if contribution is None:
        raise ValueError(
            "`contribution` is missing: with several columns of counts state contribution="
            '"disjoint", that a person is counted in one of them only; else a matrix (kinds, '
            "columns) of what one adds in each."
        )
    try:
        kinds = np.atleast_2d(np.asarray(contribution, dtype=np.float64))
    except (TypeError, ValueError):
        kinds = np.zeros((0, 0))
    right = kinds.ndim == 2 and kinds.shape[1] == columns and np.isfinite(kinds).all()
    if not (right and np.all((kinds >= 0) & (kinds == np.rint(kinds)))):
        raise ValueError(
            f'`contribution` must be "disjoint", or {columns} whole numbers of at least 0 for each '
            "kind of person, one for each column of counts."
        )
    if not (kinds.any(axis=0).all() and kinds.any(axis=1).all()):
        raise ValueError(
            "`contribution` must count somebody in every column, and every kind of person in one: "
            "nothing would protect a column in which nobody is counted."
        )
    if not NOISES[noise].pure:
        raise _checks.UnsupportedError(
            f"`contribution` must be disjoint for a table in parts with {noise} noise, whose loss "
            "in several columns is not known for groups of any size. Use discrete-laplace, or "
            "cdp.release."
        )
    return kinds


def listed(kinds: np.ndarray | None) -> list[list[float]] | None:
    """The same in JSON types."""
    return None if kinds is None else kinds.tolist()


def standing_for_all(
    sizes: Mapping[int, int], records: int, kinds: np.ndarray | None
) -> tuple[Totals, Relocations | Contributions]:
    """Totals of one group of each size, those of 16 rows for all larger ones, and the unit there.

    The loss of discrete Laplace noise is Σ|v|/λ and that of discrete normal noise is bounded by
    ρ = Σv²/2σ² (or exact, of two cells), whatever else is in the group. Cells are rows × columns
    where a person is counted in several columns, else those of one column.
    """
    few = np.unique(np.minimum([size for size in sizes if size > 1], _SAMPLED))
    groups = np.repeat(np.arange(few.size), few)
    if kinds is None:
        sample = totals(groups)
        return sample, relocations(sample, records=records)
    columns = kinds.shape[1]
    sample = totals((groups[:, None] * columns + np.arange(columns)).ravel())
    return sample, relocations(sample, records=records, contribution=kinds)


def scale_of(
    view: str, noise: str, sample: Totals, unit: Neighbours, epsilon: float, delta: float
) -> float:
    """The least scale of the noise, counts, that keeps (ε, δ) for this unit."""
    with jax.enable_x64(True):
        return calibrate(
            lambda s: law(view, noise, np.zeros(sample.n), s, sample),
            unit,
            epsilon=epsilon,
            delta=delta,
        )


def together(view: str, noise: str, sample: Totals, unit: Neighbours, scale: float) -> float:
    """The pure ε of all columns together at this scale, rounded up to 9 digits."""
    with jax.enable_x64(True):
        loss = privacy_loss(law(view, noise, np.zeros(sample.n), scale, sample), unit)
    epsilon = float(loss.pure_epsilon)
    short = float(f"{epsilon:.8e}")
    return short if short >= epsilon else float(f"{epsilon * (1 + 1e-8):.8e}")
