"""Verdicts on draws whose faults are known."""

import numpy as np
import pytest

from cdp_views.inference import diagnose, to_datatree


def independent(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def test_good_draws_may_be_used():
    found = diagnose(to_datatree({"q": independent(4, 500, 6), "total": np.full((4, 500), 7.0)}))
    assert found.ok
    assert found.quantities == 6
    assert found.more_draws == 0
    assert found.divergences is None
    assert found.text.endswith("The draws may be used.")
    assert "Divergences unknown" in found.text
    # Independent draws: effective draws are draws, give or take.
    assert 1200 < found.ess_bulk_least < 2600


def test_a_chain_that_went_elsewhere():
    draws = independent(4, 500, 6)
    draws[3, :, 4] += 3
    found = diagnose(to_datatree({"q": draws}, {"cell": list("abcdef")}))
    assert not found.ok
    assert found.rhat_worst_at == "q[e]"
    assert "The chains do not agree: R-hat of q[e]" in found.text


def test_one_percent_may_lie_above_1_01():
    # One chain off by 0.35 sd: R-hat about 1.013.
    draws = independent(4, 1000, 200, seed=3)
    draws[3, :, 0] += 0.35
    found = diagnose(to_datatree({"q": draws}))
    assert 1.01 < found.rhat_worst < 1.02
    assert found.ok
    draws[3, :, :9] += 0.35
    draws[3, :, 0] -= 0.35
    found = diagnose(to_datatree({"q": draws}))
    assert found.rhat_worst < 1.02
    assert "have R-hat above 1.01, more than 1 %" in found.text


def test_too_few_draws_and_how_many_more():
    # AR(1) with φ = 0.9: a draw in 19 is effective.
    steps = independent(4, 1000, 1, seed=2)
    draws = np.zeros_like(steps)
    for i in range(1, 1000):
        draws[:, i] = 0.9 * draws[:, i - 1] + steps[:, i]
    found = diagnose(to_datatree({"q": draws}))
    assert not found.ok
    assert found.ess_bulk_least == pytest.approx(4000 / 19, rel=0.35)
    assert 500 < found.more_draws < 2500  # 900 for means; tails mix more slowly
    assert f"About {found.more_draws} more draws" in found.text
    scaled = diagnose(to_datatree({"q": draws, "q_released_scales": draws}), ["q"]).text
    assert "more draws are no sure cure: see docs/analysing.md" in scaled
    assert "more draws per chain should do" not in scaled and "Run longer" not in scaled
    assert "3 draws per chain are too few" in diagnose(to_datatree({"q": draws[:2, -3:]})).text


def test_divergences_and_draws_that_are_no_numbers():
    draws = independent(4, 200, 2)
    tree = to_datatree({"q": draws})
    tree["sample_stats"] = tree["posterior"].to_dataset().isel(cell=0)[["q"]] > 2.5
    tree["sample_stats"] = tree["sample_stats"].to_dataset().rename(q="diverging")
    count = int((draws[..., 0] > 2.5).sum())
    assert count > 0
    found = diagnose(tree)
    assert found.divergences == count
    assert f"{count} of 800 draws diverged" in found.text
    draws[0, 0, 1] = np.nan
    assert "1 quantities have draws that are not finite" in diagnose(to_datatree({"q": draws})).text


def test_one_chain_is_said_to_be_one():
    found = diagnose(to_datatree({"q": independent(1, 1000, 2)}))
    assert "One chain" in found.text
    assert found.ok


def test_an_unknown_site():
    with pytest.raises(ValueError, match="`sites` has no r in the posterior; it has q"):
        diagnose(to_datatree({"q": independent(1, 100, 2)}), ["r"])
