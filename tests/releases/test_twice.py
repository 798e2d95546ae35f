"""The same release begun twice at once: paid once, made once, and the other one is told so."""

import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

import cdp_views as cdp
from cdp_views.releases.parts import release_parts

from .conftest import COUNTS
from .test_ledger import cost_of, exact_of, secrets_beside
from .test_parts import CUTS, lay, make, table

WHOLE = {"noise": "discrete-laplace", "delta": 0.0, "epsilon": 0.25}


def test_of_many_that_begin_the_same_release_one_pays(inv, tmp_path):
    ledger = cdp.Ledger.create(tmp_path / "b.ledger", epsilon=10.0)
    cost, found, ready = cost_of(inv), [], threading.Barrier(4)

    def begin():
        own, exact = cdp.Ledger(ledger.path), exact_of(inv)
        ready.wait()
        found.append(
            own.reserve(cost, lambda s: s.digest(COUNTS.astype(float), "r"), "r", exact=exact)
        )

    threads = [threading.Thread(target=begin) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ledger.entries) == 1 and len(secrets_beside(ledger)) == 1
    assert len({(own.name, secret.root) for own, secret in found}) == 1 and len(found) == 4
    assert {(own.number, own.spent.epsilon, own.added_totals) for own, _ in found} == {(1, 1.0, 2)}
    # other counts are another release
    other = ledger.reserve(
        cost, lambda s: s.digest(COUNTS + 1.0, "r"), "r", exact=exact_of(inv)
    )  # fmt: skip
    assert other[0].number == 2


def test_both_save_the_same_file(make, tmp_path):
    """As two processes do that began at once: whoever comes second finds its own files there."""
    ledger = cdp.Ledger.create(tmp_path / "b.ledger", epsilon=1.0)
    one, two = (make(**WHOLE, ledger=ledger) for _ in range(2))
    saved = [threading.Thread(target=made.save, args=(tmp_path / "r.csv",)) for made in (one, two)]
    for thread in saved:
        thread.start()
    for thread in saved:
        thread.join()
    cdp.read_release(tmp_path / "r.csv").verify()
    assert ledger.entries["state"].tolist() == ["complete"]
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "b.ledger", "r.csv", "r.csv.about.html", "r.csv.json",
    ]  # fmt: skip


@pytest.mark.parametrize("shared", [True, False])
def test_a_second_process_is_told_that_a_first_is_at_it(tmp_path, monkeypatch, shared):
    source, out = lay(tmp_path / "in", table(), CUTS), tmp_path / "out"
    ledger = cdp.Ledger.create(tmp_path / "b.ledger", epsilon=2.0) if shared else None
    real, heard = release_parts.make, []

    def second(job, name):
        """While the first draws a part, the same call comes again."""
        if not heard:
            heard.append(None)
            with pytest.raises(BlockingIOError, match=r"out` is being made by another process"):
                make(source, out, ledger=ledger)
            heard.append("refused")
        return real(job, name)

    monkeypatch.setattr(release_parts, "make", second)
    make(source, out, ledger=ledger).verify()
    assert heard == [None, "refused"]
    assert ledger is None or ledger.entries["state"].tolist() == ["complete"]
    assert not list(tmp_path.glob(".*")) and not list(tmp_path.glob("*.secret"))


@pytest.mark.parametrize("shared", [True, False])
def test_what_was_made_meanwhile_is_not_paid_for_again(tmp_path, monkeypatch, shared):
    source, out = lay(tmp_path / "in", table(), CUTS), tmp_path / "out"
    ledger = cdp.Ledger.create(tmp_path / "b.ledger", epsilon=2.0) if shared else None
    real = release_parts._cost

    def slow(*given):
        """Calibrating takes its time: another process begins and ends."""
        monkeypatch.setattr(release_parts, "_cost", real)
        make(source, out, ledger=ledger)
        return real(*given)

    monkeypatch.setattr(release_parts, "_cost", slow)
    with pytest.raises(FileExistsError, match="never overwritten"):
        make(source, out, ledger=ledger)
    cdp.read_parts(out).verify()
    assert ledger is None or len(ledger.entries) == 1
    assert not list(tmp_path.glob(".*")) and not list(tmp_path.glob("*.secret"))


def test_another_release_of_parts_to_an_unfinished_place_is_refused_unpaid(tmp_path, monkeypatch):
    source = lay(tmp_path / "in", table(), CUTS)
    ledger, out = cdp.Ledger.create(tmp_path / "b.ledger", epsilon=5.0), tmp_path / "out"

    def stops(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(release_parts, "make", stops)
        with pytest.raises(KeyboardInterrupt):
            make(source, out, ledger=ledger)
    with pytest.raises(ValueError, match=r"that of release 1\. .*repeat its command to finish it"):
        make(source, out, ledger=ledger, epsilon=0.2)
    assert len(ledger.entries) == 1 and not out.exists()
    make(source, tmp_path / "elsewhere", ledger=ledger, epsilon=0.2).verify()
    assert list(ledger.entries["state"]) == ["reserved", "complete"]


SCRIPT = """
import sys, time, cdp_views as cdp
from cdp_views.releases.parts import release_parts
real = release_parts.make
def make(job, name):
    print("draws", flush=True)
    time.sleep(float(sys.argv[4]))
    return real(job, name)
release_parts.make = make
print("ready", flush=True)
sys.stdin.readline()
try:
    cdp.release_parts(sys.argv[1], sys.argv[2], counts="many", within=("state", "county"),
                      names="block", view="conditioned", epsilon=0.5, accept_exact=True,
                      ledger=cdp.Ledger(sys.argv[3]))
    print("made")
except OSError as reason:
    print(type(reason).__name__)
"""


def started(source, out, ledger, pause) -> Any:
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, source, out, ledger, str(pause)]
    return subprocess.Popen(
        list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.slow
def test_two_real_processes_and_a_kill(tmp_path):
    source, out = lay(tmp_path / "in", table(), CUTS), tmp_path / "out"
    ledger = cdp.Ledger.create(tmp_path / "b.ledger", epsilon=2.0)
    with started(source, out, ledger.path, 2) as one, started(source, out, ledger.path, 2) as two:
        pair = (one, two)
        assert [own.stdout.readline() for own in pair] == ["ready\n"] * 2
        for own in pair:
            own.stdin.write("\n")
            own.stdin.flush()
        # one draws; the other one has ended with a word
        said = {own: own.stdout.readline() for own in pair}
        (first,) = [own for own in pair if said[own] == "draws\n"]
        (second,) = [own for own in pair if own is not first]
        assert said[second] == "BlockingIOError\n"
        first.send_signal(signal.SIGKILL)
    assert ledger.entries["state"].tolist() == ["reserved"] and not out.exists()
    # the lock died with its process: the same call goes on
    with started(source, out, ledger.path, 0) as third:
        assert "made" in third.communicate("\n", timeout=120)[0]
    cdp.read_parts(out).verify()
    assert ledger.entries["state"].tolist() == ["complete"] and ledger.spent.epsilon == 0.5
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b.ledger", "in", "out"]
