"""The comparison: equal privacy in every row, honest words, nothing published by accident."""

import jax
import numpy as np
import pandas as pd
import pytest
import scipy.stats
import xarray as xr

import cdp_views as cdp
from cdp_views.study import compare

GROUPS = list("aaaabbbb")
COUNTS = np.array([12.0, 7, 0, 150, 33, 2_000, 41, 9])
UNEVEN = np.array([1.0, 1, 2, 3, 1, 2, 2, 1])
BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def inv(groups=GROUPS):
    return cdp.totals(groups)


@pytest.fixture(scope="module")
def found():
    return compare(
        COUNTS, inv(), scales={"uneven": UNEVEN}, key=jax.random.key(1), draws=300, **BUDGET
    )


def profile(mu, epsilon):
    """δ(ε) of Gaussian DP, from its definition: E[(1 − e^{ε − L})₊] with L ~ N(μ²/2, μ²)."""
    Phi = scipy.stats.norm.cdf
    return Phi(mu / 2 - epsilon / mu) - np.exp(epsilon) * Phi(-mu / 2 - epsilon / mu)


def dense(view, scale):
    """Covariances from dense algebra."""
    A = np.array([[1.0] * 4 + [0] * 4, [0.0] * 4 + [1] * 4])
    D = np.diag(scale**2)
    if view == "unconstrained":
        return D
    if view == "conditioned":
        return D - D @ A.T @ np.linalg.solve(A @ D @ A.T, A @ D)
    P = np.eye(8) - A.T @ np.linalg.solve(A @ A.T, A)
    return P @ D @ P


def test_rows_are_calibrated_to_the_budget(found):
    table = found.table
    assert len(table) == 8
    assert list(table["view"][:4]) == ["unconstrained", "max-entropy", "conditioned", "imaged"]
    assert list(table["scales"]) == ["equal"] * 4 + ["uneven"] * 4
    np.testing.assert_allclose(profile(table["mu"], 1.0), 1e-6, rtol=1e-8)
    np.testing.assert_allclose(table["guess_rate"], scipy.stats.norm.cdf(table["mu"] / 2))
    np.testing.assert_allclose(table["rho"], table["mu"] ** 2 / 2)
    assert set(table["kind"]) == {"exact"} and set(table["guarantee"]) == {"(1, 1e-06)-DP"}


@pytest.mark.parametrize("view", ["unconstrained", "conditioned", "imaged"])
@pytest.mark.parametrize("scales", ["equal", "uneven"])
def test_rows_against_dense_algebra(found, view, scales):
    pattern = UNEVEN / UNEVEN.mean() if scales == "uneven" else np.ones(8)
    (i,) = np.flatnonzero((found.table["view"] == view) & (found.table["scales"] == scales))
    row = found.table.iloc[i]
    S = dense(view, row["scale"] * pattern)
    sd = np.sqrt(np.diag(S))
    np.testing.assert_allclose(found.dataset["sd"][i], sd, rtol=1e-10)
    np.testing.assert_allclose(row["total_absolute_error"], np.sqrt(2 / np.pi) * sd.sum())
    np.testing.assert_allclose(row["margin90_worst"], 1.6448536269514722 * sd.max())
    pairs = [(i, j) for g in (range(4), range(4, 8)) for i in g for j in g if i < j]
    inverse = np.linalg.pinv(S, hermitian=True, rcond=1e-9)
    V = np.array([np.eye(8)[i] - np.eye(8)[j] for i, j in pairs])
    worst = np.sqrt(np.einsum("mi,ij,mj->m", V, inverse, V).max())
    np.testing.assert_allclose(row["mu"], worst, rtol=1e-8)
    totals = 0 if view != "unconstrained" else 1.6448536269514722 * np.sqrt(S[4:, 4:].sum())
    if scales == "equal":
        np.testing.assert_allclose(row["totals_margin90_worst"], totals)


def test_the_views_are_one_mechanism_with_equal_scales_and_say_so_once(found):
    said = [s for s in found.verdict if "the three views are the same mechanism here" in s]
    assert len(said) == 1 and said[0].startswith("With equal scales")
    assert "Unequal scales, unequal weights or noise that is not Gaussian" in said[0]
    # None of three that tie is called the best, and exact figures are not told "as far as".
    (cost,) = [s for s in found.verdict if s.startswith("With equal scales, exact totals")]
    assert "all three views alike against unconstrained noise" in cost
    assert "as far as" not in " ".join(found.verdict)


def test_unequal_scales_are_ranked_and_what_max_entropy_keeps_is_said(found):
    rows = found.table[found.table["scales"] == "uneven"].set_index("view")
    best = rows["total_absolute_error"].drop("unconstrained").idxmin()
    said = " ".join(found.verdict)
    assert f"With uneven scales, the most accurate in total is {best}" in said
    assert "Only max-entropy gives each cell a standard deviation exactly proportional" in said


def test_groups_of_different_size_set_max_entropy_apart():
    result = compare(COUNTS, inv(list("aaabbbbb")), **BUDGET)
    said = " ".join(result.verdict)
    assert "conditioned and imaged are the same mechanism here" in said
    assert "Max-entropy is the same within each group" in said
    assert "three views" not in said


def test_tables_share_the_budget_by_gaussian_composition(found):
    one = compare(COUNTS, inv(), **BUDGET).table
    four = compare(COUNTS, inv(), tables=4, **BUDGET)
    np.testing.assert_allclose(four.table["scale"], 2 * one["scale"])
    np.testing.assert_allclose(four.table["mu"], one["mu"])
    assert set(four.table["guarantee"]) == {"(1, 1e-06)-DP over 4 tables"}
    assert "4 tables share the budget" in four.verdict[0]


def test_noise_keeps_the_totals_and_never_holds_counts(found):
    noise = found.dataset["noise"]
    assert noise.dims == ("mechanism", "draw", "cell") and noise.shape == (8, 300, 8)
    sums = noise.values.reshape(8, 300, 2, 4).sum(axis=-1)
    size = np.abs(noise.values).sum(axis=-1)
    kept = found.table["view"] != "unconstrained"
    assert (np.abs(sums[kept]).max(axis=-1) <= 1e-12 * size[kept]).all()
    # Negative control: the unconstrained base does not.
    assert np.abs(sums[~kept]).max() > 1
    score = np.abs(noise.mean("draw")) / (found.dataset["sd"] / np.sqrt(300))
    assert score.max() < 5
    # Negative control: counts plus noise would be noticed at once.
    assert (np.abs(noise.mean("draw") + COUNTS) / found.dataset["sd"]).max() > 5


def test_no_key_no_draws():
    assert "noise" not in compare(COUNTS, inv(), **BUDGET).dataset


def test_what_depends_on_the_counts_is_marked(found):
    other = compare(
        COUNTS[::-1].copy(),
        inv(),
        scales={"uneven": UNEVEN},
        key=jax.random.key(1),
        draws=300,
        **BUDGET,
    )
    same = [c for c in found.table if found.table[c].equals(other.table[c])]
    assert all(c.startswith("CONFIDENTIAL_") for c in set(found.table) - set(same))
    for name, variable in found.dataset.data_vars.items():
        if not variable.identical(other.dataset[name]):
            assert variable.attrs["confidential"] == 1, name
    marked = compare(COUNTS, inv(), public=True, **BUDGET)
    assert not any(c.startswith("CONFIDENTIAL") for c in marked.table)
    assert not any(v.attrs.get("confidential") for v in marked.dataset.data_vars.values())


def test_cells_that_the_totals_determine_are_listed_and_left_out():
    names = [f"county {i}" for i in range(8)]
    result = compare(COUNTS, inv(list("aaaabbbc")), names=names, **BUDGET)
    assert result.determined == ("county 7",)
    assert "Published exactly, not protected" in str(result) and "county 7" in str(result)
    sd = result.dataset["sd"].sel(cell=names[7])
    views = (result.table["view"] != "unconstrained").to_numpy()
    assert (sd[views] == 0).all() and (sd[~views] > 0).all()
    expected = np.sqrt(2 / np.pi) * result.dataset["sd"][:, :7].sum("cell")
    np.testing.assert_allclose(result.table["total_absolute_error"], expected)


def test_a_pattern_without_balance_leaves_a_note_and_the_other_rows():
    uneven = np.array([100.0, 1, 1, 1, 1, 1, 1, 1])
    result = compare(COUNTS, inv(), scales=uneven, **BUDGET)
    assert len(result.table) == 7
    assert any("max-entropy: not in the table" in note for note in result.notes)


def test_a_delta_that_would_publish_a_record_is_warned_of():
    with pytest.warns(UserWarning, match="above 1 / \\(sum of the counts\\)"):
        compare(COUNTS, inv(), epsilon=1, delta=0.01)


def test_written_files_hold_no_counts(found, tmp_path):
    found.to_csv(tmp_path / "a.csv")
    back = pd.read_csv(tmp_path / "a.csv")
    np.testing.assert_array_equal(back["mu"], found.table["mu"])
    pytest.importorskip("h5netcdf")
    found.dataset.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    xr.load_dataset(tmp_path / "a.nc", engine="h5netcdf")
    pytest.importorskip("matplotlib")
    assert len(found.plot().axes) == 6


def test_progress_is_told_of_every_row():
    told = []
    compare(COUNTS, inv(), progress=lambda *step: told.append(step), **BUDGET)
    assert [step[:2] for step in told] == [(i, 4) for i in range(5)]


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"epsilon": 0}, "`epsilon` must be positive"),
        ({"epsilon": float("nan")}, "`epsilon` must be positive"),
        ({"delta": 0}, "`delta` must be between 0 and 1"),
        ({"delta": 1}, "`delta` must be between 0 and 1"),
        ({"tables": 0}, "`tables` must be a whole number"),
        ({"tables": 1.5}, "`tables` must be a whole number"),
        ({"scales": COUNTS + 1}, "must not be taken from the counts"),
        ({"scales": np.sqrt(COUNTS + 0.0) + 2}, "must not be taken from the counts"),
        ({"scales": np.log1p(COUNTS) + 1}, "must not be taken from the counts"),
        ({"scales": UNEVEN[:3]}, "must have shape"),
        ({"scales": UNEVEN - 1}, "`scales` must be positive"),
        ({"scales": {"equal": UNEVEN}}, "must not be named"),
        ({"scales": ["x"] * 8}, "must be numbers"),
        ({"names": ["a"]}, "`names` must have 8 entries"),
        ({"counts": COUNTS[:7]}, "`counts` must have shape"),
        ({"counts": []}, "at least one cell"),
        ({"counts": ["x"] * 8}, "must be numbers"),
        ({"counts": -COUNTS}, "at least 0; got 7 that are not, first at index 0"),
        ({"counts": np.where(COUNTS == 0, np.nan, COUNTS)}, "finite; got 1 that are not"),
        ({"noises": ("cauchy",)}, '`noises` must be among normal, laplace; got "cauchy"'),
    ],
)
def test_bad_input(arguments, match):
    arguments = {"counts": COUNTS, **BUDGET, **arguments}
    with pytest.raises((ValueError, cdp.UnsupportedError), match=match):
        compare(arguments.pop("counts"), inv(), **arguments)


@pytest.mark.parametrize(("name", "value"), [("inv", "abc"), ("neighbours", "relocations")])
def test_an_argument_of_another_kind_is_named(name, value):
    given = {"inv": inv(), name: value}
    with pytest.raises(TypeError, match=f"^`{name}` must come from .*; got str.$"):
        compare(COUNTS, **given, **BUDGET)


def test_print_shows_both_answers_and_nothing_confidential(found):
    said = str(found)
    assert "CONFIDENTIAL" not in said and "..." not in said.split("\n\n")[0]
    for column in ("guarantee", "guess_rate", "mean_sd", "margin90_worst", "entropy"):
        assert column in said


@pytest.mark.parametrize("draws", [-1, 2**27])
def test_draws_that_do_not_fit(draws):
    with pytest.raises(ValueError, match="`draws` must be at least 0 and fit in memory"):
        compare(COUNTS, inv(), key=jax.random.key(0), draws=draws, **BUDGET)


def test_one_cell_that_no_record_can_reach_alone():
    inv = cdp.totals(["a", "a", "a"], [1.0, 1.0, 1.5])
    (said,) = cdp.compare([3, 5, 8], inv, epsilon=1, delta=1e-6).notes
    assert said.startswith("1 cell shares no total at equal weight") and "to or from it" in said
