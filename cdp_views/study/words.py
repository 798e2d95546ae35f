"""The parts of a study in words: frozen, checked, and the same from Python as from TOML."""

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, final

import numpy as np


@final
@dataclass(frozen=True, eq=False)
class Table:
    """Where the counts come from.

    Args:
        source: "midwest" or "lafferty_blocks" (embedded), the path of a CSV or Parquet file, or a
            data frame.
        count: column of true counts.
        public: the counts are published, so that nothing is marked confidential.
    """

    source: Any
    count: str
    public: bool = False


@final
@dataclass(frozen=True)
class Exact:
    """What stays exact: one of the first four; nothing at all keeps the grand total.

    Args:
        within: totals of the groups that these columns make together.
        margins: several such lists of columns, all their totals; a table of one row for each
            combination, sorted, is known to be one, and people in it exchange places (`cdp.moves`).
        matrix: own totals, the path of a .npy, .npz (sparse) or .csv file, (k, n).
        all_of: names of other invariants, which all hold.
        weights: with `within`, a published column of weights.
    """

    within: tuple[str, ...] = ()
    weights: str | None = None
    margins: tuple[tuple[str, ...], ...] = ()
    matrix: Any = None
    all_of: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        given = [name for name in _HELD if len_of(getattr(self, name))]
        if len(given) > 1:
            raise ValueError(
                f"What stays exact must be one of {', '.join(_HELD)}; got {' and '.join(given)}. "
                "Join invariants by all_of."
            )
        if self.weights is not None and given not in ([], ["within"]):
            raise ValueError(f"`weights` belong to totals within columns; got {given[0]}.")


_HELD = ("within", "margins", "matrix", "all_of")


@final
@dataclass(frozen=True)
class Scales:
    """Relative scales of the noise: a published column to a power."""

    column: str
    power: float = 1.0


@final
@dataclass(frozen=True, eq=False)
class Queries:
    """What the release will be asked: exactly one of the first five.

    Args:
        cells: every cell that the exact totals do not determine.
        by: sums over the groups that these columns make together (one level).
        marginals: several such lists of columns, all their sums in one workload.
        lengths: sums of so many consecutive rows, one stretch after the other.
        matrix: own sums, the path of a .npy, .npz (sparse) or .csv file without header, (q, n).
        over: ratios instead: each answer over the sum of the group of these columns that it lies
            in; [] is the grand total.
        over_matrix: ratios over own sums, one for each answer, as `matrix`.
        thresholds: levels in counts, or of ratios; how often a release falls on the wrong side.
    """

    cells: bool = False
    by: tuple[str, ...] = ()
    marginals: tuple[tuple[str, ...], ...] = ()
    lengths: tuple[int, ...] = ()
    matrix: Any = None
    over: tuple[str, ...] | None = None
    over_matrix: Any = None
    thresholds: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        given = [kind for kind in _KINDS if len_of(getattr(self, kind))]
        if len(given) != 1:
            raise ValueError(
                f"A workload must be exactly one of {', '.join(_KINDS)}; got "
                f"{' and '.join(given) or 'none'}."
            )
        if any(length < 1 or length != int(length) for length in self.lengths):
            raise ValueError("`lengths` must be whole numbers of at least 1 row.")
        if self.over is not None and self.over_matrix is not None:
            raise ValueError("A ratio has one denominator; got over and over_matrix.")
        if not np.isfinite(np.asarray(self.thresholds, dtype=float)).all():
            raise ValueError("`thresholds` must be finite counts.")

    @property
    def ratio(self) -> bool:
        """Whether answers are ratios."""
        return self.over is not None or self.over_matrix is not None


_KINDS = ("cells", "by", "marginals", "lengths", "matrix")


def len_of(value: Any) -> int:
    """Whether anything is asked: 0 for None, False and for what is empty."""
    return len(value) if isinstance(value, tuple) else int(value is not False and value is not None)


def part(kind: type, path: str, given: Any) -> Any:
    """`given`, a mapping or already a `kind`, as a `kind`.

    Raises:
        ValueError: a key that it does not have (with the nearest that it has), one that is
            missing, or a value of another kind.
    """
    if isinstance(given, kind):
        return given
    if not isinstance(given, Mapping):
        raise ValueError(f"`{path}` must be a table of keys; got {type(given).__name__}.")
    names = [field.name for field in fields(kind)]
    known(path, given, names)
    values = {key: _value(f"{path}.{key}", key, value) for key, value in given.items()}
    try:
        return kind(**values)
    except TypeError:
        missing = [n for n in ("source", "count", "column") if n in names and n not in given]
        raise ValueError(f"`{path}` must have the key {' and '.join(missing)}.") from None
    except ValueError as reason:
        raise ValueError(f"`{path}`: {reason}") from None


def known(path: str, given: Iterable[str], names: Sequence[str]) -> None:
    """Raise for the first key that is not among `names`, naming the nearest."""
    for key in given:
        if key not in names:
            near = difflib.get_close_matches(str(key), names, n=1, cutoff=0.5)
            hint = f'Did you mean "{near[0]}"? ' if near else ""
            where = f"`{path}` has" if path else "A study has"
            raise ValueError(f'{where} no key "{key}". {hint}The keys are {", ".join(names)}.')


_TEXTS = {"within", "by", "over", "all_of"}
_TEXT = {"count", "column", "weights"}


def _value(path: str, key: str, value: Any) -> Any:
    """Lists as tuples, one column as a list of one; refused where the type is another."""
    if key in _TEXT and not isinstance(value, str):
        raise ValueError(f"`{path}` must be the name of a column; got {value!r}.")
    if key in _TEXTS:
        return texts(path, value)
    if key in ("marginals", "margins"):
        return tuple(texts(path, one) for one in listed(path, value))
    if key in ("lengths", "thresholds"):
        return numbers(path, value)  # whole lengths are checked by `Queries`
    if key in ("public", "cells") and not isinstance(value, bool):
        raise ValueError(f"`{path}` must be true or false; got {value!r}.")
    if key == "power":
        return numbers(path, value)[0]
    return value


def texts(path: str, value: Any) -> tuple[str, ...]:
    """One text, or a list of them, as a tuple."""
    found = (value,) if isinstance(value, str) else tuple(listed(path, value))
    if not all(isinstance(one, str) for one in found):
        raise ValueError(f"`{path}` must be texts; got {value!r}.")
    return tuple(dict.fromkeys(found))


def numbers(path: str, value: Any) -> tuple[float, ...]:
    """One number, or a list of them, as a tuple of floats without repeats."""
    found = tuple(listed(path, value)) if np.ndim(value) else (value,)
    if not all(isinstance(one, int | float | np.number) and one is not True for one in found):
        raise ValueError(f"`{path}` must be numbers; got {value!r}.")
    return tuple(dict.fromkeys(float(one) for one in found))


def listed(path: str, value: Any) -> Iterable[Any]:
    """`value` if it is a list of some kind, else an error."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise ValueError(f"`{path}` must be a list; got {value!r}.")
    return value


def resolved(value: Any, folder: str | os.PathLike[str] | None) -> Any:
    """A path as seen from `folder`; anything else as it is."""
    if folder is None or not isinstance(value, str | os.PathLike):
        return value
    return os.path.join(folder, value)
