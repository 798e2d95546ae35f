"""Errors that teach: each names the argument, what was got and what to do."""

import os
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np


class UnsupportedError(NotImplementedError):
    """A combination that is not proved or not built; the message names the way out."""


class InfeasibleError(ValueError):
    """No law with the requested marginals satisfies the invariant."""


def is_concrete(*trees: Any) -> bool:
    """Whether every array in `trees` has a value that Python may look at (no tracer)."""
    if "jax" not in sys.modules:  # rooms of host numbers do without it, and then no tracer exists
        return True
    import jax
    from jax.core import Tracer

    return not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(trees))


def instance(name: str, value: object, kind: type, remedy: str) -> None:
    """Raise unless `value` is of this kind; an array in its place is the usual slip."""
    if not isinstance(value, kind):
        raise TypeError(f"`{name}` is of type {type(value).__name__}. {remedy}")


def choice(name: str, value: object, allowed: Iterable[str]) -> None:
    """Raise unless `value` is one of the `allowed` words."""
    allowed = tuple(allowed)
    if value not in allowed:
        words = ", ".join(f'"{word}"' for word in allowed)
        near = get_close_matches(str(value), allowed, 1)
        meant = f' Did you mean "{near[0]}"?' if near else ""
        raise ValueError(f"`{name}` must be one of {words}; got {value!r}.{meant}")


def positive(name: str, value: Any, remedy: str = "Give a finite number above 0.") -> None:
    """Raise unless all of `value` is finite and above zero (concrete values only)."""
    if not is_concrete(value):
        return
    array = np.asarray(value, dtype=float)
    bad = ~(np.isfinite(array) & (array > 0))
    if bad.any():
        where = "" if array.ndim == 0 else f" at index {_index(bad)}"
        raise ValueError(f"`{name}` must be positive; got {array[bad].flat[0]}{where}. {remedy}")


def finite(name: str, value: Any, remedy: str) -> None:
    """Raise unless all of `value` is finite (concrete values only); prints only what is not."""
    if not is_concrete(value):
        return
    array = np.asarray(value, dtype=float)
    bad = ~np.isfinite(array)
    if bad.any():
        where = "" if array.ndim == 0 else f" at index {_index(bad)}"
        raise ValueError(f"`{name}` must be finite; got {array[bad].flat[0]}{where}. {remedy}")


def writable_folder(folder: Path) -> None:
    """Raise unless files can be made in this folder, or in one that can be made."""
    there = folder.absolute()
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        raise NotADirectoryError(f"`{there}` is a file where a folder is needed. Name another.")
    if not os.access(there, os.W_OK):
        raise PermissionError(f"`{there}` cannot be written to. Name another folder.")


def _index(bad: np.ndarray) -> str:
    first = tuple(int(i) for i in np.argwhere(bad)[0])
    return str(first[0]) if len(first) == 1 else str(first)
