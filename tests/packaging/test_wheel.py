"""What is in the wheel. `.ci/run` installs it alone and runs `installed.py` there."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def names(tmp_path_factory) -> set[str]:
    import shutil

    # A copy, because setuptools leaves `build/` and `*.egg-info` beside what it builds.
    source, out = (tmp_path_factory.mktemp(name) for name in ("source", "wheel"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, source / file)
    junk = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "models", source / "models", ignore=junk)
    shutil.copytree(ROOT / "cdp_views", source / "cdp_views", symlinks=True, ignore=junk)
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, source],
        check=True, capture_output=True,
    )  # fmt: skip
    (wheel,) = out.glob("*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


@pytest.mark.slow
def test_the_wheel_has_every_module_and_every_model(names):
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "cdp_views").rglob("*.py")}
    models = {f"cdp_views/models/{path.name}" for path in (ROOT / "models").glob("*.py")}
    assert modules | models <= names


@pytest.mark.slow
def test_the_wheel_has_its_data_and_says_that_it_is_typed(names):
    assert {"cdp_views/datasets/midwest.csv", "cdp_views/py.typed"} <= names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


@pytest.mark.slow
def test_the_wheel_installs_nothing_but_the_package(names):
    top = {name.split("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {"cdp_views"}
