"""Tables released by others: what the TOML says is what the model uses."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from numpyro.infer.util import log_density
from scipy.stats import laplace, norm

import cdp_views as cdp

TABLE = pd.DataFrame(
    {
        "county": ["Adams", "Bond", "Adams", "Clark"],
        "state": ["IL", "IL", "OH", "OH"],
        "noisy": [10.0, 25, 40, -5],
        "sd": [2.0, 2, 3, 3],
        "state_total": [33, 33, 37, 37],
    }
)
TOML = """
released = "noisy"
names = ["county", "state"]
[noise]
view = "independent"
family = "laplace"
scale_column = "sd"
[totals]
within = ["state"]
value_column = "state_total"
"""


@pytest.fixture
def about(tmp_path):
    def write(text=TOML):
        path = tmp_path / "about.toml"
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize("suffix", [".csv", ".parquet", None])
def test_the_description_is_what_is_used(about, tmp_path, suffix):
    table = TABLE
    if suffix == ".csv":
        TABLE.to_csv(table := tmp_path / "t.csv", index=False)
    elif suffix == ".parquet":
        TABLE.to_parquet(table := tmp_path / "t.parquet")
    seen = cdp.read_published(table, about())
    assert (seen.mechanism.view, seen.mechanism.noise) == ("independent", "laplace")
    np.testing.assert_array_equal(seen.scale, TABLE["sd"])
    np.testing.assert_array_equal(seen.totals, [33, 37])
    np.testing.assert_allclose(seen.start, [9, 24, 41, -4])
    assert seen.coords["cell"][2] == "Adams / OH"
    assert seen.coords["state"] == (("cell",), ["IL", "IL", "OH", "OH"])


@pytest.mark.parametrize(("family", "law"), [("normal", norm), ("laplace", laplace)])
def test_a_rounded_table_has_the_probability_of_its_interval(about, family, law):
    text = TOML.split("[totals]")[0].replace("laplace", family) + "[rounding]\nto = 5\n"
    seen = cdp.read_published(TABLE, about(text))
    q = np.array([11.0, 23.0, 140.0, -6.0])
    with jax.enable_x64(True):
        found, trace = log_density(
            lambda: seen.latent("q", dist.Normal(20.0, 30.0)), (), {},
            {"q_noise": jnp.asarray(TABLE["noisy"].to_numpy() - q)},
        )  # fmt: skip
        slope = jax.grad(lambda q: trace["q_noise"]["fn"].log_prob(q))(jnp.zeros(4))
    low, high = -np.abs(TABLE["noisy"] - q) - 2.5, -np.abs(TABLE["noisy"] - q) + 2.5
    p = law.cdf(high / TABLE["sd"]) - law.cdf(low / TABLE["sd"])
    wanted = np.log(p / 5).sum() + norm.logpdf(q, 20, 30).sum()
    np.testing.assert_allclose(found, wanted, rtol=1e-9)
    assert np.all(np.isfinite(slope))
    np.testing.assert_array_equal(trace["q"]["value"], q)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "released",
            "relaesed",
            'unknown key "relaesed" in the top level. Did you mean "released"',
        ),
        ('"noisy"', '"nosy"', 'no column "nosy". Did you mean "noisy"'),
        ("family", "famly", 'unknown key "famly" in .noise.. Did you mean "family"'),
        ("independent", "conditional", "`view` must be one of"),
        ('scale_column = "sd"', "", 'needs one of "scale" and "scale_column"'),
        ('scale_column = "sd"', "scale = 0", "`scale` must be positive"),
        ('value_column = "state_total"', "", 'lacks "value_column" in'),
        ('value_column = "state_total"', 'value_column = "sd2"', 'no column "sd2"'),
        ('value_column = "state_total"', 'value_column = "noisy"', "contradicts itself within"),
        ('"independent"', '"imaged"', 'total "IL" sums to 35, stated as 33'),
        ('released = "noisy"', 'released = "county"', "4 of 4 entries that are not finite numbers"),
        ("[noise]", "[noise", "is not TOML"),
        ("[totals]", "[rounding]\nto = 5\n[totals]", None),
    ],
)
def test_what_is_wrong_is_named(about, old, new, message):
    text = TOML.replace(old, new, 1)
    if message is None:
        cdp.read_published(TABLE, about(text))
        text, message = text.replace('"laplace"', '"discrete-laplace"'), "`rounding` goes with"
    with pytest.raises((ValueError, cdp.UnsupportedError), match=message):
        cdp.read_published(TABLE, about(text))
