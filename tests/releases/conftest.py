"""A small confidential table and its release, with the noise that a test asks for."""

import importlib

import numpy as np
import pytest

import cdp_views as cdp
from cdp_views.releases.noise.secret import Secret

COUNTS = np.array([11, 502, 77, 3, 9001, 12, 640, 31])
GROUPS = ["x"] * 4 + ["y"] * 4


@pytest.fixture
def inv():
    return cdp.totals(GROUPS)


@pytest.fixture
def make(inv):
    """A function: a release of COUNTS, whatever is given replacing the usual arguments."""

    def release(counts=COUNTS, invariant=inv, **given):
        usual = {
            "view": "conditioned",
            "noise": "normal",
            "epsilon": 1.0,
            "delta": 1e-6,
            "neighbours": cdp.relocations(invariant) if "neighbours" not in given else None,
        }
        return cdp.release(counts, invariant, **(usual | given))

    return release


@pytest.fixture
def seeded(monkeypatch):
    """A function that fixes the secret of the releases after it."""

    def fix(seed):
        # the room's function hides its file of the same name
        module = importlib.import_module("cdp_views.releases.release")
        monkeypatch.setattr(module, "fresh_secret", lambda: Secret(seed.to_bytes(32, "little")))

    return fix
