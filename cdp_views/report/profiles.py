"""Privacy profiles and trade-off curves of several mechanisms as one picture."""

import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from cdp_views.report.canvas import new_figure
from cdp_views.report.names import noise_name
from cdp_views.report.rows import percent

if TYPE_CHECKING:
    # this room draws tables without JAX, which privacy needs
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from cdp_views.privacy import PrivacyLoss

# Okabe & Ito (2008): told apart with any colour vision. Widths let lines under others show.
_STYLE: dict[str, dict[str, Any]] = {
    "unconstrained": {"color": "#666666", "linewidth": 1.5},
    "conditioned": {"color": "#E69F00", "linewidth": 5.5},
    "imaged": {"color": "#009E73", "linewidth": 3.2},
    "max-entropy": {"color": "#0072B2", "linewidth": 1.6},
}
_OTHER = {"color": "#CC79A7", "linewidth": 1.6}
_DASHES: dict[str, Any] = {"exact": "-", "bound": (0, (4, 2)), "estimate": "-"}
_POINTS = 201
_FINE = 801
_MANY = 301


def profile_curves(
    losses: "Mapping[str | tuple[str, str], PrivacyLoss]", *, epsilon: Any = None
) -> xr.Dataset:
    """δ(ε) and the trade-off curve of several privacy losses, for `profile_figure`.

    Args:
      losses: "view" or ("noise", "view") ↦ its loss, as `cdp.privacy_loss` returns it. The views
        "unconstrained", "conditioned", "imaged" and "max-entropy" have colours of their own.
      epsilon: (e,) ε ≥ 0 of the profile; default from 0 to where all δ are below 0.005.

    Returns:
      Dataset over mechanism: `delta` (mechanism, epsilon), `tradeoff` (mechanism, type_one), the
      least type II error, each with the ends `_low` and `_high` of the 99 % band of an estimate
      (NaN for others); `kind`, `noise`, `view`, `guess_rate`.

    Raises:
      ValueError: no losses, or ε that is not an increasing list of numbers from 0 up.

    Example:
      >>> import cdp_views as cdp, numpy as np, numpyro.distributions as dist
      >>> inv = cdp.totals(["a"] * 3)
      >>> view = cdp.Conditioned(dist.Normal(np.zeros(3), 1.0), inv)
      >>> curves = cdp.profile_curves({"conditioned": cdp.privacy_loss(view, cdp.relocations(inv))})
      >>> round(float(curves["delta"][0, 0]), 4)
      0.5205

    Reference: Balle and Wang 2018 (profiles); Dong, Roth and Su 2022 (trade-off curves).
    """
    if not losses:
        raise ValueError("`losses` must hold at least one privacy loss; got none.")
    keys = [key if isinstance(key, tuple) else ("", key) for key in losses]
    laws = list(losses.values())
    grid = _grid(laws) if epsilon is None else np.asarray(epsilon, dtype=float)
    good = grid.ndim == 1 and grid.size > 1 and np.isfinite(grid).all()
    if not (good and grid[0] >= 0 and (np.diff(grid) > 0).all()):
        raise ValueError("`epsilon` must be a list of increasing numbers from 0 up.")
    type_one = np.linspace(0.0, 1.0, _POINTS)
    rows = [_curves(law, grid, type_one) for law in laws]
    delta, tradeoff = (np.stack(part, axis=1) for part in zip(*rows, strict=True))
    profile, errors = ("mechanism", "epsilon"), ("mechanism", "type_one")
    return xr.Dataset(
        {
            "delta": (profile, delta[0]),
            "delta_low": (profile, delta[1]),
            "delta_high": (profile, delta[2]),
            "tradeoff": (errors, tradeoff[0]),
            "tradeoff_low": (errors, tradeoff[1]),
            "tradeoff_high": (errors, tradeoff[2]),
            "guess_rate": ("mechanism", [law.guess_rate for law in laws]),
            "guess_rate_stderr": (
                "mechanism",
                [np.nan if law.stderr is None else law.stderr for law in laws],
            ),
        },
        coords={
            "epsilon": grid,
            "type_one": type_one,
            "noise": ("mechanism", [noise for noise, _ in keys]),
            "view": ("mechanism", [view for _, view in keys]),
            "kind": ("mechanism", [law.kind for law in laws]),
        },
        attrs={"neighbours": laws[0].neighbours},
    )


def profile_figure(curves: xr.Dataset) -> "Figure":
    """Left the privacy profile δ(ε), right the trade-off curve; one row of panels for each noise.

    A solid line is exact, a dashed one a proven bound on the safe side, a band the 99 % band of an
    estimate. A line that covers another is thinner.

    Args:
      curves: from `profile_curves`.

    Raises:
      ImportError: matplotlib is not installed; the message says how to get it.

    Example:
      >>> import cdp_views as cdp, numpy as np, numpyro.distributions as dist
      >>> inv = cdp.totals(["a"] * 3)
      >>> view = cdp.Conditioned(dist.Normal(np.zeros(3), 1.0), inv)
      >>> loss = cdp.privacy_loss(view, cdp.relocations(inv))
      >>> len(profile_figure(cdp.profile_curves({"conditioned": loss})).axes)
      2

    Reference: [TV] Lemma 3.7 and mathematics of `cdp_views.loss`.
    """
    noises = list(dict.fromkeys(curves["noise"].values.tolist()))
    figure = new_figure(10.6, 1.3 + 3.9 * len(noises))
    axes = figure.subplots(len(noises), 2, squeeze=False, sharex="col", sharey="col")
    for row, noise in zip(axes, noises, strict=True):
        own = curves.isel(mechanism=np.flatnonzero(curves["noise"].values == noise))
        heading = f"{noise_name(noise)} noise: " if noise else ""
        _profiles(row[0], own)
        row[0].set_title(f"{heading}privacy profile\n(lower is more private)", loc="left")
        _tradeoffs(row[1], own)
        row[1].set_title(
            f"{heading}the best attacker's errors\n(higher is more private)", loc="left"
        )
    for row, noise in zip(axes, noises, strict=True):
        own = np.flatnonzero(curves["noise"].values == noise)
        _labels(row[0], curves.isel(mechanism=own))
    for ax in axes[:-1].ravel():
        ax.set_xlabel("")
    figure.suptitle(_title(curves), x=0.01, ha="left", fontsize="large")
    return figure


def _profiles(ax: "Axes", curves: xr.Dataset) -> None:
    epsilon, delta = curves["epsilon"].values, curves["delta"].values
    for i in _thick_first(curves):
        _line(ax, "epsilon", "delta", curves, i)
    ax.set_xlim(0, epsilon[-1])
    # one scale down the column; room above for the names
    ax.set_ylim(0, max(1.25 * float(np.nanmax(delta)), ax.get_ylim()[1]))
    ax.set_xlabel(r"ε: a likelihood ratio up to $e^ε$ is allowed")
    ax.set_ylabel("δ(ε): what exceeds it")
    _clean(ax)


def _tradeoffs(ax: "Axes", curves: xr.Dataset) -> None:
    a = curves["type_one"].values
    ax.plot(a, 1 - a, color="black", linewidth=0.8, zorder=1)
    ax.annotate(
        "blind guessing",
        (0.72, 0.28),
        xytext=(3, 3),
        textcoords="offset points",
        fontsize="small",
        rotation=-45,
        rotation_mode="anchor",
        transform_rotates_text=True,
    )
    for i in _thick_first(curves):
        _line(ax, "type_one", "tradeoff", curves, i)
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    ax.set_aspect("equal")
    ax.set_xlabel("chance of a false alarm (type I error)")
    ax.set_ylabel("chance of a miss (type II error)")
    _clean(ax)


def _line(ax: "Axes", axis: str, name: str, curves: xr.Dataset, i: int) -> None:
    x, style = curves[axis].values, _style(curves, i)
    low, high = (curves[f"{name}_{end}"].values[i] for end in ("low", "high"))
    if np.isfinite(low).any():
        ax.fill_between(x, low, high, color=style["color"], alpha=0.25, linewidth=0)
    ax.plot(
        x,
        curves[name].values[i],
        **style,
        solid_capstyle="butt",
        label=str(curves["view"].values[i]),
    )


def _labels(ax: "Axes", curves: xr.Dataset) -> None:
    """Names at the top right, those of higher lines first, each tied to its line from the left."""
    x, y = curves["epsilon"].values, curves["delta"].values
    ax.text(0.47, 0.95, "an attacker guesses right:", transform=ax.transAxes, fontsize="small")
    order = sorted(range(len(y)), key=lambda i: (-y[i].sum(), i))
    places = np.linspace(0.03, 0.36, len(order)) if len(order) > 1 else np.array([0.1])
    for row, (place, i) in enumerate(zip(places, order, strict=True)):
        kind, color = str(curves["kind"].values[i]), _style(curves, i)["color"]
        guess = percent(
            float(curves["guess_rate"].values[i]), float(curves["guess_rate_stderr"].values[i])
        )
        at = place * x[-1]
        ax.annotate(
            f"{'at most ' if kind == 'bound' else ''}{guess}  {curves['view'].values[i]} ({kind})",
            (at, np.interp(at, x, y[i])),
            xytext=(0.47, 0.89 - 0.07 * row),
            textcoords="axes fraction",
            va="center",
            fontsize="small",
            color=_dark(color),
            arrowprops={
                "arrowstyle": "-",
                "color": color,
                "linewidth": 0.8,
                "relpos": (0, 0.5),
                "shrinkA": 1,
                "shrinkB": 0,
            },
        )


def _style(curves: xr.Dataset, i: int) -> dict[str, Any]:
    style = dict(_STYLE.get(str(curves["view"].values[i]), _OTHER))
    return {**style, "linestyle": _DASHES[str(curves["kind"].values[i])]}


def _dark(color: str) -> str:
    """A colour of lines made fit for words: darker where it is light."""
    channels = [int(color[k : k + 2], 16) for k in (1, 3, 5)]
    factor = 0.72 if sum(channels) > 330 else 1.0
    return "#" + "".join(f"{round(factor * c):02X}" for c in channels)


def _thick_first(curves: xr.Dataset) -> list[int]:
    return sorted(range(curves.sizes["mechanism"]), key=lambda i: -_style(curves, i)["linewidth"])


def _title(curves: xr.Dataset) -> str:
    kinds = dict.fromkeys(curves["kind"].values.tolist())
    words = {
        "exact": "solid: exact",
        "bound": "dashed: proven bound, the truth is at least as private",
        "estimate": "band: 99 % around an estimate",
    }
    unit = textwrap.shorten(str(curves.attrs.get("neighbours", "")), 110)
    lines = ["How well two neighbouring tables can be told apart"]
    lines += [f"Neighbours: {unit}."] if unit else []
    return "\n".join([*lines, "; ".join(words[kind] for kind in words if kind in kinds)])


def _grid(laws: "list[PrivacyLoss]") -> np.ndarray:
    """From 0 to where every δ is below 0.005, or at most 20."""
    most = max(law.epsilon(0.005) for law in laws)
    sup = max((law.pure_epsilon for law in laws if np.isfinite(law.pure_epsilon)), default=0.0)
    return np.linspace(0.0, min(max(most, 1.05 * sup, 0.01), 20.0), 81)


def _curves(
    law: "PrivacyLoss", grid: np.ndarray, type_one: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """δ (3, e) and type II errors (3, t): the curve and the ends of its band."""
    from cdp_views.privacy.error_rates import profile_curve

    none = np.full((2, 1), np.nan)
    if law.kind != "estimate":
        delta = np.array([law.delta(float(e)) for e in grid])
        ends = [none * np.ones(len(axis)) for axis in (grid, type_one)]
        if hasattr(law.law, "profile"):
            # a quadrature for each ε: lines from a grid lie below the curve, by less than is drawn
            many = np.linspace(0.0, min(law.pure_epsilon, 30.0), _MANY)
            curve = profile_curve(many, np.array([law.delta(float(e)) for e in many]))(type_one)
        else:
            curve = np.asarray(law.tradeoff(type_one))
        return np.vstack([delta, ends[0]]), np.vstack([curve, ends[1]])

    fine = np.linspace(0.0, grid[-1], _FINE)
    delta = np.stack([_with_band(law, float(e)) for e in fine], axis=1)
    # more loss means fewer errors
    lines = [profile_curve(fine, row)(type_one) for row in delta[[0, 2, 1]]]
    return np.stack([np.interp(grid, fine, row) for row in delta]), np.stack(lines)


def _with_band(law: "PrivacyLoss", epsilon: float) -> list[float]:
    return [law.delta(epsilon), *law.delta_band(epsilon)]


def _clean(ax: "Axes") -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(visible=True, color="#DDDDDD", linewidth=0.6, zorder=0)
    ax.set_axisbelow(True)
