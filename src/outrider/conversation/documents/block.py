"""A block of a document's text: a paragraph, an item of a list, a table, a row of a sheet."""

from __future__ import annotations

import msgspec


class Block(msgspec.Struct, frozen=True):
    """What stands on lines of its own."""

    text: str
    tight: bool = False
    """Whether no empty line stands between it and another such block: items of a list, rows of a sheet."""
