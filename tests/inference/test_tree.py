"""Labels, left-out sites and files of a posterior tree."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import xarray as xr
from numpyro.infer import MCMC, NUTS

from cdp_views.inference import diagnose, summarise, to_datatree
from tests.inference import conjugate


class Released:
    """What `to_datatree` asks of a release."""

    released = np.array([12.0, 18.0, 14.0, 9.0, 33.0])
    coords: ClassVar = {"cell": list("vwxyz"), "state": (("cell",), ["IL", "OH", "IL", "OH", "OH"])}


def by_state(y):
    """The conjugate model with a plate, an observed site along the cells, and a factor."""
    with numpyro.plate("state", 2):
        numpyro.sample("rate", dist.Normal(2.0, 1.0))
    conjugate.model(y)
    numpyro.sample("again", dist.Normal(0.0, 100.0).expand((5,)).to_event(1), obs=y)


@pytest.fixture(scope="module")
def tree():
    mcmc = MCMC(
        NUTS(by_state), num_warmup=100, num_samples=150, num_chains=2,
        chain_method="sequential", progress_bar=False,
    )  # fmt: skip
    mcmc.run(jax.random.key(5), jnp.asarray(Released.released))
    return to_datatree(mcmc, Released())


def test_cells_and_plates_carry_labels(tree):
    posterior = tree["posterior"]
    assert posterior["q"].dims == posterior["q_noise"].dims == ("chain", "draw", "cell")
    assert posterior["q"].sel(cell="w").shape == (2, 150)
    # A plate of the name of a label column: in order of first appearance, as totals are.
    assert posterior["rate"].dims == ("chain", "draw", "state")
    assert list(posterior["state"].values) == ["IL", "OH"]
    assert list(posterior["state_of_cell"].values) == ["IL", "OH", "IL", "OH", "OH"]


def test_exact_totals_are_left_out(tree):
    assert "total" not in tree["posterior"]
    assert tree.attrs["constant_sites"] == "total"


def test_observed_data_and_sampler_statistics(tree):
    assert list(tree["observed_data"].data_vars) == ["again"]  # not the factor of size 0
    assert tree["observed_data"]["again"].dims == ("cell",)
    assert tree["sample_stats"]["diverging"].shape == (2, 150)


def test_tables_read_the_tree(tree):
    found = diagnose(tree, ["q", "rate"])
    assert found.quantities == 7
    assert found.divergences == int(tree["sample_stats"]["diverging"].sum())
    table = summarise(tree, threshold=20.0)
    assert table.loc["q[z]", "state_of_cell"] == "OH"
    assert table.loc["q[z]", "probability_above"] > 0.99
    assert np.isnan(table.loc["rate[IL]", "probability_above"])


def test_written_and_read_back(tree, tmp_path):
    tree.to_netcdf(tmp_path / "posterior.nc", engine="h5netcdf")
    with xr.open_datatree(tmp_path / "posterior.nc", engine="h5netcdf") as read:
        assert read.attrs == tree.attrs
        for group in tree.children:
            xr.testing.assert_identical(read[group].to_dataset(), tree[group].to_dataset())


def test_the_released_table_is_added_where_no_site_observes_it():
    draws = np.random.default_rng(0).normal(size=(2, 20, 5))
    tree = to_datatree({"q": draws}, Released())
    assert list(tree["observed_data"]["released"].values) == list(Released.released)
    assert list(tree["posterior"]["state"].values) == ["IL", "OH", "IL", "OH", "OH"]


def test_a_determined_cell_does_not_remove_its_site():
    draws = np.random.default_rng(0).normal(1e6, 1, size=(2, 20, 3)).astype(np.float32)
    draws[..., 1] = 1e6 + 0.0625 * (np.arange(20) % 2)  # the last digit of float32 at a million
    tree = to_datatree({"q": draws, "total": draws[..., 1]})
    assert tree.attrs["constant_sites"] == "total"
    assert tree["posterior"]["q"].shape == (2, 20, 3)
    assert diagnose(tree).constant == 1
    draws[..., 1] = 1e6 + np.arange(20)  # persons, not digits
    assert diagnose(to_datatree({"q": draws})).constant == 0


@pytest.mark.parametrize(
    ("samples", "release", "says"),
    [
        ({"q": np.zeros(5)}, None, r"must be arrays \(chain, draw, …\)"),
        ({"q": np.ones((2, 5, 3))}, None, "No site varies from draw to draw"),
        (
            {"q": np.random.default_rng(0).normal(size=(2, 5, 3))},
            Released(),
            "Is this the release that the model was given",
        ),
    ],
)
def test_what_does_not_fit_is_named(samples, release, says):
    with pytest.raises(ValueError, match=says):
        to_datatree(samples, release)


def test_a_release_without_coordinates():
    with pytest.raises(TypeError, match="`release` must have `coords`"):
        to_datatree({"q": np.zeros((2, 5, 3))}, 3)
