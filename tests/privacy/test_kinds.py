"""The usual slips, an array or a view where something else belongs, end in one line."""

import numpy as np
import numpyro.distributions as dist
import pytest

import cdp_views as cdp

INV = cdp.totals(["a", "a", "a"])
SLIPS = {
    "an array of differences": (
        lambda view: cdp.privacy_loss(view, np.array([1.0, -1, 0])),
        r"`neighbours` is of type ndarray. Pass relocations\(inv\), or differences\(V\)",
    ),
    "an invariant for a view": (
        lambda view: cdp.privacy_loss(INV, cdp.relocations(INV)),
        "`view` is of type Totals, which is no distribution",
    ),
    "an invariant to use": (lambda view: cdp.utility(INV), "`view` is of type Totals"),
    "a view to calibrate": (
        lambda view: cdp.calibrate(view, cdp.relocations(INV), epsilon=1.0, delta=1e-5),
        "`view_of_scale` must be a function of the scale; got ConditionedNormal",
    ),
    "rows to join": (lambda view: INV & np.eye(3), "`&` is of type ndarray. Wrap the rows first"),
    "rows joined to": (lambda view: np.eye(3) & INV, "unsupported operand"),
}


@pytest.mark.parametrize(("call", "words"), SLIPS.values(), ids=SLIPS)
def test_a_slip_is_named(call, words):
    view = cdp.Conditioned(dist.Normal(np.zeros(3), 2.0), INV)
    with pytest.raises(TypeError, match=words) as error:
        call(view)
    assert "\n" not in str(error.value)


def test_differences_found_by_linear_algebra_are_kept():
    """Rounding of a null space's basis is judged by the whole row, not by one total's cells."""
    inv = cdp.margins((2, 3, 2), [(0, 1), (1, 2)])
    basis = np.linalg.svd(inv.matrix.toarray())[2][inv.rank :]
    V = np.random.default_rng(0).normal(size=(20, inv.dim)) @ basis
    view = cdp.Conditioned(dist.Normal(np.zeros(12), 2.0), inv)
    found = cdp.privacy_loss(view, cdp.differences(V)).mu
    np.testing.assert_allclose(found, np.linalg.norm(V, axis=1).max() / 2, rtol=1e-6)
