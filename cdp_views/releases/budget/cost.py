"""What one release costs, as a ledger writes it down, and what it changes for those before it."""

import dataclasses
import json
from dataclasses import dataclass
from functools import reduce
from hashlib import sha256
from pathlib import Path
from typing import Any, final

import numpy as np
from scipy import sparse

from cdp_views import _checks
from cdp_views._float64 import in_float64
from cdp_views.invariants import Invariant
from cdp_views.neighbours import Differences, Neighbours, Relocations, relocations
from cdp_views.privacy import privacy_loss
from cdp_views.releases import geometry, wording
from cdp_views.releases.budget.accounts import Price
from cdp_views.releases.mechanism import law

_SHOWN = 20
_PARTS = "parts"


@final
@dataclass(frozen=True, eq=False)
class Cost:
    """The price of a release, the unit of privacy it is for, and its design; nothing confidential.

    Args:
        price: (ε, δ), and μ of Normal noise.
        neighbours: the unit of privacy.
        invariant: what it publishes exactly.
        columns: what tells the table: SHA-256 of each label column.
        view: of the noise.
        noise: its family.
        scale: () or (n,), counts.
        accept_exact: whether cells may become known exactly from all totals together.
        parts: of a partitioned table, whose geometry is not listed cell by cell: its `cells`,
            `totals` and `sha256`; `invariant` is then a sample of its groups.
    """

    price: Price
    neighbours: Neighbours
    invariant: Invariant
    columns: dict[str, str]
    view: str
    noise: str
    scale: np.ndarray
    accept_exact: bool = False
    parts: dict[str, Any] | None = None

    @classmethod
    def of(
        cls,
        view: str,
        noise: str,
        scale: np.ndarray,
        invariant: Invariant,
        neighbours: Neighbours,
        *,
        epsilon: float,
        delta: float,
        columns: dict[str, str],
        accept_exact: bool = False,
    ) -> "Cost":
        """The cost of a release of this design, by the privacy evaluator."""
        mu = _mu(view, scale, invariant, neighbours) if noise == "normal" else None
        price = Price(epsilon, delta, mu)
        return cls(price, neighbours, invariant, columns, view, noise, scale, accept_exact)

    @property
    def cells(self) -> int:
        """Their number."""
        return self.invariant.n if self.parts is None else int(self.parts["cells"])

    @property
    def totals(self) -> int:
        """How many independent totals are published."""
        return self.invariant.rank if self.parts is None else int(self.parts["totals"])

    @property
    def unit(self) -> str:
        """The unit of privacy in words."""
        return self.neighbours.describe()

    @property
    def unit_key(self) -> str:
        """What tells this unit from others."""
        return unit_key(self.neighbours)

    @property
    def design(self) -> dict[str, Any]:
        """View, noise, scale and what is exact, in JSON types; no total's value."""
        return {
            "view": self.view,
            "noise": self.noise,
            "scale": self.scale.tolist(),
            "invariant": structure(self.invariant)
            if self.parts is None
            else {"kind": _PARTS} | self.parts,
        }


@in_float64
def _mu(view: str, scale: np.ndarray, invariant: Invariant, neighbours: Neighbours) -> float:
    made = law(view, "normal", np.zeros(invariant.n), scale, invariant)
    return privacy_loss(made, neighbours).mu


def structure(invariant: Invariant) -> dict[str, Any]:
    """What must hold, without names and without the totals."""
    told = geometry.to_json(invariant, np.zeros(len(invariant.matrix.indptr) - 1))
    return {key: value for key, value in told.items() if key != "values"} | {"names": None}


def unit_key(neighbours: Neighbours) -> str:
    """SHA-256 of what the unit says; of relocations, whatever totals they keep."""
    if isinstance(neighbours, Relocations | Differences):
        told: Any = wording.stated(neighbours)
    else:
        told = [type(neighbours).__name__, neighbours.describe(), *_fields(neighbours)]
    return sha256(json.dumps(told).encode()).hexdigest()


def _fields(value: Any) -> list[str]:
    """The content of a frozen dataclass; what is not known is different from all else."""
    found = []
    for field in dataclasses.fields(value):
        own = getattr(value, field.name)
        if sparse.issparse(own):
            own = np.asarray(own.todense())
        if isinstance(own, np.ndarray):
            own = (own.shape, str(own.dtype), sha256(np.ascontiguousarray(own).tobytes()).digest())
        found.append(f"{field.name}={own!r}")
    return found


def together(before: list[dict[str, Any]], cost: Cost, ledger: Path) -> int:
    """How many totals this release publishes that none `before` did.

    The guarantee of all releases is relative to all their totals: fewer records can then move
    unseen, and with none left there is no guarantee at all.

    Args:
        before: designs of the earlier releases.
        cost: of this one.
        ledger: named in refusals.

    Raises:
        ValueError: no record could move without changing a total of some release, or all totals
            together determine cells that none of them does alone.
        UnsupportedError: a unit that is not known relative to further totals.
    """
    new = cost.design["invariant"]
    known: list[dict[str, Any]] = []
    for design in before:
        if design["invariant"] not in known:
            known.append(design["invariant"])
    if not known:
        return cost.totals
    if known == [new]:
        return 0
    if any(design["kind"] == _PARTS for design in (*known, new)):
        raise _checks.UnsupportedError(
            f"`{ledger}` holds releases with other exact totals, or other structural zeros, than "
            "those of this one, and of a partitioned table it is not known what they give away "
            "together. Keep the same totals, columns and zeros for every release of it."
        )
    if not isinstance(cost.neighbours, Relocations | Differences):
        raise _checks.UnsupportedError(
            f"`{ledger}` holds releases with other exact totals, or other structural zeros, "
            f'relative to which "{cost.unit}" is not known. Keep the same totals and zeros, or '
            "state cdp.differences(V)."
        )
    joint = reduce(lambda a, b: a & b, map(geometry.from_json, known))
    if new in known:
        return 0
    every = joint & geometry.from_json(new)
    if isinstance(cost.neighbours, Relocations):
        try:
            relocations(every, records=cost.neighbours.records)
        except ValueError:
            raise ValueError(
                f"`{ledger}` holds releases whose exact totals, with those of this one, let no "
                "record move unseen: together they would protect nothing. Use totals of the "
                "groups that are published already, or coarser ones."
            ) from None
    _refuse_differenced(every, (joint, cost.invariant), cost.accept_exact, ledger)
    return every.rank - joint.rank


def _refuse_differenced(
    every: Invariant, apart: tuple[Invariant, ...], accept_exact: bool, ledger: Path
) -> None:
    """Totals of two releases subtract: a cell may follow that neither of them gives away."""
    known = np.asarray(every.determined, dtype=bool).copy()
    for invariant in apart:
        known &= ~np.asarray(invariant.determined, dtype=bool)
    fixed = np.flatnonzero(known)
    if fixed.size and not accept_exact:
        shown = ", ".join(f"cell {i}" for i in fixed[:_SHOWN])
        more = f" and {fixed.size - _SHOWN} more" if fixed.size > _SHOWN else ""
        raise ValueError(
            f"The totals of this release and of those in `{ledger}` together determine "
            f"{fixed.size} cells, which would be published exactly: {shown}{more}. Use the groups "
            "that are published already, or accept it (accept_exact=True, --accept-exact)."
        )
