"""metric="l1" of Normal and Laplace noise: what it gives away and its errors, by brute force."""

import itertools

import numpy as np
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose
from scipy import sparse, stats

import cdp_views as cdp

V = np.array([[0.0, 1, 0, 0, 4, 0], [3.0, 0, 2, 0, 0, 0], [0.0, 3, 0, 2, 0, 0], [0, 0, 1, 0, 2, 0]])


@pytest.fixture
def moved(inv, scale, costs, dense):
    """(view of a base, fibre u (n, k), move (n, n)): one cell of a group moves, or tied ones."""
    directions, move, _ = dense

    def make(base, tie=False, loc=None):
        w = np.abs(inv.matrix.toarray()).sum(0) if tie else costs
        view = cdp.Imaged(
            base(np.zeros(6) if loc is None else loc, scale), inv, metric="l1", weights=w
        )
        A = inv.matrix.toarray()
        u = directions(A, w, "l1")
        return view, u, move(A, np.eye(6), u).T

    return make


def kept(inv):
    """Differences that change no total."""
    return np.asarray(inv.project(V))


@pytest.mark.parametrize("tie", [False, True])
def test_normal_loss_and_errors(moved, inv, scale, tie):
    """μ² = v Σ⁺ vᵀ with Σ = ΠΔΠᵀ dense, errors' sd of cells and of queries."""
    view, _, map_ = moved(dist.Normal, tie)
    sigma = map_ @ np.diag(scale**2) @ map_.T
    rows = kept(inv)
    want = np.sqrt(np.einsum("mi,ij,mj->m", rows, np.linalg.pinv(sigma, rcond=1e-10), rows))
    assert_allclose(view.loss(sparse.csr_array(rows)).mu, want, rtol=1e-8)
    alone = np.sqrt(np.sum((rows / scale) ** 2, 1))
    assert np.all(want < alone + 1e-9) and np.any(want < 0.95 * alone)  # imaging shows less
    assert_allclose(view.deviation().sd, np.sqrt(np.diag(sigma)), atol=1e-12)
    W = np.array([[1.0, 1, 0, 0, 0, 0], [0, 2, 1, 0, -1, 0], *inv.matrix.toarray()])
    errors = np.sqrt(np.maximum(np.diag(W @ sigma @ W.T), 0))
    assert_allclose(view.deviation(sparse.csr_array(W)).sd, errors, atol=1e-7)
    query = sparse.csr_array(W[:2])
    seen = W[:2] @ rows.T
    lengths = np.einsum("im,ij,jm->m", seen, np.linalg.inv(W[:2] @ sigma @ W[:2].T), seen)
    assert_allclose(view.loss(sparse.csr_array(rows), query).mu, np.sqrt(lengths), rtol=1e-8)


@pytest.mark.parametrize("tie", [False, True])
def test_laplace_supremum(moved, inv, scale, tie):
    """min_w Σ_g ‖(v + u w)/λ‖₁ at the breakpoints of w, tried one by one."""
    view, u, _ = moved(dist.Laplace, tie)
    rows = kept(inv)
    want = []
    for v in rows:
        points = [
            [0.0, *(-v[g != 0] / g[g != 0])] for g in u.T
        ]  # the fibre of every group and where its cells cross 0
        want.append(
            min(np.sum(np.abs(v + u @ np.array(w)) / scale) for w in itertools.product(*points))
        )
    assert_allclose(view.loss(sparse.csr_array(rows)).sup, want, rtol=1e-9)
    assert np.all(want < np.sum(np.abs(rows) / scale, 1) + 1e-9)


def test_laplace_draws_of_the_loss(moved, inv, scale, key):
    """Draws from one group alone have the law of Σ (|x + v| − |x|)/λ over the cells that stay."""
    view, u, _ = moved(dist.Laplace)
    stays = np.all(u == 0, 1)
    v = kept(inv)[1:2]
    draws = view.loss_draws(key, sparse.csr_array(v), 20_000)[0]
    x = np.random.default_rng(1).laplace(size=(20_000, 6)) * scale
    direct = np.sum(((np.abs(x + v) - np.abs(x)) / scale)[:, stays], 1)
    sup = view.loss(sparse.csr_array(v)).sup[0]
    draws, direct = np.round(draws, 9), np.round(direct, 9)  # atoms at ±sup
    assert np.all(np.abs(draws) <= sup * (1 + 1e-9)) and np.abs(draws).max() > 0.99 * sup
    assert stats.ks_2samp(draws, direct).pvalue > 1e-6
    assert stats.ks_2samp(-draws, direct).pvalue < 1e-6
