"""Scales given a = cω: draws of many against the law's own quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

from cdp_views.noise.mixing import InverseChi
from cdp_views.noise.numerical import DoubledKolmogorov, given
from cdp_views.views.conditioned import tilted
from cdp_views.views.conditioned.characteristic import Table, log_density_of_log

LAWS = {
    "logistic": DoubledKolmogorov(),
    "student-t": InverseChi(np.array([2.5])),
    "lognormal": given(dist.LogNormal(0.0, 0.7)),
}
A = np.array([0.0, 0.3, 4.0], np.float32)


def cdf(mixing, a):
    """Of s with density ∝ h(s) e^{−a²s²/2}, on a grid of log s."""
    u = np.linspace(-9, 9, 20_001)
    log_p = np.asarray(log_density_of_log(mixing)(jnp.asarray(u))) - (a * np.exp(u)) ** 2 / 2
    p = np.exp(np.nan_to_num(log_p, nan=-np.inf) - np.nanmax(log_p))
    ladder = np.cumsum(p)
    return lambda s: np.interp(np.log(s), u, ladder / ladder[-1])


@pytest.mark.parametrize(
    "name",
    ["logistic", *(pytest.param(n, marks=pytest.mark.slow) for n in ("student-t", "lognormal"))],
)
def test_many_cells_are_drawn_in_stages(name, key):
    mixing = LAWS[name]
    # most cells keep what the common tangents propose, those with a = 4 do not
    a = jnp.broadcast_to(jnp.asarray(A), (tilted._FEW // 3 + 100, 3))
    s = np.sqrt(np.asarray(jax.jit(lambda k: tilted.draw_squares(k, mixing, a))(key)))
    assert np.isfinite(s).all()
    for i, own in enumerate(A):
        assert stats.kstest(s[:8000, i], cdf(mixing, own)).pvalue > 1e-6
    assert stats.kstest(s[:8000, 2], cdf(mixing, A[1])).pvalue < 1e-6


def test_the_table_of_a_characteristic_function_ends_in_numbers_in_float32():
    """Beyond float32's range it was NaN, and every draw with it."""
    for mixing in (LAWS["student-t"], LAWS["lognormal"]):
        table = jax.jit(lambda m: Table.of(m, np.float32))(mixing)
        v = jnp.asarray([-20.0, 0.0, 20.0, 30.0, 40.0], jnp.float32)
        value = np.asarray(table(v))
        assert not np.isnan(value).any() and np.all(np.diff(value) <= 0) and value[-1] < -1e3
