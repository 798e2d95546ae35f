"""Entropy and divergence of noise that has a density but no closed form of these."""

from typing import Any

import jax
import numpy as np

from cdp_views._checks import UnsupportedError
from cdp_views._float64 import in_float64
from cdp_views.study.compiled import Compiled

_DRAWS = 512


@in_float64
def estimated_divergence(view: Any, base: Any, key: Any) -> dict[str, float]:
    """E[log p(X) − log p_base(X)] and −E[log p(X)] over draws X of the view, with their errors.

    Args:
        view: a view of Laplace noise.
        base: the independent noise given the totals, of the same scale.
        key: of the draws.

    Returns:
        `kl`, `entropy` and their `_stderr`, in nats; nothing where there is no density.
    """
    noise = np.asarray(view.sample_noise(key, (_DRAWS,)))
    try:
        here, there = (np.asarray(_density(_plain(one), noise)) for one in (view, base))
    except UnsupportedError:
        return {}
    root = np.sqrt(_DRAWS)
    return {
        "kl": float(np.mean(here - there)),
        "kl_stderr": float(np.std(here - there, ddof=1) / root),
        "entropy": float(-np.mean(here)),
        "entropy_stderr": float(np.std(here, ddof=1) / root),
    }


@jax.jit
def _density(view: Any, noise: Any) -> Any:
    # The noise keeps the totals: no check of the support is needed.
    return view._log_density(noise)


def _plain(view: Any) -> Any:
    """The view itself, which is a pytree."""
    return view._view if isinstance(view, Compiled) else view
