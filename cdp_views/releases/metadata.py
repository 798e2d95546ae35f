"""The metadata of a release: one JSON object with a version, from which everything is rebuilt."""

import json
from hashlib import sha256
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd

from cdp_views.invariants import Invariant
from cdp_views.neighbours import Neighbours
from cdp_views.releases import geometry, wording
from cdp_views.releases.budget.reservation import Reservation
from cdp_views.releases.digest import digest
from cdp_views.releases.mechanism import NOISES, VIEWS

SCHEMA, VERSION = "cdp_views.release", 1
LIBRARY = f"cdp_views {import_module('cdp_views').__version__}"

_KEYS = (
    "schema", "version", "library", "view", "noise", "scale", "epsilon", "delta", "neighbours",
    "guarantee", "caveat", "cells", "invariants", "determined_cells", "step", "digest",
)  # fmt: skip


def describe(
    *,
    view: str,
    noise: str,
    scale: np.ndarray,
    epsilon: float,
    delta: float,
    neighbours: Neighbours,
    invariant: Invariant,
    totals: np.ndarray,
    step: float | None,
    table: pd.DataFrame,
    generator: str,
    reservation: Reservation | None,
    rounded: bool,
    printed: pd.DataFrame | None,
    zeros: np.ndarray,
    counted: str | None = None,
) -> dict[str, Any]:
    """All that may be said about a release; `totals` (k,) are those published exactly."""
    promise = wording.guarantee(
        invariant, neighbours, epsilon=epsilon, delta=delta, zeros=zeros.size
    )
    if reservation is not None:
        promise += wording.with_others(reservation)
    stated = {
        "schema": SCHEMA,
        "version": VERSION,
        "library": LIBRARY,
        "view": view,
        "noise": noise,
        "scale": scale.tolist(),
        "epsilon": epsilon,
        "delta": delta,
        "neighbours": wording.stated(neighbours),
        "guarantee": promise,
        "caveat": wording.caveat(
            step, whole=NOISES[noise].whole, generator=generator, rounded=rounded
        ),
        "cells": invariant.n,
        "invariants": geometry.to_json(invariant, totals),
        "determined_cells": np.flatnonzero(invariant.determined).tolist(),
        "step": step,
        "generator": generator,
    }
    if rounded:
        how = "along cycles of cells" if invariant.plain_groups is None else "systematic sampling"
        stated["rounding"] = f"{how}, to whole numbers"
    if counted is not None:
        stated["counted"] = counted
    if zeros.size:
        stated["structural_zeros"] = zeros.tolist()
    if printed is not None:
        stated["publishable"] = {"sha256": digest(printed), "note": wording.FOR_PRINT}
    if reservation is not None:
        stated["ledger"] = {
            "release": reservation.number,
            "reservation": reservation.name,
            "added_totals": reservation.added_totals,
            "epsilon_together": reservation.spent.epsilon,
            "delta_together": reservation.spent.delta,
        } | reservation.correction
    return stated | {"digest": {"sha256": digest(table), "metadata": digest_of_metadata(stated)}}


def digest_of_metadata(metadata: dict[str, Any]) -> str:
    """SHA-256 of all that the metadata say, their own digest left out."""
    stated = {key: value for key, value in metadata.items() if key != "digest"}
    return sha256(json.dumps(stated, sort_keys=True).encode()).hexdigest()


def dump(metadata: dict[str, Any]) -> str:
    """One key a line, lists in one line, so that a person can read it at any size."""
    lines = [f"  {json.dumps(k)}: {json.dumps(v, allow_nan=False)}" for k, v in metadata.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def load(text: str, source: object) -> dict[str, Any]:
    """The metadata in `text`, refused unless it is of this version and complete."""
    try:
        metadata = json.loads(text)
    except ValueError:
        raise ValueError(f"`{source}` is not JSON. Restore the file as it was released.") from None
    if not isinstance(metadata, dict) or metadata.get("schema") != SCHEMA:
        raise ValueError(f"`{source}` is no metadata of a release: its schema is not {SCHEMA!r}.")
    if metadata.get("version") != VERSION:
        raise ValueError(
            f"`{source}` has metadata of version {metadata.get('version')!r}; {LIBRARY} reads "
            f"version {VERSION}. Use {metadata.get('library', 'the library that wrote it')}."
        )
    missing = [key for key in _KEYS if key not in metadata]
    if missing:
        raise ValueError(f"`{source}` lacks {missing[0]!r}. Restore the file as it was released.")
    if metadata["view"] not in VIEWS or metadata["noise"] not in NOISES:
        raise ValueError(
            f"`{source}` names a {metadata['view']!r} view of {metadata['noise']!r} noise, which "
            f"{LIBRARY} does not have. Use {metadata['library']}."
        )
    return metadata
