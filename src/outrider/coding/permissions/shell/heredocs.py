"""Check here-documents: where one ends and what is expanded in it must be certain."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

_DELIMITER = re.compile(r"'(\w+)'|\"(\w+)\"|\\?(\w+)", re.ASCII)
_TEXT = re.compile(r"(?:[^\\$`]|\\[^\n])*", re.DOTALL)


def heredoc_doubts(node: Node, source: bytes) -> list[str]:
    """Return why a here-document may not be what it seems; none if it is certain."""
    parts = {child.type: child for child in node.children}
    start, end = parts.get("heredoc_start"), parts.get("heredoc_end")
    body = parts.get("heredoc_body")
    if start is None or end is None:
        return ["a here-document does not end"]
    written = source[start.start_byte : start.end_byte].decode(errors="replace")
    form = _DELIMITER.fullmatch(written)
    line_end = source.find(b"\n", start.end_byte)
    if form is None or line_end < 0 or b"<<" in source[start.end_byte : line_end]:
        return ["a here-document is ambiguous"]
    tabs = any(child.type == "<<-" for child in node.children)
    if _end_of_body(source, line_end + 1, form[form.lastindex or 0].encode(), tabs) != end.end_byte:
        return ["where a here-document ends is not certain"]
    beside = [child for child in node.children if child.type not in ("heredoc_body", "heredoc_end")]
    if any(child.end_byte > line_end for child in beside):
        return ["a here-document is ambiguous"]
    if body is not None and (body.start_byte <= line_end or body.end_byte > end.start_byte):
        return ["a here-document is ambiguous"]
    return (
        []
        if written != form[0] or form[3] is None or written[0] == "\\"
        else _expansion_doubts(body, end, line_end, source)
    )


def _end_of_body(source: bytes, at: int, delimiter: bytes, tabs: bool) -> int:
    """Return the end of the line with the delimiter, as bash finds it; -1 if there is none."""
    while at < len(source):
        line_end = source.find(b"\n", at)
        line_end = len(source) if line_end < 0 else line_end
        line = source[at:line_end]
        if (line.lstrip(b"\t") if tabs else line) == delimiter:
            return line_end
        at = line_end + 1
    return -1


def _expansion_doubts(body: Node | None, end: Node, line_end: int, source: bytes) -> list[str]:
    """Return a doubt if the text between the known expansions of an unquoted here-document has others."""
    at = line_end + 1
    pieces: list[bytes] = []
    for child in body.children if body is not None else ():
        if child.type != "heredoc_content":
            pieces.append(source[at : child.start_byte])
            at = child.end_byte
    pieces.append(source[at : end.start_byte])
    if all(_TEXT.fullmatch(piece.decode(errors="replace")) for piece in pieces):
        return []
    return ["what is expanded in a here-document is not certain"]
