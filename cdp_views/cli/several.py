"""Several columns of counts as one table: places × columns, each column with totals of its own."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cdp_views.cli.tables import column, numbers

if TYPE_CHECKING:
    import pandas as pd

DISJOINT = "disjoint"


class Cells(NamedTuple):
    """One entry for each cell, in C order over places and columns."""

    counts: np.ndarray
    groups: list[str]
    labels: dict[str, list[str]]
    columns: int

    def spread(self, values: np.ndarray | None) -> np.ndarray | None:
        """What is known of places, for each of their cells."""
        return None if values is None else np.repeat(values, self.columns)

    @property
    def names(self) -> list[str]:
        """Words that find each cell in the table."""
        rows = zip(*self.labels.values(), strict=True)
        return [f"row {i // self.columns + 1} ({', '.join(row)})" for i, row in enumerate(rows)]


def stacked(
    table: "pd.DataFrame",
    counts: Sequence[str],
    groups: list[str],
    labels: dict[str, list[str]],
) -> Cells:
    """The cells of a table with one or several columns of counts."""
    if len(set(counts)) < len(counts):
        raise ValueError(f"--count names a column twice: {', '.join(counts)}. Name each once.")
    values = np.stack([numbers(table, name, "--count") for name in counts], axis=1)
    if len(counts) == 1:
        return Cells(values[:, 0], groups, labels, 1)
    if "column" in labels:
        raise ValueError('"column" is what the release calls its columns of counts. Rename it.')
    many = {name: [value for value in own for _ in counts] for name, own in labels.items()}
    many["column"] = list(counts) * len(table)
    within = [f"{group}, {name}" for group in groups for name in counts]
    return Cells(values.ravel(), within, many, len(counts))


def unit_of_privacy(
    invariant: Any, cells: Cells, contribution: str | None, counts: Sequence[str], records: int
) -> Any:
    """The unit: a record that moves, or a person who is counted in several columns and moves."""
    from cdp_views.neighbours import relocations

    if cells.columns == 1:
        if contribution is not None:
            raise ValueError("--contribution is for several columns. Leave it out.")
        return relocations(invariant, records=records)
    if contribution is None:
        raise ValueError(
            f"--contribution is missing: say how one person is counted in {', '.join(counts)}. "
            f'"{DISJOINT}" if in one of them only; else a number for each column, such as 1,1,0, '
            "and a semicolon between kinds of people."
        )
    if contribution == DISJOINT:
        return relocations(invariant, records=records)
    return relocations(
        invariant, records=records, contribution=matrix_of(contribution, cells.columns)
    )


def matrix_of(text: str, columns: int) -> np.ndarray:
    """(kinds, columns) from 1,1,0;1,0,1."""
    try:
        rows = [[float(number) for number in kind.split(",")] for kind in text.split(";")]
    except ValueError:
        rows = []
    if not rows or any(len(row) != columns for row in rows):
        raise ValueError(
            f"--contribution must be {DISJOINT}, or {columns} numbers for each kind of person, one "
            f"for each --count; got {text!r}."
        )
    return np.array(rows)


def structural(table: "pd.DataFrame", name: str | None) -> np.ndarray | None:
    """The places that are 0 whatever the data: a public column of 0 and 1."""
    if name is None:
        return None
    column(table, name, "--zeros")
    given = numbers(table, name, "--zeros")
    if not np.all((given == 0) | (given == 1)):
        raise ValueError(
            f'--zeros "{name}" must hold 1 for a structural zero and 0 for all others; first else '
            f"in data row {int(np.argmin((given == 0) | (given == 1))) + 1}."
        )
    return given == 1


def per_column(
    view: str,
    noise: str,
    invariant: Any,
    cells: Cells,
    pattern: np.ndarray | None,
    unit: Any,
    *,
    epsilon: float,
    delta: float,
    records: int,
) -> tuple[np.ndarray, float]:
    """Scales at which each column alone keeps (ε, δ), and the ε of all columns together."""
    import jax

    from cdp_views.calibration import calibrate
    from cdp_views.invariants import totals
    from cdp_views.neighbours import relocations
    from cdp_views.privacy import privacy_loss
    from cdp_views.releases.mechanism import NOISES, law

    scale = np.ones(invariant.n) if pattern is None else np.array(pattern)
    with jax.enable_x64(True):
        for c in range(cells.columns):
            part = slice(c, None, cells.columns)
            own, shape = totals(cells.groups[part]), scale[part].copy()
            scale[part] = shape * calibrate(
                lambda s, own=own, shape=shape: law(view, noise, np.zeros(own.n), s * shape, own),
                relocations(own, records=records),
                epsilon=epsilon,
                delta=delta,
            )
        loss = privacy_loss(law(view, noise, np.zeros(invariant.n), scale, invariant), unit)
    whole = loss.pure_epsilon if NOISES[noise].pure else loss.epsilon(delta)
    return scale, float(whole) * (1 + 1e-9)
