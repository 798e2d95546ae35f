"""The figures of the gallery, drawn by the library when the site is built."""

from pathlib import Path
from typing import Any

import jax
import matplotlib as mpl
import numpy as np
import numpyro.distributions as dist
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure

import cdp_views as cdp

VIEWS = {"conditioned": cdp.Conditioned, "imaged": cdp.Imaged, "max-entropy": cdp.MaxEntropy}
COLOUR = {"conditioned": "#E69F00", "imaged": "#009E73", "max-entropy": "#0072B2"}
QUIET: dict[Any, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.edgecolor": "#5b6875",
    "font.size": 10.5,
    "legend.frameon": False,
    "svg.fonttype": "path",
}


def draw(folder: Path) -> None:
    """Write every figure: pictures of many dots as PNG, all others as SVG."""
    folder.mkdir(parents=True)
    with mpl.rc_context(QUIET), jax.enable_x64(True):
        noise_in_the_plane().savefig(folder / "plane.png", dpi=160)
        learnt_or_changed().savefig(folder / "belief.svg")
        who_pays().savefig(folder / "pays.svg")
        profiles().savefig(folder / "profiles.svg")
        ranking_turns().savefig(folder / "ranking.svg")


def noise_in_the_plane() -> Figure:
    """Three counties, one exact total: what is left of Laplace noise lies in a plane."""
    state = cdp.totals(["state"] * 3)
    axes_of_cells = np.asarray(
        state.coordinates(state.project(np.eye(3)))
    )  # where each county's axis points
    scales = np.array([[0.8, 0.8, 0.8], [0.4, 0.8, 1.0]])
    figure = Figure(figsize=(10.5, 7.6), layout="constrained")
    panels = figure.subplots(2, 3, sharex=True, sharey=True)
    for column, (name, view) in zip(panels.T, VIEWS.items(), strict=True):
        made = view(dist.Laplace(np.zeros((2, 3)), scales), state)
        draw = jax.jit(lambda key, of=made: of.sample_noise(key, (100_000,)))
        draws = np.asarray(draw(jax.random.key(0)))
        inks = LinearSegmentedColormap.from_list(name, ["white", COLOUR[name], _dark(name)])
        for row, panel in enumerate(column):
            points = np.asarray(state.coordinates(draws[:, row]))
            ink: Any = {"cmap": inks, "mincnt": 4, "bins": "log"}
            panel.hexbin(*points.T, gridsize=64, extent=(-7, 7, -7, 7), **ink)
            for axis in 6 * axes_of_cells:
                panel.plot(*zip(-axis, axis, strict=True), color="#5b6875", lw=0.5, alpha=0.5)
            panel.set(aspect="equal", xlim=(-6.4, 6.4), ylim=(-6.4, 6.4), xticks=[], yticks=[])
            panel.spines[:].set_visible(False)
        column[0].set_title(name, color=_dark(name), fontweight="bold", loc="center")
    for panel, scale in zip(panels[:, 0], scales, strict=True):
        panel.set_ylabel("scales " + ", ".join(f"{size:g}" for size in scale))
    return figure


def _dark(name: str) -> tuple[float, ...]:
    return tuple(0.45 * part for part in to_rgb(COLOUR[name]))


def learnt_or_changed() -> Figure:
    """A belief about four counties; then their total is learnt, or it changes."""
    expected, error = np.array([900.0, 700.0, 400.0, 250.0]), np.array([120.0, 40.0, 80.0, 20.0])
    state = cdp.totals(["state"] * 4)
    belief = dist.Normal(expected, error)
    after = {
        "before": belief,
        "revised: the total is learnt": cdp.Conditioned(belief, state, total=[2450.0]),
        "updated: the total has changed": cdp.Imaged(belief, state, total=[2450.0]),
    }
    colours = ("#5b6875", COLOUR["conditioned"], COLOUR["imaged"])
    figure = Figure(figsize=(9.0, 3.4), layout="constrained")
    axes = figure.subplots()
    for shift, (words, law), colour in zip((0.24, 0.0, -0.24), after.items(), colours, strict=True):
        centre, half = np.asarray(law.mean), 1.645 * np.sqrt(np.asarray(law.variance))
        place = np.arange(4)[::-1] + shift
        axes.hlines(place, centre - half, centre + half, color=colour, lw=4, alpha=0.55)
        axes.plot(centre, place, "o", color=colour, ms=7, label=words)
    axes.set_yticks(np.arange(4)[::-1], [f"county {k}" for k in "ABCD"])
    axes.set_xlabel("inhabitants, 90 % interval; 2,250 were expected, 2,450 is the total")
    axes.legend(loc="lower right")
    return figure


def who_pays() -> Figure:
    """Unequal noise, one exact total: which cells the total makes noisier, or quieter."""
    asked = np.array([1.0, 2.0, 3.0, 4.0, 6.0])
    state = cdp.totals(["state"] * 5)
    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.hlines(
        asked, np.arange(5) - 0.38, np.arange(5) + 0.38, color="black", lw=1, label="asked for"
    )
    for shift, (name, view) in zip((-0.2, 0.0, 0.2), VIEWS.items(), strict=True):
        sd = np.sqrt(np.asarray(view(dist.Normal(np.zeros(5), asked), state).variance))
        axes.vlines(np.arange(5) + shift, 0, sd, color=COLOUR[name], lw=2)
        axes.plot(np.arange(5) + shift, sd, "o", color=COLOUR[name], ms=8, label=name)
    axes.set_xticks(range(5), [f"county {k}" for k in "ABCDE"])
    axes.set_ylim(bottom=0)
    axes.set_ylabel("standard deviation, persons")
    axes.legend()
    return figure


def profiles() -> Figure:
    """Laplace noise in groups of two: the same pure ε, another privacy."""
    pair = cdp.totals(["state", "state"])
    losses: dict[Any, Any] = {
        name: cdp.privacy_loss(
            VIEWS[name](dist.Laplace(np.zeros(2), 2.0), pair), cdp.relocations(pair)
        )
        for name in ("conditioned", "imaged")
    }
    return cdp.profile_figure(cdp.profile_curves(losses))


def ranking_turns() -> Figure:
    """Laplace noise in groups of two: which view is more accurate depends on what is held equal."""
    pair = cdp.totals(["state", "state"])
    of_scale: dict[str, Any] = {
        name: lambda s, view=VIEWS[name]: view(dist.Laplace(np.zeros(2), s), pair)
        for name in ("conditioned", "imaged")
    }
    unit = cdp.relocations(pair)
    reference = cdp.privacy_loss(of_scale["conditioned"](2.0), unit)
    held = [0.0, 0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.995]
    found = [cdp.equal_profile(of_scale, unit, epsilon=e, reference=reference) for e in held]
    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    axes = figure.subplots()
    for name, view in of_scale.items():
        sd = [float(np.sqrt(np.asarray(view(each.scales[name]).variance)[0])) for each in found]
        pure = float(np.sqrt(np.asarray(view(2.0).variance)[0]))
        axes.plot([*held, 1.0], [*sd, pure], color=COLOUR[name], lw=2.5)
        axes.plot(1.0, pure, "o", color=COLOUR[name], ms=8, label=name, clip_on=False)
    axes.set(xlim=(0, 1.0), ylim=(0, None), ylabel="standard deviation, persons")
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1.0], ["the best guess", "¼", "½", "¾", "pure ε = 1"])
    axes.set_xlabel("what is held equal: δ(ε₀) at ε₀ = …")
    axes.legend(loc="lower left")
    return figure
