"""The losses of all differences tried, summarised by classes of cells."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from cdp_views.loss import Loss
from cdp_views.loss._arguments import finite_epsilon
from cdp_views.privacy.worst import name_differences

if TYPE_CHECKING:
    import pandas as pd

_SHOWN = 1_000


@dataclass(frozen=True, eq=False)
class Pairs:
    """Laws of the loss of m differences, and which of them lose alike.

    Two differences are in one class if they change cells by the same amounts and these cells have
    the same exposure (noise scale), weight and company: groups that hold the same of both.

    Args:
      law: of the m differences, one law each.
      differences: (m, n).
      inv: the invariant of the view, or None.
      exposure: (n,) of the view; None where scales do not tell which cells are alike.

    Example:
      >>> from cdp_views.loss import GaussianLoss
      >>> V = sparse.csr_array([[1.0, -1, 0, 0], [0, 0, 1, -1]])
      >>> Pairs(GaussianLoss([1.0, 2.0]), V).table(1.0)[["change", "mu", "delta"]].round(3)
                            change   mu  delta
      0  +1 in cell 2, -1 in cell 3  2.0  0.510
      1  +1 in cell 0, -1 in cell 1  1.0  0.127
    """

    law: Loss
    differences: sparse.csr_array
    inv: Any = None
    exposure: np.ndarray | None = None

    def table(self, epsilon: float | None = None) -> "pd.DataFrame":
        """One row for each class, the worst first.

        Columns: `group` (the label of the total that all of its cells lie under), `change` and
        `cells` of the first difference of the class, `differences` (how many of those tried are in
        it), `mu` where the loss is normal, `pure_epsilon`, `guess_rate`, `delta` at `epsilon` where
        it is given, and `kind` of the last two. At most 1,000 rows; `attrs` says how many are left.

        Args:
          epsilon: ε ≥ 0, or None for no δ.
        """
        import pandas as pd

        first, count = self.classes()
        law = self.law.take(first)
        numbers: dict[str, Any] = {}
        by = ["guess_rate", "pure_epsilon"]
        mu = getattr(law, "mu", None)
        if mu is not None:
            numbers["mu"], by = mu, ["mu"]
        numbers["pure_epsilon"], numbers["guess_rate"] = law.sup, law.guess_rate
        if epsilon is not None:
            numbers["delta"] = law.delta(finite_epsilon(epsilon))
            by = [*by, "delta"]
        order = np.lexsort([-np.asarray(numbers[name]) for name in by])
        shown = order[:_SHOWN]
        named = name_differences(self.differences, first[shown], self.inv)
        words = {
            "group": [one.group for one in named],
            "change": [one.change for one in named],
            "cells": [one.cells for one in named],
            "differences": count[shown],
        }
        rest = {name: np.asarray(value)[shown] for name, value in numbers.items()}
        table = pd.DataFrame(words | rest | {"kind": law.kind})
        table.attrs["classes left out"] = len(order) - len(shown)
        return table

    def classes(self) -> tuple[np.ndarray, np.ndarray]:
        """The first difference of each class (c,), and how many are in it (c,); in order."""
        V = self.differences
        m = len(V.indptr) - 1
        if self.inv is None or self.exposure is None:
            return np.arange(m), np.ones(m, dtype=np.int64)
        cells = np.unique(V.indices)
        label = np.zeros(V.shape[1], dtype=np.int64)
        label[cells] = _alike(self.exposure, sparse.csc_array(self.inv.matrix), cells)
        row = np.repeat(np.arange(m), np.diff(V.indptr))
        # v and −v lose alike: whichever comes first in order stands for both
        one, other = (_sorted(row, label[V.indices], sign * V.data, m) for sign in (1, -1))
        at = np.argmax(one != other, axis=1)[:, None]
        swap = np.take_along_axis(other, at, 1) < np.take_along_axis(one, at, 1)
        key = [np.where(swap, other, one)]
        size = self.law.additive()
        if size is not None:  # what the cells do not tell: where a total fixed in advance lies
            part, power = np.frexp(size)
            key.append(np.stack([np.round(part * 2**36), power], axis=1))
        return _unique_rows(np.concatenate(key, axis=1))


def _sorted(row: np.ndarray, kind: np.ndarray, value: np.ndarray, m: int) -> np.ndarray:
    """Kinds and values of each row, sorted, side by side: (m, 2·width), −1 and 0 where it ends."""
    order = np.lexsort((value, kind, row))
    sizes = np.bincount(row, minlength=m)
    place = np.arange(row.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    key = np.tile([-1.0, 0.0], (m, int(sizes.max(initial=0))))
    key[row, 2 * place], key[row, 2 * place + 1] = kind[order], value[order]
    return key


def _alike(exposure: np.ndarray, totals: sparse.csc_array, cells: np.ndarray) -> np.ndarray:
    """A number for each of `cells`, equal where one can stand for the other."""
    totals.eliminate_zeros()
    n, touched = exposure.size, np.diff(totals.indptr)
    if touched.max(initial=0) > 1:
        return cells
    group, weight = np.full(n, totals.shape[0]), np.zeros(n)
    inside = np.flatnonzero(touched)
    group[inside], weight[inside] = totals.indices, np.abs(totals.data)
    kind = _codes(_codes(exposure) * (n + 1) + _codes(weight))
    # what a group holds: the sum, modulo 2⁶⁴, of a random number for each of its cells' kinds
    rng = np.random.default_rng(0)
    own, other = rng.integers(0, 2**64, (2, int(kind.max(initial=0)) + 1), dtype=np.uint64)
    company = np.zeros(totals.shape[0] + 1, dtype=np.uint64)
    np.add.at(company, group, own[kind])
    company[-1] = 0  # cells under no total have none
    mark = company[group[cells]] * np.uint64(0x9E3779B97F4A7C15) + other[kind[cells]]
    return np.unique(mark, return_inverse=True)[1].ravel()


def _codes(values: np.ndarray) -> np.ndarray:
    if values.size and values[0] == values[-1] and np.all(values == values[0]):
        return np.zeros(values.size, dtype=np.int64)
    return np.unique(values, return_inverse=True)[1].ravel()


def _unique_rows(key: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first of equal rows, in order, and how many they are."""
    order = np.lexsort(key.T)
    new = np.any(np.diff(key[order], axis=0, prepend=np.nan) != 0, axis=1)
    starts = np.flatnonzero(new)
    first = np.minimum.reduceat(order, starts)
    place = np.argsort(first)
    return first[place], np.diff(np.append(starts, len(order)))[place]
