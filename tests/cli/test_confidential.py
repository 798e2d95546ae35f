"""No confidential number leaves by a side door: every output of every bad path is searched."""

import logging
import re
import traceback
import warnings

import numpy as np
import pytest

import cdp_views as cdp

# four counts that nothing else can print by chance
COUNTS = np.array([812345, 703219, 645127, 590863])
WORD = f"{COUNTS[3]}x"
LEFT = [str(count) for count in COUNTS]
GOOD = "area,group,count,size\n" + "".join(
    f"{area},{group},{count},{size}\n"
    for area, group, count, size in zip("abcd", "xxyy", COUNTS, (10, 20, 30, 45), strict=True)
)
RELEASE = {
    "--count": "count", "--within": "group", "--view": "conditioned", "--noise": "normal",
    "--epsilon": "1e-4", "--delta": "1e-9",
}  # fmt: skip
COMPARE = {"--count": "count", "--within": "group"}


def found(text: str) -> list[str]:
    """Which counts are in a text, however they are written."""
    plain = re.sub(r"(?<=\d)[,_ '](?=\d{3})", "", text)
    plain += "".join(
        f" {float(x):.0f}" for x in re.findall(r"\d\.\d+e\+?0?\d", text) if float(x) < 1e9
    )
    return [count for count in LEFT if count in plain]


def test_the_search_finds_what_is_there():
    for text in ("812345", "= 812,345.0;", "8.12345e+05", "array([703219.])", "-590863"):
        assert found(text), text
    assert found("81234 5.9 590862") == []


# what is wrong with the table, and with the arguments, of each command
TABLES = {
    "a word": GOOD.replace("812345", "812345x"),
    "negative": GOOD.replace("812345", "-812345"),
    "a fraction": GOOD.replace("812345", "812345.5"),
    "infinite": GOOD.replace("812345", "1e999"),
    "missing": GOOD.replace("812345", ""),
    "too many fields": GOOD + "e,y,812345,1,1,1\n",
    "a quote that never ends": GOOD + 'e,"y,812345',
    "one cell in each group": GOOD.replace(",x,", ",z,", 1),
    "not utf-8": GOOD,
    "as it should be": GOOD,
}
ARGUMENTS = {
    "release": [
        {},
        {"--names": "count"},
        {"--scales": "count"},
        {"--weights": "count"},
        {"--zeros": "count"},
        {"--within": "count"},
        {"--within": "size"},
        {"--epsilon": "0"},
        {"--epsilon": "1e300"},
        {"--delta": "2"},
        {"--delta": "0"},
        {"--noise": "laplace"},
        {"--noise": "discrete-normal"},
        {"--view": "max-entropy", "--scales": "size"},
        {"--records": "0"},
        {"--bits": "dice"},
        {"--contribution": "1"},
        {"--ledger": "nowhere"},
        {"--out": "r.xlsx"},
    ],
    "compare": [{}, {"--scales": "count"}, {"--weights": "count"}, {"--within": "count"}],
}


@pytest.mark.parametrize("name", ["release", "compare"])
def test_no_count_in_what_a_bad_command_says(command, tmp_path, name, caplog):
    """Bad tables with good arguments, and a good table with bad arguments."""
    caplog.set_level(logging.INFO)
    cases = [(text, {}) for text in TABLES] + [("as it should be", a) for a in ARGUMENTS[name]]
    refused = 0
    for number, (text, changes) in enumerate(cases):
        if name == "compare" and (text, changes) == ("as it should be", {}):
            continue  # what is right is shown by other tests, and takes seconds
        folder = tmp_path / str(number)
        folder.mkdir()
        path = folder / "t.csv"
        coding = "utf-16" if text == "not utf-8" else "utf-8"
        path.write_text(TABLES[text], encoding=coding)
        usual = (RELEASE if name == "release" else COMPARE) | {"--out": "r.csv"} | changes
        usual["--out"] = folder / usual["--out"]
        given = [part for pair in usual.items() for part in pair]
        if text == "a fraction" and name == "compare":
            continue  # allowed there
        status, stdout, stderr = command(name, path, *given)
        refused += status != 0
        assert found(stdout) == [] and found(stderr) == [], (text, changes, stdout, stderr)
        assert "Traceback" not in stderr
        for made in folder.rglob("*"):
            if made != path and made.is_file():
                assert found(made.read_bytes().decode("utf-8", "replace")) == [], made
    assert refused >= len(cases) - 7 and found(caplog.text) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("812345", "812345x"),
        ("812345", "-812345"),
        ("812345", ""),
        ('count = "count"', 'count = "area"'),
        ('group = "group"', 'group = "count"'),
        ('group = "group"', 'group = "area"'),
        ('views = ["imaged"]', 'views = ["812"]'),
    ],
)
def test_no_count_in_what_a_bad_study_says(command, csv, tmp_path, old, new, caplog):
    caplog.set_level(logging.INFO)
    plan = (
        'epsilon = [1]\ndelta = 1e-9\nviews = ["imaged"]\nnoises = ["normal"]\ndraws = 50\n'
        '[tables.mine]\nsource = "table.csv"\ncount = "count"\n[invariants]\ngroup = "group"\n'
    )
    csv(GOOD.replace(old, new, 1))
    toml = csv(plan.replace(old, new, 1), "study.toml")
    status, stdout, stderr = command("study", toml, "--out", tmp_path / "out")
    assert status != 0, stdout
    assert found(stdout) + found(stderr) + found(caplog.text) == [] and "Traceback" not in stderr


def all_of(error: BaseException) -> str:
    """What a person or a log could see of it: message, notes, causes, and the traceback."""
    seen, texts = error, traceback.format_exception(error)
    while seen is not None:
        hidden = seen.__suppress_context__ and seen.__cause__ is None
        texts += [str(seen), repr(seen), *getattr(seen, "__notes__", [])]
        seen = seen.__cause__ or (None if hidden else seen.__context__)
    return "\n".join(texts)


def attempts(tmp_path):
    """Calls that are refused, with the counts in them."""
    inv, wide = cdp.totals(list("xxyy")), cdp.totals(list("xxxyyy"))
    usual = {"view": "conditioned", "noise": "normal", "epsilon": 1e-4, "delta": 1e-9}

    def call(counts=COUNTS, invariant=inv, **given):
        unit = given.pop("neighbours", cdp.relocations(inv))
        return cdp.release(counts, invariant, neighbours=unit, **(usual | given))

    yield lambda: call([*COUNTS[:3].tolist(), WORD])
    yield lambda: call([*COUNTS[:3].tolist(), None])
    yield lambda: call(COUNTS * -1)
    yield lambda: call(COUNTS + 0.5, noise="discrete-normal")
    yield lambda: call(COUNTS + 0.5, noise=None)
    yield lambda: call(COUNTS + 0.3, output="whole")
    yield lambda: call([COUNTS.tolist()])
    yield lambda: call(COUNTS.astype(object) * 10**300)
    yield lambda: call(COUNTS[:3])
    yield lambda: call(invariant=wide)
    yield lambda: call(invariant=COUNTS)
    yield lambda: call(neighbours=COUNTS)
    yield lambda: call(scales=COUNTS)
    yield lambda: call(scales=1 / COUNTS)
    yield lambda: call(names=COUNTS[:3])
    yield lambda: call(zeros=[True, False, False, False])
    yield lambda: call(invariant=cdp.totals(list("xyzz")))
    yield lambda: call(epsilon=1e300)
    yield lambda: call(epsilon="812")
    yield lambda: call(invariant=inv & cdp.nonnegative(4))
    yield lambda: call(output="rounded")
    made = call()
    yield lambda: made.verify(COUNTS + np.eye(4)[0])
    made.save(tmp_path / "r.csv")
    yield lambda: made.save(tmp_path / "r.csv")
    ledger = cdp.Ledger.create(tmp_path / "b.ledger", epsilon=1.2e-4, delta=1e-8)
    call(ledger=ledger).save(tmp_path / "s.csv")
    yield lambda: call(ledger=ledger)
    yield lambda: call(ledger=ledger, names=list("abcd"))
    yield lambda: cdp.compare([*COUNTS[:3].tolist(), WORD], inv, epsilon=1, delta=1e-9)
    yield lambda: cdp.compare(-COUNTS, inv, epsilon=1, delta=1e-9)
    yield lambda: cdp.compare(COUNTS, wide, epsilon=1, delta=1e-9)
    yield lambda: cdp.compare(COUNTS, inv, epsilon=0, delta=1e-9)


def test_no_count_in_an_error_a_warning_or_a_traceback(tmp_path, caplog, capsys):
    caplog.set_level(logging.INFO)
    for number, attempt in enumerate(attempts(tmp_path)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with pytest.raises((ValueError, TypeError, NotImplementedError, OSError)) as error:
                pytest.fail(f"attempt {number} is not refused: {attempt()}")
        assert found(all_of(error.value)) == [], (number, str(error.value))
        assert found(" ".join(str(w.message) for w in caught)) == [], number
    assert found(caplog.text) + found("".join(capsys.readouterr())) == []
    for path in tmp_path.iterdir():
        assert found(path.read_bytes().decode("utf-8", "replace")) == [], path


def test_a_count_in_a_cause_would_be_seen():
    def fail():
        try:
            int("812345x")
        except ValueError as reason:
            raise RuntimeError("cannot be read") from reason

    with pytest.raises(RuntimeError) as error:
        fail()
    assert found(all_of(error.value)) == ["812345"]
