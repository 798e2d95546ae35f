"""Several releases of the same data: what they give away together."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from cdp_views._checks import UnsupportedError
from cdp_views.loss import GaussianLoss, Loss, at_worst, compose_losses
from cdp_views.neighbours import Differences, Neighbours
from cdp_views.privacy import regimes
from cdp_views.privacy.evaluate import loss_of, privacy_loss
from cdp_views.privacy.result import PrivacyLoss
from cdp_views.privacy.worst import name_difference

_MOST_TOTALS = 4_000  # beyond, the rank of all totals together is not worth its time


def compose(
    releases: Sequence[Any], neighbours: Neighbours, *, times: Sequence[int] | None = None
) -> PrivacyLoss:
    """What several releases of the same data give away together, relative to all their totals.

    L = Σ_k L_k. Normal noise composes in closed form, μ = √Σμ_k², pure ε and ρ add, and other laws
    go through dp-accounting's privacy loss distributions, rounded up. The noises must be drawn
    independently; each release may be chosen in view of the earlier ones.

    A difference must leave *every* published total as it is: the guarantee is relative to all the
    invariants published so far, and a release that publishes a new total makes it weaker for
    everything released before. `scope` says which release adds how many totals.

    Args:
      releases: views, or pairs (view, query) where only combinations of the cells are published.
      neighbours: the unit of privacy, relative to all totals: relocations(inv_1 & inv_2).
      times: how often each is released with fresh noise; once if left out.

    Returns:
      PrivacyLoss of all releases together: "exact" for Normal noise with one worst difference, or
      differences(V), of which each row is composed by itself; else a bound.

    Raises:
      ValueError: no releases, or a difference that changes a total that one of them publishes.
      UnsupportedError: a view whose loss is not known; composed laws without the extra
        `accounting` once δ(ε) or ε(δ) is asked for.

    Example:
      >>> import cdp_views as cdp, numpy as np, numpyro.distributions as dist
      >>> inv = cdp.totals(["a", "a", "a"])
      >>> view = cdp.Conditioned(dist.Normal(np.zeros(3), 2.0), inv)
      >>> round(cdp.compose([view, view], cdp.relocations(inv)).mu, 6)  # √(½ + ½)
      1.0

    Reference: Dong, Roth and Su 2022, Corollary 3.3; Bun and Steinke 2016, Lemma 2.3; Doroshenko
    et al. 2022; Kifer et al. 2022 for composition relative to invariants.
    """
    parsed = [_parse(release) for release in releases]
    if not parsed:
        raise ValueError("`releases` must hold at least one view; got none.")
    losses = [_loss_of(k, view, query, neighbours) for k, (view, query) in enumerate(parsed)]
    added = _added_totals([view for view, _ in parsed])
    if isinstance(neighbours, Differences):
        law, worst = _row_by_row(parsed, neighbours, times)
    else:
        law = compose_losses([at_worst(loss.law) for loss in losses], times)
        worst = max(losses, key=lambda loss: loss.guess_rate).worst
        same = {(loss.worst.cells, tuple(np.abs(loss.worst.values))) for loss in losses}
        if isinstance(law, GaussianLoss) and len(same) > 1:
            law = GaussianLoss(law.mu, "bound")  # the largest of each, at different differences
    return PrivacyLoss(
        law=law,
        worst=worst,
        sensitivity=max(loss.sensitivity for loss in losses),
        neighbours=losses[0].neighbours,
        scope=_scope(len(losses), times, added, [loss.scope for loss in losses]),
        regime=" / ".join(dict.fromkeys(loss.regime for loss in losses if loss.regime)),
    )


def repeated(loss: PrivacyLoss, times: int) -> PrivacyLoss:
    """The loss of `times` releases with fresh noise, each able to meet its own worst difference.

    For m tables that share a budget: what one person can change in one table bounds each of them.

    Args:
      loss: of one release.
      times: 1 or more.

    Example:
      >>> from cdp_views.privacy import WorstDifference
      >>> worst = WorstDifference(0, (0, 1), (1.0, -1.0))
      >>> round(repeated(PrivacyLoss(GaussianLoss([1.0]), worst, 2**0.5, "unit"), 4).mu, 6)
      2.0
    """
    if times == 1:
        return loss
    law = compose_losses([at_worst(loss.law)], [times])
    scope = "; ".join(part for part in (loss.scope, f"{times} releases together") if part)
    return replace(loss, law=law, scope=scope, pairs=None)


def _parse(release: Any) -> tuple[Any, Any]:
    return release if isinstance(release, tuple) and len(release) == 2 else (release, None)


def _loss_of(k: int, view: Any, query: Any, neighbours: Neighbours) -> PrivacyLoss:
    """One release's loss; a total that only this one publishes is what usually goes wrong."""
    try:
        return privacy_loss(view, neighbours, query=query)
    except UnsupportedError as reason:
        raise UnsupportedError(f"`releases` {k}: {reason}") from None
    except ValueError as reason:
        if not str(reason).startswith("`neighbours`") or "total" not in str(reason):
            raise
        raise ValueError(
            f"`neighbours` change a total that release {k} publishes, which tells them apart "
            "whatever the other releases hide. State them relative to all totals published so "
            "far: relocations(inv_1 & inv_2)."
        ) from reason


def _row_by_row(
    parsed: list[tuple[Any, Any]],
    neighbours: Differences,
    times: Sequence[int] | None,
) -> tuple[Loss, Any]:
    """Each listed difference composed by itself: no release borrows another's worst."""
    rows = sparse.csr_array(neighbours.shortlist(np.zeros(neighbours.n)))
    laws = [
        loss_of(view)(rows, query=None if query is None else _as_sparse(query))
        for view, query in parsed
    ]
    law = compose_losses(laws, times)
    kept = law.frontier()
    law = law.take(kept)
    top = np.asarray(law.sup)
    order = np.lexsort((law.gdp, top))
    inv = getattr(parsed[0][0], "invariant", None)
    return law, name_difference(rows, int(kept[order[-1]]), inv)


def _as_sparse(query: Any) -> sparse.csr_array:
    dense = query if sparse.issparse(query) else np.atleast_2d(np.asarray(query, float))
    return sparse.csr_array(dense)


def _added_totals(views: list[Any]) -> list[int | None]:
    """How many totals, computed from the data, each release adds to those before; None: unknown."""
    together, rank, added = None, 0, []
    for view in views:
        inv = getattr(view, "invariant", None)
        if inv is None or regimes.of(view) != regimes.COMPUTED:
            added.append(0)
            continue
        rows = sparse.csr_array(inv.matrix)
        joined = rows if together is None else sparse.csr_array(sparse.vstack([together, rows]))
        if together is not None and _same(together, rows):
            added.append(0)
            continue
        together = joined
        new = _rank(joined)
        added.append(None if new is None else new - rank)
        rank = new or 0
    return added


def _rank(rows: sparse.csr_array) -> int | None:
    shape: Any = rows.shape
    if shape[0] > _MOST_TOTALS:
        return None
    # Through the Gram matrix of scaled rows: k × k, whatever the number of cells.
    norm = np.sqrt(rows.power(2).sum(axis=1))
    scaled = sparse.csr_array(sparse.diags_array(1 / np.where(norm > 0, norm, 1.0)) @ rows)
    values = np.linalg.eigvalsh(sparse.csr_array(scaled @ scaled.T).toarray())
    return int(np.sum(values > 1e-10 * max(1.0, float(values.max()))))


def _same(a: sparse.csr_array, b: sparse.csr_array) -> bool:
    return a.shape == b.shape and abs(a - b).sum() == 0


def _scope(
    count: int, times: Sequence[int] | None, added: list[int | None], each: list[str]
) -> str:
    total = count if times is None else sum(times)
    text = f"{total} releases together, relative to all totals that they publish"
    later = [
        f"release {k} adds {'further totals' if new is None else new}"
        + ("" if new is None else f" total{'s' if new != 1 else ''}")
        + " to those before it"
        for k, new in enumerate(added)
        if k and new != 0
    ]
    return "; ".join([text, *later, *dict.fromkeys(part for part in each if part)])
