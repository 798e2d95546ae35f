"""Models and notebooks are written as a user would: public names and models only."""

import ast
import json
from pathlib import Path

import pytest

import cdp_views as cdp

ROOT = Path(__file__).parents[2]
MODELS = sorted(path for path in (ROOT / "models").glob("*.py") if path.name != "__init__.py")
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def code_of(path: Path) -> str:
    if path.suffix == ".py":
        return path.read_text(encoding="utf-8")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def private_uses(code: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names = [f"cdp_views.{node.attr}"] if node.value.id == "cdp" else []
        else:
            names = []
        found += [name for name in names if name.split(".")[0] == "cdp_views"]
    allowed = {"cdp_views", "cdp_views.models", *(f"cdp_views.{name}" for name in cdp.__all__)}
    # models, the paper's own algorithms and possible worlds are imported by their path
    rooms = ("cdp_views.models.", "cdp_views.maxent.reference.", "cdp_views.worlds.")
    return [name for name in found if name not in allowed and not name.startswith(rooms)]


@pytest.mark.parametrize("path", [*MODELS, *NOTEBOOKS], ids=lambda path: path.name)
def test_only_public_names_and_models_are_used(path):
    assert private_uses(code_of(path)) == []


def test_the_check_sees_a_room_and_a_private_name():
    code = "from cdp_views.views import MaxEntropy\nimport cdp_views as cdp\ncdp._ROOM_OF"
    assert private_uses(code) == ["cdp_views.views.MaxEntropy", "cdp_views._ROOM_OF"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks_are_committed_without_outputs(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    kept = [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")]
    assert kept == []
