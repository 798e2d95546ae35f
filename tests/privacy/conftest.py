"""A view and an invariant of a few lines of dense algebra: as much as privacy looks at."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from cdp_views.loss import GaussianLoss, Loss


@dataclass
class DenseView:
    """Normal noise of covariance Σ on ker A; μ² = vᵀ Σ⁺ v, or of W Σ Wᵀ where W is published."""

    invariant: object
    covariance: np.ndarray
    batch_shape: tuple = ()

    @property
    def exposure(self):
        return 1 / np.sqrt(np.diag(self.covariance))

    def loss(self, differences, query=None):
        W = np.eye(self.invariant.n) if query is None else query.toarray()
        V = differences.toarray() @ W.T
        inverse = np.linalg.pinv(W @ self.covariance @ W.T, rcond=1e-12)
        return GaussianLoss(np.sqrt(np.maximum(np.einsum("mi,ij,mj->m", V, inverse, V), 0)))


class UniformLoss(Loss):
    """A loss bounded by `bound` with δ(ε) = max(0, height·(1 − ε/bound)): made up."""

    kind = "bound"

    def __init__(self, bound, height):
        self.bound, self.height = np.asarray(bound, float), np.asarray(height, float)
        self.stderr = 0.01 * self.height

    @property
    def sup(self):
        return self.bound

    def delta(self, epsilon):
        return np.maximum(0, self.height * (1 - epsilon / self.bound))

    def epsilon(self, delta):
        return np.maximum(0, self.bound * (1 - delta / self.height))

    def take(self, indices):
        return UniformLoss(self.bound[indices], self.height[indices])


@pytest.fixture
def one_total():
    """n cells under one total named "WI"."""

    def make(n=5, names=("WI",)):
        A = sparse.csr_array(np.ones((1, n)))
        return SimpleNamespace(n=n, matrix=A, blocks=np.zeros(n, int), names=names)

    return make


@pytest.fixture
def two_totals():
    """Cells 0, 2, 4 under "IL" and 1, 3 under "WI"."""
    A = sparse.csr_array(np.array([[1.0, 0, 1, 0, 1], [0, 1, 0, 1, 0]]))
    return SimpleNamespace(
        n=5, matrix=A, blocks=np.array([0, 1, 0, 1, 0]), names=np.array(["IL", "WI"])
    )


@pytest.fixture
def conditioned():
    """Σ = Δ − Δ Aᵀ (A Δ Aᵀ)⁻¹ A Δ."""

    def make(inv, sigma):
        A, D = inv.matrix.toarray(), np.diag(np.asarray(sigma, float) ** 2)
        return DenseView(inv, D - D @ A.T @ np.linalg.solve(A @ D @ A.T, A @ D))

    return make


@pytest.fixture
def imaged():
    """Σ = P Δ P."""

    def make(inv, sigma):
        A = inv.matrix.toarray()
        P = np.eye(inv.n) - np.linalg.pinv(A) @ A
        return DenseView(inv, P @ np.diag(np.asarray(sigma, float) ** 2) @ P)

    return make


@pytest.fixture
def bounded_view():
    """A view whose loss is not normal, one difference per row of what it is asked about."""

    def make(inv, bound, height):
        law = UniformLoss(bound, height)
        return SimpleNamespace(
            invariant=inv, exposure=np.ones(inv.n), loss=lambda differences, query=None: law
        )

    return make
