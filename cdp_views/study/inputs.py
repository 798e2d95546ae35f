"""What the words of a study stand for: counts, invariants, scales and queries, read once."""

import hashlib
import os
from collections.abc import Sequence
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any, final

import numpy as np
import pandas as pd
from scipy import sparse

from cdp_views._checks import positive
from cdp_views._counts import as_counts, tells_counts
from cdp_views.invariants import Margins, linear, margins, totals
from cdp_views.neighbours import Neighbours, moves, relocations
from cdp_views.study.plan import EMBEDDED, Study
from cdp_views.study.request import EQUAL
from cdp_views.study.words import Exact, Queries
from cdp_views.usefulness.ratios import ratios
from cdp_views.usefulness.workload import as_workload
from cdp_views.usefulness.yardstick import Best, best_gaussian


class AbsentError(ValueError):
    """A column that this table does not have: other tables of the study may."""


@final
class Inputs:
    """Everything that points share, each piece made when it is first asked for.

    Args:
        study: the plan.
    """

    def __init__(self, study: Study) -> None:
        self.study = study
        self._made: dict[tuple[str, ...], Any] = {}

    def frame(self, table: str) -> pd.DataFrame:
        return self._once(("frame", table), lambda: _read(table, self.study.tables[table].source))

    def counts(self, table: str) -> np.ndarray:
        """True counts (n,), in float64."""
        name = self.study.tables[table].count

        def make() -> np.ndarray:
            frame = self.frame(table)
            return as_counts(_numbers(frame, name, f"tables.{table}.count"), len(frame))

        return self._once(("counts", table), make)

    def invariant(self, table: str, name: str) -> Any:
        """What stays exact."""

        def make() -> Any:
            exact, path = self.study.invariants[name], f"invariants.{name}"
            if exact.all_of:
                return reduce(and_, [self.invariant(table, one) for one in exact.all_of])
            if exact.margins:
                return self._margins(table, exact.margins, path)
            if exact.matrix is not None:
                return linear(self._own(table, exact.matrix, f"{path}.matrix"))
            labels = self._labels(table, exact.within, path)
            return totals(labels, self._weights(table, exact, name))

        return self._once(("invariant", table, name), make)

    def neighbours(self, table: str, name: str) -> Neighbours:
        """The unit of privacy: a record that moves alone, or, where none can, two that exchange.

        Raises:
            ValueError: neither is known under what stays exact.
        """

        def make() -> Neighbours:
            inv, records = self.invariant(table, name), self.study.records
            try:
                return relocations(inv, records=records)
            except ValueError:
                if not isinstance(inv, Margins):
                    raise ValueError(_NO_MOVE.format(name)) from None
            return moves(inv, records=records)

        return self._once(("neighbours", table, name), make)

    def pattern(self, table: str, name: str) -> np.ndarray:
        """Relative scales (n,) of mean 1."""

        def make() -> np.ndarray:
            counts = self.counts(table)
            if name == EQUAL:
                return np.ones_like(counts)
            scales = self.study.scales[name]
            path = f"scales.{name}"
            if scales.column == self.study.tables[table].count:
                raise ValueError(_secret(path))
            pattern = _numbers(self.frame(table), scales.column, path)
            positive(path, pattern, "A scale of 0 would publish that cell.")
            pattern = pattern**scales.power
            if tells_counts(pattern, counts):
                raise ValueError(_secret(path))
            return pattern / pattern.mean()

        return self._once(("pattern", table, name), make)

    def workload(self, table: str, name: str) -> sparse.csr_array | None:
        """The sums that are asked, (q, n); None for the cells themselves."""

        def make() -> sparse.csr_array | None:
            queries, path = self.study.workloads[name], f"workloads.{name}"
            if queries.cells:
                n = len(self.frame(table))
                return sparse.csr_array(sparse.eye_array(n)) if queries.ratio else None
            return as_workload(self._rows(table, queries, path), len(self.frame(table)))[0]

        return self._once(("workload", table, name), make)

    def ratio(self, table: str, name: str) -> sparse.csr_array | None:
        """The denominators of a workload of ratios, (q, n); None for sums."""

        def make() -> sparse.csr_array | None:
            queries, path = self.study.workloads[name], f"workloads.{name}"
            if not queries.ratio:
                return None
            numerators = self.workload(table, name)
            assert numerators is not None
            if queries.over is None:
                found = self._own(table, queries.over_matrix, f"{path}.over_matrix")
                if found.shape[0] != numerators.shape[0]:
                    raise ValueError(
                        f"`{path}.over_matrix` must have a row for each of the "
                        f"{numerators.shape[0]} answers; got {found.shape[0]}."
                    )
                return found
            groups = _indicators(self._labels(table, queries.over, f"{path}.over"))
            touched = sparse.csr_array(abs(numerators) @ groups.T)
            touched.eliminate_zeros()
            if np.any(np.diff(touched.indptr) != 1):
                raise ValueError(
                    f"`{path}.over`: a sum lies in more than one group of {queries.over}, or in "
                    "none. Divide by coarser groups, or give over_matrix."
                )
            return sparse.csr_array(groups[touched.indices])

        return self._once(("ratio", table, name), make)

    def best(self, table: str, invariant: str, workload: str) -> Best:
        """The error of the best Gaussian for a workload, at μ = 1: once for all budgets."""

        def make() -> Best:
            inv, matrix = self.invariant(table, invariant), self.workload(table, workload)
            below = self.ratio(table, workload)
            if below is not None and matrix is not None:
                found = ratios(matrix, below, self.counts(table), inv)
                matrix = found.linear
                if self.study.workloads[workload].cells:
                    matrix = sparse.csr_array(matrix[~np.asarray(inv.determined)[found.kept]])
            return best_gaussian(inv, matrix, self.neighbours(table, invariant))

        return self._once(("best", table, invariant, workload), make)

    def digest(self, table: str, invariant: str, scales: str) -> str:
        """What one mechanism is made from, as a short text: same text, same contents."""

        def make() -> str:
            inv = self.invariant(table, invariant).matrix
            parts = (self.counts(table), inv.indptr, inv.indices, inv.data)
            found = digest_of(*parts, self.pattern(table, scales))
            # The same totals hide another unit of privacy where they are known to be margins.
            margin = isinstance(self.invariant(table, invariant), Margins)
            return f"{found} margins" if margin else found

        return self._once(("digest", table, invariant, scales), make)

    def _rows(self, table: str, queries: Queries, path: str) -> Any:
        n = len(self.frame(table))
        if queries.by:
            return _indicators(self._labels(table, queries.by, f"{path}.by"))
        if queries.marginals:
            every = [self._labels(table, by, f"{path}.marginals") for by in queries.marginals]
            return sparse.vstack([_indicators(labels) for labels in every], format="csr")
        if queries.lengths:
            return sparse.vstack(
                [_indicators([str(i // int(k)) for i in range(n)]) for k in queries.lengths],
                format="csr",
            )
        return self._own(table, queries.matrix, f"{path}.matrix")

    def _own(self, table: str, given: Any, path: str) -> sparse.csr_array:
        matrix, n = _matrix(given, path), len(self.frame(table))
        if matrix.shape[-1] != n:
            raise AbsentError(f"`{path}` has {matrix.shape[-1]} columns, not {n}.")
        return as_workload(matrix, n)[0]

    def _margins(self, table: str, keep: Sequence[Sequence[str]], path: str) -> Any:
        """Margins where the rows are a whole table, cell for cell in order; else totals, joined."""
        axes = list(dict.fromkeys(column for columns in keep for column in columns))
        codes, sizes = [], []
        for axis in axes:
            code, names = pd.factorize(pd.Series(self._labels(table, [axis], path), dtype=object))
            codes.append(code)
            sizes.append(len(names))
        n = len(self.frame(table))
        if np.prod(sizes, dtype=float) == n and axes:
            place = np.ravel_multi_index(codes, sizes)
            if np.array_equal(place, np.arange(n)):
                return margins(sizes, [tuple(axes.index(c) for c in columns) for columns in keep])
        return reduce(and_, [totals(self._labels(table, columns, path)) for columns in keep])

    def _labels(self, table: str, columns: Sequence[str], path: str) -> list[str]:
        frame = self.frame(table)
        if not columns:
            return ["all"] * len(frame)
        parts = []
        for name in columns:
            values = _column(frame, name, path)
            if values.isna().any():
                first = int(np.argmax(values.isna().to_numpy())) + 1
                raise ValueError(
                    f'`{path}`: column "{name}" of table {table} has a missing label in data row '
                    f"{first}. Fill it in or drop that row."
                )
            parts.append(values.astype(str).str.strip())
        return [", ".join(row) for row in zip(*parts, strict=True)]

    def _weights(self, table: str, exact: Exact, name: str) -> np.ndarray | None:
        if exact.weights is None:
            return None
        if exact.weights == self.study.tables[table].count:
            raise ValueError(_secret(f"invariants.{name}.weights"))
        return _numbers(self.frame(table), exact.weights, f"invariants.{name}.weights")

    def _once(self, key: tuple[str, ...], make: Any) -> Any:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]


_NO_MOVE = (
    "`invariants.{0}` lets no record move alone, so a study knows no unit of privacy for it. Keep "
    "coarser totals; under margins two people exchange places, in a table with one row for each "
    "combination of their columns, sorted by them."
)


def digest_of(*parts: np.ndarray) -> str:
    """A hash of arrays: of their types, shapes and bytes."""
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        array = np.ascontiguousarray(part)
        found.update(f"{array.dtype.str}{array.shape}".encode())
        found.update(array.tobytes())
    return found.hexdigest()


def _secret(path: str) -> str:
    return (
        f"`{path}` must not be taken from the counts: what a release is made with is published, "
        "and so would the counts be. Use a published column."
    )


def _read(name: str, source: Any) -> pd.DataFrame:
    """The table, one row a cell; text stays text, so that labels such as 01 are kept."""
    if isinstance(source, pd.DataFrame):
        frame = source
    elif isinstance(source, str) and source in EMBEDDED:
        frame = EMBEDDED[source]()
    elif isinstance(source, str | os.PathLike):
        frame = _read_file(name, Path(source))
    else:
        raise ValueError(
            f"`tables.{name}.source` must be the name of an embedded table, a path or a pandas "
            f"data frame; got {type(source).__name__}."
        )
    if len(frame) == 0:
        raise ValueError(f"`tables.{name}` has no rows.")
    return frame


def _read_file(name: str, path: Path) -> pd.DataFrame:
    where = f"`tables.{name}.source` {path}"
    if not path.is_file():
        raise ValueError(f"{where} is not there, and no embedded table is called so.")
    try:
        if path.suffix in (".parquet", ".pq"):
            return pd.read_parquet(path)
        return pd.read_csv(
            path, dtype=str, keep_default_na=False, na_values=[""], encoding="utf-8-sig"
        )
    except ImportError:
        raise ValueError("Parquet needs the extra io: pip install 'cdp-views[io]'.") from None
    except (ValueError, OSError) as reason:
        raise ValueError(
            f"{where} cannot be read ({type(reason).__name__}). Give CSV in UTF-8, or Parquet."
        ) from None


def _column(frame: pd.DataFrame, name: str, path: str) -> pd.Series:
    if name not in frame.columns:
        there = ", ".join(map(str, frame.columns[:30]))
        raise AbsentError(f'`{path}`: no column "{name}"; the columns are {there}.')
    return pd.Series(frame[name])


def _numbers(frame: pd.DataFrame, name: str, path: str) -> np.ndarray:
    values = pd.Series(pd.to_numeric(_column(frame, name, path), errors="coerce"))
    array = values.astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan)
    bad = ~np.isfinite(array)
    if bad.any():
        raise ValueError(
            f'`{path}`: column "{name}" has {int(bad.sum())} entries that are no numbers, first in '
            f"data row {int(np.argmax(bad)) + 1}. Correct them; a row left out would be missing."
        )
    return array


def _indicators(labels: Sequence[str]) -> sparse.csr_array:
    """Sums of each label, (labels, n), in order of first appearance."""
    codes, names = pd.factorize(pd.Series(labels, dtype=object))
    n = len(labels)
    return sparse.csr_array((np.ones(n), (codes, np.arange(n))), shape=(len(names), n))


def _matrix(given: Any, path: str) -> Any:
    """Own sums, (q, n), from a file or as they are."""
    if not isinstance(given, str | os.PathLike):
        return sparse.csr_array(np.atleast_2d(np.asarray(given, dtype=float)))
    file = Path(given)
    try:
        if file.suffix == ".npz":
            return sparse.csr_array(sparse.load_npz(file))
        if file.suffix == ".npy":
            return np.atleast_2d(np.load(file, allow_pickle=False))
        return np.atleast_2d(np.loadtxt(file, delimiter=",", ndmin=2))
    except (OSError, ValueError) as reason:
        raise ValueError(
            f"`{path}` {file} cannot be read ({type(reason).__name__}). Give .npy, sparse .npz, or "
            ".csv of numbers without a header."
        ) from None
