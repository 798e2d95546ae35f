"""The metadata of a release in parts: for the whole, a few lines a part."""

from typing import Any

from cdp_views.invariants import Totals
from cdp_views.neighbours import Contributions, Relocations
from cdp_views.releases import wording
from cdp_views.releases.budget.reservation import Reservation
from cdp_views.releases.metadata import LIBRARY, digest_of_metadata
from cdp_views.releases.noise.secret import GENERATORS
from cdp_views.releases.parts.drawn import Job
from cdp_views.releases.parts.released import SCHEMA, VERSION


def describe_parts(
    job: Job,
    epsilon: float,
    delta: float,
    sample: Totals,
    unit: Relocations | Contributions,
    listed: Reservation | None,
    parts: dict[str, Any],
    shape: dict[str, Any],
    cells: int,
    alone: int,
    zeros: int,
    counted: str,
    totals: str,
    each: float | None,
    contribution: list[list[float]] | None,
) -> dict[str, Any]:
    """All that may be said about the release, a few lines a part."""
    promise = wording.guarantee(sample, unit, epsilon=epsilon, delta=delta)
    if each is not None:
        who = "one record moves" if unit.records == 1 else f"{unit.records} records move together"
        promise += f" Of each column alone, where {who}, it keeps epsilon = {each:.15g}"
        promise += " at the same delta." if delta else "."
    if zeros:
        promise += " " + wording.only_zero(zeros, cells)
    if alone:
        beside = ", those left out that can only be 0," if zeros else ""
        promise += (
            f" {alone} of the {cells} cells are alone in their group{beside} and published exactly "
            "as counted: they are not protected."
        )
    stated: dict[str, Any] = {
        "schema": SCHEMA,
        "version": VERSION,
        "library": LIBRARY,
        "view": job.view,
        "noise": job.noise,
        "scale": job.scale,
        "epsilon": epsilon,
        "delta": delta,
        "neighbours": wording.stated(unit),
        "guarantee": promise + (wording.with_others(listed) if listed is not None else ""),
        "caveat": wording.caveat(1.0, whole=True, generator=GENERATORS[job.bits].NAME),
        "counted": counted,
        "columns": job.columns.stated,
        "cells": cells,
        "groups": shape["totals"],
        "geometry": shape["sha256"],
        "totals_fingerprint": totals,
        "determined": alone,
        "reservation": job.reservation,
        "parts": parts,
    } | ({"structural_zeros": zeros} if zeros else {})
    stated |= {} if each is None else {"epsilon_per_column": each}
    stated |= {} if contribution is None else {"contribution": contribution}
    if listed is not None:
        stated["ledger"] = {
            "release": listed.number,
            "added_totals": listed.added_totals,
            "epsilon_together": listed.spent.epsilon,
            "delta_together": listed.spent.delta,
        } | listed.correction
    return stated | {"digest": {"metadata": digest_of_metadata(stated)}}
