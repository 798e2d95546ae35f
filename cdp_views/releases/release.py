"""One private table from one confidential table."""

import hmac
import json
import warnings
from dataclasses import replace
from hashlib import sha256
from typing import Any, Literal

import jax
import numpy as np
import pandas as pd

from cdp_views import _checks
from cdp_views._counts import as_counts
from cdp_views.calibration import calibrate
from cdp_views.invariants import Invariant
from cdp_views.neighbours import Neighbours, Relocations
from cdp_views.releases import metadata
from cdp_views.releases.admission import (
    by_default,
    checked_budget,
    doubts_of_budget,
    pattern_of,
    refuse_determined,
    refuse_unprotected,
    structural_zeros_of,
)
from cdp_views.releases.budget.cost import Cost, structure, unit_key
from cdp_views.releases.budget.earlier import Exact
from cdp_views.releases.budget.ledger import Ledger
from cdp_views.releases.budget.reservation import Reservation
from cdp_views.releases.digest import RELEASED
from cdp_views.releases.labels import (
    digest_of_columns,
    label_columns,
    nearly_alike,
    own_columns,
    refuse_padded,
)
from cdp_views.releases.mechanism import NOISES, NoiseName, View, check_mechanism, law
from cdp_views.releases.noise import threefry
from cdp_views.releases.noise.cells import cell_ids
from cdp_views.releases.noise.closing import add_noise, step_of, totals_of
from cdp_views.releases.noise.drawing import draw
from cdp_views.releases.noise.generator import check_generator
from cdp_views.releases.noise.rounding import for_print, require_roundable, round_whole
from cdp_views.releases.noise.secret import DRAW, Secret, fresh_secret
from cdp_views.releases.result import Release
from cdp_views.releases.wording import unit_of_count, untouched


def release(
    counts: Any,
    invariant: Invariant,
    *,
    view: View,
    noise: NoiseName | None = None,
    epsilon: float,
    delta: float = 0.0,
    neighbours: Neighbours | None = None,
    scales: Any = None,
    names: Any = None,
    zeros: Any = None,
    accept_exact: bool = False,
    output: Literal["drawn", "whole"] = "drawn",
    publishable: bool = False,
    ledger: Ledger | None = None,
    corrected: bool = False,
    counted: str | None = None,
    bits: Literal["threefry", "aes256"] = "threefry",
) -> Release:
    """Publish y = q + X: the noise is the least that keeps the budget, every total stays exact.

    Law: the named view of independent noise of scale s·`scales` around the counts, s by
    `cdp.calibrate`. Support: {A y = A q}, possibly negative; whole numbers if `noise` is left out
    or discrete, or with output="whole". Guarantee: (ε, δ)-differential privacy for the unit
    `neighbours`, relative to the exact totals, which are published as they are. The noise is drawn
    in float64 from a secret of the operating system that is not kept: two calls never repeat it,
    and each call spends its budget again. With `ledger` the cost is written down before the noise
    is drawn; until the release is saved, the same call on the same counts gives the same release,
    at no further cost.

    Args:
        counts: true counts q (n,), at least 0. Whole counts under unweighted totals give totals
            that hold with `==`; else they hold to rounding (`Release.verify`).
        invariant: what must hold exactly.
        view: "max-entropy", "conditioned" or "imaged".
        noise: left out, whole noise for whole counts: "discrete-laplace" where `delta` is 0, else
            "discrete-normal" (plain totals, not max-entropy). Real noise: "normal"; "laplace" where
            a guarantee is proved (not max-entropy).
        epsilon: privacy budget (nats), above 0.
        delta: its δ, between 0 and 1, well below 1 over the number of records; 0 with Laplace
            noise, whose guarantee is pure.
        neighbours: the unit of privacy, such as cdp.relocations(invariant): needed, as there is no
            default.
        scales: relative scales (n,) of the noise; published, hence never a function of the counts.
        names: one public label per cell, or several columns of them (a mapping or a data frame).
        zeros: structural zeros, (n,) booleans or indices: cells that are 0 whatever the data, so
            that they are no news. Build `invariant` with cdp.structural_zeros(inv, zeros).
        accept_exact: publish also where the totals alone determine some cells, exactly, or where no
            record can move to or from some, so that the guarantee does not speak of them.
        output: "whole" rounds a table of real noise: without bias, and with every total (plain;
            disjoint, nested, or rows and columns); "drawn" leaves it as it is.
        publishable: make a second table for print, `release.publishable`: nonnegative, whole, with
            the same totals, and biased where it cuts at 0. Analyse the release itself.
        ledger: of this table; refuses what exceeds its budget, and resumes what was cut short.
        corrected: go on where exact totals differ from those that earlier releases of the ledger
            published: the change becomes public to the last unit.
        counted: what was counted, such as "persons", for the metadata and the page; left out, the
            name of `counts`, where it is a series with one.
        bits: the generator of the noise: "threefry" (fast, well tested, not cryptographic), or
            "aes256" (cryptographic, extra `secure`); the metadata name it.

    Returns:
        The release; nothing in it is confidential.

    Raises:
        ValueError: counts, budget, scales or names that make no sense; determined cells; a ledger
            of another table, whose budget does not suffice, or that knows other exact totals.
        InfeasibleError: scales that the max-entropy view cannot keep.
        UnsupportedError: a view and noise without a proved guarantee.

    Warns:
        UserWarning: δ above 1/Σ counts, which would allow publishing a whole record; ε of 10 or
            more; groups whose names differ only in case or spaces; a ledger with an unfinished
            release of the same design, made from other counts.

    Example:
        >>> import cdp_views as cdp
        >>> inv = cdp.totals(["a", "a", "b", "b"])
        >>> cdp.release([3, 5, 8, 1], inv, view="conditioned", noise="normal", epsilon=1,
        ...             delta=1e-6, neighbours=cdp.relocations(inv))
        Release(4 cells, 2 exact totals, conditioned view of normal noise, epsilon=1.0, delta=1e-06)

    Reference: Two Views of Constrained Differential Privacy, Lemmas 3.3 and 3.7 (totals computed
    from the data); Balle and Wang 2018, Theorem 8 (scale). Mironov 2012 for what floats may leak.
    """
    if hasattr(invariant, "equalities"):
        raise ValueError(
            "`invariant` has bounds, which a release does not keep: its noise may go below 0. "
            "Release with the totals alone, and publishable=True for a nonnegative table to print."
        )
    if not isinstance(invariant, Invariant):
        raise TypeError(
            f"`invariant` must come from cdp.totals or cdp.linear; got {type(invariant).__name__}."
        )
    source = unit_of_count(None, counts)
    counted = source if counted is None else unit_of_count(counted)
    counts = as_counts(counts, invariant.n)
    if corrected and ledger is None:
        raise ValueError("`corrected` needs `ledger`, which knows what was published before.")
    _checks.choice("output", output, ("drawn", "whole"))
    noise = by_default(counts, delta) if noise is None else noise
    check_mechanism(view, noise)
    check_generator(bits, view, noise, invariant)
    epsilon, delta = checked_budget(epsilon, delta, noise)
    if not isinstance(neighbours, Neighbours):
        got = "none" if neighbours is None else type(neighbours).__name__
        raise TypeError(
            f"`neighbours` must state the unit of privacy; got {got}. For example "
            "neighbours=cdp.relocations(invariant): one record moves within a group."
        )
    same_cells = neighbours.n == invariant.n
    if same_cells and isinstance(neighbours, Relocations) and not neighbours.all_of(invariant):
        raise ValueError(
            "`neighbours` was built from other groups than `invariant`, so its unit would be "
            "misread. Use cdp.relocations(invariant), or state cdp.differences(V)."
        )
    if NOISES[noise].whole and not np.array_equal(counts, np.rint(counts)):
        raise ValueError(
            f"`counts` must be whole with {noise} noise; at least one is not. "
            'Use noise="normal" or "laplace".'
        )
    if NOISES[noise].whole and counts.sum() >= 2.0**53:
        raise ValueError(
            "`counts` must sum to less than 2**53, up to which float64 holds every whole number: "
            "beyond, noise would be lost. Count in larger units."
        )
    pattern = pattern_of(scales, counts)
    labels = label_columns(names, invariant)
    names_of_groups = getattr(invariant, "names", None)
    groups = () if names_of_groups is None else tuple(names_of_groups)
    refuse_padded(groups)
    known = structural_zeros_of(zeros, counts, invariant)
    if not accept_exact:
        refuse_determined(np.asarray(invariant.determined, dtype=bool) & ~known, labels)
        if same_cells and isinstance(neighbours, Relocations):
            refuse_unprotected(untouched(invariant, neighbours), labels)
    for doubt in doubts_of_budget(epsilon, delta, counts.sum()) + nearly_alike(groups):
        warnings.warn(doubt, UserWarning, stacklevel=2)
    totals = totals_of(invariant, counts)
    rounded = output == "whole" and not NOISES[noise].whole
    if rounded or publishable:
        require_roundable(totals, invariant)
    request = _request(
        view,
        noise,
        epsilon,
        delta,
        neighbours,
        invariant,
        pattern,
        labels,
        output,
        publishable,
        bits,
        counted,
    )
    reservation, secret = _resumed(ledger, request, counts)
    if reservation is not None:
        scale = reservation.scale
    else:
        scale = pattern * _calibrated(view, noise, epsilon, delta, neighbours, invariant, pattern)
        if not NOISES[noise].whole:
            step_of(counts, invariant, scale)  # refuses, if at all, before anything is spent
        if ledger is not None:
            cost = Cost.of(
                view,
                noise,
                scale,
                invariant,
                neighbours,
                epsilon=epsilon,
                delta=delta,
                columns=digest_of_columns(own_columns(names, labels)),
                accept_exact=accept_exact,
            )
            reservation, secret = ledger.reserve(
                cost,
                lambda secret: secret.digest(counts, request),
                request,
                exact=Exact.of(
                    counts, invariant, counted=counted, corrected=corrected, source=source
                ),
            )
            scale = reservation.scale  # of another process, if it began the same release first
    secret = replace(fresh_secret() if secret is None else secret, bits=bits)
    ids = cell_ids(labels)
    drawn, generator = draw(secret, ids, view, noise, scale, invariant)
    generator = generator.replace(threefry.NAME, secret.generator)
    if NOISES[noise].whole:
        released, step = counts + drawn, 1.0
    else:
        released, step = add_noise(counts, drawn, invariant, scale)
    if rounded:
        released, step = round_whole(secret, ids, released, invariant), 1.0
    printed = None
    if publishable:
        whole = for_print(secret, ids, released, invariant)
        printed = pd.DataFrame(labels | {RELEASED: whole})
    table = pd.DataFrame(labels | {RELEASED: released})
    about = metadata.describe(
        view=view,
        noise=noise,
        scale=scale,
        epsilon=epsilon,
        delta=delta,
        neighbours=neighbours,
        invariant=invariant,
        totals=totals,
        step=step,
        table=table,
        generator=generator,
        reservation=reservation,
        rounded=rounded,
        printed=printed,
        zeros=np.flatnonzero(known),
        counted=counted,
    )
    made = Release(table, about, invariant, reservation, printed)
    made.verify()
    return made


def _calibrated(
    view: View,
    noise: NoiseName,
    epsilon: float,
    delta: float,
    neighbours: Neighbours,
    invariant: Invariant,
    pattern: np.ndarray,
) -> float:
    """The least scale of noise of this pattern that keeps the budget."""
    with jax.enable_x64(True):
        return calibrate(
            lambda s: law(view, noise, np.zeros(invariant.n), s * pattern, invariant),
            neighbours,
            epsilon=epsilon,
            delta=delta,
        )


def _request(
    view: str,
    noise: str,
    epsilon: float,
    delta: float,
    neighbours: Neighbours,
    invariant: Invariant,
    pattern: np.ndarray,
    labels: dict[str, list[str]],
    output: str,
    publishable: bool,
    bits: str,
    counted: str | None,
) -> str:
    """What was asked for, as a digest: the same request on the same counts can be resumed."""
    told = {
        "library": metadata.LIBRARY,
        "draw": DRAW,  # another would draw other noise from the same secret
        "view": view,
        "noise": noise,
        "epsilon": epsilon,
        "delta": delta,
        "unit": unit_key(neighbours),
        "invariant": structure(invariant),
        "pattern": pattern.tolist(),
        "labels": labels,
        "output": output,
        "publishable": publishable,
        "bits": bits,
        "counted": counted,
    }
    return sha256(json.dumps(told).encode()).hexdigest()


def _resumed(
    ledger: Ledger | None, request: str, counts: np.ndarray
) -> tuple[Reservation | None, Secret | None]:
    """The unfinished release of this request on these very counts, if there is one."""
    if ledger is None:
        return None, None
    waiting = ledger.unfinished_of(request)
    for reservation in waiting:
        secret, bound = reservation.read()
        if hmac.compare_digest(secret.digest(counts, request), bound):
            return reservation, secret
    if waiting:
        warnings.warn(
            f"`{ledger.path}` has an unfinished release of the same design, made from other "
            "counts. The same noise on other counts would publish the change: this is a new "
            "release with its own noise and its own cost.",
            UserWarning,
            stacklevel=3,
        )
    return None, None
