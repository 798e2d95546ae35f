"""A release: every total exact, the noise as stated, and a refusal for all that makes no sense."""

import jax
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

import cdp_views as cdp
from cdp_views.releases.mechanism import NOISES, VIEWS

from .conftest import COUNTS, GROUPS

PROVED = [  # real noise; whole noise has tests of its own
    (view, noise)
    for view in VIEWS
    for noise in NOISES
    if not NOISES[noise].whole and (view, noise) != ("max-entropy", "laplace")
]


def budget(noise):
    return {"noise": noise, "delta": 0.0 if NOISES[noise].pure else 1e-6}


@pytest.mark.parametrize(("view", "noise"), PROVED)
@pytest.mark.parametrize(
    "scales", [None, np.array([1, 2, 2, 1, 3, 3, 2, 2.5])], ids=["equal", "unequal"]
)
def test_totals_hold_with_equality_in_any_order_and_cells_do_not(make, view, noise, scales):
    made = make(view=view, scales=scales, **budget(noise))
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]):
        assert sum(made.released[order]) == 593
    assert made.released.sum() == COUNTS.sum() and made.released[4:].sum() == 9684
    assert made.invariants.to_dict() == {"x": 593.0, "y": 9684.0}
    assert np.all(made.released != COUNTS)
    made.verify(COUNTS)


@pytest.mark.parametrize(("view", "noise"), PROVED)
def test_the_scale_is_calibrated_and_the_law_is_the_one_used(make, inv, view, noise):
    made = make(view=view, scales=[1, 2, 2, 1, 3, 3, 2, 2.5], **budget(noise))
    with jax.enable_x64(True):
        law = made.view(np.zeros(8))
        loss = cdp.privacy_loss(law, cdp.relocations(inv))
    spent = loss.pure_epsilon if NOISES[noise].pure else loss.epsilon(1e-6)
    assert 1 - 1e-9 < spent <= 1
    assert (law.kind, law.noise_name) == (view, noise)
    np.testing.assert_allclose(made.scale / made.scale[0], [1, 2, 2, 1, 3, 3, 2, 2.5], rtol=1e-14)


def test_two_records_need_twice_the_noise(make, inv):
    one, two = make(), make(neighbours=cdp.relocations(inv, records=2))
    np.testing.assert_allclose(two.scale / one.scale, 2, rtol=1e-9)
    assert two.metadata["neighbours"] == {
        "kind": "relocations",
        "records": 2,
        "unit": "2 records move together between two cells "
        "without changing a published total (relocation)",
    }


@pytest.mark.parametrize("view", ["conditioned", "imaged"])
def test_whole_noise_keeps_counts_whole_and_totals_exact(make, inv, tmp_path, view):
    made = make(view=view, noise="discrete-laplace", delta=0)
    assert np.array_equal(made.released, np.rint(made.released))
    assert np.array_equal(inv.matrix @ made.released, inv.matrix @ COUNTS)
    assert made.scale == pytest.approx(2.0, rel=1e-9)  # one record moved: ε = 2/λ
    assert "The noise is whole" in made.metadata["caveat"]
    made.save(tmp_path / "r.csv")
    again = cdp.read_release(tmp_path / "r.csv")
    again.verify(COUNTS)
    assert np.isfinite(again.view(COUNTS).log_prob(again.released))


def test_two_calls_never_share_noise(make):
    # the operating system draws: one coincidence to three decimals is chance, two are not
    first, second, third = (make().released - COUNTS for _ in range(3))
    for a, b in ((first, second), (second, third), (first, third)):
        assert np.sum(np.abs(a - b) < 1e-3) <= 1


def test_the_national_total_and_noise_of_one_person_both_survive(seeded):
    seeded(1)
    counts = np.full(50, 331_449_281 // 50)
    counts[0] += 331_449_281 - counts.sum()
    inv = cdp.totals(["US"] * 50)
    unit = cdp.differences([[1.0, -1.0] + [0.0] * 48])
    given = {"view": "conditioned", "noise": "normal", "epsilon": 20, "delta": 1e-10}
    # randomised response attains it: right with probability 1 / (1 + e^-20)
    with pytest.warns(UserWarning, match=r"may be right with probability up to 1 - 2\.1e-09"):
        made = cdp.release(counts, inv, neighbours=unit, **given)
    assert 0.2 < made.scale < 1.5
    assert made.released.sum() == 331_449_281 == made.released[::-1].sum()
    noise = made.released - counts
    # 49 degrees of freedom: the sum of squares has standard error sqrt(98)
    assert abs(np.sum((noise / made.scale) ** 2) - 49) < 5 * np.sqrt(98)
    assert len(np.unique(noise)) == 50


@pytest.mark.parametrize(("stated", "holds"), [(1.0, True), (1.05, False)], ids=["law", "control"])
def test_the_noise_has_the_stated_scale(seeded, stated, holds):
    seeded(2)
    n = 20_000
    inv = cdp.totals(np.repeat(np.arange(100), n // 100))
    made = cdp.release(
        np.full(n, 7), inv, view="imaged", noise="normal", epsilon=1, delta=1e-6,
        neighbours=cdp.relocations(inv),
    )  # fmt: skip
    noise, degrees = made.released - 7, n - 100
    # the squares of a standard normal on a subspace of this dimension: mean and variance of chi²
    z = (np.sum((noise / (stated * made.scale)) ** 2) - degrees) / np.sqrt(2 * degrees)
    assert bool(abs(z) < 5) is holds
    # the rounding is no part of the noise worth speaking of
    assert made.metadata["step"] < 2e-6 * made.scale
    assert np.all(noise % made.metadata["step"] == 0)


def test_rounding_commutes_with_the_counts(make, seeded):
    """The release is a function of the noisy table: the same noise on other counts moves by q."""
    seeded(3)
    other = COUNTS + np.array([5, -5, 0, 0, 100, 0, -100, 0])
    assert np.array_equal(make().released - COUNTS, make(other).released - other)


@pytest.mark.parametrize(
    ("invariant", "counts"),
    [
        (cdp.totals(GROUPS, weights=[1, 2, 0.5, 2, 3, 1, 1, 3]), COUNTS),
        (cdp.linear([[1, 1, 1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 1, 1, 0, 0]]), COUNTS),
        (cdp.totals(GROUPS), COUNTS + 0.1),
        (cdp.totals([None, *GROUPS[1:]], missing="free"), COUNTS * 1e6),
    ],
    ids=["weights", "overlap", "real counts", "free cell"],
)
def test_other_invariants_hold_to_rounding(make, invariant, counts):
    blocks = invariant.blocks
    pairs = [(i, j) for i in range(8) for j in range(i) if blocks[i] == blocks[j] >= 0]
    v = np.zeros((len(pairs), 8))
    for row, (i, j) in enumerate(pairs):
        v[row, i], v[row, j] = 1, -1
    made = make(counts, invariant, neighbours=cdp.differences(v), delta=1e-12)
    total, gross = invariant.matrix @ counts, abs(invariant.matrix) @ np.abs(made.released)
    assert np.all(
        np.abs(invariant.matrix @ made.released - total) <= 16 * np.finfo(float).eps * gross
    )
    made.verify(counts)
    assert made.metadata["neighbours"]["differences"]["change"] == v[v != 0].tolist()


def test_nested_totals_hold_with_equality(make):
    rows = sparse.csr_array([[1] * 8, [1] * 4 + [0] * 4])
    made = make(invariant=cdp.linear(rows), neighbours=cdp.differences([1, -1] + [0] * 6))
    assert made.metadata["step"] is not None
    assert made.released.sum() == COUNTS.sum() and made.released[:4].sum() == 593
    assert "the guarantee does not speak of them" in made.metadata["guarantee"]


def test_margins_of_a_table_are_kept(make):
    inv = cdp.margins((2, 4), [(0,), (1,)])
    move = cdp.differences([1, -1, 0, 0, -1, 1, 0, 0])
    made = make(invariant=inv, neighbours=move, view="max-entropy")
    assert np.allclose(inv.matrix @ made.released, inv.matrix @ COUNTS, rtol=1e-13)
    assert made.metadata["invariants"]["names"][0] == "[0, :]"
    made.verify(COUNTS)


def test_labels_are_published_as_text(make):
    assert list(make().table.columns) == ["cell", "group", "released"]
    assert make(names=list("abcdefgh")).table["cell"].tolist() == list("abcdefgh")
    for frame in (pd.DataFrame, pl.DataFrame, dict):
        made = make(names=frame({"county": list("abcdefgh"), "fips": list(range(8))}))
        assert list(made.table.columns) == ["county", "fips", "released"]
        assert made.table["fips"].tolist() == [str(i) for i in range(8)]


def test_determined_cells_stop_the_release_unless_accepted(make):
    inv = cdp.totals(["x"] * 4 + ["y"] * 3 + ["z"])
    words = r"determine 1 of 8 cells, which would be published exactly: h / z\. Use coarser"
    with pytest.raises(ValueError, match=words):
        make(invariant=inv, names=list("abcdefgh"))
    made = make(invariant=inv, accept_exact=True)
    assert made.released[7] == 31 and made.metadata["determined_cells"] == [7]
    assert "so is every cell that they determine (1 of 8)" in made.metadata["guarantee"]


def test_cells_that_no_unit_of_privacy_changes_stop_it_too(make):
    """With weights 1, 2, 3 no record can move inside a group: noise, and nothing promised."""
    inv = cdp.totals(["x"] * 4 + ["y"] * 4, weights=[1, 1, 2, 3, 1, 1, 1, 1])
    given = {"invariant": inv, "neighbours": cdp.relocations(inv), "names": list("abcdefgh")}
    with pytest.raises(ValueError, match=r"changes 2 of 8 cells in no case.*: c / x, d / x\. Give"):
        make(**given)
    made = make(**given, accept_exact=True)
    assert "No such unit changes 2 of the cells that have noise" in made.metadata["guarantee"]


def test_a_delta_above_one_over_the_records_is_noted(make):
    with pytest.warns(UserWarning, match=r"above 1 / \(sum of the counts\)"):
        make(delta=0.01)


HALF = COUNTS.astype(float)
HALF[2] = np.nan
BAD = [
    ({"view": "projected"}, '`view` must be one of "max-entropy"'),
    ({"noise": "cauchy"}, '`noise` must be one of "normal"'),
    ({"epsilon": 0}, "`epsilon` must be positive; got 0.0"),
    ({"epsilon": np.inf}, "`epsilon` must be positive"),
    ({"epsilon": "1"}, "`epsilon` must be one number; got str"),
    ({"counts": COUNTS * 1e12, "delta": 1e-30}, "noise is lost in float64"),
    ({"delta": 0}, "`delta` must lie strictly between 0 and 1; got 0"),
    ({"delta": 1}, "`delta` must lie strictly"),
    ({"noise": "laplace"}, "`delta` must be 0 with laplace noise"),
    ({"neighbours": cdp.relocations(cdp.totals(["a"] * 3))}, "`neighbours` must cover the 8 cells"),
    ({"neighbours": cdp.differences([1] + [0] * 7)}, "changes a published total"),
    ({"counts": COUNTS[:7]}, r"`counts` must have shape \(8,\)"),
    ({"counts": -COUNTS}, "`counts` must be at least 0; got 8 that are not, first at index 0"),
    ({"counts": HALF}, "`counts` must be finite; got 1 that are not, first at index 2"),
    ({"counts": list("abcdefgh")}, "`counts` must be numbers"),
    ({"scales": COUNTS}, "`scales` must not be taken from the counts"),
    ({"scales": np.sqrt(COUNTS)}, "`scales` must not be taken from the counts"),
    ({"scales": [1, 2]}, r"`scales` must have shape \(8,\)"),
    ({"scales": [0, 1, 1, 1, 1, 1, 1, 1]}, "`scales` must be positive; got 0.0 at index 0"),
    ({"scales": list("abcdefgh")}, "`scales` must be numbers"),
    ({"invariant": cdp.totals(["x", "x "] * 4)}, '1 of 2 groups whose name .* end, first "x "'),
    ({"names": ["a"]}, '`names` must have 8 labels in "cell", one per cell; got 1'),
    ({"names": [None] * 8}, '`names` has no label in "cell" for 8 cells, first at index 0'),
    ({"names": {"released": list("abcdefgh")}}, '`names` must not have a column "released"'),
]


@pytest.mark.parametrize(("given", "words"), BAD, ids=[words[:30] for _, words in BAD])
def test_bad_input(make, given, words):
    with pytest.raises(ValueError, match=words) as error:
        make(**given)
    assert "9001" not in str(error.value) and "\n" not in str(error.value)


def test_what_is_not_proved_or_not_possible_is_refused(make, inv):
    with pytest.raises(
        cdp.UnsupportedError, match=r'No guarantee is proved.*Release view="conditio'
    ):
        make(view="max-entropy", noise="laplace", delta=0)
    with pytest.raises(cdp.UnsupportedError, match="no max-entropy view of discrete-normal"):
        make(view="max-entropy", noise="discrete-normal")
    with pytest.raises(ValueError, match="`counts` must be whole with discrete-normal noise"):
        make(COUNTS + 0.5, noise="discrete-normal")
    with pytest.raises(cdp.InfeasibleError, match="out of balance"):
        make(view="max-entropy", scales=[9, 1, 1, 1, 1, 1, 1, 1])
    with pytest.raises(TypeError, match=r"got none\..*neighbours=cdp\.relocations\(invariant\)"):
        cdp.release(COUNTS, inv, view="imaged", noise="normal", epsilon=1, delta=1e-6)
    with pytest.raises(TypeError, match=r"`invariant` must come from cdp\.totals"):
        make(invariant=GROUPS, neighbours=cdp.relocations(inv))
    for given in (None, "relocations"):
        with pytest.raises(TypeError, match=r"^`neighbours` must state the unit of privacy; got"):
            make(neighbours=given)


def test_bounds_are_not_of_a_release(make, inv):
    """What a release cannot keep is said; a unit of privacy takes the totals behind the bounds."""
    both = inv & cdp.nonnegative(8)
    assert cdp.additions(both).n == 8
    with pytest.raises(ValueError, match="has bounds, which a release does not keep"):
        make(invariant=both, neighbours=cdp.relocations(inv))


def test_whole_tables_are_written_without_a_fraction(make, tmp_path):
    make(noise="discrete-laplace", delta=0.0).save(tmp_path / "r.csv")
    assert not any(".0" in line for line in (tmp_path / "r.csv").read_text().splitlines())
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    make(noise="discrete-laplace", delta=0.0).save(tmp_path / "r.parquet")
    assert pd.read_parquet(tmp_path / "r.parquet")["released"].dtype == "int64"
    cdp.read_release(tmp_path / "r.parquet").verify(COUNTS)
    make(noise="normal").save(tmp_path / "s.csv")
    assert any("." in line for line in (tmp_path / "s.csv").read_text().splitlines()[1:])
