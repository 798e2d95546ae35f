"""The points of a study: what is measured, each known by what it is and not by its place."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from cdp_views.study.inputs import AbsentError, Inputs
from cdp_views.study.level import Level
from cdp_views.study.mechanisms import PURE
from cdp_views.study.request import EQUAL


@final
@dataclass(frozen=True)
class Point:
    """One mechanism at one budget.

    Args:
        table, invariant, noise, scales, view: names of the study.
        level: the budget, in the notion that it means for this noise.
        notion: the notion as the study names it.
        identity: hash of all that determines its numbers, contents and not names.
    """

    table: str
    invariant: str
    noise: str
    scales: str
    view: str
    level: Level
    notion: str
    identity: str

    @property
    def label(self) -> str:
        return (
            f"{self.table}, {self.invariant} exact, {self.noise}, {self.scales} scales, "
            f"{self.view}, {self.level}"
        )

    def key(self, seed: int, repetition: int) -> Any:
        """JAX key of one repetition: from the seed and from what the point is, nothing else."""
        import jax

        words = np.frombuffer(bytes.fromhex(self.identity), dtype=">u4")
        key = jax.random.key(seed)
        for word in (*words.tolist(), repetition):
            key = jax.random.fold_in(key, word)
        return key


def points(inputs: Inputs) -> tuple[list[Point], list[tuple[str, str]]]:
    """Every point that can be tried, and what cannot, with the reason.

    Raises:
        ValueError: a column that no table has, or one that holds what it must not.
    """
    study, found = inputs.study, list[Point]()
    skipped: dict[str, str] = {}
    missing = _Missing(len(study.tables))
    for table in study.tables:
        inputs.counts(table)
        for invariant in study.invariants:
            with missing.of(f"invariants.{invariant}", table, skipped):
                inputs.invariant(table, invariant)
        for scales in (EQUAL, *study.scales):
            with missing.of(f"scales.{scales}", table, skipped):
                inputs.pattern(table, scales)
        for workload in study.workloads:
            with missing.of(f"workloads.{workload}", table, skipped):
                inputs.workload(table, workload)
                inputs.ratio(table, workload)
        for invariant in study.invariants:
            for scales in (EQUAL, *study.scales):
                if missing.any(table, f"invariants.{invariant}", f"scales.{scales}"):
                    continue
                for noise in study.noises:
                    for view in study.views:
                        for level in study.levels:
                            point = _point(inputs, table, invariant, noise, scales, view, level)
                            reason = "" if noise in PURE else point.level.refused
                            if reason:
                                skipped[point.label] = reason
                            else:
                                found.append(point)
    # Two notions may mean the same to a noise: one point then stands for both.
    distinct: dict[tuple[Any, ...], Point] = {}
    for point in found:
        names = (point.table, point.invariant, point.noise, point.scales, point.view)
        distinct.setdefault((*names, point.level), point)
    return list(distinct.values()), list(skipped.items())


def asked(inputs: Inputs, table: str) -> list[str]:
    """Names of the workloads that this table can answer."""
    there = []
    for name in inputs.study.workloads:
        try:
            inputs.workload(table, name)
            inputs.ratio(table, name)
        except AbsentError:
            continue
        there.append(name)
    return there


def _point(
    inputs: Inputs, table: str, invariant: str, noise: str, scales: str, view: str, level: Level
) -> Point:
    meant = level.meant(noise in PURE)
    told = [
        inputs.digest(table, invariant, scales),
        noise,
        view,
        *sorted(meant.budget.items()),
        inputs.study.records,
    ]
    identity = hashlib.blake2b(json.dumps(told).encode(), digest_size=16).hexdigest()
    return Point(table, invariant, noise, scales, view, meant, level.notion, identity)


class _Missing:
    """Columns that some tables lack: skipped there, refused where no table has them."""

    def __init__(self, tables: int) -> None:
        self._tables = tables
        self._lacking: dict[str, set[str]] = {}

    @contextmanager
    def of(self, what: str, table: str, skipped: dict[str, str]) -> Iterator[None]:
        try:
            yield
        except AbsentError as reason:
            lacking = self._lacking.setdefault(what, set())
            lacking.add(table)
            if len(lacking) == self._tables:
                raise ValueError(str(reason)) from None
            skipped[f"{table}, {what}"] = str(reason)

    def any(self, table: str, *what: str) -> bool:
        return any(table in self._lacking.get(one, ()) for one in what)
