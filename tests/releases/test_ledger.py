"""A budget that is spent once, whatever happens: exceeded, raced for, cut short, or misnamed."""

import json
import re
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import cdp_views as cdp
from cdp_views.loss import analytic_gaussian_mu
from cdp_views.releases.budget import accounts
from cdp_views.releases.budget.accounts import Price, fits, left, way_out
from cdp_views.releases.budget.cost import Cost
from cdp_views.releases.budget.earlier import Exact

from .conftest import COUNTS, GROUPS

WHOLE = {"noise": "discrete-laplace", "delta": 0.0}


@pytest.fixture
def ledger(tmp_path):
    return cdp.Ledger.create(tmp_path / "b.ledger", epsilon=1.0, delta=1e-6)


def secrets_beside(ledger):
    return sorted(ledger.path.parent.glob("*.secret"))


def test_a_cost_is_written_down_before_there_is_output(make, ledger, tmp_path):
    made = make(**WHOLE, epsilon=0.25, ledger=ledger)
    assert ledger.entries["state"].tolist() == ["reserved"] and ledger.spent == (0.25, 0.0)
    (secret,) = secrets_beside(ledger)
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    made.save(tmp_path / "r.csv")
    assert ledger.entries["state"].tolist() == ["complete"] and secrets_beside(ledger) == []
    assert ledger.remaining.epsilon == 0.75 and "spent epsilon=0.25" in repr(ledger)
    told = cdp.read_release(tmp_path / "r.csv").metadata
    assert told["ledger"]["release"] == 1 and told["ledger"]["epsilon_together"] == 0.25
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "b.ledger", "r.csv", "r.csv.about.html", "r.csv.json",
    ]  # fmt: skip


def test_what_exceeds_the_budget_is_refused_and_costs_nothing(make, ledger):
    make(**WHOLE, epsilon=0.6, ledger=ledger)
    before = ledger.path.read_bytes(), secrets_beside(ledger)
    with pytest.raises(ValueError, match=r"has epsilon 0\.4 left of epsilon 1, .*Nothing was") as e:
        make(**WHOLE, epsilon=0.5, ledger=ledger)
    assert "\n" not in str(e.value) and "costs epsilon 0.5, delta 0" in str(e.value)
    assert (ledger.path.read_bytes(), secrets_beside(ledger)) == before
    make(**WHOLE, epsilon=0.4, ledger=ledger)
    assert ledger.remaining.epsilon == pytest.approx(0, abs=1e-15) and len(ledger.entries) == 2


def test_what_is_refused_later_is_refused_before_it_is_paid_for(make, ledger):
    unit = {"neighbours": cdp.differences([1, 0, -1, 0, -1, 0, 1, 0]), "ledger": ledger}
    overlap = cdp.margins((2, 2, 2), keep=[(0,), (1,), (2,)])  # three families of totals
    for given, words in (
        ({"invariant": overlap, "output": "whole", **unit}, "more than two|two families"),
        ({"invariant": overlap, "publishable": True, **unit}, "more than two|two families"),
        ({"counts": COUNTS + 0.1, "output": "whole", **unit}, "where its totals are whole"),
        ({"counts": COUNTS * 1e12, "delta": 1e-30, **unit}, "noise is lost in float64"),
    ):
        with pytest.raises((ValueError, cdp.UnsupportedError), match=words):
            make(**given)
    assert len(ledger.entries) == 0


def test_one_release_may_spend_the_whole_budget(make, ledger):
    make(epsilon=1.0, delta=1e-6, ledger=ledger)
    assert ledger.spent.epsilon == pytest.approx(1, rel=1e-9)
    with pytest.raises(ValueError, match="No further release fits"):
        make(epsilon=0.01, delta=1e-6, ledger=ledger)


@pytest.mark.parametrize(
    ("prices", "asked", "delta", "words"),
    [
        ([], Price(0.1, 1e-6, 0.03), 0.0, 'No delta is left.*"discrete-laplace" or "laplace"'),
        ([], Price(0.1, 1e-6, None), 0.0, "without `delta`"),
        ([Price(0.5, 5e-7, None)], Price(0.1, 6e-7, None), 1e-6, "at most 5e-07, or noise="),
        ([Price(2 / 3, 0.0, None)], Price(0.5, 0.0, None), 1e-6, "at most 0.3333[.]$"),
        ([Price(0.9, 1e-6, 0.2)], Price(0.9, 1e-6, 0.2), 1e-6, "at most 0.5107 at delta 1e-06"),
        ([Price(1.0, 0.0, None)], Price(0.1, 0.0, None), 0.0, "No further release fits"),
    ],
)
def test_the_way_out_of_a_refusal_fits(prices, asked, delta, words):
    rest = left(prices, 1.0, delta)
    said = way_out(rest, asked)
    assert re.search(words, said), said
    if (found := re.search(r"`epsilon` of at most ([\d.]*\d)", said)) is None:
        return
    most = float(found[1])
    if asked.mu is None:
        assert fits([*prices, Price(most, asked.delta, None)], 1.0, delta)
        assert not fits([*prices, Price(most + 1e-3, asked.delta, None)], 1.0, delta)
    else:
        mus = [analytic_gaussian_mu(each, rest.delta) for each in (most, most + 1e-3)]
        kept = [fits([*prices, Price(most, rest.delta, mu)], 1.0, delta) for mu in mus]
        assert kept == [True, False]


def test_normal_noise_composes_as_the_evaluator_says(make, inv, ledger):
    releases = [make(epsilon=e, delta=1e-6, ledger=ledger) for e in (0.3, 0.4, 0.2)]
    views = [release.view(np.zeros(8)) for release in releases]
    together = cdp.compose(views, cdp.relocations(inv))
    assert ledger.spent.epsilon == pytest.approx(together.epsilon(1e-6), rel=1e-9)
    assert ledger.spent.epsilon < 0.3 + 0.4 + 0.2
    left = ledger.remaining
    make(epsilon=left.epsilon_normal * (1 - 1e-9), delta=1e-6, ledger=ledger)
    assert ledger.remaining.epsilon < 1e-6


def test_mixed_noise_adds_up_with_what_is_left_of_delta():
    prices = [Price(0.3, 1e-6, 0.1), Price(0.25, 0.0, None), Price(0.2, 4e-7, None)]
    together = accounts.spent(prices, 1e-6)
    with jax.enable_x64(True):
        own = cdp.privacy_loss(
            cdp.Conditioned(dist.Normal(np.zeros(2), np.sqrt(2) / 0.1), cdp.totals([0, 0])),
            cdp.differences([1.0, -1.0]),
        )
    assert together.epsilon == pytest.approx(0.45 + own.epsilon(6e-7), rel=1e-9)
    assert together.delta == 1e-6
    assert accounts.spent([*prices, Price(0.1, 6e-7, None)], 1e-6).epsilon == np.inf
    assert not accounts.fits([Price(0.1, 2e-6, None)], 1.0, 1e-6)
    assert accounts.left([], 1.0, 0.0) == (1.0, 0.0, 0.0)


def test_the_same_call_resumes_until_the_release_is_saved(make, ledger, tmp_path):
    first, again = (
        make(**WHOLE, epsilon=0.25, ledger=ledger),
        make(**WHOLE, epsilon=0.25, ledger=ledger),
    )
    assert np.array_equal(first.released, again.released) and first.metadata == again.metadata
    assert len(ledger.entries) == 1
    again.save(tmp_path / "r.csv")
    new = make(**WHOLE, epsilon=0.25, ledger=ledger)
    assert not np.array_equal(new.released, first.released) and len(ledger.entries) == 2
    assert (
        "This is release 2 of the table: together they keep epsilon = 0.5"
        in (new.metadata["guarantee"])
    )


def test_other_counts_never_get_the_noise_of_an_unfinished_release(make, ledger):
    first = make(**WHOLE, epsilon=0.05, ledger=ledger)
    corrected = COUNTS + np.array([1, -1, 0, 0, 0, 0, 0, 0])
    with pytest.warns(UserWarning, match="made from other counts") as heard:
        second = make(corrected, **WHOLE, epsilon=0.05, ledger=ledger)
    assert "502" not in str(heard[0].message) and len(ledger.entries) == 2
    assert not np.array_equal(second.released - corrected, first.released - COUNTS)
    # and each of the two can be resumed on its own counts
    assert np.array_equal(make(**WHOLE, epsilon=0.05, ledger=ledger).released, first.released)
    third = make(corrected, **WHOLE, epsilon=0.05, ledger=ledger)
    assert np.array_equal(third.released, second.released) and len(ledger.entries) == 2


def test_a_lost_secret_is_not_drawn_anew(make, ledger):
    make(**WHOLE, epsilon=0.25, ledger=ledger)
    secrets_beside(ledger)[0].unlink()
    make(**WHOLE, epsilon=0.25, ledger=ledger)
    assert len(ledger.entries) == 2 and ledger.spent.epsilon == 0.5


def test_a_secret_that_a_kill_left_behind_is_destroyed(make, ledger):
    stale = ledger.path.with_name(f"{ledger.path.name}.{'0' * 32}.secret")
    stale.write_text("{}")
    make(**WHOLE, epsilon=0.25, ledger=ledger)
    assert len(secrets_beside(ledger)) == 1 and not stale.exists()


def test_a_new_total_is_counted_and_said(make, ledger):
    said = []
    ledger = cdp.Ledger(ledger.path, announce=said.append)
    make(**WHOLE, epsilon=0.1, ledger=ledger)
    finer = cdp.totals(["p", "p", "q", "q", "r", "r", "r", "r"])
    made = make(invariant=finer, **WHOLE, epsilon=0.1, ledger=ledger)
    assert ledger.entries["added_totals"].tolist() == [2, 1]
    assert made.metadata["ledger"]["added_totals"] == 1
    assert "This one adds 1 exact total to those before" in made.metadata["guarantee"]
    assert "It adds" not in said[0] and "It adds 1 exact total to those published" in said[1]
    assert said[1].startswith("Release 2 of this table costs epsilon 0.1, delta 0: a new release")
    crossed = cdp.totals([0, 1, 0, 1, 0, 1, 2, 3])  # with the others: no two cells alike but …
    with pytest.raises(ValueError, match="let no record move unseen"):
        make(invariant=crossed, **WHOLE, epsilon=0.1, ledger=ledger, accept_exact=True)
    assert len(ledger.entries) == 2


def test_cells_that_totals_of_two_releases_determine_stop_the_second(make, ledger):
    """The first four cells, then three of them: the difference is the fourth."""
    make(**WHOLE, epsilon=0.1, ledger=ledger)
    merged = cdp.totals(["p", "p", "p", "r", "r", "r", "r", "r"])  # alone it determines nothing
    given = {**WHOLE, "epsilon": 0.1, "invariant": merged, "ledger": ledger}
    with pytest.raises(ValueError, match=r"together determine 1 cells, .*: cell 3\. Use"):
        make(**given)
    assert len(ledger.entries) == 1
    assert make(**given, accept_exact=True).metadata["ledger"]["added_totals"] == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"names": list("abcdefgh")},
            'is the ledger of another table: its cells have .* in "cell"',
        ),
        ({"names": {"area": list("abcdefgh")}}, 'knows its table by the labels in "cell"'),
        (
            {"neighbours": cdp.relocations(cdp.totals(GROUPS), records=2)},
            "counts budget for the un",
        ),
        ({"neighbours": cdp.differences([1, -1] + [0] * 6)}, "counts budget for the unit"),
    ],
    ids=["labels", "other columns", "records", "differences"],
)
def test_another_table_or_unit_is_refused(make, ledger, given, words):
    make(**WHOLE, epsilon=0.1, ledger=ledger)
    with pytest.raises(ValueError, match=words) as error:
        make(**WHOLE, epsilon=0.1, ledger=ledger, **given)
    assert "\n" not in str(error.value) and len(ledger.entries) == 1


def test_what_is_no_ledger_of_this_version(ledger, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"not there\. Create a ledger: cdp\.Led"):
        cdp.Ledger(tmp_path / "gone.ledger")
    with pytest.raises(FileExistsError, match="is there already"):
        cdp.Ledger.create(ledger.path, epsilon=9, delta=0)
    assert ledger.epsilon == cdp.Ledger(ledger.path).epsilon == 1.0
    (tmp_path / "text").write_text("epsilon, delta\n" * 100)
    with pytest.raises(ValueError, match="is no ledger, or is damaged"):
        cdp.Ledger(tmp_path / "text")
    with closing(sqlite3.connect(tmp_path / "other.db")) as database:
        database.execute("CREATE TABLE t (x)")
    with pytest.raises(ValueError, match="is no ledger of cdp_views"):
        cdp.Ledger(tmp_path / "other.db")
    with closing(sqlite3.connect(ledger.path)) as database:
        database.execute("PRAGMA user_version = 7")
    with pytest.raises(
        ValueError, match=r"is a ledger of version 7; cdp_views \S+ reads .* to 3\."
    ):
        cdp.Ledger(ledger.path)
    for bad in ({"epsilon": 0}, {"epsilon": 1, "delta": 1}, {"epsilon": np.nan}):
        with pytest.raises(ValueError, match=r"`(epsilon|delta)`"):
            cdp.Ledger.create(tmp_path / "new.ledger", **bad)
    assert not (tmp_path / "new.ledger").exists()


def test_the_ledger_holds_nothing_confidential(make, ledger):
    make(**WHOLE, epsilon=0.25, ledger=ledger)
    with closing(sqlite3.connect(ledger.path)) as database:
        stored = "\n".join(database.iterdump())
    # counts and totals of three digits or more, not by chance inside a digest or another number
    for number in (*COUNTS[[1, 4, 6]], 593, 9684):
        assert not re.search(rf"(?<![0-9a-f.]){number}(?![0-9a-f])", stored)
    told = json.loads(secrets_beside(ledger)[0].read_text())
    assert set(told) == {"version", "secret", "input"}


def exact_of(inv):
    return Exact.of(COUNTS.astype(float), inv, counted=None, corrected=False)


def cost_of(inv):
    scale = np.asarray(2.0)
    return Cost.of(
        "conditioned", "discrete-laplace", scale, inv, cdp.relocations(inv),
        epsilon=1.0, delta=0.0, columns={"cell": "0"},
    )  # fmt: skip


def test_of_many_that_race_for_the_last_budget_one_wins(inv, ledger):
    cost, won, lost = cost_of(inv), [], []
    ready = threading.Barrier(8)

    def spend(request):
        own = cdp.Ledger(ledger.path)  # a connection of its own: SQLite's locks are between them
        exact = exact_of(inv)
        ready.wait()
        try:
            won.append(
                own.reserve(
                    cost,
                    lambda secret: secret.digest(COUNTS.astype(float), request),
                    request,
                    exact=exact,
                )
            )
        except ValueError as reason:
            lost.append(str(reason))

    threads = [threading.Thread(target=spend, args=(f"r{i}",)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1 and len(lost) == 7 and len(ledger.entries) == 1
    assert all("has epsilon 0 left" in reason for reason in lost)
    assert [path.name for path in secrets_beside(ledger)] == [won[0][0].path.name]


RACE = """
import sys, numpy as np, cdp_views as cdp
from cdp_views.releases.budget.cost import Cost
from cdp_views.releases.budget.earlier import Exact
ledger, inv = cdp.Ledger(sys.argv[1]), cdp.totals(["x"] * 4 + ["y"] * 4)
cost = Cost.of("conditioned", "discrete-laplace", np.asarray(2.0), inv, cdp.relocations(inv),
               epsilon=1.0, delta=0.0, columns={"cell": "0"})
exact, request = Exact.of(np.arange(8.0), inv, counted=None, corrected=False), sys.argv[2]
print("ready", flush=True)
sys.stdin.readline()
try:
    ledger.reserve(cost, lambda secret: secret.digest(np.arange(8.0), request), request,
                   exact=exact)
    print("won")
except ValueError:
    print("lost")
"""


@pytest.mark.slow
def test_of_two_processes_that_race_one_wins(ledger):
    pair = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, str(ledger.path), str(i)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for i in range(2)
    ]  # fmt: skip
    for one in pair:
        assert one.stdout.readline() == "ready\n"
    for one in pair:
        one.stdin.write("\n")
        one.stdin.flush()
    assert sorted(one.communicate(timeout=60)[0].strip() for one in pair) == ["lost", "won"]
    assert len(ledger.entries) == 1
