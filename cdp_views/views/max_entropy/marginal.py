"""The privacy loss of one cell of a maximum-entropy release, whose law is exactly the base's.

Nothing is proved of the joint release; but a cell on its own is Laplace, Student-t or logistic as
the base is, so its profile and supremum are the base's, the supremum |v_i|/λ_i for Laplace. (The
reason that [L] gives for wanting exact marginals.)
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, singledispatch
from typing import Any

import numpy as np
from scipy import sparse

from cdp_views.loss import ProfileLoss
from cdp_views.noise import Mixing
from cdp_views.noise.mixing import InverseChi, Rayleigh
from cdp_views.noise.numerical import DoubledKolmogorov
from cdp_views.precision.cell_profile import logistic_cell, student_cell
from cdp_views.precision.laplace_profile import two_cells
from cdp_views.views._suprema import cell_supremum

_ROUNDING = 1e-13


def only_cell(query: sparse.csr_array) -> int | None:
    """The one cell that a query shows, if it shows one and no other."""
    shown = np.unique(sparse.coo_array(query).col[sparse.coo_array(query).data != 0])
    return int(shown[0]) if shown.size == 1 else None


def loss_of_cell(
    mixing: Mixing, differences: sparse.csr_array, query: sparse.csr_array, scale: np.ndarray
) -> ProfileLoss | None:
    """The loss of every row v when one cell is published; None for another query, or noise."""
    cell = only_cell(sparse.csr_array(query))
    if cell is None:
        return None
    moved = np.asarray(differences[:, [cell]].toarray(), np.float64)[:, 0]
    return marginal_loss(mixing, np.abs(moved) / scale[cell], cell)


def loss_of_row(
    mixing: Mixing, differences: sparse.csr_array, query: sparse.csr_array, scale: np.ndarray
) -> ProfileLoss | None:
    """The same for one row w of an elliptical release: w·X has the base's law, of this scale."""
    if query.shape[0] != 1:
        return None
    moved = np.abs((differences @ sparse.csr_array(query).T).toarray()[:, 0])
    size = (abs(differences) @ abs(sparse.csr_array(query)).T).toarray()[:, 0]
    moved = np.where(moved > _ROUNDING * size, moved, 0.0)
    with np.errstate(divide="ignore"):
        shift = np.where(moved > 0, moved / scale[0], 0.0)
    return marginal_loss(mixing, shift) if np.isfinite(shift).all() else None


def marginal_loss(mixing: Mixing, shift: np.ndarray, cell: Any = ...) -> ProfileLoss | None:
    """The loss of one cell that moves by `shift` (m,) of its scales, where the noise has a name."""
    profile, sup = _profile(mixing, cell), cell_supremum(mixing, shift, cell)
    if profile is None or sup is None:
        return None
    return ProfileLoss(_Shifts(profile, shift), sup)


@dataclass(frozen=True)
class _Shifts:
    """The profile of one cell at m shifts."""

    profile: Callable[[np.ndarray, np.ndarray], np.ndarray]
    shift: np.ndarray

    def __call__(self, epsilon: np.ndarray) -> np.ndarray:
        return self.profile(epsilon, self.shift)

    def take(self, indices: np.ndarray) -> "_Shifts":
        return _Shifts(self.profile, self.shift[indices])


@singledispatch
def _profile(_mixing: Mixing, _cell: Any) -> Any:
    return None


@_profile.register(Rayleigh)
def _(_mixing: Any, _cell: Any) -> Any:
    return lambda epsilon, shift: two_cells(epsilon, 0.0, shift)


@_profile.register(DoubledKolmogorov)
def _(_mixing: Any, _cell: Any) -> Any:
    return logistic_cell


@_profile.register
def _(mixing: InverseChi, cell: Any) -> Any:
    df = np.asarray(mixing.df, np.float64)
    one = df[cell] if df.size > 1 else df.reshape(-1)[0]
    return partial(student_cell, df=float(one))
