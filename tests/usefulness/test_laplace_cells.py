"""What the cells of Laplace noise share, against quadrature in the plane of three cells."""

import numpy as np
import pytest

from cdp_views.usefulness.laplace_cells import cell_entropy, laplace_correlation


def test_three_conditioned_cells_by_quadrature():
    """p(x, y) ∝ exp(−|x| − |y| − |x + y|): Σ h − h(X) of two of the three cells."""
    u = np.linspace(-25, 25, 1_501)
    step = u[1] - u[0]
    log = -np.abs(u)[:, None] - np.abs(u) - np.abs(u[:, None] + u)
    mass = np.exp(log) * step**2
    log -= np.log(mass.sum())
    mass /= mass.sum()
    joint = -(mass * log).sum()
    one = mass.sum(axis=0) / step
    alone = -(one * np.log(np.maximum(one, 1e-300))).sum() * step
    np.testing.assert_allclose(cell_entropy("conditioned", 3), alone, atol=1e-3)
    # The plane stretches two coordinates by √3; scale moves all alike; groups add up.
    stretched = 2 * (joint + 0.5 * np.log(3) + 2 * np.log(7))
    found = laplace_correlation("conditioned", 7.0, np.array([3, 1, 3]), stretched)
    np.testing.assert_allclose(found, 2 * (2 * alone - joint), atol=2e-3)
    assert abs(found - 2 * (2 * (1 + np.log(2)) - joint)) > 0.1  # a cell is no Laplace any more


def test_two_imaged_cells_and_very_many():
    """(U₁ − U₂)/2 has density (1 + 2|d|) e^{−2|d|}/2; of many cells each is Laplace again."""
    d = np.linspace(-30, 30, 200_001)
    density = (1 + 2 * np.abs(d)) * np.exp(-2 * np.abs(d)) / 2
    expected = -np.trapezoid(density * np.log(density), d)
    assert cell_entropy("imaged", 2) == pytest.approx(expected, abs=1e-7)
    for view in ("imaged", "conditioned"):
        assert cell_entropy(view, 3_000) == pytest.approx(1 + np.log(2), abs=1e-3)
    assert cell_entropy("max-entropy", 3) == 1 + np.log(2)
