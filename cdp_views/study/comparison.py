"""What a comparison found."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, final

import pandas as pd
import xarray as xr

from cdp_views.study.budgets import other_budgets

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cdp_views.privacy import PrivacyLoss


# What `print` shows: nothing that depends on the true counts.
_PRINTED = (
    "scales",
    "noise",
    "view",
    "guarantee",
    "kind",
    "guess_rate",
    "scale",
    "mean_sd",
    "margin90_typical",
    "margin90_worst",
    "total_absolute_error",
    "entropy",
)


@final
@dataclass(frozen=True)
class Comparison:
    """Mechanisms side by side, each with its own notion of privacy.

    Nothing here holds counts plus noise. What depends on the true counts is marked: columns of
    `table` begin with "CONFIDENTIAL_", variables of `dataset` have the attribute `confidential`.

    Attributes:
        table: one row a mechanism: what it gives away, what it is good for.
        dataset: standard deviation and margin of error of every cell, and draws of the noise
            where a key was given.
        verdict: sentences that compare only what is equal in the notion they name.
        determined: names of cells that the invariants alone fix: published exactly.
        notes: what a reader must know before using the figures.
        public: the counts are public, so that nothing is marked.
        losses: (noise, view) ↦ what one table of equal scales gives away.

    Example:
        >>> import cdp_views as cdp
        >>> found = cdp.compare([3, 5, 8], cdp.totals(["a"] * 3), epsilon=1, delta=1e-6)
        >>> len(found.table), len(found.determined), found.dataset.sizes["cell"]
        (4, 0, 3)

    Reference: `cdp.compare`, which makes it.
    """

    table: pd.DataFrame
    dataset: xr.Dataset
    verdict: tuple[str, ...]
    determined: tuple[str, ...]
    notes: tuple[str, ...]
    public: bool
    losses: "Mapping[str | tuple[str, str], PrivacyLoss]" = field(default_factory=dict, repr=False)

    def plot(self) -> "Figure":
        """The comparison as one figure (extra `plot`)."""
        from cdp_views.report import comparison_figure

        return comparison_figure(self.table, self.dataset)

    def plot_cells(self) -> "Figure":
        """The error of each cell under each mechanism, of 60 cells at most (extra `plot`)."""
        from cdp_views.report import query_figure

        return query_figure(self.dataset)

    def plot_profiles(self) -> "Figure":
        """Privacy profiles and trade-off curves of one table of equal scales (extra `plot`)."""
        from cdp_views.report import profile_figure

        return profile_figure(self._curves)

    @cached_property
    def _curves(self) -> xr.Dataset:
        """Drawn twice, in a figure and in a page: estimated curves take seconds."""
        from cdp_views.report import profile_curves

        return profile_curves(self.losses)

    def page(self, *, command: str | None = None) -> str:
        """The comparison as one HTML page that opens offline, with controls; below 3 MB.

        Args:
            command: what was typed to make it, shown to whoever wants to rerun it.
        """
        from cdp_views.report import comparison_page

        sentences = {"verdict": self.verdict, "determined": self.determined, "notes": self.notes}
        return comparison_page(
            self.table,
            self.dataset,
            sentences=sentences,
            public=self.public,
            budgets=other_budgets(self.table),
            curves=self._curves if self.losses else None,
            command=command,
        )

    def to_html(self, path: str | PathLike[str], *, command: str | None = None) -> None:
        """The page of `page` as a file, put in place only when it is complete.

        Args:
            path: the file; its folder is made where it is missing.
            command: as in `page`.

        Raises:
            OSError: it cannot be written; then nothing is left behind.
        """
        from cdp_views.report import write_text

        write_text(self.page(command=command), path)

    def to_csv(self, path: str | PathLike[str]) -> None:
        """The table as a CSV file, put in place only when it is complete."""
        from cdp_views.report import write_csv

        write_csv(self.table, path)

    def __str__(self) -> str:
        lines = [self.table.to_string(index=False, columns=list(_PRINTED)), "", *self.verdict]
        if self.determined:
            lines.append(
                "Published exactly, not protected (the totals alone determine them): "
                + ", ".join(self.determined)
            )
        return "\n".join([*lines, *self.notes])
