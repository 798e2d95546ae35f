"""Pages of the reference, in Markdown, from signatures and docstrings.

Docstrings of this project are Markdown with Google's sections, and full of `|x|`, `x_i` and `*`,
which reStructuredText would read as markup. So they are not given to autodoc: each becomes a
directive of Sphinx's Python domain whose content is Markdown.
"""

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import cdp_views

# What each room is about, in the order in which a reader meets them. A room that is missing here
# comes last under its own name, so that no export can be forgotten.
TITLES = {
    "invariants": "Exact totals",
    "views": "Three views",
    "noise": "Base noise",
    "neighbours": "Units of privacy",
    "privacy": "What a release gives away",
    "usefulness": "What a release is good for",
    "calibration": "From a budget to a scale",
    "study": "Comparisons and studies",
    "releases": "Releases",
    "inference": "Analysis of releases",
    "support": "Supports and priors",
    "maxent": "Maximum entropy itself",
    "report": "Figures",
    "worlds": "Possible worlds",
    "datasets": "Tables to try things on",
    "loss": "Laws of the privacy loss",
    "deviation": "Laws of errors",
    "_checks": "Errors",
}
_WITH_FUNCTIONS = {
    "loss",
    "worlds",
    "datasets",
}  # rooms whose functions are public under their path
_SECTION = re.compile(
    r"^(Args|Attributes|Returns|Raises|Warns|Examples?|References?|Yields): *(.*)$"
)
_ENTRY = re.compile(r"^([\w*, .]+): +(.*)$", re.DOTALL)


def write(folder: Path) -> None:
    """Write index.md and one page for each room, for the models and for the command line."""
    folder.mkdir(parents=True)
    rooms = _rooms()
    for room, names in rooms.items():
        (folder / f"{_file(room)}.md").write_text(_page(room, names), encoding="utf-8")
    (folder / "models.md").write_text(_models(), encoding="utf-8")
    (folder / "command_line.md").write_text(_command_line(), encoding="utf-8")
    (folder / "index.md").write_text(_index(rooms), encoding="utf-8")


def _rooms() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {room: [] for room in TITLES}
    for name, room in cdp_views._ROOM_OF.items():
        found.setdefault(room, []).append(name)
    found["views"].sort(key=lambda name: name.startswith("observe_"))  # the views come first
    return found


def _file(room: str) -> str:
    return room.strip("_")


def _index(rooms: dict[str, list[str]]) -> str:
    parts = [
        "# Reference",
        "`import cdp_views as cdp`: names below are `cdp.NAME`. Examples are run as tests.",
    ]
    for room, names in rooms.items():
        title = f"## [{TITLES.get(room, room)}]({_file(room)}.md)"
        parts += [title, _table([(f"`cdp.{name}`", getattr(cdp_views, name)) for name in names])]
    pages = "\n".join([*map(_file, rooms), "models", "command_line"])
    parts += [
        "## [Models](models.md) and the [command line](command_line.md)",
        f"```{{toctree}}\n:hidden:\n{pages}\n```",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _table(rows: list[tuple[str, Any]]) -> str:
    if not rows:
        return ""
    # a bar inside a cell would end it
    lines = [f"| {name} | {_sentence(of).replace('|', chr(92) + '|')} |" for name, of in rows]
    return "\n".join(["| name | |", "|---|---|", *lines])


def _sentence(of: Any) -> str:
    first = (inspect.getdoc(of) or "").split("\n\n")[0].replace("\n", " ")
    return re.split(r"(?<=[.:]) (?=[A-ZΣ])", first)[0].removesuffix(":")


def _page(room: str, names: list[str]) -> str:
    module = importlib.import_module(f"cdp_views.{room}")
    also = {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_")
        and name not in names
        and getattr(value, "__module__", "").startswith("cdp_views.")
        and (inspect.isclass(value) or (inspect.isfunction(value) and room in _WITH_FUNCTIONS))
        and "." not in getattr(value, "__qualname__", "")
    }
    title, about = TITLES.get(room, room), inspect.getdoc(module) or ""
    parts = [f"# {title}"]
    if room != "_checks" and about != f"{title}.":
        parts.append(_markdown(about))
    parts += ["```{py:currentmodule} cdp_views\n```"]
    parts += [_described(name, getattr(cdp_views, name), public=True) for name in names]
    if also:
        parts += [f"## In `cdp_views.{room}`"]
        parts += [f"```{{py:currentmodule}} cdp_views.{room}\n```"]
        parts += [_described(name, value, public=False) for name, value in sorted(also.items())]
    return "\n\n".join(parts) + "\n"


def _described(name: str, value: Any, *, public: bool) -> str:
    # an anchor of its own in the page's contents: the heading
    heading = f"{'##' if public else '###'} {name}"
    if inspect.isclass(value):
        kind = "exception" if issubclass(value, Exception) else "class"
        signature = name + (_constructor(value) if public and kind == "class" else "")
        body = [_markdown((value.__doc__ and inspect.getdoc(value)) or "")]
        body += [_member(*member) for member in _members(value)]
    else:
        kind, signature = "function", name + _signature(value)
        body = [_markdown(inspect.getdoc(value) or "")]
    return f"{heading}\n\n{_directive(kind, signature, body, fence=6)}"


def _directive(kind: str, signature: str, body: list[str], *, fence: int) -> str:
    ticks = "`" * fence
    return f"{ticks}{{py:{kind}}} {signature}\n\n" + "\n\n".join(body) + f"\n{ticks}"


def _members(of: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that this project documents, the nearest class first."""
    seen: set[str] = set()
    for owner in of.__mro__:
        if not owner.__module__.startswith("cdp_views"):
            continue
        for name, member in vars(owner).items():
            bare = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            documented = inspect.isfunction(bare) or isinstance(bare, property | cached_property)
            if documented and not name.startswith("_") and name not in seen and bare.__doc__:
                seen.add(name)
                yield name, member


def _member(name: str, member: Any) -> str:
    body = [_markdown(inspect.cleandoc(member.__doc__ or ""))]
    if isinstance(member, property | cached_property):
        return _directive("property", name, body, fence=5)
    bare = member.__func__ if isinstance(member, classmethod | staticmethod) else member
    signature = _signature(bare, bound=not isinstance(member, staticmethod))
    return _directive("method", name + signature, body, fence=5)


def _source(value: Any) -> ast.FunctionDef:
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(value)))).body[0]
    assert isinstance(tree, ast.FunctionDef)
    return tree


def _signature(value: Any, *, bound: bool = False) -> str:
    """Arguments and result as they are written in the source, where types are short."""
    function = value if isinstance(value, ast.FunctionDef) else _source(value)
    if bound:
        (function.args.posonlyargs or function.args.args).pop(0)
    # a default that is a constant of its module is shown by its value
    scope = getattr(value, "__globals__", {})
    defaults = function.args.kw_defaults
    for place, default in enumerate(defaults):
        if isinstance(default, ast.Name) and isinstance(scope.get(default.id), int | float | str):
            defaults[place] = ast.Constant(scope[default.id])
    answer = f" -> {_unquoted(function.returns)}" if function.returns else ""
    for argument in [*function.args.args, *function.args.kwonlyargs]:
        if argument.annotation:
            written = ast.parse(_unquoted(argument.annotation), mode="eval").body
            argument.annotation = _Choices(scope).visit(written)
    return f"({ast.unparse(function.args)}){answer}"


class _Choices(ast.NodeTransformer):
    """A module's own name for a set of words becomes these words."""

    def __init__(self, scope: dict[str, Any]) -> None:
        self.scope = scope

    def visit_Name(self, node: ast.Name) -> ast.AST:
        meant = self.scope.get(node.id)
        if get_origin(meant) is not Literal:
            return node
        words = ", ".join(map(repr, get_args(meant)))
        return ast.parse(f"Literal[{words}]", mode="eval").body


def _unquoted(annotation: ast.expr) -> str:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value
    return ast.unparse(annotation)


def _constructor(of: type) -> str:
    own = vars(of).get("__init__")
    try:
        return _signature(own, bound=True).split(" -> ")[0]
    except (TypeError, OSError, AssertionError):  # dataclass: its __init__ has no source
        tree = ast.parse(textwrap.dedent(inspect.getsource(of))).body[0]
        assert isinstance(tree, ast.ClassDef)
        fields = [ast.unparse(field) for field in tree.body if isinstance(field, ast.AnnAssign)]
        return f"({', '.join(field for field in fields if not field.startswith('_'))})"


def _markdown(docstring: str) -> str:
    """A Google-style docstring as Markdown: its sections become lists of fields."""
    lines, parts = docstring.split("\n"), []
    blocks: list[tuple[str, list[str]]] = [("", [])]
    for line in lines:
        if found := _SECTION.match(line):
            blocks.append((found[1].rstrip("s"), [found[2]] if found[2] else []))
        elif blocks[-1][0] and line and not line.startswith(" ") and blocks[-1][0] != "Reference":
            blocks.append(("", [line]))  # prose after a section
        else:
            blocks[-1][1].append(line)
    for title, block in blocks:
        text = textwrap.dedent("\n".join(block)).strip("\n")
        if not text.strip():
            continue
        parts.append(_RENDER.get(title, _prose)(text))
    return "\n\n".join(parts)


def _plain(text: str) -> str:
    """No underscore of a formula is emphasis; code, in line or indented, stays as it is."""
    parts = re.split(r"(`[^`]*`|^ {4}.*$)", text, flags=re.MULTILINE)
    return "".join(part if k % 2 else part.replace("_", r"\_") for k, part in enumerate(parts))


def _prose(text: str) -> str:
    # a line that begins like a quotation, a list or a rule continues a sentence or a formula
    return re.sub(r"^([>+=]|-(?= ?[^ ]))(?=[ \d=])", r"\\\1", _plain(text), flags=re.MULTILINE)


def _entries(text: str) -> list[tuple[str, str]]:
    """`name: words`, each with its continuation lines, which are indented."""
    entries = re.split(r"\n(?=[^\s])", text)
    found = [_ENTRY.match(entry) for entry in entries]
    return [
        (match[1], match[2]) if match else ("", e) for match, e in zip(found, entries, strict=True)
    ]


def _fields(role: str) -> Any:
    def render(text: str) -> str:
        lines = []
        for names, words in _entries(text):
            first, *rest = _plain(words).split("\n")
            more = "\n".join(["", *(f"    {line.strip()}" for line in rest)])
            if not names:
                lines.append(f"{first}{more}")
                continue
            lines += [f":{role} {name.strip()}: {first}{more}" for name in names.split(",")]
        return "\n".join(lines)

    return render


def _returns(text: str) -> str:
    return ":returns: " + "\n    ".join(line.strip() for line in _plain(text).split("\n"))


def _example(text: str) -> str:
    parts = ["**Example**"]
    for block in re.split(r"\n\n+", text):
        is_code = block.lstrip().startswith(">>>")
        parts.append(f"```pycon\n{textwrap.dedent(block)}\n```" if is_code else _prose(block))
    return "\n\n".join(parts)


def _warns(text: str) -> str:
    return f"**Warns** {_prose(text)}"


def _reference(text: str) -> str:
    return f"**Reference** {_prose(text)}"


_RENDER = {
    "Arg": _fields("param"),
    "Attribute": _fields("ivar"),
    "Raise": _fields("raises"),
    "Warn": _warns,
    "Return": _returns,
    "Yield": _returns,
    "Example": _example,
    "Reference": _reference,
}


def _models() -> str:
    about = (
        "Short files to read and change, written against public names only. Each runs by itself, "
        "`python -m cdp_views.models.NAME`, or on a release, `cdp-views analyse --model NAME`."
    )
    parts = ["# Models", about]
    folder = Path(cdp_views.__file__).parent / "models"
    for path in sorted(folder.glob("[a-z]*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        public = [
            node
            for node in tree.body
            if isinstance(node, ast.FunctionDef) and node.name in ("model", "simulate")
        ]
        module = f"cdp_views.models.{path.stem}"
        parts += [f"## {path.stem}", _markdown(ast.get_docstring(tree) or "")]
        parts += [f"```{{py:currentmodule}} {module}\n```"]
        for node in public:
            body = [_markdown(ast.get_docstring(node) or "")]
            parts.append(_directive("function", node.name + _signature(node), body, fence=6))
    return "\n\n".join(parts) + "\n"


def _command_line() -> str:
    """What --help prints, for each command and each command of a group."""
    import typer
    from typer.testing import CliRunner

    from cdp_views.cli.app import app

    parts = ["# Command line", "What `--help` prints."]

    def one(path: list[str], command: Any) -> None:
        for name, inner in getattr(command, "commands", {}).items():
            if getattr(inner, "commands", None):
                one([*path, name], inner)
                continue
            shown = CliRunner().invoke(
                app, [*path, name, "--help"], prog_name="cdp-views", env={"COLUMNS": "90"}
            )
            assert shown.exit_code == 0, shown.output
            title = " ".join(["cdp-views", *path, name])
            parts.append(f"## {title}\n\n```text\n{shown.output.strip()}\n```")

    one([], typer.main.get_command(app))
    return "\n\n".join(parts) + "\n"
