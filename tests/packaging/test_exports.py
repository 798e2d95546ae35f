"""The public names: lazy, complete, and never hidden by a room of the same name."""

import importlib
import pkgutil
import random
import subprocess
import sys
from types import ModuleType

import pytest

import cdp_views as cdp

ROOMS = [room.name for room in pkgutil.iter_modules(cdp.__path__)]
EXPORTS = sorted(set(cdp.__all__) - {"__version__", *cdp._MODULES})


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("name", EXPORTS)
def test_every_public_name_resolves(name):
    assert not isinstance(getattr(cdp, name), ModuleType)


def test_only_rooms_that_are_meant_to_be_modules_are_exported():
    assert set(ROOMS) & set(cdp.__all__) == {"datasets", "worlds"} == set(cdp._MODULES)
    assert isinstance(cdp.datasets, ModuleType) and isinstance(cdp.worlds, ModuleType)


def test_functions_stay_functions_whatever_rooms_are_imported_in_whatever_order():
    for seed in range(3):
        for room in random.Random(seed).sample(ROOMS, len(ROOMS)):
            importlib.import_module(f"cdp_views.{room}")
        assert all(callable(getattr(cdp, name)) for name in EXPORTS)


def test_importing_the_package_loads_nothing_heavy():
    heavy = "{'jax', 'numpyro', 'numpy', 'scipy', 'pandas', 'xarray', 'matplotlib', 'arviz'}"
    assert run(f"import sys, cdp_views; print({heavy} & set(sys.modules) or 0)") == "0"


def test_dir_lists_every_public_name_before_anything_is_loaded():
    listed = run("import cdp_views; print(*dir(cdp_views))").split()
    assert set(cdp.__all__) <= set(listed)


def test_an_unknown_name_is_the_usual_error():
    with pytest.raises(AttributeError, match="module 'cdp_views' has no attribute 'margarine'"):
        _ = cdp.margarine  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(ImportError, match="cannot import name 'margarine'"):
        exec("from cdp_views import margarine")


def test_type_checkers_see_the_same_names_as_python():
    """The `TYPE_CHECKING` imports and the run-time table are two lists of one thing."""
    import ast
    from pathlib import Path

    tree = ast.parse(Path(cdp.__file__).read_text(encoding="utf-8"))
    seen = {
        alias.asname: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level == 1
        for alias in node.names
    }
    assert seen == {**cdp._ROOM_OF, **dict.fromkeys(cdp._MODULES)}
