"""Laplace views over two scrambled weighted totals, and an independent law for d = 2."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.linalg

import cdp_views as cdp

MAKE = {"max-entropy": cdp.MaxEntropy, "conditioned": cdp.Conditioned, "imaged": cdp.Imaged}
LABELS = [0, 1, 0, 1, 0, 1]
WEIGHTS = np.array([2.0, -1.0, -3.0, 1.5, 1.5, 2.0])
SCALE = np.array([1.3, 1.3, 1.0, 1.5, 1.2, 1.1])


@dataclass(frozen=True)
class Make:
    """One kind of view; `view(loc, scale)` builds it."""

    kind: str

    def view(self, loc: Any, scale: Any, inv: Any = None, **more: Any) -> Any:
        inv = cdp.totals(LABELS, WEIGHTS) if inv is None else inv
        return MAKE[self.kind](dist.Laplace(loc, scale), inv, **more)


@pytest.fixture(params=MAKE)
def typical(request):
    return Make(request.param)


@pytest.fixture(params=["conditioned", "imaged"])
def dense(request):
    """The kinds that have a density."""
    return Make(request.param)


@pytest.fixture
def scale():
    return SCALE


@pytest.fixture(scope="session")
def noise_of():
    """(key, inv, scale, draws) → draws of the noise; scales are traced, so shapes compile once."""

    def of(kind: str) -> Any:
        def noise(key: Any, inv: Any, scale: Any, draws: int) -> Any:
            base = dist.Laplace(jnp.zeros(inv.n), scale)
            return MAKE[kind](base, inv).sample_noise(key, (draws,))

        return jax.jit(noise, static_argnames="draws")

    return {kind: of(kind) for kind in MAKE}


@dataclass(frozen=True)
class Plane:
    """exp(−‖x/λ‖₁) on a plane, in polar coordinates: 1/g² in the angle, Gamma(2)/g in the radius.

    Trapezoid rule on a circle, whose kinks cost O(step²).
    """

    angle: np.ndarray
    along: np.ndarray  # unit vectors of the plane (m, n)
    g: np.ndarray

    @staticmethod
    def of(weights: Any, scale: Any) -> "Plane":
        K = scipy.linalg.null_space(np.atleast_2d(weights))
        angle = (np.arange(400_000) + 0.5) * (2 * np.pi / 400_000)
        along = np.stack([np.cos(angle), np.sin(angle)], -1) @ K.T
        return Plane(angle, along, np.sum(np.abs(along) / scale, -1))

    @property
    def log_normalizer(self) -> float:
        return float(np.log(2 * np.pi * np.mean(self.g**-2)))

    @property
    def covariance(self) -> np.ndarray:
        weight = 6 / self.g**4 / np.sum(self.g**-2)
        return self.along.T @ (weight[:, None] * self.along)

    def uniform(self, x: np.ndarray) -> np.ndarray:
        """The place of every x (…, n) in the law of the angle: uniform if x has this law."""
        K = self.along[[0, 100_000]]  # two directions a quarter turn apart
        start = np.arctan2(x @ K[1], x @ K[0]) % (2 * np.pi) + self.angle[0]
        law = np.cumsum(self.g**-2)
        return np.interp(start, self.angle + self.angle[0], law / law[-1])


@pytest.fixture(scope="session")
def plane_of():
    return Plane.of
