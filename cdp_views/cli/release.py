"""`cdp-views release`: read, release, write, and say what was promised."""

import textwrap
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

import numpy as np

from cdp_views.cli.doubts import doubts, like_shares, rows_of_totals
from cdp_views.cli.several import per_column, stacked, structural, unit_of_privacy
from cdp_views.cli.tables import (
    column,
    errors_in_words,
    labels,
    published,
    read_table,
)

if TYPE_CHECKING:
    import pandas as pd

    from cdp_views.releases import Release

_SHOWN, _WIDTH = 20, 100


@final
@dataclass(frozen=True)
class Request:
    """What the command line asked for."""

    table: Path
    counts: tuple[str, ...]
    within: tuple[str, ...]
    weights: str | None
    view: str
    noise: str | None
    epsilon: float
    delta: float | None
    records: int
    contribution: str | None
    per_column: bool
    scales: str | None
    names: tuple[str, ...]
    zeros: str | None
    whole: bool
    publishable: bool
    about: bool
    accept_exact: bool
    bits: str
    ledger: Path | None
    out: Path
    workers: int = 1
    counted: str | None = None
    corrected: bool = False


def run(request: Request) -> None:
    """Do it; every refusal is raised before anything is printed or written."""
    if request.table.is_dir():
        from cdp_views.cli.release_parts import run_parts

        run_parts(request)
        return
    if request.workers != 1:
        raise ValueError("--workers is for a folder of Parquet parts. Leave it out.")
    table = read_table(request.table)
    groups = labels(table, request.within, "--within")
    cells = stacked(table, request.counts, groups, _labels(table, request))
    counts = cells.counts
    _require_told_apart(cells.labels, named=bool(request.names))
    pattern = weights = None
    for count in request.counts:  # neither may be one of them
        pattern = cells.spread(published(table, request.scales, "--scales", count))
        weights = cells.spread(published(table, request.weights, "--weights", count, signed=True))
    zeros = cells.spread(structural(table, request.zeros))
    _require_empty(counts, zeros, request)
    shares = like_shares(counts, cells.groups)
    if shares is not None and np.any(counts != np.rint(counts)):
        raise ValueError(
            f"--count {request.counts[0]}: are these percentages or rates? {shares}. The guarantee "
            "is for counts, which one record changes by 1. Release the counts behind them, and "
            "take shares of what is released."
        )
    check_numbers(request)
    noise = request.noise or ("discrete-normal" if request.delta else "discrete-laplace")
    if request.noise is None and np.any(counts != np.rint(counts)):
        raise ValueError(
            "--noise is missing: the counts are not whole. Are they percentages, rates or means? "
            "Then release the counts behind them. If one record changes a cell by 1 at most, "
            "choose normal or laplace."
        )

    # The heavy imports come after all that a look at the table can refuse.
    import pandas as pd
    from rich.console import Console

    from cdp_views.cli.progress import progress

    with progress(Console(stderr=True)) as report:
        report(0, 1, "loading NumPyro")
        from cdp_views.invariants import totals
        from cdp_views.releases import Ledger, release, structural_zeros
        from cdp_views.releases.files import check_target
        from cdp_views.releases.mechanism import NOISES, check_mechanism

        spoken: list[str] = []
        named = list(cells.labels.values())
        doubtful = doubts(counts, cells.groups, named, cells.columns)

        def announce(sentence: str) -> None:
            check_target(request.out)  # another process may have made it: nothing is spent then
            for doubt in doubtful:  # before anything is spent
                say(f"Warning: {doubt}", "! ")
            spoken.append(sentence)
            say(sentence)

        ledger = (
            None
            if request.ledger is None
            else Ledger(request.ledger, announce=announce, output=request.out)
        )
        check_target(request.out, reservations=() if ledger is None else ledger.unfinished)
        check_mechanism(request.view, noise)
        pure, delta = NOISES[noise].pure, request.delta
        if delta is None and not pure:
            raise ValueError(f"--delta is missing: {noise} noise needs one above 0.")
        delta = 0.0 if delta is None else delta
        invariant = totals(cells.groups, weights)
        known = np.asarray(invariant.determined, dtype=bool)
        if zeros is not None:
            invariant = structural_zeros(invariant, zeros)
            known = np.asarray(invariant.determined, dtype=bool) & ~zeros
        exact = [name for name, fixed in zip(cells.names, known, strict=True) if fixed]
        if exact and not request.accept_exact:
            sums = rows_of_totals(counts, cells.groups, named, cells.columns)
            sums = [cells.names[i] for i in sums if known[i]]
            leave = f"Is {sums[0]} a row of totals? Then leave it out. " if sums else ""
            raise ValueError(
                f"the totals alone determine {len(exact)} of {len(counts)} cells, which would be "
                f"published exactly: {_listed(exact)}. {leave}Choose coarser groups with --within, "
                "or add --accept-exact."
            )
        report(0, 1, "calibrating and drawing the noise")
        with (
            warnings.catch_warnings(record=True) as caught,
            errors_in_words(lambda: cells.names),
        ):
            warnings.simplefilter("always", UserWarning)
            unit = unit_of_privacy(
                invariant, cells, request.contribution, request.counts, request.records
            )
            epsilon = request.epsilon
            if request.per_column and cells.columns > 1:
                pattern, epsilon = per_column(
                    request.view,
                    noise,
                    invariant,
                    cells,
                    pattern,
                    unit,
                    epsilon=epsilon,
                    delta=delta,
                    records=request.records,
                )
            made = release(
                pd.Series(counts, name=" and ".join(request.counts)),
                invariant,
                view=request.view,  # pyright: ignore[reportArgumentType]
                noise=noise,  # pyright: ignore[reportArgumentType]
                epsilon=epsilon,
                delta=delta,
                neighbours=unit,
                scales=pattern,
                names=cells.labels,
                zeros=zeros,
                accept_exact=request.accept_exact,
                output="whole" if request.whole else "drawn",
                publishable=request.publishable,
                ledger=ledger,
                corrected=request.corrected,
                counted=request.counted or " and ".join(request.counts),
                bits=request.bits,  # pyright: ignore[reportArgumentType]
            )
        if ledger is not None and not spoken:
            say("Resumes a release that was cut short: the same noise, and no further cost.")
        report(0, 1, "writing files")
        fresh = not request.out.parent.exists()
        made.save(request.out, about=request.about)
    heard = [str(w.message) for w in caught if w.category is UserWarning]
    unsaid = [doubt for doubt in doubtful if not spoken and doubt not in heard]
    _show(made, request, exact, [w for w in heard if not (spoken and w in doubtful)] + unsaid)
    if fresh:
        print("in a new folder,", request.out.parent)


def _labels(table: "pd.DataFrame", request: Request) -> dict[str, list[str]]:
    """The columns to publish beside the release: those of the groups and names, no others."""
    chosen = {}
    for option, names in (("--within", request.within), ("--names", request.names)):
        for name in names:
            if name in request.counts:
                raise ValueError(f'{option} "{name}" is the count column, which must stay secret.')
            if name == "released":
                raise ValueError(f'{option} "released" is what the release is called. Rename it.')
            values = column(table, name, option)
            if option == "--names" and values.isna().any():
                raise ValueError(
                    f'--names "{name}" has {int(values.isna().sum())} of {len(values)} entries '
                    "that are missing. Fill them in."
                )
            chosen[name] = [str(value) for value in values]
    return chosen


def _require_told_apart(labels: dict[str, list[str]], *, named: bool) -> None:
    """Refuse two cells of one name: a row that is there twice, or a total that was left in."""
    cells = list(zip(*labels.values(), strict=True))
    again = len(cells) - len(set(cells))
    if again and not named:
        raise ValueError(
            f"--names is missing: {again} of {len(cells)} cells have the labels of another one, so "
            "that nobody could tell which is which. Name a column that tells them apart: "
            "--names COL."
        )
    first: dict[tuple[str, ...], int] = {}
    for row, called in enumerate(cells):
        if first.setdefault(called, row) != row:
            raise ValueError(
                f'--names call two cells "{" / ".join(called)}". Is a row there twice? If not, add '
                "a column that tells them apart."
            )


def _require_empty(counts: np.ndarray, zeros: np.ndarray | None, request: Request) -> None:
    """Refuse a row that is 0 whatever the data, and is not."""
    wrong = [] if zeros is None else np.flatnonzero(zeros & (counts != 0))
    if len(wrong):
        row, at = divmod(int(wrong[0]), len(request.counts))
        raise ValueError(
            f'--zeros "{request.zeros}" says of {len(wrong)} cells that they are 0 whatever the '
            f'data, and they are not, first "{request.counts[at]}" in data row {row + 1}. Correct '
            "one of the two."
        )


def check_numbers(request: Request) -> None:
    """Refuse here, in the words of the command line, what the library would refuse later."""
    if not (np.isfinite(request.epsilon) and request.epsilon > 0):
        raise ValueError(f"--epsilon must be a finite number above 0; got {request.epsilon}.")
    if request.delta is not None and not 0 < request.delta < 1:
        raise ValueError(
            f"--delta must be above 0 and below 1; got {request.delta}. For a pure guarantee leave "
            "it out (Laplace or discrete-laplace noise)."
        )
    if request.records < 1:
        raise ValueError(f"--records must be at least 1; got {request.records}.")


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _show(made: "Release", request: Request, exact: list[str], heard: list[str]) -> None:
    from cdp_views.releases.files import about_path, metadata_path, print_path

    told = made.metadata
    scale = made.scale
    noisy = f"{scale:,.4g}" if scale.ndim == 0 else f"{scale.min():,.4g} to {scale.max():,.4g}"
    within, counts = " and ".join(request.within), " and ".join(request.counts)
    say(
        f"Released {told['cells']:,} cells of {request.table}: count {counts}, "
        f"{made.totals_exact:,} totals exact within {within}. {request.view} view of "
        f"{told['noise']} noise, base scale {noisy} counts."
    )
    say(told["guarantee"], "• ")
    if exact:
        say(f"Published exactly, not protected: {_listed(exact)}.", "• ")
    for warning in heard:
        say(f"Warning: {warning}", "! ")
    say(told["caveat"], "! ")
    if made.publishable is not None:
        say(told["publishable"]["note"], "! ")
    print("wrote", request.out)
    print("wrote", metadata_path(request.out))
    if made.publishable is not None:
        print("wrote", print_path(request.out))
    if request.about:
        print("wrote", about_path(request.out))


def say(sentence: str, bullet: str = "") -> None:
    """Print it, wrapped."""
    wrapped = textwrap.fill(
        sentence,
        _WIDTH,
        initial_indent=bullet,
        subsequent_indent=" " * len(bullet),
        break_long_words=False,
        break_on_hyphens=False,
    )
    print(wrapped)
