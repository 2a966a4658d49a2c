"""Check the text between the nodes of a tree: it must be white space only."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from outrider.coding.permissions.shell.node_types import CLOSING, MANY_LINES

if TYPE_CHECKING:
    from tree_sitter import Node

_WHITESPACE = re.compile(r"(?:[ \t\n]|\\\n)*")
_BEFORE_COMMENT = (b"", b" ", b"\t", b"\n", b";")


def whitespace_doubts(node: Node, source: bytes) -> Iterator[str]:
    """Yield why the parts of a node may not be what they seem."""
    if any(child.is_missing or child.is_error for child in node.children):
        yield "it cannot be parsed"
    lines = node.type in MANY_LINES
    if not all(_are_separated(before, after, source, lines) for before, after in itertools.pairwise(node.children)):
        yield "it is ambiguous"


def comment_doubts(node: Node, source: bytes) -> Iterator[str]:
    """Yield why a node may not be a comment."""
    before = source[node.start_byte - 1 : node.start_byte] if node.start_byte else b""
    after = source[node.end_byte : node.end_byte + 1]
    text = source[node.start_byte : node.end_byte]
    if before not in _BEFORE_COMMENT or after not in (b"", b"\n") or b"\n" in text:
        yield "a comment is ambiguous"


def is_whitespace(gap: bytes, *, lines: bool) -> bool:
    """Return whether it is white space. A continued line without a blank joins two words of tree-sitter into one."""
    text = gap.decode(errors="replace")
    blanks = text.replace("\\\n", "")
    return bool(_WHITESPACE.fullmatch(text)) and blanks != "" and (lines or "\n" not in blanks)


def _are_separated(before: Node, after: Node, source: bytes, lines: bool) -> bool:
    """Return whether only white space is between two nodes, and at least one blank if both are words."""
    gap = source[before.end_byte : after.start_byte]
    if not gap:
        return not (_ends_in_word(before) and _begins_in_word(after))
    return is_whitespace(gap, lines=lines or not before.is_named)


def _ends_in_word(node: Node) -> bool:
    """Return whether a letter right after the node would belong to it."""
    while node.children:
        node = node.children[-1]
    return node.is_named or node.type in ('"', "'")


def _begins_in_word(node: Node) -> bool:
    """Return whether a letter right before the node would belong to it, as the number of a redirection does."""
    while node.children:
        node = node.children[0]
    return node.is_named or node.type not in CLOSING
