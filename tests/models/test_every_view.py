"""Every model with every view and noise: finite densities and slopes, or one line that says why.

No sampling here: `benchmarks.calibration_of_inference` ranks truths under every one of them. A
positive table meets the law of a release only by its density, whatever the model: one model sees
ten releases at once, each by another law, and the others two.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer.util import initialize_model, potential_energy

import cdp_views as cdp
from cdp_views.models import (
    contingency,
    latent_counts,
    regression,
    shares,
    small_area,
    smart_meter,
    sufficient_statistics,
    wearables,
)

Y = np.array([12.0, 55, -3, 8, 92, 20])
ROWS = cdp.totals([0, 0, 0, 1, 1, 1])
FEEDER = cdp.totals([0, 1, 0, 1, 0, 1])
MARGINS = cdp.margins((2, 3), [(0,), (1,)])
STATE, PEOPLE = np.array([0, 0, 0, 1, 1, 1]), np.array([9e3, 2e4, 4e3, 8e3, 3e4, 1e4])
VIEWS = ("max-entropy", "conditioned", "imaged")
CONTINUOUS = [(view, noise) for view in VIEWS for noise in ("normal", "laplace")]
WHOLE = [(view, f"discrete-{noise}") for view in VIEWS[1:] for noise in ("normal", "laplace")]


def seen(law: Any, scale: Any, invariant: Any = ROWS, y: Any = Y) -> cdp.Observed:
    return cdp.Observed(cdp.Mechanism(*law, scale, invariant), y)


def by_ten_laws(scale: Any) -> list[Any]:
    """The scale of continuous noise unknown, that of whole noise known."""
    unknown = [seen(law, scale) for law in CONTINUOUS]
    return unknown + [seen(law, 2.0) for law in WHOLE]


def two(scale: Any, invariant: Any = ROWS) -> list[Any]:
    return [
        seen(("imaged", "laplace"), scale, invariant),
        seen(("conditioned", "discrete-normal"), 2.0, invariant),
    ]


def small_area_in_two_years(scale: Any) -> None:
    small_area.model(two(scale), np.stack([PEOPLE, PEOPLE]), STATE)


def shares_twice(scale: Any) -> None:
    first, second = two(scale)
    shares.model(first, np.array([64.0, 120]), second)


def regression_twice(scale: Any) -> None:
    first, second = two(scale)
    regression.model(first, Y / 50, second)


def smart_meter_on_two_days(scale: Any) -> None:
    smart_meter.model(two(scale, FEEDER), 2)


def wearables_twice(scale: Any) -> None:
    first, second = two(scale)
    wearables.model(first, 3, second)


def contingency_of(*laws: Any, known: Any = None) -> Any:
    def model(scale: Any) -> None:
        first, *more = (seen(law, known or scale, MARGINS) for law in laws)
        contingency.model(first, (2, 3), *more)

    return model


def sums_of(*laws: Any) -> Any:
    sums, one = np.array([30.0, 45, 10, 12, 40]), cdp.linear(np.eye(5)[:1])

    def model(scale: Any) -> None:
        first, *more = (seen(law, scale, one, sums) for law in laws)
        sufficient_statistics.model(first, 300, *more)

    return model


def slopes_of(model: Any, key: Any) -> dict[str, np.ndarray]:
    """Slopes of the log density at 0.1 of every unconstrained latent, under an unknown scale."""

    def of_unknown_scale() -> None:
        model(numpyro.sample("noise_scale", dist.LogNormal(jnp.log(3.0), 0.5)))

    with jax.enable_x64(True):
        shapes = jax.eval_shape(lambda: initialize_model(key, of_unknown_scale).param_info.z)
        at = {name: jnp.full(shape.shape, 0.1) for name, shape in shapes.items()}
        slope = jax.grad(lambda at: potential_energy(of_unknown_scale, (), {}, at))
        return {name: np.asarray(x) for name, x in jax.jit(slope)(at).items()}


def all_finite(slopes: dict[str, np.ndarray]) -> bool:
    # a density of 0 has no slope, and NaN anywhere would have spread to the level or the scale
    return all(np.isfinite(slope).all() for slope in slopes.values()) and any(
        np.any(slope != 0) for slope in slopes.values()
    )


@pytest.mark.slow
def test_ten_releases_by_ten_laws(key):
    slopes = slopes_of(lambda scale: latent_counts.model(*by_ten_laws(scale)), key)
    assert all_finite(slopes)
    # of six unknown scales in one, and of the scales of two max-entropy Laplace releases
    assert abs(slopes["noise_scale"]) > 1e-3
    assert sum(name.endswith("_scales") for name in slopes) == 1


@pytest.mark.parametrize(
    "model",
    [
        regression_twice,
        contingency_of(("imaged", "laplace"), ("imaged", "normal")),
        pytest.param(small_area_in_two_years, marks=pytest.mark.slow),
        pytest.param(shares_twice, marks=pytest.mark.slow),
        pytest.param(smart_meter_on_two_days, marks=pytest.mark.slow),
        pytest.param(wearables_twice, marks=pytest.mark.slow),
        pytest.param(
            sums_of(("conditioned", "laplace"), ("imaged", "normal")), marks=pytest.mark.slow
        ),
    ],
    ids=lambda model: model.__qualname__.split(".")[0],
)
def test_two_releases_of_unknown_and_known_scale(model, key):
    assert all_finite(slopes_of(model, key))


@pytest.mark.slow
@pytest.mark.parametrize("law", CONTINUOUS, ids=" ".join)
def test_where_the_latent_is_the_noise_every_law_comes_first(law, key):
    # the constant of conditioned Laplace noise on margins is estimated once, for one scale
    known = 3.0 if law == ("conditioned", "laplace") else None
    assert all_finite(slopes_of(contingency_of(law, known=known), key))
    assert all_finite(slopes_of(sums_of(law), key))


def test_what_there_is_not_is_said_in_one_line_that_names_the_way_out(key):
    with pytest.raises(cdp.UnsupportedError, match='Release view="conditioned" or "imaged"'):
        cdp.Mechanism("max-entropy", "discrete-laplace", 2.0, ROWS)
    with pytest.raises(cdp.UnsupportedError, match="scale") as said:
        slopes_of(contingency_of(("conditioned", "laplace")), key)
    assert chr(10) not in str(said.value)
