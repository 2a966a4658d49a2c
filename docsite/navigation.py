"""The navigation in zensical.toml: each page of the site has a place in it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def with_pages(config: str, pages: Path) -> str:
    """Return the configuration with each `folder/*` replaced by the pages of that folder.

    The index comes first, and numbers in names are in the order of numbers: 2 before 10.
    """

    def names(found: re.Match[str]) -> str:
        paths = sorted(pages.glob(f"{found[1]}.md"), key=_order)
        return ", ".join(f'"{path.relative_to(pages).as_posix()}"' for path in paths)

    return re.sub(r'"([\w/]+/\*)"', names, config)


def _order(page: Path) -> tuple[bool, str]:
    return page.name != "index.md", re.sub(r"\d+", lambda number: number[0].zfill(6), page.name)


def missing_pages(config: str, pages: Path) -> list[str]:
    """Return the pages that the navigation does not name, and the names in it that are no page."""
    named = set(_names(tomllib.loads(config)["project"]["nav"]))
    there = {path.relative_to(pages).as_posix() for path in pages.rglob("*.md")}
    return sorted(there ^ named)


def _names(entry: Any) -> Iterator[str]:
    """Yield the pages of an entry: a page, a title with its page or entries, or a list of entries."""
    if isinstance(entry, str):
        yield entry
    else:
        for each in entry.values() if isinstance(entry, dict) else entry:
            yield from _names(each)
