"""One point of a study: calibrated once, then all workloads are asked of the same draws."""

from typing import Any, final

import jax
import numpy as np

from cdp_views._checks import InfeasibleError, UnsupportedError
from cdp_views.calibration import calibrate
from cdp_views.privacy import privacy_loss
from cdp_views.study.baselines import BASELINES, baseline
from cdp_views.study.divergence import estimated_divergence
from cdp_views.study.figures import best_possible, figures
from cdp_views.study.inputs import Inputs
from cdp_views.study.mechanisms import UNCONSTRAINED, Mechanism
from cdp_views.study.points import Point, asked
from cdp_views.usefulness.information import against_independent
from cdp_views.usefulness.laplace_cells import laplace_correlation

_LARGEST = 2**25  # numbers of noise at once: 256 MiB
_ASIDE = 2**32 - 1  # no repetition has this number

Payload = dict[str, Any]


class SkippedError(Exception):
    """This point cannot be had; the message says why."""


def measure(inputs: Inputs, point: Point) -> Payload:
    """Privacy and usefulness of one point.

    Returns:
        "text/<name>" ↦ text, "point/<name>" ↦ number, "best/<workload>/<name>" ↦ number or text,
        "workload/<workload>/<name>" ↦ array over repetitions (and size classes or thresholds).

    Raises:
        SkippedError: it cannot be had.
    """
    # Inside this block JAX keeps float64, as everywhere where privacy is stated.
    with jax.enable_x64(True), jax.ensure_compile_time_eval():
        return _measure(inputs, point)


def _measure(inputs: Inputs, point: Point) -> Payload:
    study, counts = inputs.study, inputs.counts(point.table)
    inv = inputs.invariant(point.table, point.invariant)
    adjusted = point.view in BASELINES
    mechanism = Mechanism(
        point.noise,
        point.scales,
        UNCONSTRAINED if adjusted else point.view,
        counts,
        inputs.pattern(point.table, point.scales),
        inv,
    )
    try:
        neighbours = inputs.neighbours(point.table, point.invariant)
        scale = calibrate(mechanism.calibrated, neighbours, **point.level.budget)
        view = mechanism(scale)
        payload = _privacy(mechanism, view, neighbours, point, adjusted)
        shown = baseline(point.view, view, inv) if adjusted else view
    except (InfeasibleError, UnsupportedError, ValueError) as reason:
        raise SkippedError(str(reason)) from None
    payload["point/scale"] = scale
    keys = [point.key(study.seed, r) for r in range(study.repetitions)]
    base = None if adjusted else _base(mechanism, scale)
    known = against_independent(shown, base)
    if base is not None and np.isnan(known["kl"]):
        known |= estimated_divergence(shown, base, point.key(study.seed, _ASIDE))
    if np.isnan(known["total_correlation"]) and not adjusted:
        known |= _shared(mechanism, scale, known)
    payload |= {f"point/{name}": value for name, value in known.items()}
    draws = int(np.clip(_LARGEST // counts.size, 20, study.draws))
    payload["point/draws"] = float(draws)
    for workload in asked(inputs, point.table):
        rmse, kind = best_possible(inputs, point, workload)
        payload[f"best/{workload}/rmse"], payload[f"best/{workload}/kind"] = rmse, kind
    for repetition, key in enumerate(keys):
        once = Once(shown)
        for workload in asked(inputs, point.table):
            for name, value in figures(inputs, point, workload, once, key, draws).items():
                payload.setdefault(f"workload/{workload}/{name}", []).append(value)
        if repetition == 0 and not once.drawn:
            # Everything is exact: further repetitions would repeat it.
            for name, value in payload.items():
                if name.startswith("workload/"):
                    payload[name] = value * study.repetitions
            break
    return {k: np.asarray(v) if isinstance(v, list) else v for k, v in payload.items()}


def _shared(mechanism: Mechanism, scale: float, known: dict[str, float]) -> dict[str, float]:
    """Total correlation of Laplace noise of one scale, as sure as the entropy of the release."""
    groups, entropy = mechanism.invariant.plain_groups, known["entropy"]
    if groups is None or np.ptp(mechanism.pattern) > 0 or not np.isfinite(entropy):
        return {}
    labels = np.asarray(groups.labels)
    if labels.max(initial=0) >= groups.count:  # a cell in no group
        return {}
    sizes = np.bincount(labels, minlength=groups.count)
    found = laplace_correlation(mechanism.view, scale, sizes, entropy)  # pyright: ignore[reportArgumentType]
    error = known.get("entropy_stderr", 0.0)
    return {"total_correlation": found, "total_correlation_stderr": error}


def _base(mechanism: Mechanism, scale: float) -> Any:
    """The independent noise given that the totals hold, of the same scale."""
    if mechanism.view == UNCONSTRAINED:
        return None
    return Mechanism(
        mechanism.noise,
        mechanism.scales,
        "conditioned",
        mechanism.counts,
        mechanism.pattern,
        mechanism.invariant,
    )(scale)


def _privacy(
    mechanism: Mechanism, view: Any, neighbours: Any, point: Point, adjusted: bool
) -> Payload:
    """What one release gives away, at most; nothing here is estimated."""
    level = point.level
    found: Payload = {
        "text/guarantee": str(level) if mechanism.proved else "none proved",
        "text/kind": "none",
        "text/guess_rate_kind": "none",
        "text/neighbours": neighbours.describe(),
    }
    figures = ("epsilon", "delta", "pure_epsilon", "guess_rate", "mu", "rho")
    found |= {f"point/{name}": np.nan for name in figures}
    if not mechanism.proved:
        return found
    loss = privacy_loss(view, neighbours)
    # Post-processing gives away at most what its noise does.
    kind = "bound" if adjusted else loss.kind
    found["text/guess_rate_kind"] = kind
    found["text/kind"] = loss.pure_kind if level.notion == "pure" and not adjusted else kind
    found["point/pure_epsilon"] = loss.pure_epsilon
    found["point/guess_rate"] = loss.guess_rate
    if level.notion in ("approximate", "pure"):
        found["point/epsilon"] = level.value
        found["point/delta"] = level.budget["delta"]
    if hasattr(loss.law, "mu"):
        found["point/mu"], found["point/rho"] = loss.mu, loss.rho
    return found


@final
class Once:
    """A view whose draws for one key are made once, whatever is asked of them.

    Args:
        view: anything with `sample_noise`.
    """

    def __init__(self, view: Any) -> None:
        self._view = view
        self.drawn: dict[tuple[bytes, tuple[int, ...]], np.ndarray] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)

    def sample_noise(self, key: Any, sample_shape: tuple[int, ...]) -> np.ndarray:
        """Draws of the noise, (draws, n), on the host."""
        which = (np.asarray(jax.random.key_data(key)).tobytes(), sample_shape)
        if which not in self.drawn:
            noise = self._view.sample_noise(key, sample_shape)
            self.drawn[which] = np.asarray(noise, dtype=np.float64)
        return self.drawn[which]
