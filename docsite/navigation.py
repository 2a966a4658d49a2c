"""The navigation in zensical.toml: each page of the site has a place in it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def missing_pages(config: Path, pages: Path) -> list[str]:
    """Return the pages that the navigation does not name, and the names in it that are no page."""
    named = set(_names(tomllib.loads(config.read_text(encoding="utf-8"))["project"]["nav"]))
    there = {path.relative_to(pages).as_posix() for path in pages.rglob("*.md")}
    return sorted(there ^ named)


def _names(entry: Any) -> Iterator[str]:
    """Yield the pages of an entry: a page, a title with its page or entries, or a list of entries."""
    if isinstance(entry, str):
        yield entry
    else:
        for each in entry.values() if isinstance(entry, dict) else entry:
            yield from _names(each)
