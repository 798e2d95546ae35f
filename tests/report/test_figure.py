"""The figure shows every mechanism and says what is confidential."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

pytest.importorskip("matplotlib")

from cdp_views.report import comparison_figure, write_figure

VIEWS = ["unconstrained", "max-entropy", "conditioned", "imaged", "a stranger"]


def comparison(confidential=1, relative=True):
    rows = [(scales, view) for scales in ("equal", "uneven") for view in VIEWS]
    table = pd.DataFrame(rows, columns=["scales", "view"]).assign(
        noise="normal",
        guarantee="(1, 1e-10)-DP",
        guess_rate=0.534,
        guess_rate_stderr=np.nan,
        neighbours="one record moves",
    )
    table["margin90_typical"] = np.linspace(10, 20, len(rows))
    table["margin90_worst"] = np.linspace(10, 200, len(rows))
    sd = np.outer(np.linspace(5, 9, len(rows)), np.array([1.0, 2, 3, 4]))
    sd[1:, 2] = 0.0  # a determined cell
    dataset = xr.Dataset(
        {
            "sd": (("mechanism", "cell"), sd),
            "relative_scale": (("mechanism", "cell"), np.ones_like(sd)),
        }
    )
    if relative:
        value = np.tile([np.nan, 2.0, 0.1], (len(rows), 1))
        marks = {"confidential": confidential}
        dataset["relative_margin90_median"] = (("mechanism", "size"), value, marks)
        dataset["queries"] = ("size", np.array([1, 2, 1]), marks)
        dataset = dataset.assign_coords(size=["0", "1-9", "10-99"])
    return table, dataset


def words(figure):
    import matplotlib.text

    return " ".join(t.get_text() for t in figure.findobj(matplotlib.text.Text))


def test_every_mechanism_and_the_privacy_are_named(tmp_path):
    figure = comparison_figure(*comparison())
    said = words(figure)
    for word in (*VIEWS, "equal scales", "uneven scales", "(1, 1e-10)-DP", "53.40 %", "one record"):
        assert word in said
    write_figure(figure, tmp_path / "a.png")
    assert figure._repr_png_().startswith(b"\x89PNG")  # what a notebook shows
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("confidential", "relative", "stamped"), [(1, True, True), (0, True, False), (1, False, False)]
)
def test_confidential_is_said_exactly_where_it_is(confidential, relative, stamped):
    figure = comparison_figure(*comparison(confidential, relative))
    assert ("CONFIDENTIAL" in words(figure)) == stamped
    assert len(figure.axes) == (6 if relative else 4)


def test_rows_of_different_privacy_are_not_called_equal():
    table, dataset = comparison()
    table.loc[5:, ["guarantee", "guess_rate", "guess_rate_stderr"]] = ["pure 1-DP", 0.62, 0.002]
    table.loc[6, ["guarantee", "guess_rate", "guess_rate_stderr"]] = ["none proved", np.nan, np.nan]
    said = words(comparison_figure(table, dataset))
    assert "two notions of privacy: compare within one, not across" in said
    assert "uneven scales, Normal noise\npure 1-DP" in said and "max-entropy\n(none proved)" in said
    assert "62.0 ± 0.2 % at pure 1-DP" in said and "at none proved" not in said


def test_what_has_no_guarantee_is_no_second_notion():
    table, dataset = comparison()
    table.loc[1, ["guarantee", "guess_rate"]] = ["none proved", np.nan]
    said = words(comparison_figure(table, dataset))
    assert "at equal privacy: (1, 1e-10)-DP (hollow dots: no guarantee is proved)" in said
    assert "two notions" not in said and "unconstrained\n(totals not exact)" in said


def test_no_two_words_lie_on_each_other():
    """Also with two notions, whose headings are long."""
    table, dataset = comparison()
    table["guarantee"] = ["(1, 1e-10)-DP over 5 tables"] * 5 + ["ε = 1 (pure; δ unused)"] * 5
    figure = comparison_figure(table, dataset)
    figure.draw_without_rendering()
    texts = [figure._suptitle, *figure.texts]
    for ax in figure.axes:
        texts += [ax.title, ax._left_title, ax.xaxis.label, ax.yaxis.label]
    boxes = {t.get_text(): t.get_window_extent() for t in texts if t.get_text()}
    pairs = [(a, b) for a in boxes for b in boxes if a < b and boxes[a].overlaps(boxes[b])]
    assert pairs == []
    assert all(box.x1 <= figure.bbox.x1 for box in boxes.values())


def test_lines_that_hide_each_other_are_told():
    table, dataset = comparison()
    assert "lie together" not in words(comparison_figure(table, dataset))
    dataset["sd"][:] = np.linspace(5, 5.05, 10)[:, None]
    assert "all 5 lines lie together, within" in words(comparison_figure(table, dataset))


def test_the_global_state_of_matplotlib_is_left_alone():
    from matplotlib import _pylab_helpers

    before = len(_pylab_helpers.Gcf.figs)
    comparison_figure(*comparison())
    assert len(_pylab_helpers.Gcf.figs) == before
