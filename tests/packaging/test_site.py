"""The documentation site's own check, and the reading of docstrings: see docs/site."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SITE = Path(__file__).parents[2] / "docs" / "site"


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"site_{name}", SITE / f"{name}.py")
    assert spec and spec.loader
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ('<h1 id="a">A</h1><a href="#a">A</a><a href="b.css">B</a><a href="https://x.y">X</a>', ""),
        ('<a href="gone.html">G</a>', "a.html: no file for gone.html"),
        ('<a href="#gone">G</a>', "a.html: no anchor for #gone"),
        ('<script src="https://x.y/z.js"></script>', "a.html: loads https://x.y/z.js"),
        ('<link rel="stylesheet" href="//x.y/z.css">', "a.html: loads //x.y/z.css"),
        ("<p style=\"background: url('https://x.y/z.png')\">", "a.html: loads https://x.y/z.png"),
    ],
)
def test_faults_of_a_page_are_found(tmp_path, page, fault):
    (tmp_path / "a.html").write_text(page, encoding="utf-8")
    (tmp_path / "b.css").write_text("p { color: red }", encoding="utf-8")
    assert module("check").faults(tmp_path) == ([fault] if fault else [])


def test_what_a_stylesheet_loads_is_found(tmp_path):
    (tmp_path / "b.css").write_text("@import 'https://x.y/z.css';", encoding="utf-8")
    assert module("check").faults(tmp_path) == ["b.css: loads https://x.y/z.css"]


def test_a_docstring_becomes_markdown():
    docstring = "Sum |x|.\n\nArgs:\n  a, b: cells,\n    in counts.\n\nExample:\n  >>> 1 + 1\n  2"
    assert module("api")._markdown(docstring).split("\n") == [
        "Sum |x|.",
        "",
        ":param a: cells,",
        "    in counts.",
        ":param b: cells,",
        "    in counts.",
        "",
        "**Example**",
        "",
        "```pycon",
        ">>> 1 + 1",
        "2",
        "```",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("page", ["howto.md", "analysing.md"])
def test_the_python_of_the_how_to_runs_top_to_bottom(page, tmp_path):
    page = (SITE.parent / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    assert len(blocks) > 5
    ran = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks)],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
