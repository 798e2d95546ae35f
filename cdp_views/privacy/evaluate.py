"""A view and its neighbours in, numbers out."""

from typing import Any

import numpy as np
from scipy import sparse

from cdp_views import _checks
from cdp_views._checks import UnsupportedError
from cdp_views.invariants import Invariant
from cdp_views.loss import Loss
from cdp_views.neighbours import Neighbours
from cdp_views.privacy.estimate import DRAWS, estimate_loss, exposure_of
from cdp_views.privacy.result import PrivacyLoss
from cdp_views.privacy.worst import name_difference


def privacy_loss(
    view: Any, neighbours: Neighbours, *, query: Any = None, key: Any = None, draws: int = DRAWS
) -> PrivacyLoss:
    """What publishing a draw of `view`, and the totals with it, gives away.

    The loss L(y) = log p(y − q) − log p(y − q − v), at most over the differences v of `neighbours`.

    Args:
      view: a view of a noise, with its true answers (or any, as the noise is additive). With `key`
        any distribution over the n cells whose neighbour has the same law moved by v: it needs
        `sample` and `log_prob`, and `invariant` where totals are published with it.
      neighbours: relocations(inv), differences(V), …: the unit of privacy.
      query: (r, n) if only these combinations of the cells are published, else all cells are.
      key: a JAX key, the request for an estimate where nothing exact exists. What is exact stays
        so (`pure_epsilon` of Laplace noise); figures that without a key are bounds become
        estimates, of at most four differences that look worst (see `scope`). Not of a `query`.
      draws: draws of that estimate.

    Returns:
      PrivacyLoss: epsilon(delta), delta(epsilon), pure_epsilon, mu, rho, guess_rate, worst.

    Raises:
      TypeError: `view` is no distribution, or `neighbours` a bare array.
      ValueError: a difference changes a total, or the view is a batch.
      UnsupportedError: the law of this view's loss is not known and no key was given.

    Example:
      >>> import cdp_views as cdp, jax.numpy as jnp, numpyro.distributions as dist
      >>> inv = cdp.totals(["a", "a", "a", "b", "b"])
      >>> view = cdp.Conditioned(dist.Normal(jnp.zeros(5), 2.0), inv)
      >>> round(cdp.privacy_loss(view, cdp.relocations(inv)).mu, 6)
      0.707107

    Reference: [L] Definition 1 and Theorem 1; Balle and Wang 2018 for the exact profile.
    """
    _checks.instance(
        "neighbours", neighbours, Neighbours, "Pass relocations(inv), or differences(V) for rows V."
    )
    if isinstance(view, Invariant):
        raise TypeError(
            f"`view` is of type {type(view).__name__}, which is no distribution. Build it first: "
            "cdp.Conditioned(base, inv), for example."
        )
    if getattr(view, "batch_shape", ()) != ():
        raise ValueError(
            f"`view` must be one release; got a batch of shape {tuple(view.batch_shape)}. "
            "Index the batch, or build one view per release."
        )
    inv = getattr(view, "invariant", None)
    if inv is not None and neighbours.n != inv.n:
        raise ValueError(
            f"`neighbours` must cover the {inv.n} cells of the view; got {neighbours.n}. "
            "Build them from the view's own invariant."
        )
    if query is not None:
        query = _as_query(query, neighbours.n)
        differences = sparse.csr_array(neighbours.seen_by(query))
    else:
        exposure = exposure_of(view, neighbours.n) if neighbours.ordered else np.zeros(neighbours.n)
        law = getattr(view, "loss", None)
        found = neighbours.worst(exposure, law) if law else neighbours.shortlist(exposure)
        differences = sparse.csr_array(found)
    if inv is not None:
        neighbours.require(inv)
        _check_kept(differences, inv)
    law, rows, scope = _law(view, differences, query, key, draws)
    return PrivacyLoss(
        law=law,
        worst=name_difference(differences, int(rows[_worst(law)]), inv),
        sensitivity=float(np.sqrt(np.max(differences.power(2).sum(axis=1)))),
        neighbours=neighbours.describe(),
        scope=scope,
    )


def _law(
    view: Any, differences: sparse.csr_array, query: Any, key: Any, draws: int
) -> tuple[Loss, np.ndarray, str]:
    """The laws that can be worst, the difference of each, and what an estimate covers."""
    law, missing = None, None
    if hasattr(view, "loss"):
        try:
            law = view.loss(differences, query=query)
        except UnsupportedError as reason:
            missing = reason
    if law is None and (key is None or query is not None):
        raise missing or _no_law(view, query)
    if law is not None and (law.kind == "exact" or key is None or query is not None):
        rows = law.frontier()
        return law.take(rows), rows, ""
    estimate, rows = estimate_loss(view, differences, key=key, draws=draws, bounded=law)
    many, tried = differences.shape[0], len(np.unique(rows))
    scope = f"estimated from {draws:,} draws, for {tried} of {many:,} differences that look worst"
    return estimate, rows, scope


def _as_query(query: Any, n: int) -> sparse.csr_array:
    try:
        dense_or_sparse = (
            query if sparse.issparse(query) else np.atleast_2d(np.asarray(query, float))
        )
        matrix = sparse.csr_array(dense_or_sparse, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(
            "`query` must be a numeric matrix (r, n), one row per published sum."
        ) from None
    if matrix.shape[1] != n or matrix.shape[0] == 0:
        raise ValueError(
            f"`query` must have shape (r, {n}), one column per cell; got {matrix.shape}."
        )
    if not np.all(np.isfinite(matrix.data)):
        raise ValueError("`query` must be finite. Give every cell's weight as a number.")
    return matrix


def _no_law(view: Any, query: Any) -> UnsupportedError:
    what = f"`view` of type {type(view).__name__} states no law of its privacy loss"
    if query is not None:
        return UnsupportedError(
            f"{what}, and none can be estimated for a `query`. Ask about all cells, with key=."
        )
    return UnsupportedError(
        f"{what}. Pass key=jax.random.key(...) for an estimate with its standard error, or use "
        "MaxEntropy, Conditioned or Imaged with Normal noise."
    )


def _worst(law: Loss) -> int:
    # The largest bounded loss first; where all are unbounded, the best chance of a right guess.
    sup, guess = np.broadcast_arrays(law.sup, law.guess_rate)
    return int(np.lexsort((guess, sup))[-1])


def _check_kept(differences: sparse.csr_array, inv: Any) -> None:
    """Raise if a row v has A v ≠ 0 beyond rounding."""
    A = sparse.csr_array(inv.matrix)
    eps, changed = 8 * np.finfo(float).eps, abs(differences @ A.T)
    excess = sparse.coo_array(changed - eps * (abs(differences) @ abs(A).T))
    row, total = excess.coords
    # rows found by linear algebra carry rounding from all of their cells, not one total's alone
    length = np.sqrt(differences.power(2).sum(axis=1))[row] * np.sqrt(A.power(2).sum(axis=1))[total]
    broken = np.sort(row[excess.data > eps * length])
    if broken.size:
        raise ValueError(
            f"`neighbours` row {int(broken[0])} changes a published total, so epsilon would be "
            "infinite: the total is computed from the data and released exactly. "
            "Use relocations(inv), or a row that leaves every total as it is."
        )
