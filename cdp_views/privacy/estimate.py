"""The privacy loss of a view by simulation: draws, and the log-density twice at each."""

import warnings
from typing import Any

import jax
import numpy as np
from scipy import sparse

from cdp_views._checks import UnsupportedError
from cdp_views._float64 import in_float64
from cdp_views.loss import Loss, SampledLoss

DRAWS = 4_000
"""Standard error of a guess rate is then at most 0.004."""

_ESTIMATED = 4
_NESTED = 2  # of those whose densities have to be estimated too
_PILOT = 200
_MOST_IN_PILOT = 32
_AT_ONCE = 2**22  # numbers in memory: 32 MiB
_MOST_NUMBERS = 2**33  # some minutes on two cores


@in_float64
def estimate_loss(
    view: Any,
    differences: sparse.csr_array,
    *,
    key: Any,
    draws: int = DRAWS,
    bounded: Loss | None = None,
) -> tuple[Loss, np.ndarray]:
    """Losses L = log p(y) − log p(y − v), y ~ view, of the differences that look worst.

    At most four are estimated: the one of largest supremum, and those that a pilot of 200 draws
    puts first by guess rate among up to 32 of large supremum (of those that share it, one for each
    size of group, small groups first); where densities are only estimated, two, without a pilot.
    Without `bounded`, exposure stands in for the supremum, and
    as the law may be asymmetric each is estimated for v and for −v.

    Args:
      view: anything with `sample(key, shape)` and `log_prob`, normalised or not; outside
        `view.support`, where there is one, its density is taken as zero. A view that knows a
        shorter way offers `loss_draws(key, differences, draws)`, (m, draws) on the host; one of
        symmetric noise whose density is only estimated `loss_estimates`, which returns the law.
      differences: (m, n), in units of the counts.
      key: JAX key.
      draws: draws of the view, r.
      bounded: what is proved of the m losses, or None; its `sup` and `sup_kind` are kept. The noise
        is then taken to be symmetric, so that v and −v lose alike.

    Returns:
      The law, and the row of `differences` that each of its entries belongs to.

    Raises:
      UnsupportedError: the view can't be drawn, or has no density.
      ValueError: the density is not finite at the view's own draws, or there is too much to do.
    """
    _check_able(view, int(draws), differences.shape[1])
    first, second = jax.random.split(key)
    candidates = _candidates(view, differences, bounded)
    if hasattr(view, "loss_estimates"):  # dear, and few laws differ: no pilot
        few = candidates[:_NESTED]
        return view.loss_estimates(second, sparse.csr_array(differences[few]), int(draws)), few
    both = 1 if bounded is not None else 2
    if len(candidates) > _ESTIMATED:
        tried = _signed(differences[candidates], both)
        pilot = _draws_of_loss(view, tried, first, min(_PILOT, int(draws)))
        guess = SampledLoss(pilot).guess_rate.reshape(both, -1).max(axis=0)
        order = np.argsort(-guess, kind="stable")
        # Entry 0 has the largest sup: it stays, as pure epsilon is taken from it.
        candidates = candidates[np.unique(np.append(0, order[order > 0][: _ESTIMATED - 1]))]
    tried = _signed(differences[candidates], both)
    losses = _draws_of_loss(view, tried, second, int(draws))
    rows = np.tile(candidates, both)
    if bounded is None:
        return SampledLoss(losses), rows
    # what is proved of our own noise is proved both ways: it is symmetric
    law = SampledLoss(losses, bounded.sup[candidates], bounded.sup_kind, symmetric=True)
    return law, rows


def exposure_of(view: Any, n: int) -> np.ndarray:
    """`view.exposure`, or for a stranger 1/sd from its `variance`; all equal where neither is."""
    if hasattr(view, "exposure"):
        return view.exposure
    try:
        variance = np.broadcast_to(np.asarray(view.variance, dtype=float), (n,))
    except (AttributeError, NotImplementedError, ValueError):
        return np.ones(n)
    with np.errstate(divide="ignore", invalid="ignore"):
        exposure = 1 / np.sqrt(variance)
    return exposure if np.isfinite(exposure).all() else np.ones(n)


def _check_able(view: Any, draws: int, n: int) -> None:
    if hasattr(view, "loss_draws") or hasattr(view, "loss_estimates"):
        n = 1
    elif not (
        callable(getattr(view, "sample", None)) and callable(getattr(view, "log_prob", None))
    ):
        raise UnsupportedError(
            f"`view` of type {type(view).__name__} has no `sample` and `log_prob`, so its privacy "
            "loss can't be estimated with `key` either. Use MaxEntropy, Conditioned or Imaged."
        )
    if draws < 2:
        raise ValueError(f"`draws` must be at least 2; got {draws}. Some thousands tell more.")
    if draws * n > _MOST_NUMBERS:
        raise ValueError(
            f"`draws` times cells must be at most {_MOST_NUMBERS}; got {draws} × {n}. "
            "Ask for fewer draws, or estimate one group of the table."
        )


def _candidates(view: Any, differences: sparse.csr_array, bounded: Loss | None) -> np.ndarray:
    """Rows for the pilot, the one of largest supremum first."""
    shape: Any = differences.shape
    m, n = shape
    rows = np.arange(m)
    if bounded is None:
        rank, size = abs(differences) @ exposure_of(view, n), np.zeros(m)
    else:
        rank, size = bounded.sup, _cells_involved(view, differences)
        # The same supremum in groups of the same size is most often the same law.
        largest = np.max(rank[np.isfinite(rank)], initial=0.0) or 1.0
        alike = np.stack([np.round(rank / largest, 9), size], axis=1)
        rows = np.unique(alike, axis=0, return_index=True)[1]
        rank = np.where(np.isfinite(rank), alike[:, 0], np.inf)
    order = rows[np.lexsort((size[rows], -rank[rows]))]
    top = order[0] if bounded is None else int(np.argmax(bounded.sup))
    most = int(np.clip(_MOST_NUMBERS // (_PILOT * n), _ESTIMATED, _MOST_IN_PILOT))
    return np.append(top, order[order != top])[:most]


def _cells_involved(view: Any, differences: sparse.csr_array) -> np.ndarray:
    """For each difference, how many cells lie under the totals of the cells it touches."""
    if not hasattr(view, "invariant"):
        return np.zeros(differences.shape[0])
    A = abs(sparse.csr_array(view.invariant.matrix)).sign()
    touched = (abs(differences).sign() @ A.T).sign()
    return np.asarray(touched @ A.sum(axis=1)).ravel()


def _signed(differences: sparse.csr_array, both: int) -> sparse.csr_array:
    """The differences, and below them their opposites if `both` is 2."""
    return sparse.csr_array(sparse.vstack([differences, -differences][:both]))


def _draws_of_loss(view: Any, differences: sparse.csr_array, key: Any, draws: int) -> np.ndarray:
    """(m, draws), in batches that fit in memory."""
    if hasattr(view, "loss_draws"):
        return np.asarray(view.loss_draws(key, differences, draws), dtype=np.float64)
    shape: Any = differences.shape
    m, n = shape
    batches = -(-draws * n // _AT_ONCE)
    size = -(-draws // batches)
    losses = np.empty((m, batches * size))
    for batch, batch_key in enumerate(jax.random.split(key, batches)):
        y = np.asarray(view.sample(batch_key, (size,)), dtype=np.float64)
        if y.shape != (size, n):
            raise ValueError(f"`view` must draw {n} cells; got shape {y.shape} for {size} draws.")
        here = _log_prob(view, y, size)
        if not np.isfinite(here).all():
            raise ValueError(
                "`view` must have a finite log-density at its own draws; got "
                f"{here[~np.isfinite(here)][0]}. Build it with jax_enable_x64, or check log_prob."
            )
        part = slice(batch * size, (batch + 1) * size)
        for row in range(m):
            losses[row, part] = here - _log_prob(view, y - differences[[row]].toarray(), size)
    return losses[:, :draws]


def _log_prob(view: Any, y: np.ndarray, size: int) -> np.ndarray:
    with warnings.catch_warnings():
        # A neighbour's value outside the support is meant: its density is zero there.
        warnings.filterwarnings("ignore", "Out-of-support values")
        density = np.asarray(view.log_prob(y), dtype=np.float64)
    if density.shape != (size,):
        raise ValueError(
            f"`view` must give one log-density a draw; got shape {density.shape} for {size} draws. "
            "Turn its last axis into the event: distribution.to_event(1)."
        )
    if not hasattr(view, "support"):
        return density
    # NumPyro's densities go on outside their support: there the neighbours are told apart.
    inside = np.asarray(view.support(y)).reshape(size, -1).all(axis=1)
    return np.where(inside, density, -np.inf)
