"""What stands between the nodes of a tree: blanks, and nothing that bash would read otherwise."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from outrider.coding.permissions.nodes import CLOSING, MANY_LINES

if TYPE_CHECKING:
    from tree_sitter import Node

_GAP = re.compile(r"(?:[ \t\n]|\\\n)*")
_BEFORE_COMMENT = (b"", b" ", b"\t", b"\n", b";")


def gap_doubts(node: Node, source: bytes) -> Iterator[str]:
    """Why the parts of a node may not be what they seem."""
    if any(child.is_missing or child.is_error for child in node.children):
        yield "it cannot be parsed"
    lines = node.type in MANY_LINES
    if not all(_are_apart(before, after, source, lines) for before, after in itertools.pairwise(node.children)):
        yield "it cannot be read for certain"


def comment_doubts(node: Node, source: bytes) -> Iterator[str]:
    """Why something may not be a comment."""
    before = source[node.start_byte - 1 : node.start_byte] if node.start_byte else b""
    after = source[node.end_byte : node.end_byte + 1]
    text = source[node.start_byte : node.end_byte]
    if before not in _BEFORE_COMMENT or after not in (b"", b"\n") or b"\n" in text:
        yield "a comment cannot be read for certain"


def is_gap(gap: bytes, *, lines: bool) -> bool:
    """Whether there are blanks alone. A line that goes on without one joins what tree-sitter took for two words."""
    text = gap.decode(errors="replace")
    blanks = text.replace("\\\n", "")
    return bool(_GAP.fullmatch(text)) and blanks != "" and (lines or "\n" not in blanks)


def _are_apart(before: Node, after: Node, source: bytes, lines: bool) -> bool:
    """Whether there is nothing but blanks between two nodes, and at least one if both are words."""
    gap = source[before.end_byte : after.start_byte]
    if not gap:
        return not (_ends_open(before) and _begins_open(after))
    return is_gap(gap, lines=lines or not before.is_named)


def _ends_open(node: Node) -> bool:
    """Whether a letter right behind the node would belong to it."""
    while node.children:
        node = node.children[-1]
    return node.is_named or node.type in ('"', "'")


def _begins_open(node: Node) -> bool:
    """Whether a letter right before the node would belong to it; the number of a redirection would."""
    while node.children:
        node = node.children[0]
    return node.is_named or node.type not in CLOSING
