"""Margins of sums: with the correlation that exact totals bring, whatever the law."""

import numpy as np
import pytest
from scipy.special import ndtri

import cdp_views as cdp

from .conftest import COUNTS

SUMS = np.array([[1, 1, 1, 0, 0, 0, 0, 0], [1, 1, 1, 1, 0, 0, 0, 0], [1, 0, 0, 0, -2, 0, 0, 1]])


def test_a_sum_under_an_exact_total_against_dense_algebra(make, inv):
    made = make(view="conditioned", scales=[1, 2, 2, 1, 3, 3, 2, 2.5])
    A, D = inv.matrix.toarray(), np.diag(made.scale**2)
    covariance = D - D @ A.T @ np.linalg.inv(A @ D @ A.T) @ A @ D
    for level in (0.90, 0.5):
        z = ndtri((1 + level) / 2)
        expected = z * np.sqrt(np.maximum(np.einsum("qi,ij,qj->q", SUMS, covariance, SUMS), 0))
        found = made.margin(SUMS, level=level)
        np.testing.assert_allclose(found["margin"], np.where([1, 0, 1], expected, 0), rtol=1e-10)
        assert set(found["kind"]) == {"exact"} and np.all(found["stderr"] == 0)
    # three of four cells err as much as the fourth; the root of the sum of squares says otherwise
    cells = made.margin()["margin"].to_numpy()
    assert made.margin(SUMS)["margin"].iloc[0] == pytest.approx(cells[3], rel=1e-10)
    assert np.sqrt(np.sum(cells[:3] ** 2)) > 2 * cells[3]


@pytest.mark.parametrize("noise", ["discrete-laplace", "laplace"])
def test_noise_without_a_formula_against_counting(noise):
    """Two pairs: X₁ = −X₂ has p ∝ base², so the sum of two such cells is a convolution."""
    inv = cdp.totals(list("aabb"))
    made = cdp.release(
        [30, 40, 50, 60], inv, view="conditioned", noise=noise, epsilon=0.5,
        neighbours=cdp.relocations(inv),
    )  # fmt: skip
    sums = [[1, 0, 1, 0], [1, 1, 0, 0]]
    found = made.margin(sums)
    fine = 1 if noise == "discrete-laplace" else 64
    x = np.arange(-100 * fine, 100 * fine + 1) / fine
    p = np.exp(-2 * np.abs(x) / float(made.scale))
    p /= p.sum()
    law = np.convolve(p, p)
    total = np.cumsum(np.bincount(np.abs(np.arange(law.size) - law.size // 2), law))
    exact = np.searchsorted(total, 0.90) / fine
    row = found.iloc[0]
    assert row["kind"] == "estimate" and row["stderr"] > 0
    assert abs(row["margin"] - exact) <= 5 * row["stderr"] + 1 / fine
    assert found["margin"].iloc[1] == 0 and found["kind"].iloc[1] == "exact"
    assert found["margin"].equals(made.margin(sums)["margin"])
    cells, alone = made.margin(), made.margin(np.vstack([-2 * np.eye(4)[:2], sums[:1]]))
    if noise == "discrete-laplace":  # a row of one cell is that cell: no draws, no estimate
        assert alone["kind"].tolist() == ["exact", "exact", "estimate"]
        np.testing.assert_array_equal(alone["margin"][:2], 2 * cells["margin"][:2])
        assert (alone["stderr"][:2] == 0).all() and set(cells["kind"]) == {"exact"}


def test_sums_by_the_names_of_their_cells(make):
    made = make(names=list("abcdefgh"), view="imaged")
    by_name = made.margin({"three": ["a", "b", "c"], "x": list("abcd")})
    assert list(by_name.index) == ["three", "x"]
    np.testing.assert_allclose(by_name["margin"], made.margin(SUMS[:2])["margin"], rtol=1e-12)
    assert list(made.margin().index) == list("abcdefgh")
    assert np.all(made.margin(made.invariant)["margin"] == 0)
    for bad, words in (
        ({"workload": {"s": ["z"]}}, 'names a cell "z" that the release does not have'),
        ({"workload": np.ones((1, 7))}, "must have 8 columns"),
        ({"level": 90}, "`level` must lie between 0 and 1; got 90"),
    ):
        with pytest.raises(ValueError, match=words):
            made.margin(**bad)


def test_margins_need_nothing_confidential(make, tmp_path):
    pytest.importorskip("pyarrow")
    made = make(noise="normal", names={"fips": [f"{i:02}" for i in range(8)]})
    made.save(tmp_path / "r.parquet")
    again = cdp.read_release(tmp_path / "r.parquet")
    assert again.margin(SUMS).equals(made.margin(SUMS))
    assert again.table["fips"].tolist()[0] == "00" and again.released.sum() == COUNTS.sum()
