"""Utility sees only the view protocol: a small exact view and a stranger serve as views."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.sparse as sp

from cdp_views._checks import UnsupportedError
from cdp_views.deviation import NormalDeviation
from cdp_views.usefulness import utility
from cdp_views.usefulness.size import size_class

LOC = np.array([0.0, 5.0, 50.0, 500.0, 5_000.0, 50_000.0])
SD = np.array([1.0, 1.0, 2.0, 2.0, 4.0, 4.0])
SUMS = np.array([[1.0, 1, 0, 0, 0, 0], [0, 0, 1, -1, 0, 2]])


class ExactView:
    loc, batch_shape = LOC, ()

    def __init__(self, bias=0.0):
        self.bias = np.full(6, bias)

    def deviation(self, workload):
        if workload is None:
            return NormalDeviation(self.bias, SD)
        assert sp.issparse(workload)
        variance = (workload.multiply(workload)) @ SD**2
        return NormalDeviation(workload @ self.bias, np.sqrt(variance))

    def entropy(self):
        return 7.0


def stranger():
    return dist.Normal(LOC, SD).to_event(1)


class Stranger:
    """Only sample, log_prob and loc."""

    loc = LOC

    def sample(self, key, sample_shape=()):
        return stranger().sample(key, sample_shape)

    def log_prob(self, value):
        return stranger().log_prob(value)


def test_cells_are_exact():
    result = utility(ExactView())
    np.testing.assert_array_equal(result["sd"], SD)
    np.testing.assert_allclose(result["margin90"], 1.6448536269514722 * SD)
    np.testing.assert_allclose(result["total_absolute_error"], np.sqrt(2 / np.pi) * SD.sum())
    np.testing.assert_allclose(result["rmse_overall"], np.sqrt(np.mean(SD**2)))
    assert result["entropy"] == 7 and result.attrs["error_kind"] == "exact"
    assert "sd_stderr" not in result


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, sp.coo_matrix])
def test_a_workload_of_sums(form):
    result = utility(ExactView(), form(SUMS))
    np.testing.assert_allclose(result["sd"], np.sqrt((SUMS**2) @ SD**2))
    assert result.sizes["query"] == 2


def test_an_invariant_is_a_workload_of_its_totals():
    class Groups:
        matrix, names = sp.csr_array(SUMS), ("a", "b")

    assert list(utility(ExactView(), Groups())["query"].values) == ["a", "b"]


def test_relative_errors_by_size_are_marked_and_nothing_else_is():
    result = utility(ExactView())
    marked = {name for name, v in result.data_vars.items() if v.attrs.get("confidential")}
    assert marked == {name for name in result.data_vars if "size" in result[name].dims}
    np.testing.assert_array_equal(result["queries"], np.ones(6))
    expected = result["margin90"].values[1:] / LOC[1:]
    np.testing.assert_allclose(result["relative_margin90_median"][1:], expected)
    assert np.isnan(result["relative_margin90_median"][0])
    public = utility(ExactView(), public=True)
    assert not any(v.attrs.get("confidential") for v in public.data_vars.values())
    assert "note" not in public.attrs


def test_an_exact_bias_tells_of_the_counts_and_is_marked():
    assert utility(ExactView(bias=2.0))["bias"].attrs["confidential"] == 1


def test_a_stranger_is_refused_without_a_key_and_estimated_with_one():
    with pytest.raises(UnsupportedError, match="key="):
        utility(Stranger())
    for workload, sd in ((None, SD), (SUMS, np.sqrt((SUMS**2) @ SD**2))):
        result = utility(Stranger(), workload, key=jax.random.key(1), draws=4000)
        assert result.attrs["error_kind"] == result["sd"].attrs["kind"] == "estimate"
        score = np.abs(result["sd"] - sd) / result["sd_stderr"]
        assert score.max() < 5
        # Negative control: 20 % wrong is noticed.
        assert (np.abs(result["sd"] - 1.2 * sd) / result["sd_stderr"]).max() > 5
        assert np.isfinite(result["margin90_stderr"]).all()
        assert np.isnan(result["entropy"])


def test_an_error_inside_a_view_is_not_mistaken_for_a_missing_law():
    class Broken(ExactView):
        def deviation(self, workload):
            raise AttributeError("a bug")

    with pytest.raises(AttributeError, match="a bug"):
        utility(Broken(), key=jax.random.key(0))


@pytest.mark.parametrize(
    ("workload", "match"),
    [(np.ones((2, 5)), "6 columns"), (np.full((1, 6), np.nan), "finite")],
)
def test_bad_workloads(workload, match):
    with pytest.raises(ValueError, match=match):
        utility(ExactView(), workload)


def test_a_batch_of_views_and_too_many_draws_are_refused():
    with pytest.raises(ValueError, match="batch shape"):
        utility(dist.Normal(np.zeros((2, 6)), 1.0).to_event(1))
    with pytest.raises(ValueError, match="fewer draws"):
        utility(Stranger(), key=jax.random.key(0), draws=2**28)


def test_size_classes_end_where_they_say():
    got = size_class(np.array([0, 1, 9, 10, 99, 100, 999, 1000, 9999, 10_000, 3e8, -50]))
    np.testing.assert_array_equal(got, [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 2])
