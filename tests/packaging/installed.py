"""Run by `.ci/run` with the interpreter of an environment that holds only the built wheel."""

import importlib
import pkgutil
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def main() -> None:
    """Import everything, find the data and the models, run the command."""
    import cdp_views as cdp

    where = Path(cdp.__file__).resolve()
    assert where.is_relative_to(Path(sys.prefix).resolve()), f"not the wheel: {where}"
    modules = [m.name for m in pkgutil.walk_packages(cdp.__path__, "cdp_views.")]
    for name in modules:
        if not name.endswith("__main__"):
            importlib.import_module(name)
    for name in cdp.__all__:
        getattr(cdp, name)
    assert len(cdp.datasets.midwest()) == 437
    assert any(name.startswith("cdp_views.models.") for name in modules), "no models"

    command = Path(sys.executable).parent / "cdp-views"
    assert shutil.which(command), "no console script"
    subprocess.run([command, "--help"], check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as folder:
        # The plain wheel has no `plot` and no `io`: the table must come all the same.
        subprocess.run([command, "compare", "--tables", "1", "--seed", "1"], check=True, cwd=folder)
    print(f"{len(modules)} modules of {where.parent} import; data, models and CLI work")


if __name__ == "__main__":
    main()
