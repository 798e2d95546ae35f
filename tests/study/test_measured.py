"""The figures of a study: those of `compare`, exact where they can be, each point its own."""

import jax
import numpy as np
import numpyro.distributions as dist
import pandas as pd

import cdp_views as cdp
from cdp_views.study.divergence import estimated_divergence


def test_points_are_those_of_compare(found):
    table = cdp.datasets.lafferty_blocks()
    known = cdp.compare(
        table["count"], cdp.totals(table["state"]), epsilon=1.0, delta=1e-6, public=True
    ).table.set_index("view")
    points = found["points"].to_dataset()
    for view in ("conditioned", "imaged"):
        (i,) = np.flatnonzero(
            (points["noise"] == "normal") & (points["view"] == view) & (points["budget"] == 1.0)
        )
        for name in ("scale", "mu", "rho", "guess_rate", "entropy"):
            assert float(points[name][i]) == known.loc[view, name]
        cells = found["workloads"].to_dataset().isel(point=i, repetition=0).sel(workload="cells")
        np.testing.assert_allclose(cells["sd"], known.loc[view, "mean_sd"], rtol=1e-12)
        np.testing.assert_allclose(cells["mae"], known.loc[view, "mean_absolute_error"])
        np.testing.assert_allclose(cells["margin90_worst"], known.loc[view, "margin90_worst"])
        assert cells["error_kind"] == "exact" and cells["rmse_stderr"] == 0


def test_laplace_figures_are_exact_where_they_can_be_and_else_within_their_error(found):
    """Sums of imaged Laplace noise: W P U from NumPy's own draws, 2λ² W P Wᵀ from dense algebra."""
    frame = cdp.datasets.lafferty_blocks()
    W = pd.get_dummies(frame["county"]).T.to_numpy(dtype=float)
    A = pd.get_dummies(frame["state"]).T.to_numpy(dtype=float)
    P = np.eye(13) - A.T @ np.linalg.solve(A @ A.T, A)
    U = np.random.default_rng(0).laplace(size=(100_000, 13))
    mae = np.abs(U @ (W @ P).T).mean()
    data = found["workloads"].to_dataset().sel(workload="county").isel(repetition=0)
    points = found["points"].to_dataset()
    here = (points["noise"] == "laplace") & (points["view"] == "imaged")
    for i in np.flatnonzero(here):
        scale, one = float(points["scale"][i]), data.isel(point=i)
        exact = np.sqrt(2 * scale**2 * np.trace(W @ P @ W.T) / len(W))
        np.testing.assert_allclose(one["rmse"], exact, rtol=1e-10)
        assert one["error_kind"] == "estimate" and one["rmse_stderr"] == 0 < one["mae_stderr"]
        assert abs(one["mae"] - scale * mae) < 5 * one["mae_stderr"]
        # Negative control: unconstrained noise would not be within.
        free = scale * np.abs(U @ W.T).mean()
        assert abs(one["mae"] - free) > 5 * one["mae_stderr"]
        assert points["kl_stderr"][i] > 0 and points["total_correlation_stderr"][i] > 0
    # Conditioned noise in groups of m: E|X| = λ(m − 1)/m, Var = λ²(2m − 1)(m − 1)/(m(m + 1)).
    m = np.repeat([6.0, 7.0], [6, 7])
    cells = found["workloads"].to_dataset().sel(workload="cells").isel(repetition=0)
    there = (points["noise"] == "laplace") & (points["view"] == "conditioned")
    for i in np.flatnonzero(there):
        scale, one = float(points["scale"][i]), cells.isel(point=i)
        exact = scale * np.sqrt(np.mean((2 * m - 1) * (m - 1) / (m * (m + 1))))
        np.testing.assert_allclose(one["rmse"], exact, rtol=1e-10)
        assert abs(one["mae"] - scale * np.mean((m - 1) / m)) < 5 * one["mae_stderr"]
    known = (points["noise"] == "normal") | (points["view"] == "conditioned")
    assert (points["kl_stderr"][known] == 0).all() and (points["kl"][known].values < 0.1).all()


def test_the_divergence_of_imaged_from_conditioned_laplace_noise_against_quadrature():
    """Cells (u, −u): conditioned u ~ e^{−2|u|}, imaged 2u = U₁ − U₂ ~ (1 + |d|)e^{−|d|}/4."""
    inv, noise = cdp.totals(["a", "a"]), dist.Laplace(np.zeros(2), 1.0)
    found = estimated_divergence(
        cdp.Imaged(noise, inv), cdp.Conditioned(noise, inv), jax.random.key(0)
    )
    u = np.linspace(0, 40, 400_001)
    log_imaged = np.log((1 + 2 * u) / 2) - 2 * u
    kl = 2 * np.trapezoid(np.exp(log_imaged) * (log_imaged + 2 * u), u)
    # On V the length of (u, −u) is √2 u.
    entropy = -2 * np.trapezoid(np.exp(log_imaged) * log_imaged, u) + np.log(np.sqrt(2))
    assert abs(found["kl"] - kl) < 5 * found["kl_stderr"] < 0.5
    assert abs(found["entropy"] - entropy) < 5 * found["entropy_stderr"] < 0.5
    assert abs(found["entropy"] - 2 * entropy) > 5 * found["entropy_stderr"]


def test_numbers_of_a_point_depend_on_nothing_but_itself(found, study, plan):
    other = study(
        epsilon=(1.0,),
        views=("imaged", "unconstrained"),
        noises=("laplace",),
        workloads={"pairs": {"lengths": [2]}, **plan["workloads"]},
    ).run()
    shared = [p for p in other["points"]["point"].values if p in found["points"]["point"].values]
    assert len(shared) == 1
    one, two = (t["workloads"].to_dataset().sel(point=shared) for t in (found, other))
    assert one.identical(two.sel(workload=["cells", "county"]))
    third = study(seed=6).run()["workloads"].to_dataset().sel(point=shared)
    assert not (third["mae"] == one["mae"]).any()


def test_repetitions_are_independent_and_exact_figures_repeat(study):
    data = study(repetitions=3, epsilon=1.0).run()["workloads"].to_dataset()
    exact, estimated = data["error_kind"] == "exact", data["error_kind"] == "estimate"
    spread = np.ptp(data["mae"].values, axis=2)
    assert (spread[exact.values] == 0).all() and (spread[estimated.values] > 0).all()
    gap = data["mae"] - data["mae"].mean("repetition")
    assert (abs(gap).values <= 5 * data["mae_stderr"].values + 1e-12).all()


def test_what_depends_on_the_counts_is_marked(found, study, plan):
    data = found["workloads"].to_dataset()
    marked = {name for name, v in data.data_vars.items() if v.attrs.get("confidential")}
    stems = {"relative_margin90", "relative_mae", "bias_by_size", "queries"}
    stems |= {"wrong_side", "misallocated"}
    assert {name.removesuffix("_stderr") for name in marked} == stems
    assert found.attrs["confidential"] == 1
    open_ = study(
        tables={"blocks": {**plan["tables"]["blocks"], "public": True}}, noises="normal"
    ).run()
    assert not any(v.attrs.get("confidential") for v in open_["workloads"].data_vars.values())
