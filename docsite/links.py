"""The links of a built site: pages, anchors and pictures that are there, and addresses of the right form."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


@dataclass
class Page(HTMLParser):
    """What a page links to, and what can be linked to in it."""

    anchors: set[str] = field(default_factory=set)
    targets: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Note the anchor and the target of an element."""
        for name, value in attributes:
            if name == "id" and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value is not None and tag != "link":
                self.targets.append(value)


def problems(site: Path) -> list[str]:
    """Return a sentence for each link of the site that leads nowhere. External addresses are not visited."""

    @cache
    def page(path: Path) -> Page:
        parser = Page()
        parser.feed(path.read_text(encoding="utf-8"))
        return parser

    def problem(source: Path, target: str) -> str:
        parts = urlsplit(target)
        if parts.scheme or parts.netloc:
            return "" if _is_address(target) else "is not an address"
        path = source if not parts.path else (source.parent / unquote(parts.path)).resolve()
        if target.startswith("/") or not path.is_relative_to(site):
            return "leads out of the site"
        path = path / "index.html" if path.is_dir() else path
        if not path.is_file():
            return "does not exist"
        if not parts.fragment or path.suffix != ".html" or unquote(parts.fragment) in page(path).anchors:
            return ""
        return f"has no anchor {parts.fragment}"

    return [
        f"{source.relative_to(site)}: {target} {reason}"
        for source in sorted(site.rglob("*.html"))
        if source.name != "404.html"  # it is served for any address, so its links begin with a slash
        for target in page(source).targets
        if (reason := problem(source, target))
    ]


def _is_address(target: str) -> bool:
    """Return whether a target with a scheme is a mail address, or a web address with a host."""
    parts = urlsplit(target)
    if parts.scheme == "mailto":
        return "@" in parts.path
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not set(target) & set(" <>\"'`")
