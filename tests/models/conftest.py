"""What tests of models share: a joint density in float64, at named values."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from numpyro.infer.util import log_density

QUICKLY: Any = {
    "compiler_options": {
        "xla_backend_optimization_level": 0,
        "xla_llvm_disable_expensive_passes": True,
    }
}


@pytest.fixture
def joint() -> Callable[..., float]:
    """`joint(model, values, *args, **kwargs)`: log density, where sites that are not named fail."""

    def log_joint(model: Any, values: dict[str, Any], *args: Any, **kwargs: Any) -> float:
        with jax.enable_x64(True):
            at = {name: jnp.asarray(x, jnp.float64) for name, x in values.items()}
            # one compilation, where op by op it takes a hundred; it runs once, so that LLVM's
            # optimisations would take longer than they save
            density = jax.jit(lambda at: log_density(model, args, kwargs, at)[0], **QUICKLY)
            return float(density(at))

    return log_joint
