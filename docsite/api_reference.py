"""The API reference: a page for each part of docs/api.md, filled by mkdocstrings from the docstrings."""

from __future__ import annotations

import re
from collections.abc import Iterator

NAME = re.compile(r"`([\w.]+)`")
NOT_CODE = {"__version__"}
"""Public names without a docstring."""


def api_pages(api: str) -> dict[str, str]:
    """Return the generated pages by their place in the site."""
    return {
        _place(title): f"# {title}\n\nFrom the docstrings. [The public API](../api.md#{_slug(title)}) has examples.\n\n"
        + "\n".join(f"::: outrider.{name}\n" for name in names)
        for title, names in _parts(api)
    }


def with_reference_links(api: str) -> str:
    """Return docs/api.md with each name in its tables linked to its place in the reference."""
    places = {name: _place(title) for title, names in _parts(api) for name in names}

    def linked(found: re.Match[str]) -> str:
        place = places.get(found[1])
        return f"[`{found[1]}`]({place}#outrider.{found[1]})" if place else found[0]

    return re.sub(r"^\| [^|]+", lambda cell: NAME.sub(linked, cell[0]), api, flags=re.M)


def _parts(api: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each heading with the names in the first columns of the tables below it."""
    for part in api.split("\n## ")[1:]:
        title, _, text = part.partition("\n")
        tables = re.findall(r"^\| (?:name|types) \|.*\n\|[-| ]+\n((?:\|.*\n)+)", text, re.M)
        rows = [row.split(" | ")[0] for table in tables for row in table.splitlines()]
        if names := [name for row in rows for name in NAME.findall(row) if name not in NOT_CODE]:
            yield title, names


def _place(title: str) -> str:
    return f"reference/api-{_slug(title)}.md"


def _slug(title: str) -> str:
    return title.lower().replace(" ", "-")
