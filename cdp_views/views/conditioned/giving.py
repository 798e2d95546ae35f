"""What real noise within bounds gives away: a proved bound, and estimates for one table.

With Z(q) = P(B y ≥ lower) for the table q, neighbours q and q + v are told apart by

    L(y) = Σ log p_i(x_i)/p_i(x_i − v_i) + log Z(q + v)/Z(q),   x = y − q.

Z(q + v)/Z(q) is the mean of p(X − v)/p(X) over the law at q, so that its logarithm is at most
sup |Σ log p_i(x_i)/p_i(x_i − v_i)| =: S, and |L| ≤ 2S whatever the table (the factor that Gong and
Meng write 1 + γ). Parts of the table without bounds have Z = 1 and cost S once.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import optimize, sparse

from cdp_views import _checks
from cdp_views._float64 import float64, in_float64
from cdp_views.loss import BoundedLoss, SampledLoss
from cdp_views.views._mixture import host_scale
from cdp_views.views.conditioned import characteristic as law_of
from cdp_views.views.conditioned.region import of_rows

_RATIO_DRAWS = 2**14


def held(view: Any) -> np.ndarray:
    """Which cells are in a part of the table that has bounds: (n,)."""
    labels = view.labels.array
    return np.isin(labels, of_rows(view.region.bounds.matrix, labels))


def bound(view: Any, differences: sparse.csr_array) -> BoundedLoss:
    """S + S of the cells that bounds hold, for every row v.

    Args:
        view: a `ConditionedWithin`.
        differences: (m, n).

    Returns:
        Pure ε: of Laplace noise 2 Σ|v_i|/λ_i. Normal noise: S by linear programming, for this
        table; infinite where the region is.

    Raises:
        UnsupportedError: for noise of which no supremum is known.
    """
    twice = sparse.csr_array(differences * held(view))
    return BoundedLoss(_supremum(view, differences) + _supremum(view, twice), "bound")


def _supremum(view: Any, differences: sparse.csr_array) -> np.ndarray:
    """S of every row (m,)."""
    if view.mixing is not None:
        return view.flat.loss(differences).sup
    scale = host_scale(view, "loss")
    return np.array([_normal(view, v, scale) for v in differences.toarray()])


def _normal(view: Any, v: np.ndarray, scale: np.ndarray) -> float:
    """sup |x·v/σ² − ½|v/σ|²| over the region."""
    return _largest(view, v / scale**2) + float(np.sum((v / scale) ** 2)) / 2


def _largest(view: Any, slope: np.ndarray) -> float:
    """max |slope·(y − loc)| over the region."""
    if not np.any(slope):
        return 0.0
    A, found = view.invariant.matrix, []
    for sign in (1, -1):
        answer = optimize.linprog(
            sign * slope,
            A_ub=-view.region.bounds.matrix,
            b_ub=view._room,
            A_eq=A if A.shape[0] else None,
            b_eq=np.zeros(A.shape[0]) if A.shape[0] else None,
            bounds=(None, None),
        )
        found.append(-answer.fun if answer.status == 0 else math.inf)
    return max(found)


@in_float64
def ratio_draws(view: Any) -> np.ndarray:
    """The draws behind `log_ratio`, made once for every view."""
    return _sampler(view, _RATIO_DRAWS // (4 if view.sweeps else 1))(jax.random.key(1))


@in_float64
def log_ratio(view: Any, differences: Any) -> tuple[np.ndarray, np.ndarray]:
    """log Z(q + v)/Z(q) of every row v (m, n), as E p(X − v)/p(X), and its standard error."""
    x = float64(view._ratio_draws)
    here, found = _log_base(view, x), []
    for v in _rows(differences):
        w = _log_base(view, x - float64(v)) - here
        most = w.max()
        w = np.exp(w - most)
        error = w.std(ddof=1) / w.mean() / math.sqrt(len(w))
        found.append((most + math.log(w.mean()), error))
    value, error = np.array(found).reshape(-1, 2).T
    return value, error


@in_float64
def estimate(view: Any, differences: Any, key: Array, draws: int) -> SampledLoss:
    """Draws of the loss of every neighbour q ± v that keeps the bounds, under q and under it.

    Confidential, as it depends on the table q. Its `sup` is S + |log Z(q ± v)/Z(q)|, an estimate.

    Args:
        view: a `ConditionedWithin`.
        differences: (m, n).
        key: a JAX key: passing one is the request for an estimate.
        draws: of each law.

    Returns:
        A law of two rows for each neighbour: (q, q ± v), then (q ± v, q).

    Raises:
        ValueError: no neighbour keeps the bounds.
    """
    rows, V = view.region.bounds.matrix, _rows(differences)
    V = np.concatenate([V, -V])
    V = V[[bool(np.all(rows @ v >= -view._room)) for v in V]]
    if not len(V):
        raise ValueError(
            "`differences` lead to no table within the bounds. Give differences that do."
        )
    keys, draw = jax.random.split(key, len(V) + 1), _sampler(view, draws)
    x, ratio, losses = draw(keys[0]), log_ratio(view, V)[0], []
    here = _log_base(view, x)
    for v, r, one in zip(V, ratio, keys[1:], strict=True):
        there = draw(one, v)
        losses.append(here - _log_base(view, x - v) + r)
        losses.append(_log_base(view, there) - _log_base(view, there + v) - r)
    sup = _supremum(view, sparse.csr_array(V)) + np.abs(ratio)
    return SampledLoss(np.stack(losses), np.repeat(sup, 2), "estimate")


def _sampler(view: Any, draws: int) -> Any:
    """(key, v) ↦ draws (draws, n) of the noise of the table q + v."""
    rows = view.region.bounds.matrix
    run = jax.jit(lambda key, room, start: view.noise_of(key, draws, room, start))

    def draw(key: Array, v: Any = 0.0) -> np.ndarray:
        step = np.broadcast_to(v, (view.region.n,))
        room = np.maximum(view._room + rows @ step, 0)
        x = np.asarray(run(key, float64(room), float64(view.start - step)))
        if np.isnan(x).any():
            raise _checks.UnsupportedError(
                "`differences` lead to a table too rarely within its bounds to be drawn. Use a "
                "smaller scale, or leave key= out for what is proved."
            )
        return x

    return draw


def _log_base(view: Any, x: Any) -> np.ndarray:
    z = float64(x) / float64(host_scale(view, "loss"))
    cells = -z * z / 2 if view.mixing is None else law_of.log_base(view.mixing, z)
    return np.asarray(jnp.sum(cells, -1))


def _rows(differences: Any) -> np.ndarray:
    dense = differences.toarray() if sparse.issparse(differences) else differences
    return np.atleast_2d(np.asarray(dense, np.float64))
