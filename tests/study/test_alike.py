"""Sameness is seen in numbers."""

import numpy as np

from cdp_views.study.alike import alike, factors, fingerprint_probes


def rows(mu):
    return [{"mu": m, "index": i} for i, m in enumerate(mu)]


def places(classes):
    return [[row["index"] for row in members] for members in classes]


def test_classes_of_equal_law_and_equal_privacy():
    a, b = np.ones((2, 3)), np.arange(6.0).reshape(2, 3)
    assert places(alike(rows([1.0, 1.0, 1.0, 1.0]), [a, b, a, a + 1e-12])) == [[0, 2, 3], [1]]
    assert places(alike(rows([1.0, 1.001]), [a, a])) == [[0], [1]]
    # Negative control: no fingerprint, no claim.
    assert places(alike(rows([1.0, 1.0]), [a * np.nan, a * np.nan])) == [[0], [1]]


def test_one_factor_a_block():
    blocks = np.array([1, 0, 1, 0, -1, 0])
    probes = fingerprint_probes(6)
    scaled = probes * np.array([4.0, 1.21, 4.0, 1.21, 7.0, 1.21])
    np.testing.assert_allclose(factors(scaled, probes, blocks), 1.0)
    scaled[0, 0] *= 1.001
    assert factors(scaled, probes, blocks) is None
