"""What must hold of the built pages: every link leads somewhere, nothing comes from outside."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Attributes by which a browser fetches something unasked; a link that a reader follows is no load.
_LOADS = {
    ("img", "src"), ("script", "src"), ("iframe", "src"), ("source", "src"), ("video", "src"),
    ("audio", "src"), ("embed", "src"), ("object", "data"), ("use", "href"), ("image", "href"),
}  # fmt: skip
_LOADED_LINKS = {"stylesheet", "icon", "preload", "prefetch", "preconnect", "modulepreload"}
_IN_CSS = re.compile(r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^'\")\s]+)")


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.outside: list[str] = []
        self.headings: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        self.outside += _IN_CSS.findall(given.get("style", ""))
        for name, value in given.items():
            loads = (tag, name) in _LOADS or (
                tag == "link"
                and name == "href"
                and set(given.get("rel", "").split()) & _LOADED_LINKS
            )
            if loads and re.match(r"(https?:)?//", value):
                self.outside.append(value)
            if (loads or (tag, name) == ("a", "href")) and not re.match(r"[a-z]+:|//", value):
                self.links.append(value)


def faults(site: Path) -> list[str]:
    """Broken links and loads from outside, each as one line; empty if all is well."""
    pages: dict[Path, _Page] = {}
    found: list[str] = []
    for path in sorted(site.rglob("*.html")):
        page = pages[path.resolve()] = _Page()
        page.feed(path.read_text(encoding="utf-8"))
        found += [f"{path.relative_to(site)}: loads {uri}" for uri in page.outside]
    for path in sorted(site.rglob("*.css")):
        uris = _IN_CSS.findall(path.read_text(encoding="utf-8"))
        found += [f"{path.relative_to(site)}: loads {uri}" for uri in uris]
    for path, page in pages.items():
        here = path.relative_to(site.resolve())
        for link in page.links:
            parts = urlsplit(link)
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                found.append(f"{here}: no file for {link}")
            elif parts.fragment and target in pages:
                anchor = unquote(parts.fragment)
                if anchor not in pages[target].anchors and anchor != "":
                    found.append(f"{here}: no anchor for {link}")
    return sorted(set(found))
