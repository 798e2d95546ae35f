"""How often independent scales fail the symmetric balance test, given one of them.

A group of m cells is coupled iff S − M ≤ q M, with S the sum and M the largest of its m scales and
q ≥ 1 the number of cells needed (`needed_cells`). Given that one of them is s,

    π(s) = P(T_{m−1} ≤ q s, all ≤ s) + (m − 1) ∫_s^∞ h(t) P(s + T_{m−2} ≤ q t, all ≤ t) dt,

T_k the sum of k of the others: sums of scales cut off at t, by exponentially tilted FFTs on the
host. Its relative error is below 10⁻³, which the simulated term hides.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from cdp_views._float64 import float64, in_float64
from cdp_views.noise import Mixing
from cdp_views.noise._quadrature import window

_NODES = 160
_FINE = 4096
_BINS = 256  # per unit of T/t


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Coupling:
    """log π on equally spaced log s, one table for each distinct kind of group."""

    start: Array  # (U,)
    step: Array
    table: Array  # (U, K)
    kind: Array  # (G,) which table

    def log_chance(self, v: Array) -> Array:
        """log π(e^v), v (…, G); flat beyond the table, where π is."""
        last = self.table.shape[-1] - 1
        at = jnp.clip((v - self.start[self.kind]) / self.step[self.kind], 0, last)
        low = jnp.minimum(at.astype(jnp.int32), last - 1)
        below, above = self.table[self.kind, low], self.table[self.kind, low + 1]
        return below + (at - low) * (above - below)


def coupling_of(
    mixing: Mixing, segments: Any, needed: np.ndarray, only: np.ndarray | None = None
) -> Coupling:
    """The tables for these groups, or for those at the places `only`, in that order."""
    sizes = np.asarray(segments.sizes)
    needed = np.broadcast_to(np.round(np.asarray(needed, np.float64), 6), sizes.shape)
    per_group = jax.tree.map(np.asarray, mixing.of_groups(segments))
    leaves = [np.broadcast_to(a, sizes.shape) for a in jax.tree.leaves(per_group)]
    each = np.stack([sizes.astype(float), needed, *leaves], -1)
    rows, kind = np.unique(each if only is None else each[only], axis=0, return_inverse=True)
    structure = jax.tree.structure(per_group)
    tables = [
        _kept_table(structure, tuple(parameters), int(m), q) for m, q, *parameters in rows.tolist()
    ]
    start, step, table = (np.stack(part) for part in zip(*tables, strict=True))
    return Coupling(jnp.asarray(start), jnp.asarray(step), jnp.asarray(table), jnp.asarray(kind))


@lru_cache(maxsize=64)  # 1.5 kB each; a sampler traces its model several times
def _kept_table(
    structure: Any, parameters: tuple[float, ...], m: int, q: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    law = jax.tree.unflatten(structure, [np.float64(p) for p in parameters])
    return log_table(law, m, q)


@in_float64
def log_table(mixing: Mixing, m: int, q: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First node, spacing, and log π at each node of log s."""

    def line(v: Array) -> Array:
        return mixing.log_density(jnp.exp(v)) + v

    wide = np.asarray(window(line, (), np.float64))
    fine = np.linspace(wide[0], wide[-1], _FINE)
    log_h = np.asarray(line(float64(fine)))
    mass = np.exp(log_h - log_h.max())
    cdf = np.cumsum(np.append(0, (mass[1:] + mass[:-1]) / 2))
    log_cdf = np.log(np.maximum(cdf / cdf[-1], 1e-300))
    inside = log_h > log_h.max() - 12
    low = fine[np.argmax(inside)]
    high = fine[len(fine) - 1 - np.argmax((log_h > log_h.max() - 30)[::-1])]
    v = np.linspace(low, high, _NODES)
    step = v[1] - v[0]
    if m <= 2:
        return v[0], step, np.zeros(_NODES)
    log_f = np.interp(v, fine, log_cdf)
    h = np.exp(np.interp(v, fine, log_h) - log_h.max()) / (cdf[-1] * (fine[1] - fine[0]))
    first = np.empty(_NODES)
    later = np.zeros((_NODES, _NODES))  # [t, s]
    for k in range(_NODES):
        edges = np.interp(v[k] + np.log(np.linspace(1 / _BINS, 1, _BINS)), fine, log_cdf)
        p = np.diff(np.append(0, np.exp(edges - log_f[k])))
        first[k] = np.exp((m - 1) * log_f[k]) * _sums(p, m - 1, q)(np.array([q]))[0]
        below = np.exp(v[: k + 1] - v[k])  # s/t ≤ 1
        later[k, : k + 1] = np.exp((m - 2) * log_f[k]) * _sums(p, m - 2, q)(q - below)
    weight = np.full((_NODES, _NODES), step)
    weight[np.arange(_NODES), np.arange(_NODES)] = step / 2
    chance = first + (m - 1) * np.sum(weight * h[:, None] * later, 0)
    return v[0], step, np.log(np.clip(chance, 1e-300, 1))


def _sums(p: np.ndarray, k: int, q: float) -> Any:
    """y ↦ P(sum of k ≤ y), y ≤ q, for one scale with chances `p` in the bins of (0, 1]."""
    bins = len(p)
    u = (np.arange(bins) + 0.5) / bins
    reach = k if q >= k else min(k, 2 * q + 4)  # beyond it nothing is left, or it is tilted away
    theta = 0.0
    if u @ p > q / k:  # tilt so that a sum of q is typical: its chance may be tiny
        low, high = 0.0, 1.0
        while _tilted_mean(p, u, high) > q / k and high < 1e6:
            high *= 2
        for _ in range(30):
            theta = (low + high) / 2
            low, high = (theta, high) if _tilted_mean(p, u, theta) > q / k else (low, theta)
    log_p = np.log(np.maximum(p, 1e-300)) - theta * u
    log_m = np.logaddexp.reduce(log_p)
    length = 1 << int(np.ceil(np.log2(bins * reach + bins)))
    spectrum = np.fft.rfft(np.exp(log_p - log_m), length)
    mass = np.maximum(np.fft.irfft(spectrum**k, length), 0)
    place = (np.arange(length) + k / 2) / bins
    used = place <= q + 2 / bins
    log_mass = k * log_m + theta * place[used]
    total = np.cumsum(mass[used] * np.exp(log_mass))
    return lambda y: np.interp(y, place[used] + 0.5 / bins, total, left=0.0)


def _tilted_mean(p: np.ndarray, u: np.ndarray, theta: float) -> float:
    w = p * np.exp(-theta * (u - u[0]))
    return float(u @ w / w.sum())
