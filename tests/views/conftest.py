"""The registry of views: a view × an invariant × a scale, with dense covariances beside it."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.linalg

import cdp_views as cdp

N = 6
LOC = np.array([10.0, 200.0, 35.0, 4.0, 90.0, 61.0])

INVARIANTS = {
    "groups": lambda: cdp.totals([0, 0, 0, 1, 1, 1]),
    "weighted": lambda: cdp.totals([0, 1, 0, 1, 0, 1], [2.0, -1.0, -3.0, 1.5, 1.5, 2.0]),
    "constant cell": lambda: cdp.totals(["c", "b", "b", "b", "b", None], missing="free"),
    "nested": lambda: cdp.linear([[1] * 6, [1, 1, 0, 0, 0, 0], [2, 2, 0, 0, 0, 0]]),
    "overlapping": lambda: cdp.linear([[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]]),
    "margins": lambda: cdp.totals([0, 0, 0, 1, 1, 1]) & cdp.totals([0, 1, 2, 0, 1, 2]),
}
DISJOINT = ("groups", "weighted", "constant cell", "nested")

SCALES = {
    "number": np.array(2.0),
    "cells": np.array([1.3, 1.3, 1.0, 1.5, 1.2, 1.1]),
    "batch": np.array([[1.3, 1.3, 1.0, 1.5, 1.2, 1.1], [2.0, 2.0, 1.9, 2.1, 1.8, 1.5]]),
}
WEIGHTS = np.array([1.0, 2.0, 0.5, 3.0, 1.0, 0.7])


@dataclass(frozen=True, eq=False)
class Make:
    """One line of the registry; `view(loc, scale)` builds it over its invariant."""

    kind: str
    invariant: str
    options: tuple = ()

    def view(self, loc: Any = LOC, scale: Any = 2.0, **more: Any) -> Any:
        make = {"max-entropy": cdp.MaxEntropy, "conditioned": cdp.Conditioned, "imaged": cdp.Imaged}
        return make[self.kind](dist.Normal(loc, scale), self.inv(), **dict(self.options), **more)

    def inv(self) -> Any:
        return INVARIANTS[self.invariant]()

    def takes(self, scale: Any) -> bool:
        """Whether these scales are accepted: maximum entropy needs balance or constant leverage."""
        if self.kind != "max-entropy" or (
            self.invariant in ("groups", "margins") and np.ndim(scale) == 0
        ):
            return True
        return self.invariant in DISJOINT

    def covariance(self, scale: Any) -> np.ndarray:
        """By dense algebra; for maximum entropy by an optimiser over all of the matrix."""
        s2 = np.broadcast_to(np.asarray(scale, float) ** 2, (N,))
        K = basis(self.inv())
        if self.kind == "conditioned":
            return K @ np.linalg.inv(K.T @ np.diag(1 / s2) @ K) @ K.T
        if self.kind == "imaged":
            w = np.broadcast_to(dict(self.options).get("weights", np.ones(N)), (N,))
            move = K @ np.linalg.inv(K.T @ np.diag(w) @ K) @ K.T @ np.diag(w)
            return move @ np.diag(s2) @ move.T
        return dual_newton(K, s2)


def basis(inv):
    A = inv.matrix.toarray()
    return scipy.linalg.null_space(A / np.linalg.norm(A, axis=1, keepdims=True), rcond=1e-12)


def dual_newton(K, s2):
    """min_θ Σθ − log det(KᵀΘK) over the moving cells, plainly: the dual of maximum entropy."""
    moving = np.sum(K * K, 1) > 1e-9
    B = np.diag(1 / np.sqrt(s2)) @ K  # x = D y with y on the scaled kernel
    B = np.linalg.qr(B)[0]
    theta = np.ones(len(s2))

    def value(theta):
        M = B.T @ (theta[:, None] * B)
        return (
            theta[moving].sum() - np.linalg.slogdet(M)[1]
            if np.linalg.eigvalsh(M)[0] > 0
            else np.inf
        )

    for _ in range(60):
        R = B @ np.linalg.inv(B.T @ (theta[:, None] * B)) @ B.T
        gradient = np.where(moving, 1 - np.diag(R), 0)
        step = -np.linalg.pinv(R * R, rcond=1e-12) @ gradient
        t = 1.0
        while value(theta + t * step) > value(theta) + 1e-13 and t > 1e-8:
            t /= 2
        theta = theta + t * step
    D = np.sqrt(s2)
    return D[:, None] * R * D


REGISTRY = [
    Make(kind, inv) for kind in ("conditioned", "imaged", "max-entropy") for inv in INVARIANTS
]
REGISTRY += [
    Make("imaged", inv, (("weights", WEIGHTS),)) for inv in ("groups", "weighted", "margins")
]
REGISTRY = [m for m in REGISTRY if (m.kind, m.invariant) != ("max-entropy", "overlapping")]
ONE_EACH = [
    Make("conditioned", "overlapping"),
    Make("imaged", "weighted", (("weights", WEIGHTS),)),
    Make("max-entropy", "groups"),
]


def label(make):
    return f"{make.kind} {make.invariant}{' w' if make.options else ''}"


@pytest.fixture(params=REGISTRY, ids=label)
def make(request):
    return request.param


@pytest.fixture(params=ONE_EACH, ids=label)
def typical(request):
    """One of each view: for what costs a compilation."""
    return request.param


@pytest.fixture
def scale(typical):
    """Unequal scales that `typical` accepts."""
    return SCALES["cells"]


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="session")
def loc():
    return LOC


@pytest.fixture(scope="session")
def scales():
    return SCALES


@pytest.fixture(scope="session")
def basis_of():
    return basis


@pytest.fixture(scope="session")
def make_of():
    return Make
