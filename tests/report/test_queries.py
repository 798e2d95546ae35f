"""The error of each query in one picture: who is drawn, in which order, and what is said."""

import matplotlib.text
import numpy as np
import pytest
import xarray as xr

from cdp_views.report import query_figure

VIEWS = ("unconstrained", "max-entropy", "conditioned", "imaged")


def dataset(cells, confidential=0):
    """Margins of two noises and four views; the cells stand in the reverse of their order."""
    rows = [(noise, view) for noise in ("laplace", "normal") for view in VIEWS]
    size = 10.0 + np.arange(cells)[::-1]
    margin = size * (1 + np.arange(8)[:, None] / 10)
    marks = {"confidential": confidential}
    kinds = ["exact", "exact", "estimate", "exact", *["exact"] * 4]
    data = {"mae": margin / 2, "margin90": margin}
    return xr.Dataset(
        {name: (("mechanism", "cell"), value, marks) for name, value in data.items()}
        | {"determined": ("cell", (np.arange(cells) == 0).astype(int))},
        coords={
            "cell": [f"place {i}" for i in range(cells)],
            "mechanism_noise": ("mechanism", [noise for noise, _ in rows]),
            "mechanism_view": ("mechanism", [view for _, view in rows]),
            "mechanism_scales": ("mechanism", ["equal"] * 8),
            "mechanism_error_kind": ("mechanism", kinds),
        },
    )


def words(figure):
    return " ".join(t.get_text() for t in figure.findobj(matplotlib.text.Text))


@pytest.mark.parametrize(("cells", "drawn"), [(9, 8), (500, 60)])
def test_queries_are_sorted_and_at_most_sixty(cells, drawn):
    data = dataset(cells)
    figure = query_figure(data)
    named = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    places = [int(name.split()[1]) for name in named]
    # The first is determined; the last has the smallest margin and stands first.
    assert len(named) == drawn and places == sorted(places, reverse=True) and 0 not in places
    assert places[0] == cells - 1 and places[-1] == 1
    assert (f"60 of {cells - 1}, evenly spread" in words(figure)) == (cells > 61)
    assert all(ax.get_xlim()[1] > data["margin90"].values[:, 1:].max() for ax in figure.axes)
    for panel, ax in enumerate(figure.axes):
        for k, line in enumerate(ax.lines):
            mae = data["mae"].values[4 * panel + k, places]
            np.testing.assert_array_equal(line.get_xdata(), mae)
            ends = [part[1, 0] for part in ax.collections[k].get_segments()]
            np.testing.assert_array_equal(ends, data["margin90"].values[4 * panel + k, places])


def test_what_is_estimated_or_confidential_is_said():
    said = words(query_figure(dataset(9)))
    assert "Of Laplace noise some are estimates" in said and "equal scales, Normal noise" in said
    assert "CONFIDENTIAL" not in said
    assert "CONFIDENTIAL" in words(query_figure(dataset(9, confidential=1)))
