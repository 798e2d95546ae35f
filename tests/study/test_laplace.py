"""Two noises: each equal in its own notion, the unproved row beside them."""

import jax
import numpy as np
import pytest
from scipy.integrate import quad

import cdp_views as cdp
from cdp_views.study import compare, comparing

GROUPS = list("aaaabbbb")
COUNTS = np.array([12.0, 7, 0, 150, 33, 2_000, 41, 9])
UNEVEN = np.array([1.0, 1, 2, 3, 1, 2, 2, 1])


@pytest.fixture(scope="module", autouse=True)
def few_draws(lightly_compiled):
    """Of the unproved row: its accuracy is asked in tests/privacy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparing, "_UNPROVED_DRAWS", 300)
        yield


@pytest.fixture(scope="module")
def found(few_draws):
    return compare(
        COUNTS,
        cdp.totals(GROUPS),
        epsilon=1.0,
        delta=1e-6,
        noises=("normal", "laplace"),
        scales={"uneven": UNEVEN},
        key=jax.random.key(1),
        draws=20,
        tables=2,
    )


@pytest.fixture(scope="module")
def laplace(found):
    return found.table[found.table["noise"] == "laplace"].set_index(["scales", "view"])


def test_rows_and_what_they_keep(found, laplace):
    assert len(found.table) == 16 and list(found.table["noise"]) == ["normal"] * 8 + ["laplace"] * 8
    kept = laplace["guarantee"]
    assert (kept.xs("max-entropy", level="view") == "none proved").all()
    proved = laplace.drop("max-entropy", level="view")
    assert set(proved["guarantee"]) == {"ε = 1 (pure; δ unused) over 2 tables"}
    assert set(proved["kind"]) == {"exact"} and set(proved["guess_rate_kind"]) <= {
        "bound",
        "estimate",
    }
    assert (proved["epsilon"] == 1).all() and (proved["delta"] == 0).all()
    assert proved["mu"].isna().all()
    unproved = laplace.xs("max-entropy", level="view")
    for name in ("epsilon", "delta", "mu", "rho"):
        assert unproved[name].isna().all(), name
    assert set(unproved["kind"]) == {"estimate"} and unproved["guess_rate"].between(0.5, 0.8).all()
    assert (unproved["guess_rate_stderr"] > 0).all()
    # what is proved: of a cell alone, in both tables
    np.testing.assert_allclose(unproved.loc["equal", "one_cell_epsilon"], 2 / 4.0, rtol=1e-9)


def test_scales_by_the_closed_form_of_pure_epsilon(laplace):
    # Each table has ε/2. The pair of smallest scales: (1/λ₁ + 1/λ₂) = 1/2 (mathematics.md, §4).
    np.testing.assert_allclose(laplace.loc["equal", "scale"], 4.0, rtol=1e-9)
    smallest = UNEVEN.min() / UNEVEN.mean()
    for view in ("unconstrained", "max-entropy", "conditioned"):
        scale = laplace.loc[("uneven", view), "scale"]
        assert scale == pytest.approx(4.0 / smallest, rel=1e-9)


def test_unconstrained_figures_are_exact(found, laplace):
    row = laplace.loc[("uneven", "unconstrained")]
    scale = row["scale"] * UNEVEN / UNEVEN.mean()
    assert row["error_kind"] == "exact" and np.isnan(row["mean_absolute_error_stderr"])
    assert row["total_absolute_error"] == pytest.approx(scale.sum())
    assert row["margin90_worst"] == pytest.approx(np.log(10) * scale.max())
    i = list(found.dataset["mechanism_noise"].values).index("laplace")
    assert np.isnan(found.dataset["mae_stderr"][i]).all()


def test_guess_rates_of_independent_cells_against_quadrature():
    # TV of two pairs of Laplace cells one record apart at λ = 2: 2 × .62092 − 1 (mathematics.md).
    def overlap(x):
        p = np.exp(-np.abs(x) / 2) / 4
        q = np.exp(-np.abs(x - 1) / 2) / 4

        def inner(y):
            one, other = np.exp(-np.abs(y) / 2) / 4, np.exp(-np.abs(y + 1) / 2) / 4
            return min(p * one, q * other)

        return quad(inner, -60, 60, points=[-1, 0, 1 - x, x - 1, -x], limit=200)[0]

    truth = 1 - quad(overlap, -60, 60, points=[0, 1], limit=200, epsabs=1e-6, epsrel=1e-6)[0] / 2
    assert truth == pytest.approx(0.62092, abs=2e-5)
    one = compare(
        COUNTS,
        cdp.totals(GROUPS),
        epsilon=1,
        delta=1e-6,
        noises=("laplace",),
        key=jax.random.key(3),
        draws=0,
    )
    row = one.table.iloc[0]
    assert row["guess_rate"] == pytest.approx(truth, abs=1e-6) and row["guess_rate_kind"] == "exact"
    assert np.isnan(row["guess_rate_stderr"])
    assert "noise" not in one.dataset
    # One notion: nothing to compare across, and rows counted with the unproved one.
    assert not any("different notions" in s for s in one.verdict)
    assert one.verdict[0].startswith("Three rows are ε = 1 (pure; δ unused), exactly")


def test_estimates_against_the_exact_moments(found, laplace):
    for scales in ("equal", "uneven"):
        row = laplace.loc[(scales, "conditioned")]
        assert row["error_kind"] == "estimate"
        assert 0 < row["mean_absolute_error_stderr"] < 0.02 * row["mean_absolute_error"]
        assert 0 < row["margin90_worst_stderr"] < 0.1 * row["margin90_worst"]
        assert row["mean_absolute_error"] < row["mean_sd"]
    assert np.isfinite(laplace.loc[("equal", "conditioned"), "entropy"])
    assert np.isnan(laplace.loc[("equal", "imaged"), "entropy"])
    kept = found.table["view"] != "unconstrained"
    assert (found.table["totals_margin90_worst"][kept] == 0).all()


def test_delta_0_is_enough_for_laplace_noise_alone():
    given = {"epsilon": 1, "delta": 0, "key": jax.random.key(3), "draws": 0}
    inv = cdp.totals(GROUPS)
    table = compare(COUNTS, inv, noises=("laplace",), **given).table
    assert table["scale"][0] == pytest.approx(2.0) and table["delta"][0] == 0
    with pytest.raises(ValueError, match="`delta` must be between 0 and 1"):
        compare(COUNTS, inv, noises=("normal", "laplace"), **given)


def test_noise_keeps_the_totals(found):
    noise = found.dataset["noise"].values[8:]
    sums = np.abs(noise.reshape(8, 20, 2, 4).sum(axis=-1)).max(axis=(1, 2))
    kept = (found.table["view"][8:] != "unconstrained").to_numpy()
    assert (sums[kept] < 1e-9).all() and (sums[~kept] > 1).all()


def test_the_verdict_compares_only_within_a_notion(found):
    said = " ".join(found.verdict)
    assert said.count("In that sense, and only in that, they are equal") == 2
    last = found.verdict[-1]
    assert "different notions of privacy, and equal ε misleads" in last
    assert "under Normal noise at (1, 1e-06)-DP" in last and "under Laplace noise at ε = 1" in last
    assert "±" in last and "errors are not compared across" in last
    pure = [s for s in found.verdict if "Laplace noise" in s and "different notions" not in s]
    assert pure and not any("ax-entropy" in s for s in pure)
    assert "each table gets ε = 0.5 and its noise is 2 times larger" in said
    assert any("no guarantee of the whole release is proved" in note for note in found.notes)


def test_a_noise_that_is_estimated_needs_a_key():
    with pytest.raises(ValueError, match="`key` must be given with Laplace noise"):
        compare(COUNTS, cdp.totals(GROUPS), epsilon=1, delta=1e-6, noises=("laplace",))


def test_the_figure_tells_the_notions_apart(found):
    text = pytest.importorskip("matplotlib.text")
    figure = found.plot()
    words = " ".join(t.get_text() for t in figure.findobj(text.Text))
    assert len(figure.axes) == 12 and "max-entropy\n(none proved)" in words
    assert "compare within one, not across" in words and "ε = 1 (pure; δ unused)" in words
