"""Joining, equality, pytrees, labels of every kind, and what is refused."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.linalg
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import cdp_views as cdp
from cdp_views._checks import InfeasibleError, UnsupportedError
from cdp_views.invariants import Invariant, Totals

X = np.random.default_rng(3).normal(size=(3, 6))


def test_both_at_once(case, inv, dense_of):
    other = cdp.totals([0, 1, 2, 0, 1, 2])
    joined, rows = inv & other, np.vstack([case.A, np.tile(np.eye(3), 2)])
    dense = dense_of(rows)
    assert_array_equal(joined.matrix.toarray(), rows)
    assert joined.rank == 6 - dense.dim
    assert_allclose(joined.project(X), X @ dense.P, atol=1e-12)
    size = np.abs(rows).max()
    assert_allclose(joined.evaluate(X), X @ rows.T, rtol=1e-12, atol=1e-13 * size)


def test_joining_needs_the_same_cells(inv):
    with pytest.raises(
        ValueError, match=r"`&` needs two invariants on the same cells; got 6 and 2"
    ):
        inv & cdp.totals(["a", "a"])
    with pytest.raises(TypeError):
        inv & np.eye(6)


def test_equality(case, inv):
    assert bool(inv.equals(case.build()))
    assert not bool(inv.equals(cdp.totals([0, 1, 0, 0, 0, 1], [1.0, 2, 3, 4, 5, 6])))
    assert not bool(inv.equals("an invariant"))


def test_pickle(inv):
    again = pickle.loads(pickle.dumps(inv))
    assert bool(inv.equals(again))
    assert_array_equal(again.project(X), inv.project(X))
    assert_array_equal(again.blocks, inv.blocks)


def test_through_jit_and_vmap(inv):
    @jax.jit
    def both(inv, x):
        return inv, jax.vmap(inv.project)(x), inv.evaluate(x), inv.coordinates(x)

    again, projected, total, coordinates = both(inv, X)
    assert isinstance(again, Invariant) and bool(inv.equals(again))
    assert_allclose(projected, inv.project(X), rtol=1e-12, atol=1e-12)
    assert_allclose(
        total, inv.evaluate(X), rtol=1e-12, atol=1e-12 * float(jnp.abs(total).max(initial=1))
    )
    assert_allclose(coordinates, inv.coordinates(X), rtol=1e-12, atol=1e-12)
    assert_allclose(again.project(X), inv.project(X), rtol=1e-12, atol=1e-12)


def test_the_last_axis_is_the_cells(inv):
    with pytest.raises(ValueError, match=r"`x` must have 6 cells on its last axis .*shape \(4,\)"):
        inv.project(np.zeros(4))
    with pytest.raises(ValueError, match=r"`nu` must be positive; got -1.0 at index 2"):
        inv.restrict(np.array([1.0, 1, -1, 1, 1, 1]))


LABELS = {
    "list": ["IL", "OH", "IL", "OH", "OH", "IL"],
    "numpy": np.array(["IL", "OH", "IL", "OH", "OH", "IL"]),
    "pandas": pd.Series(["IL", "OH", "IL", "OH", "OH", "IL"], index=[5, 4, 3, 2, 1, 0]),
    "categories": pd.Categorical(
        ["IL", "OH", "IL", "OH", "OH", "IL"], categories=["OH", "IL", "TX"]
    ),
    "polars": pl.Series(["IL", "OH", "IL", "OH", "OH", "IL"]),
    "pyarrow": pl.Series(["IL", "OH", "IL", "OH", "OH", "IL"]).to_arrow(),
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_any_column_of_labels(labels):
    inv = cdp.totals(labels)
    assert_array_equal(inv.matrix.toarray(), [[1, 0, 1, 0, 0, 1], [0, 1, 0, 1, 1, 0]])
    assert [str(name) for name in inv.names] == ["IL", "OH"]


def test_names_are_those_of_the_groups(cases):
    assert_array_equal(cdp.totals([4, 2, 2, 9]).names, [4, 2, 9])
    assert cases["overlapping"].build().names is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cdp.totals([]), "`groups` must name at least one cell"),
        (
            lambda: cdp.totals(np.zeros((2, 2))),
            r"`groups` must be one label per cell.*got shape \(2, 2\)",
        ),
        (
            lambda: cdp.totals(["a", None, "b"]),
            r"must label every cell; got 1 missing of 3, first at index 1\. Fill .* pass missing=",
        ),
        (lambda: cdp.totals(["a", np.nan, "b"]), "1 missing of 3, first at index 1"),
        (lambda: cdp.totals([1.0, np.nan]), "1 missing of 2"),
        (lambda: cdp.totals(["a"], missing="drop"), '`missing` must be one of "raise", "free"'),
        (lambda: cdp.totals(["a", "b"], [1.0]), r"`weights` must have shape \(2,\), one per cell"),
        (lambda: cdp.totals(["a", "b"], ["x", "y"]), "`weights` must be numbers, one per cell"),
        (
            lambda: cdp.totals(["a", "a"], [1.0, np.inf]),
            "`weights` must be finite; got inf at index 1",
        ),
        (lambda: cdp.totals(["a", "b"], [1.0, 0.0]), "`weights` of group b are all 0"),
        (lambda: cdp.linear("no"), "`A` must be a matrix of numbers"),
        (
            lambda: cdp.linear(np.zeros((1, 2, 3))),
            r"`A` must be a matrix \(k, n\); got shape \(1, 2, 3\)",
        ),
        (lambda: cdp.linear(np.zeros((2, 0))), "`A` must have at least one column"),
        (lambda: cdp.linear([[1.0, 1.0], [1.0, np.nan]]), "`A` must be finite; row 1 is not"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_what_is_not_built_is_refused():
    big = sp.csr_array((np.ones(4), ([0, 0, 1, 1], [0, 1, 1, 2])), shape=(2, 10**8 + 1))
    with pytest.raises(UnsupportedError, match="needs a dense factor above 2e"):
        cdp.linear(big)


def test_an_unbalanced_group_is_named():
    inv = cdp.totals(["IL", "IL", "IL", "OH", "OH", "OH"])
    with pytest.raises(
        InfeasibleError, match=r"cell 4 is 0\.7143 of the sum in group OH; it must stay below"
    ):
        inv.equalize(np.array([1.0, 1, 1, 1, 5, 1]) ** 2)
    with pytest.raises(InfeasibleError, match="exactly half of its group"):
        inv.equalize(np.array([1.0, 1, 1, 1, 2, 1]) ** 2)
    with pytest.raises(InfeasibleError, match="two cells must have equal"):
        cdp.totals(["a", "a"]).equalize(np.array([1.0, 2.0]))


def test_sparse_rows_in_any_format():
    rows = np.array([[1.0, 1, 0, 2], [0, 1, 1, 0]])
    for kind in (sp.csr_array, sp.csc_array, sp.coo_matrix, sp.lil_array):
        inv = cdp.linear(kind(rows))
        assert_array_equal(inv.matrix.toarray(), rows)
        assert inv.rank == 2


def test_nested_totals_get_the_fast_geometry(cases):
    for name in ("nested", "redundant, badly scaled"):
        assert type(cases[name].build().geometry) is Totals
    assert type(cdp.linear([[1, 0, 0], [0, 1, 1]])) is Totals


@settings(max_examples=40)
@given(
    groups=st.lists(st.integers(0, 2), min_size=6, max_size=6),
    weights=st.lists(
        st.one_of(st.just(0.0), st.just(1.0), st.floats(1e-3, 1e3), st.floats(-1e3, -1e-3)),
        min_size=6,
        max_size=6,
    ),
)
def test_any_labels_and_weights(groups, weights):
    groups, b = np.array(groups), np.array(weights)
    present = list(dict.fromkeys(groups.tolist()))
    rows = np.array([np.where(groups == g, b, 0) for g in present])
    if not np.all(np.abs(rows).sum(1) > 0):
        with pytest.raises(ValueError, match="are all 0, so it has no total"):
            cdp.totals(groups, b)
        return
    inv = cdp.totals(groups, b)
    kernel = scipy.linalg.null_space(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    assert_array_equal(inv.matrix.toarray(), rows)
    assert inv.dim == kernel.shape[1]
    assert_allclose(inv.project(X), X @ kernel @ kernel.T, atol=1e-11)
    columns = [tuple(c) for c in rows.T]
    blocks = inv.blocks
    for i in range(6):
        for j in range(i):
            assert (blocks[i] == blocks[j] != -1) == (columns[i] == columns[j])
