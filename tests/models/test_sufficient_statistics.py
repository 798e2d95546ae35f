"""Regression from noisy sums: moments by Gauss-Hermite quadrature, the joint density by scipy."""

import jax
import numpy as np
from scipy import stats

import cdp_views as cdp
from cdp_views.models import sufficient_statistics

FREE = cdp.linear(np.zeros((1, 5)))


def by_quadrature(centre, width, alpha, beta, sigma):
    """Mean and covariance of (x, x², z, xz, z²): polynomials, so eight nodes are exact."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(8)
    u, v = np.meshgrid(nodes, nodes, indexing="ij")
    weight = np.outer(weights, weights) / (2 * np.pi)
    x = centre + width * u
    z = alpha + beta * x + sigma * v
    f = np.stack([x, x**2, z, x * z, z**2])
    mean = np.sum(weight * f, axis=(1, 2))
    return mean, np.einsum("uv,iuv,juv->ij", weight, f, f) - np.outer(mean, mean)


def test_the_joint_density_with_exact_moments(joint):
    mechanism = cdp.Mechanism("independent", "laplace", 4.0, FREE)
    sums = np.array([30.0, 60, 20, 25, 40])
    noise = np.array([2.0, -1, 0, 5, -3])
    seen = cdp.Observed(mechanism, sums + noise)
    for theta in ((0.1, 0.4, 0.2, 0.5, 0.3), (-0.2, 0.5, 0.1, -0.3, 0.6)):
        centre, width, alpha, beta, sigma = theta
        unit = [centre / 0.3, 2 + 2 * np.log(width), alpha / 0.5, beta, 2 + 2 * np.log(sigma)]
        mean, covariance = by_quadrature(*theta)
        root = np.linalg.cholesky(300 * covariance)
        free = np.linalg.solve(root, sums - 300 * mean)
        values = {"unit": unit, "sums_unit": free}
        found = joint(sufficient_statistics.model, values, seen, 300)
        wanted = stats.multivariate_normal.logpdf(sums, 300 * mean, 300 * covariance)
        wanted += np.log(np.diag(root)).sum()  # a density of sums_unit
        wanted += stats.norm.logpdf(unit).sum()
        wanted += stats.laplace.logpdf(noise, 0, 4).sum()
        np.testing.assert_allclose(found, wanted, rtol=1e-8)


def test_simulated_sums_and_an_exact_one(key):
    """With the sum of x exact, its noise is 0."""
    with jax.enable_x64(True):
        mechanism = cdp.Mechanism("imaged", "normal", 4.0, cdp.linear(np.eye(5)[:1]))
        truth, released = sufficient_statistics.simulate(key, mechanism, 300)
    assert released.shape == truth["sums"].shape == (5,)
    moved = np.abs(np.asarray(released - truth["sums"]))
    assert moved[0] < 1e-10 and np.all(moved[1:] > 1e-3)


def test_sums_of_data():
    np.testing.assert_allclose(
        sufficient_statistics.sums_of([1.0, 2.0], [3.0, -1.0]), [3.0, 5.0, 2.0, 1.0, 10.0]
    )
