"""A released table with the law that it came from."""

from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, final

import numpy as np
import numpyro.distributions as dist
import pandas as pd
from jax import Array

from cdp_views.invariants import Invariant
from cdp_views.releases import checks
from cdp_views.releases.budget.reservation import Reservation
from cdp_views.releases.checks import Check
from cdp_views.releases.digest import RELEASED
from cdp_views.releases.labels import coords_of
from cdp_views.releases.mechanism import Mechanism
from cdp_views.releases.observed import Observed
from cdp_views.releases.zeros import as_mask, rows_of_zeros
from cdp_views.support import AffineSubspace


@final
@dataclass(frozen=True, eq=False, repr=False)
class Release:
    """A private table whose totals are exact, and all that a reader needs to analyse it.

    y = q + X with A y = A q: `view(q)` is the law of y given true counts q. Nothing here holds a
    confidential number, the noise or the secret that it was drawn from.

    Args:
        table: one row a cell: label columns as text, and `released`, counts.
        metadata: what was done and what it guarantees; JSON types only.
        invariant: what holds exactly.
        reservation: its line in a ledger, where there is one: `save` completes it.
        publishable: a second table for print, where one was asked for: whole and nonnegative.

    Raises:
        ValueError: from `verify()`, where a total, a cell or the metadata were changed.

    Example:
        >>> import cdp_views as cdp
        >>> inv = cdp.totals(["a", "a", "b", "b"])
        >>> made = cdp.release([3, 5, 8, 1], inv, view="imaged", noise="normal", epsilon=1,
        ...                    delta=1e-6, neighbours=cdp.relocations(inv))
        >>> made.invariants.to_dict(), float(made.released[:2].sum())
        ({'a': 8.0, 'b': 9.0}, 8.0)
    """

    table: pd.DataFrame
    metadata: dict[str, Any]
    invariant: Invariant
    reservation: Reservation | None = None
    publishable: pd.DataFrame | None = None

    @property
    def released(self) -> np.ndarray:
        """The released counts y (n,), float64."""
        return self.table[RELEASED].to_numpy(dtype=np.float64)

    @property
    def scale(self) -> np.ndarray:
        """The base noise's scale, () or (n,), counts."""
        return np.asarray(self.metadata["scale"], dtype=np.float64)

    @property
    def invariants(self) -> pd.Series:
        """The exact totals, by name."""
        stored = self.metadata["invariants"]
        names = stored["names"] or [f"total {i}" for i in range(len(stored["values"]))]
        return pd.Series(stored["values"], index=names, name="total", dtype=np.float64)

    @property
    def support(self) -> AffineSubspace:
        """{x : A x = A y} with y as its origin, so that its coordinates are noise, not counts."""
        return AffineSubspace(self.invariant, origin=self.released)

    @property
    def mechanism(self) -> Mechanism:
        """The law that this table was made by."""
        m = self.metadata
        return Mechanism(m["view"], m["noise"], self.scale, self.invariant)

    @property
    def observed(self) -> Observed:
        """What a model conditions on: the released table, its mechanism and the exact totals."""
        return replace(self._bare, coords=self.coords)

    @property
    def _bare(self) -> Observed:
        """The same without names of cells, which a model does not need at every step."""
        zeros = self._zeros if self._zeros.any() else None
        return Observed(self.mechanism, self.released, self.invariants.to_numpy(), zeros=zeros)

    @property
    def _zeros(self) -> np.ndarray:
        """Which cells (n,) can only be 0."""
        return as_mask(self.metadata.get("structural_zeros"), self.metadata["cells"])

    @property
    def totals_exact(self) -> int:
        """How many exact totals it has, those left out that say of a zero that it is 0."""
        return int(np.sum(~rows_of_zeros(self.invariant, self._zeros)))

    @property
    def coords(self) -> dict[str, Any]:
        """Coordinates for labelled arrays: `cell`, and every label column along it.

        A cell is called by the first column that tells all cells apart, or by all of them, and
        by its row where they do not.
        """
        return coords_of(self.table.drop(columns=RELEASED).astype(str))

    def view(self, q: Any) -> dist.Distribution:
        """The law of this release given true counts.

        Args:
            q: (n,) or batched (…, n), traced or not; A q must equal the published totals. Whole
                noise has probabilities at whole counts only: `mechanism.density(q)` between them.
        """
        return self.mechanism.law(q)

    def latent(self, name: str, prior: Any, *, scale: Any = None) -> Array:
        """Inside a NumPyro model: the true table behind this release, a site `name` (n,).

            mu = numpyro.sample("mu", dist.Normal(0, 1000))
            q = made.latent("q", dist.Normal(mu, 50))

        The totals are data about the prior's parameters. (`cdp.Conditioned` as the prior would
        throw away what they say.) See `cdp.Observed.latent`, which this is.
        """
        return self._bare.latent(name, prior, scale=scale)

    def observe(self, name: str, q: Any, *, scale: Any = None) -> Array:
        """Inside a NumPyro model: a site `name` that says this release was made from q too.

        For a second release of the same table, whose `latent` is another's; q must have the exact
        totals. See `cdp.Observed.observe`, which this is. Where counts are so large that float32
        rounds the noise away, this warns: enable 64-bit JAX first.
        """
        return self._bare.observe(name, q, scale=scale)

    def margin(self, workload: Any = None, *, level: float = 0.90) -> pd.DataFrame:
        """The margin of error of any sums: P(|W y − W q| ≤ margin) = level, for each row of W.

        From the joint law of the noise: cells under an exact total are correlated, so the root of
        the sum of squares is wrong, most of all for a sum that is nearly the total. Before rounding
        where output="whole" was asked for, which adds less than 1 to a cell.

        Args:
            workload: sums of cells: (q, n) dense or sparse, an invariant (its totals), or a mapping
                from a name to the cells that it adds up, called as in `coords["cell"]`; None for
                the n cells themselves.
            level: probability, between 0 and 1.

        Returns:
            One row a sum: `margin` in counts, its `kind` ("exact", or an "estimate" from draws that
            are the same at every call) and `stderr` (0 of an estimate: of whole noise, where one
            sd of the draws leaves one whole number).

        Raises:
            ValueError: a workload that does not fit, a cell that is not there, another level.

        Example:
            >>> import cdp_views as cdp
            >>> inv = cdp.totals(["a", "a", "a"])
            >>> made = cdp.release([3, 5, 8], inv, view="conditioned", noise="normal", epsilon=1,
            ...                    delta=1e-6, neighbours=cdp.relocations(inv))
            >>> one, all_ = made.margin({"one": ["0"], "all": ["0", "1", "2"]})["margin"]
            >>> bool(one > 0), float(all_)
            (True, 0.0)
        """
        from cdp_views.releases.margin import margins

        return margins(
            self.mechanism.law(np.zeros(self.invariant.n)), workload, self.coords["cell"], level
        )

    def checks(self, counts: Any = None) -> tuple[Check, ...]:
        """Every check of `verify`, passed or not."""
        return checks.run(self.table, self.metadata, self.invariant, counts, self.publishable)

    def verify(self, counts: Any = None) -> None:
        """Check metadata, shape, every exact total, that the table is as released, and its print.

        Totals must hold with equality where the metadata has a `step`; else to rounding,
        8 eps Σ|a||y|.

        Args:
            counts: for the curator: true counts (n,), whose totals must still be those published.
                Of several columns: the table with these columns, or (rows, columns), or its numbers
                row after row, as `table.to_numpy().ravel()` has them.

        Raises:
            ValueError: one line that names what fails, such as the total that differs. It shows no
                number that is not in the released files.
        """
        failed = [check.text for check in self.checks(counts) if not check.ok]
        if failed:
            raise ValueError(f"The release does not verify: {'; '.join(failed)}.")

    def save(self, path: str | PathLike[str], *, about: bool = True) -> None:
        """Write the table to `path` (.csv or .parquet), the metadata to `path`.json, or nothing.

        Beside them go a page, `path`.about.html, by which anybody checks every total and reads the
        margin of any sum without installing anything, and FILE.print.csv, the table for print where
        one was asked for. With a ledger the release is then complete, and its secret destroyed.
        Where a kill came between the files, saving the same release again to the same place
        finishes it.

        Args:
            path: of the table.
            about: write the page; it holds nothing that the other files do not.

        Raises:
            ValueError: another suffix, or labels that the file would change.
            FileExistsError: one of the files is there: a release is never overwritten.
        """
        from cdp_views.releases.files import save

        save(self, path, about=about)

    def __repr__(self) -> str:
        m, zeros = self.metadata, int(self._zeros.sum())
        but = f", {zeros} that can only be 0" if zeros else ""
        return (
            f"Release({m['cells']} cells{but}, {self.totals_exact} exact totals, "
            f"{m['view']} view of {m['noise']} noise, epsilon={m['epsilon']}, delta={m['delta']})"
        )
