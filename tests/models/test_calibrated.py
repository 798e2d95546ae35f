"""Two lines of `benchmarks.calibration_of_inference`, which runs every model, view and noise."""

import jax
import numpy as np
import pytest

from benchmarks.calibration_of_inference import CONTROL, Line, _keep, _kept, markdown, run
from benchmarks.side_by_side import run_side_by_side
from tests.inference import conjugate


@pytest.mark.slow
def test_a_model_is_calibrated_and_who_knows_a_quarter_of_the_noise_is_not():
    with jax.enable_x64(True):
        right, wrong = (
            run("latent_counts", "imaged", "normal", simulations=100, control=control)
            for control in (False, True)
        )
    assert not right.off, right
    assert abs(right.coverage - 0.9) < 5 * right.coverage_se
    assert wrong.off and wrong.coverage < 0.7, wrong


def test_chains_side_by_side_have_the_known_mean_and_covariance(key):
    _, y = jax.vmap(conjugate.simulate)(jax.random.split(key, 200))
    found, diverged = run_side_by_side(
        key, conjugate.model, y, draws=99, warmup=150, thin=1, sites=("q",)
    )
    mean, covariance = conjugate.posterior(np.asarray(y, np.float64))
    off = np.asarray(found["q"], np.float64) - mean[:, None]
    # a step that is too long for a chain is rejected, and rare
    assert np.mean(np.asarray(diverged)) < 0.01
    # chains are independent of each other, so their spread gives the error
    each = off.mean(axis=1)
    assert np.all(np.abs(each.mean(axis=0)) < 5 * each.std(axis=0, ddof=1) / np.sqrt(200))
    products = np.einsum("rsi,rsj->rij", off, off) / off.shape[1]
    error = products.std(axis=0, ddof=1) / np.sqrt(200)
    assert np.all(np.abs(products.mean(axis=0) - covariance) < 5 * error)
    assert np.any(np.abs(products.mean(axis=0) - 1.2 * covariance) > 5 * error)


def line(noise: str, coverage: float, p_value: float = 0.5) -> Line:
    return Line(
        "shares", "imaged", noise, 200, coverage, 0.01, "base", 0.9, 0.02, p_value, 0, 7800, 0.1,
        1.0, 9.0,
    )  # fmt: skip


def test_a_line_that_is_run_again_takes_the_place_of_the_old_one(tmp_path):
    path = tmp_path / "lines.json"
    for one in (line("normal", 0.8), line(CONTROL, 0.3), line("normal", 0.91)):
        _keep(path, one)
    kept = _kept(path)
    assert [one.coverage for one in kept] == [0.91, 0.3]
    assert [one.verdict for one in kept] == ["", "off, as it must be"]
    table = markdown(kept, {"processor": "P", "cores": 2, "system": "S"})
    assert "over all 1 lines: 91.00 ± 1.00 %" in table and "| 30.0 ± 1.0 |" in table
    assert line("laplace", 0.84).verdict == "OFF" and line(CONTROL, 0.9).verdict == "NOT CAUGHT"
    assert line("laplace", 0.9, p_value=1e-4).off
