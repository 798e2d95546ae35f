"""What our pages share: one style, placeholders, and data that no text can break out of."""

import html
import importlib.resources
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_FOLDER = "cdp_views.report"


def fill(template: str, parts: Mapping[str, str]) -> str:
    """The page of this name with every {{PART}} in its place; {{STYLE}} is what all pages share.

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
    parts = {"STYLE": _read("style.html")} | dict(parts)
    return re.sub(r"\{\{([A-Z]+)\}\}", lambda found: parts[found[1]], _read(template))


def as_data(value: Any) -> str:
    """JSON that may stand in a <script>: no label can end it."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("</", "<\\/")


def listed(items: Sequence[str]) -> str:
    """Texts, escaped, as an HTML list."""
    return "<ul>" + "".join(f"<li>{html.escape(item)}</li>" for item in items) + "</ul>"


def _read(name: str) -> str:
    return (importlib.resources.files(_FOLDER) / name).read_text("utf-8")
