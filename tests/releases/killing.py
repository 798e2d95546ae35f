"""Kills a release at lines drawn at random, and looks at what is left; run as a script.

python killing.py FOLDER KILLS SEED prints one JSON object. Each attempt is a fork of this process,
so that 200 of them cost no 200 imports of JAX; SIGKILL comes from the attempt itself, at a line of
the code that draws, spends or writes.
"""

import csv
import hashlib
import importlib
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import warnings
from pathlib import Path

import numpy as np

import cdp_views as cdp

COUNTS = np.array([11, 502, 77, 3, 9001, 12, 640, 31])
GROUPS = ["x"] * 4 + ["y"] * 4
MODULE = importlib.import_module("cdp_views.releases.release")  # the function hides its file
DRAW = MODULE.draw
WATCHED = {
    "ledger.py", "ledger_file.py", "earlier.py", "alone.py", "reservation.py", "files.py",
    "places.py", "release.py", "secret.py",
}  # fmt: skip
MOMENT = {"seen": 0, "kill_at": 0}  # lines so far, and the one to die at; 0: never


def line(code, _):
    """Count a line of what is watched, and end there; where it is not, never ask again."""
    path = Path(code.co_filename)
    if path.name not in WATCHED or path.parent.name != "releases":
        return sys.monitoring.DISABLE  # forks have this then: `sys.settrace` costs every call
    MOMENT["seen"] += 1
    if MOMENT["seen"] == MOMENT["kill_at"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return None


def attempt(folder: Path, kill_at: int | None) -> int:
    """One try to make and save the release in a fork; how many lines it ran, or −1 if killed."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        MOMENT.update(seen=0, kill_at=kill_at or 0)
        try:
            release(folder)
            os.write(writer, str(MOMENT["seen"]).encode())
            os._exit(0)
        except BaseException as error:
            os.write(writer, repr(error).encode()[:4000])
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return -1
    if status:
        raise RuntimeError(said)
    return int(said)


def release(folder: Path) -> None:
    """What a curator's program does; every noise that is drawn leaves its digest in a log."""

    def logged(*given):
        x, generator = DRAW(*given)
        with (folder / "drawn").open("a") as log:
            log.write(hashlib.sha256(x.tobytes()).hexdigest() + "\n")
        return x, generator

    MODULE.draw = logged
    MODULE._calibrated = lambda *_: 2.0  # the scale is not what this is about
    inv = cdp.totals(GROUPS)
    made = cdp.release(
        COUNTS, inv, view="conditioned", noise="discrete-laplace", epsilon=1.0, delta=0.0,
        neighbours=cdp.relocations(inv), ledger=cdp.Ledger(folder / "b.ledger"),
    )  # fmt: skip
    made.save(folder / "r.csv")


def state(folder: Path) -> tuple[list, list, list, bool]:
    """(releases in the ledger, secrets, distinct noises drawn, whether there is output)."""
    with sqlite3.connect(f"file:{folder / 'b.ledger'}", uri=True) as database:
        rows = database.execute("SELECT epsilon, completed IS NULL FROM releases").fetchall()
    database.close()
    log = folder / "drawn"
    drawn = sorted(set(log.read_text().split())) if log.exists() else []
    secrets = [path.name for path in folder.glob("*.secret")]
    table = folder / "r.csv"
    if table.exists():
        assert (folder / "r.csv.json").exists(), "a table without its metadata"
        assert (folder / "r.csv.about.html").exists(), "a table without its page"
        with table.open() as file:
            found = [float(row["released"]) for row in csv.DictReader(file)]
        assert (sum(found[:4]), sum(found[4:])) == (593, 9684) and len(found) == 8, "half a table"
    return rows, secrets, drawn, table.exists()


def finished(folder: Path) -> bool:
    """Whether the release is complete in the ledger."""
    return any(not waiting for _, waiting in state(folder)[0])


def main(folder: Path, kills: int, seed: int) -> dict:
    """Count what the kills left behind; every rule that is broken raises."""
    warnings.filterwarnings("ignore", message="os.fork")
    sys.monitoring.use_tool_id(sys.monitoring.DEBUGGER_ID, "kills")
    sys.monitoring.set_events(sys.monitoring.DEBUGGER_ID, sys.monitoring.events.LINE)
    sys.monitoring.register_callback(sys.monitoring.DEBUGGER_ID, sys.monitoring.events.LINE, line)
    chosen = random.Random(seed)
    done = {"kills": 0, "tables": 0, "killed_before_spending": 0, "killed_with_output": 0}
    lines = None
    while done["kills"] < kills:
        own = folder / str(done["tables"])
        own.mkdir()
        cdp.Ledger.create(own / "b.ledger", epsilon=1.0)
        if lines is None:
            release(own)  # here: what JAX compiles the forks have then
            shutil.rmtree(own)
            own.mkdir()
            cdp.Ledger.create(own / "b.ledger", epsilon=1.0)
            lines = attempt(own, None)
            done["tables"] += 1
            continue
        for _ in range(min(4, kills - done["kills"])):
            if finished(own) or attempt(own, chosen.randint(1, lines)) >= 0:
                break  # a resumed release runs fewer lines: it was done before the kill came
            done["kills"] += 1
            rows, _, drawn, output = state(own)
            assert len(rows) <= 1, "spent twice"
            assert len(drawn) <= 1, "a second noise"
            assert rows or not (drawn or output), "noise before its cost was written down"
            done["killed_before_spending"] += not rows
            done["killed_with_output"] += output
        if not finished(own):
            attempt(own, None)
        cdp.Ledger(own / "b.ledger")  # whoever opens it next removes a secret that is left
        rows, secrets, drawn, output = state(own)
        assert rows == [(1.0, 0)] and len(drawn) == 1 and output, "not finished, or not once"
        assert not secrets, "a secret outlived its release"
        assert len(list(own.iterdir())) == 5, "something was left behind"
        done["tables"] += 1
    return done


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
