"""The documentation site, offline: `uv run python docs/site/build.py [OUT] [--executed FOLDER]`.

Pages are put together in a scratch folder laid out like the repository, so that links written for
one work in the other. The reference comes from docstrings, the gallery from the library itself, and
notebooks from the folder of executed copies that CI leaves; those not there are shown unexecuted.
A warning of Sphinx, a broken link or anything loaded from outside is an error.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import api
import check
import gallery

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
# Pages of docs/ that have a place of their own in index.md; all others are guides.
_PLACED = {"index", "concepts", "notation", "limits", "gallery", "which_view", "howto"}
_UNEXECUTED = """```{{note}}
Shown without its results. With them, from the root of the repository:

    mkdir -p build/executed
    uv run jupyter execute --output="$PWD/build/executed/{{notebook_name}}" notebooks/{name}
    uv run python docs/site/build.py
```
"""


def main() -> None:
    """Assemble, build, check."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    asked.add_argument("out", nargs="?", type=Path, default=ROOT / "build" / "site")
    asked.add_argument("--executed", type=Path, default=ROOT / "build" / "executed")
    given = asked.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        pages = Path(scratch) / "pages"
        assemble(pages, given.executed)
        shutil.rmtree(given.out, ignore_errors=True)
        command = ["-b", "html", "-W", "--keep-going", "-q", "-c", HERE, "-d", f"{scratch}/read"]
        sphinx = [sys.executable, "-m", "sphinx", *map(str, [*command, pages, given.out])]
        if code := subprocess.run(sphinx, check=False).returncode:
            sys.exit(code)
    for path in (ROOT / "docs").glob("*.html"):
        shutil.copy(path, given.out / "docs")
    if found := check.faults(given.out):
        sys.exit("\n".join(found))
    print(f"{len(list(given.out.rglob('*.html')))} pages: {given.out / 'index.html'}")


def assemble(pages: Path, executed: Path) -> None:
    """Everything that Sphinx is to read, laid out like the repository."""
    pages.mkdir()
    for name in ("README.md", "CHANGELOG.md", "CITATION.cff", "LICENSE"):
        shutil.copy(ROOT / name, pages)
    for folder, pattern in (("docs", "*.md"), ("docs", "*.html"), ("benchmarks", "*.md")):
        (pages / folder).mkdir(exist_ok=True)
        for path in (ROOT / folder).glob(pattern):
            shutil.copy(path, pages / folder)
    shutil.copy(HERE / "gallery.py", pages / "docs")  # shown below its pictures
    _index(pages)
    _notebooks(pages / "notebooks", executed)
    api.write(pages / "api")
    gallery.draw(pages / "docs" / "figures")


def _index(pages: Path) -> None:
    guides = {path.stem for path in (pages / "docs").glob("*.md")} - _PLACED
    text = (pages / "docs" / "index.md").read_text(encoding="utf-8")
    assert text.count("GUIDES") == 1
    text = text.replace("GUIDES", "\n".join(f"docs/{name}" for name in sorted(guides)))
    (pages / "index.md").write_text(text, encoding="utf-8")
    (pages / "docs" / "index.md").unlink()


def _notebooks(folder: Path, executed: Path) -> None:
    folder.mkdir()
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        copy = executed / path.name
        book = json.loads((copy if copy.exists() else path).read_text(encoding="utf-8"))
        if not copy.exists():
            words = _UNEXECUTED.format(name=path.name)
            note = {"cell_type": "markdown", "id": "unexecuted", "metadata": {}, "source": words}
            book["cells"].insert(1, note)
        (folder / path.name).write_text(json.dumps(book), encoding="utf-8")


if __name__ == "__main__":
    main()
