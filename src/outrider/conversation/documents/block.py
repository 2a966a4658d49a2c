"""A block of a document's text: a paragraph, a list item, a table, a row of a sheet."""

from __future__ import annotations

import msgspec


class Block(msgspec.Struct, frozen=True):
    """Text on lines of its own."""

    text: str
    tight: bool = False
    """Whether to omit the empty line between adjacent tight blocks: list items, rows of a sheet."""
