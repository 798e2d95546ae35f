"""Posterior draws as an ArviZ tree: named cells, the released table, no constant sites."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import arviz_base
import jax
import numpy as np
import xarray as xr
from arviz_base.io_numpyro import infer_dims

from cdp_views.inference._constant import constant

CELL = "cell"


def to_datatree(
    mcmc_or_samples: Any,
    release: Any = None,
    *,
    cells: Sequence[str] = ("q",),
    log_likelihood: Any = None,
) -> xr.DataTree:
    """Draws, sampler statistics and observed data, labelled, for ArviZ and for netCDF.

    Sites that do not vary up to rounding, such as an exact total A q, are left out, as R-hat is
    undefined for them: the attribute `constant_sites` says which. (What is compared is the spread
    with 8 eps of the values themselves; the sum of noise, 0 up to the rounding of its cells, is
    not recognised.)

    Args:
        mcmc_or_samples: a NumPyro `MCMC` that has run, or its
            `get_samples(group_by_chain=True)`: arrays (chain, draw, …).
        release: a `cdp.Release`, or anything with `coords`, labels by name such as
            `{"cell": [...], "state": (("cell",), [...])}`, and optionally `released`, the table
            (n,). `None` numbers the cells.
        cells: the sites whose last axis is the cells; `q` takes `q_noise` along.
        log_likelihood: from `log_likelihood_by_group`, or a mapping of such arrays by name.

    Returns:
        Groups `posterior`, `sample_stats` (from an MCMC), `observed_data` and `log_likelihood`.
        Along the dimension `cell` lie all labels of the release; a dimension with the name of a
        label column (a plate `state`) gets its labels, in order of first appearance, and the column
        along the cells is then called `state_of_cell`. Write it with `tree.to_netcdf(path)`, read
        it with `xarray.open_datatree(path)` (extra `io`).

    Raises:
        ValueError: draws without chains, labels of another number than cells, or no site that
            varies.

    Example:
        >>> import numpy as np
        >>> draws = np.random.default_rng(0).normal(5, 1, (4, 50, 2))
        >>> tree = to_datatree({"q": draws, "total": np.full((4, 50), 10.0)}, {"cell": ["a", "b"]})
        >>> list(tree["posterior"].data_vars), tree.attrs["constant_sites"]
        (['q'], 'total')

    Reference: the InferenceData schema, python.arviz.org; numpyro.md, 12.
    """
    coords = _coords_of(release)
    # `Observed.latent` makes the deterministic q of a site q_noise along the same cells.
    along = {*cells, *(f"{site}_noise" for site in cells)}
    tree = (
        _of_mcmc(mcmc_or_samples, along)
        if hasattr(mcmc_or_samples, "get_samples")
        else _of_samples(mcmc_or_samples, along)
    )
    groups = {name: node.to_dataset() for name, node in tree.children.items()}

    posterior = groups["posterior"]
    left_out = [
        str(name) for name, site in posterior.items() if constant(site.values, (0, 1)).all()
    ]
    if len(left_out) == len(posterior.data_vars):
        raise ValueError(
            f"No site varies from draw to draw ({', '.join(left_out)}): the sampler did not move. "
            "Look at its step size and its start before anything else."
        )
    groups["posterior"] = posterior.drop_vars(left_out).assign_attrs(
        constant_sites=", ".join(left_out)
    )
    observed = _observed(groups.pop("observed_data", None), release, posterior.sizes.get(CELL))
    if observed is not None:
        groups["observed_data"] = observed
    if log_likelihood is not None:
        groups["log_likelihood"] = _likelihood(log_likelihood)

    labelled = {name: _label(dataset, coords) for name, dataset in groups.items()}
    out = xr.DataTree.from_dict(labelled)
    out.attrs = {"cells": ", ".join(cells), "constant_sites": ", ".join(left_out)}
    return out


def _of_mcmc(mcmc: Any, along: set[str]) -> xr.DataTree:
    shapes = {name: np.ndim(site) - 1 for name, site in mcmc.get_samples().items()}
    named: dict[str, Any] = infer_dims(mcmc.sampler.model, mcmc._args, mcmc._kwargs)
    dims = named | {
        site: _ending_in_cell(site, named.get(site, []), shapes[site])
        for site in along
        if shapes.get(site, 0) > 0
    }
    return arviz_base.from_numpyro(mcmc, dims=dims)


def _of_samples(samples: Any, along: set[str]) -> xr.DataTree:
    arrays = {name: np.asarray(jax.device_get(site)) for name, site in dict(samples).items()}
    if len({a.shape[:2] for a in arrays.values()}) != 1 or min(a.ndim for a in arrays.values()) < 2:
        shapes = ", ".join(f"{name} {a.shape}" for name, a in arrays.items())
        raise ValueError(
            f"`mcmc_or_samples` must be arrays (chain, draw, …) with the same first two axes; got "
            f"{shapes}. Take mcmc.get_samples(group_by_chain=True), or x[None] of one chain."
        )
    dims = {
        name: _ending_in_cell(name, [], a.ndim - 2)
        for name, a in arrays.items()
        if name in along and a.ndim > 2
    }
    return arviz_base.from_dict({"posterior": arrays}, dims=dims)


def _ending_in_cell(site: str, named: Sequence[str], ndim: int) -> list[str]:
    filled = [*named, *(f"{site}_dim_{i}" for i in range(len(named), ndim))]
    return [*filled[: ndim - 1], CELL]


def _coords_of(release: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Labels by name with the dimensions along which they lie; text as NumPy text, for netCDF."""
    if release is None:
        return {}
    given = release if isinstance(release, Mapping) else getattr(release, "coords", None)
    if given is None:
        raise TypeError(
            f"`release` must have `coords` or be a mapping of labels; got "
            f"{type(release).__name__}. For example {{'cell': names}}."
        )
    out = {}
    for name, value in given.items():
        dims, labels = value if isinstance(value, tuple) else ((str(name),), value)
        array = np.asarray(labels)
        out[str(name)] = (tuple(dims), array.astype(str) if array.dtype.kind == "O" else array)
    cells = {name: labels.shape for name, (dims, labels) in out.items() if dims == (CELL,)}
    if len(set(cells.values())) > 1:
        raise ValueError(f"`coords` along the cells must have one length; got {cells}.")
    return out


def _observed(data: xr.Dataset | None, release: Any, count: int | None) -> xr.Dataset | None:
    """Observed sites, with the released table among them; without the empty ones of factors.

    A site whose last axis is as long as there are cells (`count`) lies along the cells.
    """
    data = xr.Dataset() if data is None else data
    kept: dict[Hashable, Any] = {}
    for name, site in data.items():
        if site.size == 0:  # numpyro.factor is an observed site of size 0
            continue
        if site.ndim and site.dims[-1] != CELL and site.shape[-1] == count:
            last = site.dims[-1]
            site = site.drop_vars(str(last), errors="ignore").rename({last: CELL})
        kept[name] = site
    table = getattr(release, "released", None)
    if table is not None and not any(CELL in site.dims for site in kept.values()):
        kept["released"] = xr.DataArray(np.asarray(table), dims=CELL)
    return xr.Dataset(kept, attrs=data.attrs) if kept else None


def _likelihood(given: Any) -> xr.Dataset:
    if isinstance(given, xr.Dataset):
        return given
    if isinstance(given, xr.DataArray):
        return given.to_dataset(name=given.name or "released")
    return arviz_base.dict_to_dataset(
        {name: np.asarray(value) for name, value in dict(given).items()}
    )


def _label(data: xr.Dataset, coords: dict) -> xr.Dataset:
    for name, (dims, labels) in coords.items():
        if any(d not in data.dims for d in dims):
            continue
        sizes = tuple(data.sizes[d] for d in dims)
        if labels.shape != sizes:
            raise ValueError(
                f"`coords` of {name} must have shape {sizes}, as the draws; got {labels.shape}. "
                "Is this the release that the model was given?"
            )
        own = dims == (name,)
        if not own and name in data.dims:
            first = list(dict.fromkeys(labels.tolist()))
            if len(first) == data.sizes[name]:
                data = data.assign_coords({name: np.asarray(first)})
        taken = not own and (name in data.dims or name in data.data_vars)
        data = data.assign_coords({f"{name}_of_{CELL}" if taken else name: (dims, labels)})
    return data
