"""A view and its neighbours in, numbers out."""

from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import sparse

from cdp_views import _checks
from cdp_views._checks import UnsupportedError
from cdp_views.invariants import Invariant
from cdp_views.loss import BoundedLoss, GaussianLoss, Loss, ProfileLoss
from cdp_views.loss.concentrated import RhoLoss
from cdp_views.neighbours import Neighbours
from cdp_views.privacy import regimes
from cdp_views.privacy.estimate import DRAWS, estimate_loss, exposure_of
from cdp_views.privacy.joined import JoinedLoss
from cdp_views.privacy.pairs import Pairs
from cdp_views.privacy.result import PrivacyLoss
from cdp_views.privacy.worst import name_difference

_ROUNDING = 1e-12


def privacy_loss(
    view: Any,
    neighbours: Neighbours,
    *,
    query: Any = None,
    key: Any = None,
    draws: int = DRAWS,
    changed_totals: Literal["refuse", "infinite"] = "refuse",
    table: Literal["any", "this"] = "any",
) -> PrivacyLoss:
    """What publishing a draw of `view`, and the totals with it, gives away.

    The loss L(y) = log p(y − q) − log p(y − q − v), at most over the differences v of `neighbours`.

    Two regimes, kept apart (`PrivacyLoss.regime` says which): totals *computed from the data* and
    published exactly, where a neighbour with other totals is told apart for certain; and totals
    *fixed in advance*, a view built with `total=`, where neighbours may have any totals.

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
      changed_totals: what a difference means that changes a total computed from the data: "refuse"
        it as a slip, or answer "infinite": ε = ∞, δ = 1.
      table: where the loss depends on the true table (conditioning on totals fixed in advance, or
        within bounds), "any" is the guarantee: whatever the table. "this" is the loss of neighbours
        of the view's own table, usually smaller: no guarantee, and as confidential as the table.

    Returns:
      PrivacyLoss: epsilon(delta), delta(epsilon), pure_epsilon, mu, rho, guess_rate, worst.

    Raises:
      TypeError: `view` is no distribution, or `neighbours` a bare array.
      ValueError: a difference changes a total computed from the data, or the view is a batch.
      UnsupportedError: the law of this view's loss is not known and no key was given.

    Example:
      >>> import cdp_views as cdp, jax.numpy as jnp, numpyro.distributions as dist
      >>> inv = cdp.totals(["a", "a", "a", "b", "b"])
      >>> view = cdp.Conditioned(dist.Normal(jnp.zeros(5), 2.0), inv)
      >>> round(cdp.privacy_loss(view, cdp.relocations(inv)).mu, 6)
      0.707107

    Reference: [L] Definition 1 and Theorem 1; Balle and Wang 2018 for the exact profile; [TV]
    Definition 3.1 for totals fixed in advance.
    """
    _checks.instance(
        "neighbours", neighbours, Neighbours, "Pass relocations(inv), or differences(V) for rows V."
    )
    _checks.choice("changed_totals", changed_totals, ("refuse", "infinite"))
    _checks.choice("table", table, ("any", "this"))
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
    query = None if query is None else _as_query(query, neighbours.n)
    regime = regimes.of(view)
    if regime == regimes.COMPUTED:
        leaving = regimes.leaving(neighbours, inv, changed_totals)
        if leaving is not None:
            return _told_apart(leaving, neighbours, inv)
    law_of = loss_of(view, table)
    differences, law, rest = _to_try(view, law_of, neighbours, query)
    if regime == regimes.COMPUTED:
        regimes.require_kept(differences, inv)
    if law is None and law_of is not None:
        try:
            law = law_of(differences, query=query)
        except UnsupportedError as reason:
            if key is None or query is not None:
                raise reason from None
    if law is not None and law_of is not None and neighbours.by_norm:
        beyond = neighbours.beyond(differences, lambda v: law_of(v, query=query))
        law = _of_norm(law, beyond)
    law, every, rows, scope = _law(view, differences, law, query, key, draws)
    worst = name_difference(differences, int(rows[_worst(law)]), inv)
    if rest is not None and law.kind != "estimate":
        law = JoinedLoss([law, rest])
    if law.kind == "estimate":  # of the few differences that were drawn
        pairs = Pairs(law, sparse.csr_array(differences[rows]), inv)
    else:
        pairs = Pairs(every, differences, inv, _exposure_or_none(view, neighbours.n))
    local = table == "this" and hasattr(view, "loss_scope")
    note = view.loss_scope(differences) if local else ""
    return PrivacyLoss(
        law=law,
        worst=worst,
        sensitivity=_sensitivity(differences),
        neighbours=neighbours.describe(),
        scope="; ".join(part for part in (scope, note) if part),
        regime=regime,
        pairs=pairs,
    )


def _told_apart(differences: sparse.csr_array, neighbours: Neighbours, inv: Any) -> PrivacyLoss:
    """A total changes with the data, and it is published exactly: ε = ∞."""
    law = GaussianLoss(np.array([np.inf]))
    return PrivacyLoss(
        law=law,
        worst=name_difference(differences, 0, inv),
        sensitivity=_sensitivity(differences),
        neighbours=neighbours.describe(),
        scope="a published total changes with the data, so the two tables are told apart",
        regime=regimes.COMPUTED,
        pairs=Pairs(law, sparse.csr_array(differences[[0]]), inv),
    )


def _sensitivity(differences: sparse.csr_array) -> float:
    return float(np.sqrt(np.max(differences.power(2).sum(axis=1))))


class _Tried(NamedTuple):
    """Differences among which the worst is, their laws if known, a bound for those left out."""

    differences: sparse.csr_array
    law: Loss | None = None
    rest: Loss | None = None


def loss_of(view: Any, table: str = "any") -> Any:
    """The function of differences that says a view's loss: whatever the table, or at its own."""
    own = getattr(view, "loss", None)
    return own if table == "this" else getattr(view, "loss_anywhere", own)


def _to_try(view: Any, law_of: Any, neighbours: Neighbours, query: Any) -> _Tried:
    if query is not None:
        return _Tried(sparse.csr_array(neighbours.seen_by(query)))
    n = neighbours.n
    exposure = exposure_of(view, n) if neighbours.ordered else np.zeros(n)
    if law_of is None:
        return _Tried(sparse.csr_array(neighbours.shortlist(exposure)))
    ordered, answer_of_parts = True, None

    def law(differences: sparse.csr_array) -> Loss:
        nonlocal ordered, answer_of_parts
        answer = answer_of_parts = law_of(differences)
        in_order = answer.additive() is not None or getattr(answer, "by_exposure", False)
        ordered = ordered and in_order
        return answer

    found, answer = None, None
    try:
        found = sparse.csr_array(neighbours.worst(exposure, law))
        answer = law(found)
    except UnsupportedError:  # no law: what looks worst will be estimated, or refused
        if found is None and answer_of_parts is None:
            raise
        if found is None:  # too many to try one by one: pure ε still adds up over groups
            found = sparse.csr_array(neighbours.worst(exposure, lambda v: _pure(law_of(v))))
            return _Tried(found, _of_pairs(view, found, exposure, _pure(law_of(found))))
    proved = neighbours.by_block and getattr(answer, "by_exposure", False)
    if found is not None and (ordered or neighbours.by_norm or proved):
        return _Tried(found, answer)
    # these laws have no one order: every class of differences is tried, at each ε
    exposure = _exposure_or_none(view, n)
    if exposure is None and found is not None:  # the relation needs none
        return _Tried(found, answer)
    assert exposure is not None
    classes = neighbours.classes(exposure, getattr(view, "invariant", None))
    differences = sparse.csr_array(classes.differences)
    answer = law_of(differences)
    if classes.complete:
        return _Tried(differences, answer)
    size = abs(differences) @ exposure
    if np.any(answer.sup > size * (1 + 1e-9)):
        raise UnsupportedError(
            "`neighbours` differ in more ways than can be tried, and nothing bounds the others. "
            "State the differences that matter with differences(V), or use equal scales."
        )
    # pure ε is at most the exposure of what changes, and the others have less of it
    total = float(size.min())
    below = getattr(view, "loss_of_pairs_below", None)
    if below is not None and np.all(np.diff(differences.indptr) == 2):
        size = float(np.max(np.abs(differences.data)))
        kept = size if regimes.of(view) == regimes.COMPUTED else None
        return _Tried(differences, answer, below(total, float(np.max(exposure)) * size, kept))
    return _Tried(differences, answer, BoundedLoss(np.array([total]), "bound"))


def _of_pairs(view: Any, found: sparse.csr_array, exposure: np.ndarray, law: Loss) -> Loss:
    """What is proved of any two cells, where that is less than what pure ε alone proves."""
    below = getattr(view, "loss_of_pairs_below", None)
    if below is None or not np.all(np.diff(found.indptr) == 2):
        return law
    two = float(np.max(np.abs(found.data))) * np.sort(exposure)[-2:]
    pair = below(float(two.sum()), float(two[1]))
    return ProfileLoss(
        lambda epsilon: np.minimum(pair.delta(epsilon), law.delta(epsilon)),
        law.sup,
        law.sup_kind,
        "bound",
    )


def _exposure_or_none(view: Any, n: int) -> np.ndarray | None:
    try:
        return exposure_of(view, n) if hasattr(view, "exposure") else None
    except UnsupportedError:
        return None


def _law(
    view: Any, differences: sparse.csr_array, law: Loss | None, query: Any, key: Any, draws: int
) -> tuple[Loss, Loss, np.ndarray, str]:
    """The laws that can be worst and those of all rows; the row of each of the former; the scope.

    The scope says what an estimate covers.
    """
    if law is None and (key is None or query is not None):
        raise _no_law(view, query)
    if law is not None and (law.kind == "exact" or key is None or query is not None):
        rows = law.frontier()
        return law.take(rows), law, rows, ""
    if regimes.of(view) == regimes.FIXED and not hasattr(view, "loss_draws"):
        _require_drawable(view, differences)
    estimate, rows = estimate_loss(view, differences, key=key, draws=draws, bounded=law)
    many, tried = differences.shape[0], len(np.unique(rows))
    scope = f"estimated from {draws:,} draws, for {tried} of {many:,} differences that look worst"
    return estimate, estimate, rows, scope


def _pure(law: Loss) -> Loss:
    """What is proved from pure ε alone."""
    return law if law.additive() is not None else BoundedLoss(law.sup, law.sup_kind)


def _of_norm(law: Loss, beyond: float) -> Loss:
    """What is proved from pure ε or ρ alone: the worst by a norm is worst in these, not in all.

    Pure ε that is no norm may be larger elsewhere: the largest then stands for what is `beyond`.
    """
    rho = getattr(law, "rho", None)
    if law.additive() is None:
        law = BoundedLoss(law.sup, law.sup_kind) if rho is None else RhoLoss(rho)
    if np.max(law.sup) >= beyond * (1 - _ROUNDING):
        return law
    sup = np.array(law.sup, dtype=float)
    sup[np.argmax(sup)] = beyond
    return BoundedLoss(sup, "bound")


def _require_drawable(view: Any, differences: sparse.csr_array) -> None:
    if regimes.leaves(differences, view.invariant).any():
        raise UnsupportedError(
            "`key` gives no estimate for neighbours with other totals than those fixed in advance. "
            "Leave it out for what is proved; of an imaged view, v may be replaced by its "
            "projection: differences(inv.project(V))."
        )


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
    sup = np.asarray(law.sup)
    top = np.flatnonzero(sup >= np.max(sup))
    return int(top[0]) if len(top) == 1 else int(top[np.argmax(law.take(top).guess_rate)])
