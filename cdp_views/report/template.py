"""What our pages share: one style, placeholders, and data that no text can break out of."""

import html
import importlib.resources
import json
import math
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np

_FOLDER = "cdp_views.report"
# What pages share: the style of all, and of those with charts also how they begin and are drawn.
# LAW is what the page about a release computes. These files may name each other.
_SHARED = {
    "HEAD": "charts_head.html",
    "STYLE": "style.html",
    "CHARTSTYLE": "charts_style.html",
    "CHARTS": "charts.html",
    "LAW": "about_law.html",
}
_PACKAGES = ("numpyro", "jax", "numpy", "scipy")


def fill(template: str, parts: Mapping[str, str]) -> str:
    """The page of this name with every {{PART}} in its place.

    {{STYLE}} is what all pages share, {{HEAD}} and {{CHARTS}} what those with charts do.

    Args:
        template: a file of this folder, such as "page.html".
        parts: HTML by placeholder; what is text must be escaped already.

    Returns:
        HTML.

    Raises:
        KeyError: a placeholder without a part.

    Example:
        >>> "{{" in fill("page.html", dict.fromkeys(("TITLE", "BANNER", "QUESTION", "VERDICT",
        ...     "NOTES", "TABLE", "RERUN", "DATA"), ""))
        False
    """
    page, named = _read(template), re.compile(r"\{\{([A-Z]+)\}\}")
    while any(found[1] in _SHARED for found in named.finditer(page)):
        page = named.sub(lambda f: _read(_SHARED[f[1]]) if f[1] in _SHARED else f[0], page)
    # At last, and once: what a part says is no placeholder.
    return named.sub(lambda found: parts[found[1]], page)


def as_data(value: Any) -> str:
    """JSON that may stand in a <script>: no label can end it, or keep it open (as <!-- would)."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def listed(items: Sequence[str]) -> str:
    """Texts, escaped, as an HTML list."""
    return "<ul>" + "".join(f"<li>{html.escape(item)}</li>" for item in items) + "</ul>"


def aside(title: str, items: Sequence[str]) -> str:
    """Texts under a title; nothing where there are none."""
    return f"<h3>{html.escape(title)}</h3>{listed(items)}" if items else ""


def rerun(command: str | None) -> str:
    """The command that was typed, and what it ran on."""
    own = import_module("cdp_views").__version__
    versions = ", ".join([f"cdp_views {own}", *(f"{name} {version(name)}" for name in _PACKAGES)])
    typed = "" if command is None else f"<pre>{html.escape(command)}</pre>"
    return f"{typed}<p>Made with {html.escape(versions)}.</p>"


def plain(value: Any, digits: int = 7) -> Any:
    """What JSON can hold: lists, and None for what is not a finite number.

    Args:
        value: numbers, arrays, lists or mappings of them.
        digits: significant ones.

    Example:
        >>> plain(np.array([1 / 3, np.nan]), 3)
        [0.333, None]
    """
    if isinstance(value, Mapping):
        return {k: plain(v, digits) for k, v in value.items()}
    if isinstance(value, (np.ndarray, list, tuple)):
        return [plain(v, digits) for v in value]
    number = float(value)
    return float(f"{number:.{digits}g}") if math.isfinite(number) else None


def _read(name: str) -> str:
    return (importlib.resources.files(_FOLDER) / name).read_text("utf-8")
