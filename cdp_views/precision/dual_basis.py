"""Pivot cells for elimination: the rows of an invariant in reduced echelon form, re-chosen at will.

A (k, n) of rank k and k cells J with A_J invertible give the table A_J⁻¹A: identity at J, and
x_J = −F x_r on ker A with F the rest of it. Exchanging one pivot for another cell is one
elimination step, O(kn).
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

_LOOSE = 1e-4  # θ below this counts as this: such cells become pivots first
_GROWTH = 1.5  # an exchange must enlarge the pivots' volume by this factor


class Basis(NamedTuple):
    """`table` A_J⁻¹A (k, n), its pivots' cells `at` (k,), and log|det B_J| up to a constant."""

    table: Array
    at: Array
    volume: Array


def echelon(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The table (k, n) and pivots (k,) of linearly independent rows, on the host.

    Differences that are rounding are set to 0, so that integer rows give exact tables.
    """
    table = np.array(rows, dtype=np.float64)
    at = np.zeros(len(table), dtype=np.int64)
    left = list(range(len(table)))
    size = np.abs(table).max(axis=1, initial=0)
    while left:
        relative = np.abs(table[left]).max(axis=1) / size[left]
        i = left.pop(int(relative.argmax()))  # least-cancelled row first
        at[i] = int(np.abs(table[i]).argmax())
        table[i] /= table[i, at[i]]
        others = np.arange(len(table)) != i
        step = table[others, at[i]][:, None] * table[i]
        before = table[others]
        after = before - step
        after[np.abs(after) <= 8 * np.finfo(float).eps * np.maximum(abs(before), abs(step))] = 0
        table[others] = after
        table[others, at[i]] = 0
    return table, at


def rechosen(basis: Basis, scale: Array, theta: Array) -> Basis:
    """Pivots of locally largest volume in the metric scale/√θ; cells with θ ≤ 0 come first.

    For one total this is the cell of smallest ν/b². Afterwards no entry of the table exceeds
    1.5 in that metric, so that nothing is eliminated through a small pivot.
    """
    k, n = basis.table.shape
    if k == 0:
        return basis
    reach = scale / jnp.sqrt(jnp.maximum(theta, _LOOSE))

    def best(state: tuple[Basis, Array]) -> tuple[Array, Array, Array]:
        (table, at, _), _ = state
        score = jnp.abs(table) * (reach / reach[at][:, None])
        score = score.at[:, at].set(0)
        place = jnp.argmax(score)
        return score.reshape(-1)[place], place // n, place % n

    def step(state: Any) -> Any:
        (table, at, volume), count, (_, i, j) = state
        pivot = table[i, j]
        row = table[i] / pivot
        lost = table[:, j][:, None] * row
        rest = table - lost
        eps = jnp.finfo(table.dtype).eps
        noise = jnp.abs(rest) <= 8 * eps * jnp.maximum(jnp.abs(table), jnp.abs(lost))
        rest = jnp.where(noise, 0, rest).at[i].set(row)
        rest = rest.at[:, j].set(jnp.zeros(k, table.dtype).at[i].set(1))
        volume = volume + jnp.log(jnp.abs(pivot) * scale[j] / scale[at[i]])
        changed = Basis(rest, at.at[i].set(j.astype(at.dtype)), volume)
        return changed, count + 1, best((changed, count))

    def unfinished(state: Any) -> Array:
        return (state[2][0] > _GROWTH) & (state[1] < 20 * k + 20)

    start = (basis, jnp.zeros((), jnp.int32))
    return lax.while_loop(unfinished, step, (*start, best(start)))[0]
