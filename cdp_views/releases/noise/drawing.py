"""The noise of a release, drawn from its secret: X is a function of (secret, cell ids).

Where the law's draw is a map of independent cells (Normal noise in every view, imaged Laplace
noise), of one number a group beside them (conditioned Laplace noise) or of a tree over a group
(whole noise), each random number belongs to the ids of its cell or group. A part of the table that
holds whole groups then has the noise that it has in the whole table. What is drawn for all cells at
once (overlapping totals of other than Normal noise) uses one key of the secret: it repeats too, for
the same table in the same order.
"""

import math
from typing import Any

import jax
import numpy as np
from scipy.special import ndtri

from cdp_views._float64 import float64, in_float64
from cdp_views.invariants import Invariant, Totals
from cdp_views.precision.words import uniform
from cdp_views.releases.mechanism import NOISES, law
from cdp_views.releases.noise import threefry
from cdp_views.releases.noise.cells import group_ids
from cdp_views.releases.noise.secret import Secret
from cdp_views.releases.noise.whole import draw_whole

CELL, OMEGA = 0, 1  # purposes of the bits; `whole` has its own


def draw(
    secret: Secret,
    ids: np.ndarray,
    view: str,
    noise: str,
    scale: np.ndarray,
    invariant: Invariant,
) -> tuple[np.ndarray, str]:
    """The noise X (n,), float64 with A X = 0, and the name of its generator.

    Args:
        secret: of this release.
        ids: (2, n), of the cells.
        view: as in `Mechanism`.
        noise: as in `Mechanism`.
        scale: of the base noise, () or (n,), counts.
        invariant: what must hold exactly.
    """
    if NOISES[noise].whole:
        x = draw_whole(secret, ids, view, noise, scale, invariant)
        return x.astype(np.float64), threefry.NAME
    return _real(secret, ids, view, noise, scale, invariant)


@in_float64
def _real(
    secret: Secret,
    ids: np.ndarray,
    view: str,
    noise: str,
    scale: np.ndarray,
    invariant: Invariant,
) -> tuple[np.ndarray, str]:
    made: Any = law(view, noise, np.zeros(invariant.n), scale, invariant)
    groups = invariant.disjoint_groups
    if hasattr(made, "transforms"):  # a map of independent cells of variance 1
        words = secret.words(ids, CELL)
        unit = normal(words) if noise == "normal" else laplace(words) * math.sqrt(0.5)
        return np.asarray(made.transforms[0].law.colour(float64(unit))), threefry.NAME
    if noise == "laplace" and groups is not None:
        return _conditioned_laplace(secret, ids, scale, groups), threefry.NAME
    x = np.asarray(jax.jit(made.sample_noise)(secret.key()))
    return x.astype(np.float64), f"{threefry.NAME}, threefry2x32"


def normal(words: np.ndarray) -> np.ndarray:
    """Standard normal numbers from words (4, m), with tails down to 1e-16 on either side."""
    return _sign(words[1]) * -ndtri(uniform(words[0]) / 2)


def laplace(words: np.ndarray) -> np.ndarray:
    """Standard Laplace numbers, λ = 1, from words (4, m)."""
    return _sign(words[1]) * -np.log(uniform(words[0]))


def _sign(words: np.ndarray) -> np.ndarray:
    return np.where(words >> np.uint64(63), -1.0, 1.0)


def _conditioned_laplace(
    secret: Secret, ids: np.ndarray, scale: np.ndarray, groups: Totals
) -> np.ndarray:
    """Scales random given ω of their group, then the Gaussian on ker A (numerics.md §5)."""
    n, segments = groups.n, groups.segments
    labels, count = np.asarray(segments.labels), segments.count
    weights = np.ones(n) if groups.weights is None else np.abs(np.asarray(groups.weights, float))
    lam = np.broadcast_to(scale, (n,))
    member = labels < count
    omega_c = np.zeros(n)
    here = np.flatnonzero(member)
    omega_c[here] = _omega(
        secret, group_ids(ids, labels, count), (weights * lam)[here], labels[here], count
    )
    words = secret.words(ids, CELL)
    e = -np.log(uniform(words[2]))
    variance = np.where(member, 2 * lam**2 * e / (1 + omega_c**2), 1.0)
    x = np.asarray(groups.restrict(float64(1 / variance)).colour(float64(normal(words))))
    return np.where(member, x, lam * laplace(words))


def _omega(
    secret: Secret, ids: np.ndarray, c: np.ndarray, labels: np.ndarray, count: int
) -> np.ndarray:
    """c·ω (m,), ω with density ∝ Π(1 + c_i²ω²)⁻¹ in its group, by rejection.

    With η = |c|ω, q = c/|c| and h = max q²: Σ log(1 + q²η²) ≥ (1/h) log(1 + hη²), so η from the
    density ∝ (1 + hη²)^{−1/h} (Bailey's polar method) is accepted with the ratio, at least 0.80.
    """
    q = c / np.sqrt(np.bincount(labels, c * c, count))[labels]
    h = np.zeros(count)
    np.maximum.at(h, labels, q * q)
    eta, waiting, tries = np.zeros(count), h < 1, 0  # a cell alone has no noise
    while waiting.any():
        group = np.flatnonzero(waiting)
        words = secret.words(ids[:, group], OMEGA, tries)
        u, v, w = (uniform(word) for word in words[:3])
        most = h[group]
        power = 2 / (2 / most - 1)
        eta[group] = np.sqrt(np.expm1(-power * np.log(u)) / most) * np.cos(2 * math.pi * v)
        cells = np.flatnonzero(waiting[labels])
        own = labels[cells]
        ratio = np.log1p(h * eta**2) / h - np.bincount(
            own, np.log1p((q[cells] * eta[own]) ** 2), count
        )
        waiting[group] = np.log(w) > ratio[group]
        tries += 1
    return q * eta[labels]
