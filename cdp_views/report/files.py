"""Files that appear only when they are complete."""

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr

Writer = Callable[[Path], object]


def write_together(directory: str | os.PathLike[str], writers: Mapping[str, Writer]) -> list[Path]:
    """Write several files into `directory`, none of them before all are complete.

    Args:
        directory: made where it is missing.
        writers: for each file name, a function that writes to the path it is given.

    Returns:
        The paths written.

    Raises:
        OSError: the directory cannot be made or written to; then nothing is left behind.

    Example:
        >>> folder = Path(tempfile.mkdtemp())
        >>> write_together(folder, {"a.txt": lambda path: path.write_text("done")})[0].name
        'a.txt'
    """
    target = Path(directory)
    target.parent.mkdir(parents=True, exist_ok=True)
    # Beside the target: on one file system, so that moving a file is one step.
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        for name, write in writers.items():
            write(scratch / name)
        target.mkdir(exist_ok=True)
        for name in writers:
            os.replace(scratch / name, target / name)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return [target / name for name in writers]


def write_csv(table: pd.DataFrame, path: str | os.PathLike[str]) -> None:
    """Write a table as CSV (UTF-8, every digit), put in place only when it is complete.

    Args:
        table: any table; its index is left out.
        path: the file; its folder is made where it is missing.

    Raises:
        OSError: it cannot be written; then nothing is left behind.

    Example:
        >>> import pandas as pd, pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.csv"
        >>> write_csv(pd.DataFrame({"x": [0.5]}), path)
        >>> path.read_text().split()
        ['x', '0.5']
    """
    target = Path(path)
    write_together(
        target.parent, {target.name: lambda p: table.to_csv(p, index=False, encoding="utf-8")}
    )


def write_text(text: str, path: str | os.PathLike[str]) -> None:
    """Write text (UTF-8), put in place only when it is complete.

    Args:
        text: all of the file.
        path: the file; its folder is made where it is missing.

    Raises:
        OSError: it cannot be written; then nothing is left behind.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.html"
        >>> write_text("<p>", path)
        >>> path.read_text()
        '<p>'
    """
    target = Path(path)
    write_together(target.parent, {target.name: lambda p: p.write_text(text, encoding="utf-8")})


def write_netcdf(dataset: xr.Dataset, path: Path) -> None:
    """Write a dataset as netCDF (extra `io`).

    Args:
        dataset: whatever netCDF can hold.
        path: the file; for several at once use `write_together`.

    Raises:
        ImportError: h5netcdf is not installed; the message says how to get it.
    """
    try:
        import h5netcdf  # noqa: F401
    except ImportError:
        raise ImportError(
            "netCDF needs the extra io: pip install 'cdp-views[io]'", name="h5netcdf"
        ) from None
    dataset.to_netcdf(path, engine="h5netcdf")


def write_figure(figure: Any, path: Path) -> None:
    """Write a figure as PNG, 150 dots per inch, on white.

    Args:
        figure: of matplotlib.
        path: the file; for several at once use `write_together`.

    Raises:
        OSError: it cannot be written.
    """
    figure.savefig(path, dpi=150, facecolor="white")
