"""Taking a NumPyro base apart: family, location, scale, whatever wraps it."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_array_equal

from cdp_views._checks import UnsupportedError
from cdp_views.noise import parts

LOC = np.array([1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("base", "batch", "width"),
    [
        (dist.Normal(0.0, 2.0), (), 1),
        (dist.Normal(LOC, 2.0), (), 1),
        (dist.Normal(LOC, np.array([1.0, 2.0, 3.0])), (), 3),
        (dist.Normal(LOC, np.full(3, 2.0)), (), 1),
        (dist.Normal(LOC, 2.0).to_event(1), (), 1),
        (dist.Normal(0.0, 2.0).expand((4, 3)), (4,), 1),
        (dist.Normal(0.0, 2.0).expand((4, 3)).to_event(1), (4,), 1),
        (dist.Normal(np.zeros((2, 1, 3)), np.ones((5, 1)) * 2), (2, 5), 1),
        (dist.Normal(LOC, 2.0).to_event(1).expand((2, 4)), (2, 4), 1),
    ],
)
def test_wrappers_are_peeled_and_batches_kept(base, batch, width):
    got = parts(base, 3)
    assert (got.family, got.batch_shape) == ("normal", batch)
    assert np.shape(got.loc) == (*batch, 3)
    assert np.shape(got.scale)[-1] == width
    np.broadcast_shapes(np.shape(got.scale), (*batch, 3))


@pytest.mark.parametrize(
    ("base", "family"),
    [
        (dist.Laplace(LOC, 1.0), "laplace"),
        (dist.StudentT(3.0, LOC, 1.0), "student-t"),
        (dist.Logistic(LOC, 1.0), "logistic"),
    ],
)
def test_families(base, family):
    assert parts(base, 3).family == family


def test_host_numbers_stay_on_the_host_in_float64():
    counts = np.array([3.3e8 + 1, 2.0, 3.0])
    got = parts(dist.Normal(counts, np.array([1.0, 2.0, 3.0])), 3)
    assert isinstance(got.loc, np.ndarray) and got.loc.dtype == np.float64
    assert_array_equal(got.loc, counts)
    assert isinstance(parts(dist.Normal(jnp.zeros(3), 1.0), 3).loc, jnp.ndarray)


@pytest.mark.parametrize(
    ("base", "error", "message"),
    [
        (
            dist.Gamma(np.ones(3), 1.0),
            UnsupportedError,
            "`base` of type Gamma has no views. Use dist.Normal, dist.Laplace",
        ),
        (dist.Normal(np.zeros(4), 1.0), ValueError, r"3 cells on its last axis; got shape \(4,\)"),
        (dist.Normal(np.zeros((3, 2)), 1.0).to_event(2), ValueError, "3 cells on its last axis"),
        (
            dist.Normal(np.zeros(1), 1.0).to_event(1),
            ValueError,
            "one event of length 1, not 3 cells",
        ),
        (
            dist.Normal(np.array([0.0, np.nan, 0.0]), 1.0, validate_args=False),
            ValueError,
            "`loc` must be finite; got nan at index 1",
        ),
        (
            dist.Normal(LOC, np.array([1.0, -1.0, 1.0]), validate_args=False),
            ValueError,
            "`scale` must be positive; got -1.0 at index 1",
        ),
        (
            dist.Normal(LOC, 0.0, validate_args=False),
            ValueError,
            "`scale` must be positive; got 0.0 at index 0. Use a scale above 0",
        ),
        ("normal", TypeError, "`base` must be a NumPyro distribution over the cells.*got str"),
    ],
)
def test_bad_bases_are_named(base, error, message):
    with pytest.raises(error, match=message):
        parts(base, 3)
