"""Links that authors need not write: code such as `cdp.totals` leads to its page."""

import re
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.nodes import make_refnode

_NAME = re.compile(r"(?:cdp|cdp_views)\.([A-Za-z_]\w*(?:\.\w+)*)(?:\(.*\))?", re.DOTALL)
_BARE = re.compile(r"(\bcdp\.[A-Za-z_]\w*)")  # in words, without the marks of code
_CLASS = re.compile(r"([A-Z][a-z]+[A-Za-z]*(?:\.\w+)*)(?:\(.*\))?", re.DOTALL)


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the two hooks."""
    app.connect("missing-reference", _by_last_name)
    app.connect("doctree-resolved", _link_code)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _find(app: Sphinx, name: str) -> tuple[str, Any] | None:
    objects: dict[str, Any] = app.env.domains["py"].data["objects"]
    for full in (f"cdp_views.{name}", name):
        if full in objects:
            return full, objects[full]
    ends = [full for full in objects if full.endswith(f".{name}") and "models" not in full]
    return (ends[0], objects[ends[0]]) if len(ends) == 1 else None


def _by_last_name(app: Sphinx, _env: Any, node: Any, content: nodes.Element) -> Any:
    """Types in signatures are written without their module."""
    if node.get("refdomain") != "py" or not (found := _find(app, node["reftarget"].split(".")[-1])):
        return None
    full, target = found
    return make_refnode(app.builder, node["refdoc"], target.docname, target.node_id, content, full)


def _with_links(app: Sphinx, docname: str, text: str) -> Iterator[nodes.Node]:
    for part in _BARE.split(text):
        if not (_BARE.fullmatch(part) and (found := _find(app, part.removeprefix("cdp.")))):
            yield nodes.Text(part)
            continue
        full, target = found
        code = nodes.literal(part, part)
        yield make_refnode(app.builder, docname, target.docname, target.node_id, code, full)


def _link_code(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    for literal in list(doctree.findall(nodes.literal)):
        if isinstance(literal.parent, nodes.reference | nodes.title | addnodes.desc_signature):
            continue
        text = literal.astext()
        match = _NAME.fullmatch(text) or _CLASS.fullmatch(text)
        if not match or not (found := _find(app, match[1])):
            continue
        full, target = found
        link = make_refnode(
            app.builder, docname, target.docname, target.node_id, literal.deepcopy(), full
        )
        literal.replace_self(link)
    for text in list(doctree.findall(nodes.Text)):
        if _BARE.search(text) and isinstance(text.parent, nodes.paragraph):
            text.parent.replace(text, list(_with_links(app, docname, str(text))))
    # a page is to be opened, not saved
    for link in list(doctree.findall(addnodes.download_reference)):
        if link["reftarget"].endswith("explore.html"):
            uri = app.builder.get_relative_uri(docname, "docs/explore")
            link.replace_self(nodes.reference("", "", *link.children, refuri=uri))
