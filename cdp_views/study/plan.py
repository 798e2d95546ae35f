"""A study as a value: what is swept over, checked before any work is done."""

import json
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, final

from cdp_views._checks import positive
from cdp_views.datasets import lafferty_blocks, midwest
from cdp_views.study.baselines import BASELINES
from cdp_views.study.level import NOTIONS, Level
from cdp_views.study.mechanisms import NOISES, VIEWS
from cdp_views.study.words import (
    Exact,
    Queries,
    Scales,
    Table,
    known,
    numbers,
    part,
    resolved,
    texts,
)

if TYPE_CHECKING:
    import xarray as xr

EMBEDDED = {"midwest": midwest, "lafferty_blocks": lafferty_blocks}
VIEW_NAMES = (*VIEWS, *BASELINES)
_BUDGETS = ("epsilon", "rho", "mu", "guess_rate")


@final
@dataclass(frozen=True, eq=False)
class Study:
    """A sweep over tables, invariants, views, noises, scales, budgets and workloads.

    Every combination of table × invariant × view × noise × scales × budget is one point: it is
    calibrated once, and all workloads are asked of the same draws. What cannot be had is skipped,
    with the reason in the result. Every figure has its kind and, where estimated, its standard
    error; the random numbers of a point depend on `seed` and on what the point is, not on the
    order of work, on other points, or on the number of workers.

    Args:
        tables: name ↦ `source` ("midwest", "lafferty_blocks", a CSV or Parquet file, a data
            frame), `count` (column) and `public`.
        invariants: name ↦ column, or columns, whose groups' totals stay exact; or `within` and
            `weights`, `margins`, `matrix`, or `all_of` (names that all hold). See `Exact`.
        workloads: name ↦ "cells", or one of `by`, `marginals`, `lengths`, `matrix`; `over` or
            `over_matrix` for ratios, and `thresholds` for decisions. See `Queries`.
        views: "unconstrained", "max-entropy", "conditioned", "imaged", and what offices do today:
            "raked", "remainder", "rounded" (see `baselines`).
        noises: "normal", "laplace".
        scales: name ↦ published column, or `column` and `power`; equal scales come first anyway.
        epsilon: values of ε > 0, in nats.
        delta: δ that goes with them, below 1 over the number of records.
        notions: what ε means: "native" (pure ε where noise allows it, else (ε, δ), as
            `cdp.compare`), "approximate" ((ε, δ) for all noises) or "pure".
        rho, mu, guess_rate: further budgets, each in its own notion.
        records: how many records one person may move between two cells of a group.
        repetitions: independent repetitions of everything that is estimated.
        draws: draws of the noise for each estimate; fewer for very large tables.
        seed: of all draws.

    Raises:
        ValueError: an unknown key or word (with the nearest that is known), or a number out of
            range.

    Example:
        >>> import cdp_views as cdp
        >>> tables = {"blocks": {"source": "lafferty_blocks", "count": "count", "public": True}}
        >>> study = cdp.Study(tables, {"state": "state"}, epsilon=[0.5, 1], delta=1e-6)
        >>> found = study.run()
        >>> found["points"].sizes["point"], found["workloads"]["rmse"].dims
        (8, ('point', 'workload', 'repetition'))

    Reference: `cdp.compare` for one table and one budget, with a verdict in words.
    """

    tables: Mapping[str, Any]
    invariants: Mapping[str, Any]
    workloads: Mapping[str, Any] = field(default_factory=lambda: {"cells": "cells"})
    views: Sequence[str] = tuple(VIEWS)
    noises: Sequence[str] = ("normal",)
    scales: Mapping[str, Any] = field(default_factory=dict)
    epsilon: Sequence[float] = ()
    delta: float = 0.0
    notions: Sequence[str] = ("native",)
    rho: Sequence[float] = ()
    mu: Sequence[float] = ()
    guess_rate: Sequence[float] = ()
    records: int = 1
    repetitions: int = 1
    draws: int = 2_000
    seed: int = 0

    def __post_init__(self) -> None:
        for name, kind in _PARTS.items():
            self._set(name, _parts(name, kind, getattr(self, name)))
        for name, allowed in (
            ("views", VIEW_NAMES),
            ("noises", tuple(NOISES)),
            ("notions", NOTIONS),
        ):
            words = texts(name, getattr(self, name))
            known(name, words, allowed)
            self._set(name, words)
        for name in _BUDGETS:
            self._set(name, numbers(name, getattr(self, name)))
            positive(name, getattr(self, name))
        for name, least in (("records", 1), ("repetitions", 1), ("draws", 2), ("seed", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(
                    f"`{name}` must be a whole number of at least {least}; got {value!r}."
                )
        if isinstance(self.delta, bool) or not 0 <= self.delta < 1:
            raise ValueError(f"`delta` must be at least 0 and below 1; got {self.delta!r}.")
        outside = [rate for rate in self.guess_rate if not 0.5 < rate < 1]
        if outside:
            raise ValueError(f"`guess_rate` must lie between 0.5 and 1; got {outside[0]}.")
        for name in ("tables", "invariants", "workloads", "views", "noises"):
            if not len(getattr(self, name)):
                raise ValueError(f"`{name}` must name at least one; got none.")
        if not self.levels:
            raise ValueError(
                "A study needs at least one budget: give epsilon (with delta), rho, mu or "
                "guess_rate."
            )
        for name, exact in self.invariants.items():
            known(f"invariants.{name}.all_of", exact.all_of, _alone(self.invariants))
        if "equal" in self.scales:
            raise ValueError('`scales` must not be named "equal": equal scales come first anyway.')

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> "Study":
        """The study that a TOML file describes; its keys are the arguments of `Study`.

        Paths in it are seen from its folder.

        Raises:
            ValueError: not there, no TOML, or anything that `Study` refuses.
        """
        path = Path(path)
        try:
            given = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as reason:
            raise ValueError(f"`{path}` cannot be read ({type(reason).__name__}).") from None
        except (tomllib.TOMLDecodeError, UnicodeError) as reason:
            raise ValueError(f"`{path}` is no TOML: {reason}.") from None
        known("", given, [f.name for f in fields(cls)])
        for needed in ("tables", "invariants"):
            if needed not in given:
                raise ValueError(f"`{path}` must have a table [{needed}.NAME].")
        paths = [("tables", "source"), ("invariants", "matrix")]
        for group, key in (*paths, ("workloads", "matrix"), ("workloads", "over_matrix")):
            for one in _mapping(group, given.get(group, {})).values():
                if isinstance(one, dict) and key in one and one[key] not in EMBEDDED:
                    one[key] = resolved(one[key], path.parent)
        return cls(**given)

    @property
    def levels(self) -> tuple[Level, ...]:
        """Every budget in its notion."""
        found = [Level(n, value, self.delta) for n in self.notions for value in self.epsilon]
        for notion in _BUDGETS[1:]:
            found += [Level(notion.replace("_", "-"), v, 0.0) for v in getattr(self, notion)]
        return tuple(found)

    def described(self) -> str:
        """The study as JSON, for whoever wants to run it again; data frames are only named."""

        def plain(value: Any) -> str:
            if isinstance(value, os.PathLike):
                return os.fspath(value)
            return f"<{type(value).__name__} in memory>"

        held = {f.name: getattr(self, f.name) for f in fields(self)}
        for name in _PARTS:
            held[name] = {key: _fields_of(one) for key, one in held[name].items()}
        return json.dumps(held, default=plain, ensure_ascii=False, sort_keys=True)

    def run(
        self,
        out: str | os.PathLike[str] | None = None,
        *,
        workers: int = 1,
        client: Any = None,
        overwrite: bool = False,
        command: str = "",
        progress: Callable[[int, int, str], None] | None = None,
    ) -> "xr.DataTree":
        """Measure every point; with `out`, resume what is there and write the whole at the end.

        Args:
            out: folder of one small file per finished point, and, once all are done, of `study.nc`
                and the page `report.html` (extra `io`). A run that was killed goes on where it was.
            workers: processes; a script that asks for more than 1 needs `if __name__ ==
                "__main__":`, as everywhere with spawned processes.
            client: a Dask client in place of `workers` (extra `distributed`).
            overwrite: replace the `study.nc` of another study; finished points are used again.
            command: what made it, for the record.
            progress: called with (done, all, what).

        Returns:
            `points` (privacy, over point), `workloads` (usefulness, over point × workload ×
            repetition) and `skipped` (what cannot be had, and why).

        Raises:
            ValueError: nothing can be measured, or `out` holds another study or version.
            OSError: `out` cannot be written to; finished points stay, nothing poses as whole.
        """
        from cdp_views.study.running import run

        return run(
            self,
            out,
            workers=workers,
            client=client,
            overwrite=overwrite,
            command=command,
            progress=progress,
        )

    @staticmethod
    def to_html(found: "xr.DataTree", path: str | os.PathLike[str]) -> None:
        """A result as one HTML page, put in place only when it is complete.

        Args:
            found: what `run` returned or `cdp.read_study` read.
            path: the file; its folder is made where it is missing.

        Raises:
            OSError: it cannot be written; then nothing is left behind.
        """
        from cdp_views.report import write_text
        from cdp_views.study.running import page

        write_text(page(found), path)

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def __reduce__(self) -> Any:
        # Read-only mappings do not pickle.
        held = {f.name: getattr(self, f.name) for f in fields(self)}
        return _again, ({k: dict(v) if k in _PARTS else v for k, v in held.items()},)


def _again(held: dict[str, Any]) -> Study:
    return Study(**held)


_PARTS: dict[str, type] = {
    "tables": Table,
    "invariants": Exact,
    "scales": Scales,
    "workloads": Queries,
}


def _alone(invariants: Mapping[str, Exact]) -> list[str]:
    """Those that others may be made of."""
    return [name for name, exact in invariants.items() if not exact.all_of]


def _parts(name: str, kind: type, given: Any) -> Mapping[str, Any]:
    found = {
        str(key): part(kind, f"{name}.{key}", _in_full(kind, value))
        for key, value in _mapping(name, given).items()
    }
    return MappingProxyType(found)


def _mapping(name: str, given: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise ValueError(f"`{name}` must map names to what they are; got {type(given).__name__}.")
    return given


def _in_full(kind: type, value: Any) -> Any:
    """Short forms: a column for what is kept exact or scales the noise, "cells" for all cells."""
    if kind is Exact and isinstance(value, str | list | tuple):
        return {"within": value}
    if kind is Scales and isinstance(value, str):
        return {"column": value}
    if kind is Queries and isinstance(value, str) and value == "cells":
        return {"cells": True}
    return value


def _fields_of(one: Any) -> dict[str, Any]:
    # Not `asdict` of a table: it would copy a data frame.
    if isinstance(one, Table):
        return {f.name: getattr(one, f.name) for f in fields(one)}
    # What was left out is not told.
    return {key: value for key, value in asdict(one).items() if value is not None}
