"""Whole-number noise, each world moved to a closest one in which the totals are exact."""

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from scipy import sparse

from cdp_views import _checks
from cdp_views.invariants import Totals
from cdp_views.loss import ProfileLoss
from cdp_views.loss.by_law import Later
from cdp_views.loss.concentrated import ConcentratedLoss
from cdp_views.loss.conversions import delta_of_rho
from cdp_views.noise import log_mass
from cdp_views.precision.whole_sums import Mass, Sums
from cdp_views.views._mixture import disjoint, is_disjoint
from cdp_views.views._suprema import by_row
from cdp_views.views._whole import WholeView, base_measure, require_whole
from cdp_views.views._whole_profile import base_profile, delta_of_sup

_NODES = 200  # of the integral over t, exact for groups of up to 399 cells


class ImagedWhole(WholeView):
    """U moved to a closest whole world with A y = A loc; build it with `cdp.Imaged`.

    In a group of m cells with residual s = Σ U: X_i = U_i − ⌊s/m⌋ − B_i, where s mod m of the B_i
    are 1, drawn uniformly. Post-processing, so the base's own guarantee stays.
    """

    kind = "imaged"

    def __init__(self, invariant: Any, *args: Any, **kwargs: Any) -> None:
        if not is_disjoint(invariant):
            raise _checks.UnsupportedError(
                "cdp.Imaged of discrete noise keeps disjoint or nested totals only: the closest "
                "whole table with margins is no simple move. Use real noise and round the table "
                "with its margins, or cdp.Conditioned where few cells overlap."
            )
        if disjoint(invariant).weights is not None:
            raise _checks.UnsupportedError(
                "cdp.Imaged of discrete noise keeps plain totals only. Use cdp.Conditioned for "
                "whole weights, or real noise."
            )
        super().__init__(invariant, *args, **kwargs)

    @property
    def groups(self) -> Totals:
        """The disjoint totals behind the invariant."""
        return disjoint(self.invariant)

    def _draw(self, rng: np.random.Generator, draws: int) -> np.ndarray:
        which, masses = self._masses()
        n, seg = self.invariant.n, self.groups.segments
        labels, sizes = np.asarray(seg.labels), np.asarray(seg.sizes)
        u = np.empty((draws, n), dtype=np.int64)
        for law, mass in enumerate(masses):
            ladder, cells = np.cumsum(mass.p), np.flatnonzero(which == law)
            uniform = rng.random((draws, cells.size)) * ladder[-1]
            u[:, cells] = mass.low + np.searchsorted(ladder, uniform, side="right")
        pattern = sparse.csr_array((np.ones(n, np.int64), (labels, np.arange(n))))
        residual = (pattern @ u.T).T[:, : sizes.size]  # free cells come last, and stay
        step, left = residual // sizes, residual % sizes
        # a random order within every group: its first `left` cells move by one more
        order = np.argsort(labels + rng.random((draws, n)), axis=1)
        first = np.concatenate([[0], np.cumsum(sizes)])
        rank = np.empty_like(order)
        np.put_along_axis(rank, order, np.broadcast_to(np.arange(n), order.shape), axis=1)
        member = labels < sizes.size
        here = np.where(member, labels, 0)
        extra = (rank - first[here]) < left[:, here]
        return u - np.where(member, step[:, here] + extra, 0)

    def _laws(self) -> list[tuple[np.ndarray, Mass]]:
        which, masses = self._masses()
        sums, seg = Sums(), self.groups.segments
        labels, count = np.asarray(seg.labels), seg.count
        leaves = np.array([sums.leaf(i, mass) for i, mass in enumerate(masses)])[which]
        order = np.lexsort((leaves, labels))
        found: dict[tuple[bytes, int], tuple[list[np.ndarray], Mass]] = {}
        for cells in np.split(order, np.flatnonzero(np.diff(labels[order])) + 1):
            kinds = leaves[cells]
            for kind in np.unique(kinds):
                here = cells[kinds == kind]
                key = (kinds.tobytes() if labels[cells[0]] < count else b"", int(kind))
                if key not in found:
                    own = sums.masses[int(kind)]
                    law = own if not key[0] else _moved(sums, kinds, int(kind))
                    found[key] = ([], law)
                found[key][0].append(here)
        return [(np.concatenate(cells), law) for cells, law in found.values()]

    def _log_density(self, noise: Array) -> Array:
        """Log-probability, summed over groups; see `_log_sum_of_shifts`."""
        seg, scale = self.groups.segments, jnp.asarray(self.scale, noise.dtype)
        free = jnp.where(seg.member, 0, log_mass(self.noise_name, noise, scale))
        return jnp.sum(self._log_sum_of_shifts(noise), -1) + jnp.sum(free, -1)

    def _log_sum_of_shifts(self, x: Array) -> Array:
        """log P(X = x) of every group: (…, n) → (…, G).

        All U that are moved to x: Σ_j Σ_{r<m} e_r/C(m, r), with e_r the sum over sets R of r cells
        of Π p_i(x_i + j + 1{i ∈ R}). As 1/C(m, r) = (m + 1)∫ t^r (1 − t)^{m−r} dt, that is
        Σ_j {(m + 1) ∫₀¹ Π [(1 − t) p_i(x_i + j) + t p_i(x_i + j + 1)] dt − Π p_i(x_i + j + 1)}.
        """
        seg, scale = self.groups.segments, jnp.asarray(self.scale, x.dtype)
        m = seg.sizes.astype(x.dtype)
        most = int(np.asarray(seg.sizes).max(initial=1))
        nodes, weights = np.polynomial.legendre.leggauss(min(most // 2 + 1, _NODES))
        t = jnp.asarray((nodes + 1) / 2, x.dtype)
        log_w = jnp.asarray(np.log(weights / 2), x.dtype)
        reach = float(
            np.ceil((45 if self.noise_name == "discrete-laplace" else 10) * self.scale.max())
        )
        start = seg.spread(-seg.max(x)) - reach  # every j that matters lies in start … stop
        steps = jnp.max(seg.max(x) + seg.max(-x)) + 2 * reach

        def log_p(shift: Array) -> Array:
            return log_mass(self.noise_name, x + shift, scale)

        def add(step: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
            plus, minus = state
            here, there = log_p(start + step), log_p(start + step + 1)
            rise = there - here
            # log of the average between two neighbours, at every node: (nodes, …, n)
            tt = t.reshape((-1,) + (1,) * rise.ndim)
            up = jnp.maximum(rise, 0)
            between = here + up + jnp.log((1 - tt) * jnp.exp(-up) + tt * jnp.exp(rise - up))
            terms = seg.sum(between) + log_w.reshape((-1,) + (1,) * rise.ndim)
            whole = jnp.log(m + 1) + _log_sum(terms)
            return jnp.logaddexp(plus, whole), jnp.logaddexp(minus, seg.sum(there))

        empty = jnp.full((*x.shape[:-1], seg.count), -jnp.inf, x.dtype)
        plus, minus = lax.fori_loop(0, steps.astype(int), add, (empty, empty))
        return plus + jnp.log1p(-jnp.exp(minus - plus))

    def entropy(self) -> Array:
        """Not in closed form."""
        raise self._refuse("entropy", "Use entropy_estimate(key), with its standard error.")

    def loss(self, differences: sparse.csr_array, query: Any = None) -> ProfileLoss:
        """The base's own profile at the cheapest v + w (whole w, one per group): a bound.

        Imaging is post-processing, and worlds that differ by one whole number in all cells of a
        group have the same image. w is where the base's largest loss Σ|v_i + w|/λ_i (discrete
        Laplace) or ρ = Σ (v_i + w)²/2σ_i² (discrete normal) is least.
        """
        if query is not None:
            raise self._refuse(
                "loss(query=)", "Ask for the whole release, which bounds every query."
            )
        require_whole(differences)
        family, noise = self.noise_name, self._base_noise()
        V = self._cheapest(differences)
        size = by_row(V, base_measure(family, self.scale, V))
        if family == "discrete-laplace":

            def of_sup(row: int) -> Any:
                return delta_of_sup(size[row])

            profile = Later(lambda: base_profile(noise, V, of_sup))
            return ProfileLoss(profile, size, sup_kind="bound", kind="bound")

        def of_rho(row: int) -> Any:
            return partial(delta_of_rho, size[row])

        profile = Later(lambda: base_profile(noise, V, of_rho))
        sup = np.where(size > 0, np.inf, 0.0)
        return ConcentratedLoss(profile, sup, sup_kind="bound", kind="bound", rho=size)

    def _cheapest(self, V: sparse.csr_array) -> sparse.csr_array:
        """v + w for each row v (m, n), in every group the w that costs the base least."""
        seg = self.groups.segments
        labels, sizes = np.asarray(seg.labels), np.asarray(seg.sizes)
        rate = np.broadcast_to(1 / self.scale, labels.shape)
        laplace = self.noise_name == "discrete-laplace"
        weight = rate if laplace else rate**2
        whole = np.bincount(labels, weight, sizes.size + 1)
        moved: list[tuple[int, int, int]] = []
        for row in range(len(V.indptr) - 1):
            part = slice(V.indptr[row], V.indptr[row + 1])
            cells, v = V.indices[part], V.data[part]
            for group in np.unique(labels[cells][labels[cells] < sizes.size]).tolist():
                here = labels[cells] == group
                own, r = v[here], weight[cells[here]]
                rest = max(whole[group] - r.sum(), 0.0) if here.sum() < sizes[group] else 0.0
                mean = -(r @ own) / (rest + r.sum())
                tried = np.unique(np.r_[0, -own] if laplace else np.floor([mean, mean + 1]))
                power = 1 if laplace else 2
                cost = np.abs(own + tried[:, None]) ** power @ r + np.abs(tried) ** power * rest
                w = int(tried[np.argmin(cost)])
                zero = np.abs(own) ** power @ r
                if w and cost.min() < zero * (1 - 1e-12):
                    moved.append((row, group, w))
        if not moved:
            return V
        members = np.split(np.argsort(labels, kind="stable"), np.cumsum(sizes))
        rows = np.concatenate([np.full(sizes[g], row) for row, g, _ in moved])
        columns = np.concatenate([members[g] for _, g, _ in moved])
        steps = np.concatenate([np.full(sizes[g], float(w)) for _, g, w in moved])
        found = sparse.csr_array(V + sparse.csr_array((steps, (rows, columns)), shape=V.shape))
        found.eliminate_zeros()
        return found


def _log_sum(terms: Array) -> Array:
    most = jnp.max(terms, 0)
    safe = jnp.where(jnp.isfinite(most), most, 0)
    return safe + jnp.log(jnp.sum(jnp.exp(terms - safe), 0))


def _moved(sums: Sums, kinds: np.ndarray, kind: int) -> Mass:
    """The law of U_i − ⌊S/m⌋ − B_i for a cell of a group with these kinds.

    Given S, B_i is 1 with chance (S mod m)/m. For each d = ⌊S/m⌋ the rest's masses over a stretch
    of m numbers are differences of their cumulative sums.
    """
    m, own = len(kinds), sums.masses[kind]
    if m == 1:
        return Mass(0, np.ones(1))
    rest = sums.masses[sums.over(np.delete(kinds, int(np.flatnonzero(kinds == kind)[0])))]
    u = own.low + np.arange(own.p.size)
    k = rest.low + np.arange(rest.p.size)
    zero = np.concatenate([[0.0], np.cumsum(rest.p)])
    one = np.concatenate([[0.0], np.cumsum(rest.p * k)])
    low, high = (own.low + rest.low) // m, (own.high + rest.high) // m
    p = np.zeros(own.p.size + high - low + 2)
    for d in range(low, high + 1):
        begin = np.clip(d * m - u - rest.low, 0, rest.p.size)
        end = np.clip((d + 1) * m - u - rest.low, 0, rest.p.size)
        chance = zero[end] - zero[begin]
        extra = (one[end] - one[begin] + (u - d * m) * chance) / m
        place = high - d  # X = u − d lies at u − own.low + (high − d) + 1 of `p`
        p[place + 1 : place + 1 + own.p.size] += own.p * (chance - extra)
        p[place : place + own.p.size] += own.p * extra
    return Mass(own.low - high - 1, np.maximum(p, 0))
