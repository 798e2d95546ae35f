"""Tables that others released: a short TOML says what a reader must know of the noise."""

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cdp_views.invariants import Invariant, linear, totals
from cdp_views.releases.mechanism import Mechanism
from cdp_views.releases.observed import Observed

_KEYS = {
    "": ("released", "names", "noise", "totals", "rounding"),
    "noise": ("view", "family", "scale", "scale_column"),
    "totals": ("within", "value_column"),
    "rounding": ("to",),
}


def read_published(table: Any, about: str | PathLike[str]) -> Observed:
    """A noisy table that this library did not make, described by a short TOML file.

        released = "count_noisy"        # column of the published counts
        names = ["county"]              # columns that name the cells; may be left out

        [noise]
        view = "independent"            # or "conditioned", "imaged", "max-entropy"
        family = "discrete-normal"      # or "normal", "laplace", "discrete-laplace"
        scale = 17.1                    # σ or λ in counts; or scale_column = "sd"

        [totals]                        # what is exact; leave out where nothing is
        within = ["state"]              # columns whose groups have exact totals
        value_column = "state_total"    # with independent noise: the total, in each of its rows

        [rounding]                      # with independent noise that is real: rounded to multiples
        to = 5

    Args:
        table: CSV or Parquet file, or a pandas DataFrame.
        about: the TOML file.

    Returns:
        What a model conditions on: `.latent(name, prior)`, `.observe(name, q)`, `.coords`.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a key or column that is missing or unknown (named, with the nearest valid one),
            a released count that is missing, totals that contradict each other or the table.
        UnsupportedError: rounding of a table whose noise keeps totals, or of whole noise.

    Example:
        >>> import cdp_views as cdp
        >>> cdp.read_published("nowhere.csv", "nowhere.toml")
        Traceback (most recent call last):
        FileNotFoundError: `nowhere.toml` is not there. Check the path.

    Reference: the 2020 Census's noisy measurement files are of this kind: independent
    discrete-normal noise (Canonne, Kamath and Steinke 2020) beside totals held exactly.
    """
    source = Path(about)
    if not source.is_file():
        raise FileNotFoundError(f"`{source}` is not there. Check the path.")
    try:
        told = tomllib.loads(source.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeError) as reason:
        raise ValueError(f"`{source}` is not TOML: {str(reason).splitlines()[0]}") from None
    _check_keys(told, "", source)
    for section in ("noise", "totals", "rounding"):
        _check_keys(told.get(section, {}), section, source)
    frame = table if isinstance(table, pd.DataFrame) else _read(Path(table))
    noise, exact = told.get("noise", {}), told.get("totals", {})
    invariant, groups = _invariant(frame, _names(exact.get("within", [])))
    mechanism = Mechanism(
        _require(noise, "view", "noise", source),
        _require(noise, "family", "noise", source),
        _scale(frame, noise, source),
        invariant,
    )
    value_column = exact.get("value_column")
    if value_column is None and mechanism.view == "independent" and "within" in exact:
        raise ValueError(
            f'`{source}` lacks "value_column" in [totals]: the column of the exact total of each '
            "row's group, which independent noise does not keep."
        )
    return Observed(
        mechanism,
        _numbers(frame, _require(told, "released", "", source)),
        None if value_column is None else _totals(frame, groups, invariant, value_column),
        rounding=float(told.get("rounding", {}).get("to", 0.0)),
        coords=_coords(frame, _names(told.get("names", [])), _names(exact.get("within", []))),
    )


def _check_keys(section: Any, name: str, source: Path) -> None:
    place = f"[{name}]" if name else "the top level"
    if not isinstance(section, Mapping):
        raise ValueError(f"`{source}`: {name} must be a section, [{name}] on a line of its own.")
    for key in section:
        if key not in _KEYS[name]:
            near = get_close_matches(key, _KEYS[name], n=1)
            hint = f'Did you mean "{near[0]}"?' if near else f"Use {', '.join(_KEYS[name])}."
            raise ValueError(f'`{source}` has an unknown key "{key}" in {place}. {hint}')


def _require(section: Mapping[str, Any], key: str, name: str, source: Path) -> Any:
    if key not in section:
        raise ValueError(f'`{source}` lacks "{key}"{f" in [{name}]" if name else ""}. Add it.')
    return section[key]


def _names(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else [str(name) for name in value]


def _read(path: Path) -> pd.DataFrame:
    if not path.is_file():
        raise FileNotFoundError(f"`{path}` is not there. Check the path.")
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            return pd.read_parquet(path)
        return pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    except ImportError:
        raise ValueError("Parquet needs the extra io: pip install 'cdp-views[io]'.") from None
    except (ValueError, OSError) as reason:
        raise ValueError(f"`{path}` cannot be read ({type(reason).__name__}).") from None


def _column(frame: pd.DataFrame, name: str) -> pd.Series:
    if name not in frame:
        near = get_close_matches(name, [str(column) for column in frame.columns], n=1)
        hint = f'Did you mean "{near[0]}"?' if near else "Check the TOML file."
        raise ValueError(f'The table has no column "{name}". {hint}')
    return frame[name]


def _numbers(frame: pd.DataFrame, name: str) -> np.ndarray:
    numbers = pd.to_numeric(_column(frame, name), errors="coerce").to_numpy(dtype=np.float64)
    bad = ~np.isfinite(numbers)
    if bad.any():
        raise ValueError(
            f'Column "{name}" has {int(bad.sum())} of {len(bad)} entries that are not finite '
            f"numbers, first in row {int(np.argmax(bad)) + 1}. Leave out what was not published."
        )
    return numbers


def _scale(frame: pd.DataFrame, noise: Mapping[str, Any], source: Path) -> Any:
    if ("scale" in noise) == ("scale_column" in noise):
        raise ValueError(f'`{source}` needs one of "scale" and "scale_column" in [noise].')
    return noise["scale"] if "scale" in noise else _numbers(frame, noise["scale_column"])


def _invariant(frame: pd.DataFrame, within: list[str]) -> tuple[Invariant, np.ndarray]:
    """The totals of the groups, and the group of each row (n,)."""
    if not within:
        return linear(np.zeros((1, len(frame)))), np.zeros(len(frame), dtype=int)
    labels = pd.MultiIndex.from_frame(pd.DataFrame({c: _column(frame, c) for c in within}))
    groups, names = pd.factorize(labels)
    called = [" / ".join(map(str, name)) for name in names]
    return totals([called[group] for group in groups]), groups


def _totals(frame: pd.DataFrame, groups: np.ndarray, invariant: Invariant, name: str) -> np.ndarray:
    """The exact total of each row of the invariant (k,), the same in all rows of a group."""
    values = _numbers(frame, name)
    for group in np.unique(groups):
        if np.ptp(values[groups == group]) != 0:
            row = int(np.flatnonzero(groups == group)[0]) + 1
            raise ValueError(
                f'Column "{name}" contradicts itself within the group of row {row}. Each row of a '
                "group must repeat the group's exact total."
            )
    rows = abs(invariant.matrix) > 0
    return np.asarray(rows @ values) / np.asarray(rows.sum(axis=1)).ravel()


def _coords(frame: pd.DataFrame, names: list[str], within: list[str]) -> dict[str, Any]:
    chosen = names or within
    rows = [" / ".join(map(str, row)) for row in zip(*(_column(frame, c) for c in chosen))]  # noqa: B905
    cell = rows if names and len(set(rows)) == len(rows) else [str(i) for i in range(len(frame))]
    others = dict.fromkeys([*names, *within])
    return {"cell": cell} | {c: (("cell",), _column(frame, c).astype(str).tolist()) for c in others}
