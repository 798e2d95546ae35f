"""Tables of draws against NumPy and the binomial."""

import numpy as np
import pytest

from cdp_views.inference import summarise, to_datatree

DRAWS = np.random.default_rng(7).normal([0.0, 1.0, 50.0], [1.0, 2.0, 0.1], size=(4, 500, 3))
LABELS = {"cell": ["a", "b", "c"], "state": (("cell",), ["IL", "IL", "OH"])}


def test_columns_say_their_level_and_cells_their_labels():
    mu = DRAWS[..., 0] + 3
    table = summarise(to_datatree({"mu": mu, "q": DRAWS}, LABELS))
    assert list(table.columns) == [
        "site", "cell", "state", "mean", "mean_mcse", "sd", "eti90_lower", "eti90_upper",
        "ess_bulk", "ess_tail", "r_hat",
    ]  # fmt: skip
    assert table.attrs["about"].startswith("Posterior from 4 chains of 500 draws; eti90: 90 %")
    assert list(table.index) == ["mu", "q[a]", "q[b]", "q[c]"]
    assert table.loc["q[b]", "state"] == "IL"
    np.testing.assert_allclose(table["mean"].iloc[1:], DRAWS.mean(axis=(0, 1)))
    low, high = np.quantile(DRAWS, [0.05, 0.95], axis=(0, 1))
    np.testing.assert_allclose(table["eti90_lower"].iloc[1:], low)
    np.testing.assert_allclose(table["eti90_upper"].iloc[1:], high)
    # Independent draws: the error of the mean is sd/√2000.
    np.testing.assert_allclose(table["mean_mcse"], table["sd"] / np.sqrt(2000), rtol=0.2)


def test_the_chance_to_exceed_a_threshold():
    table = summarise(to_datatree({"q": DRAWS, "other": DRAWS[..., :1]}, LABELS), threshold=1.0)
    rows = table.loc[["q[a]", "q[b]"]]
    share = np.mean(DRAWS[..., :2] > 1.0, axis=(0, 1))
    np.testing.assert_allclose(rows["probability_above"], share)
    error = np.sqrt(share * (1 - share) / 2000)
    np.testing.assert_allclose(rows["probability_above_mcse"], error, rtol=0.2)
    # All draws above: the error is not 0, but that of one draw in 2000.
    assert table.loc["q[c]", "probability_above"] == 1.0
    assert table.loc["q[c]", "probability_above_mcse"] == pytest.approx(1 / 2000, rel=0.2)
    assert np.isnan(table.loc["other[0]", "probability_above"])


def test_a_threshold_for_each_cell():
    tree = to_datatree({"q": DRAWS}, LABELS)
    table = summarise(tree, ["q"], threshold=[0.0, 1.0, 50.0])
    np.testing.assert_allclose(table["probability_above"], 0.5, atol=5 * 0.012)
    with pytest.raises(ValueError, match=r"`threshold` must be one number or one per cell \(3,\)"):
        summarise(tree, threshold=[0.0, 1.0])
    with pytest.raises(ValueError, match="`sites` has no r"):
        summarise(tree, ["r"])


def test_a_cell_that_the_totals_determine():
    draws = DRAWS.copy()
    draws[..., 2] = 50.0
    row = summarise(to_datatree({"q": draws}), threshold=1.0).loc["q[2]"]
    assert row["eti90_lower"] == row["eti90_upper"] == 50.0
    assert np.isnan(row["r_hat"])
    assert (row["probability_above"], row["probability_above_mcse"]) == (1.0, 0.0)
