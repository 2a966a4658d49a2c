"""Find the line of a key in a TOML file, for error messages."""

from __future__ import annotations

import re

_HEADER = re.compile(r"\s*\[\[?\s*([^\[\]#]+?)\s*\]\]?\s*(?:#.*)?$")
_ASSIGNED = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")


def line_of(key: str, text: str) -> int | None:
    """Return the line that sets a dotted key, or else the line where its table begins; None if neither is certain.

    >>> line_of("limits.max_turns", "[limits]\\n\\nmax_turns = 0")
    3
    """
    while key:
        found = [number for number, name in _named_lines(text) if name == key]
        if len(found) == 1:
            return found[0]
        if found:  # one of them may be inside a multi-line string
            return None
        key = key.rpartition(".")[0]
    return None


def _named_lines(text: str) -> list[tuple[int, str]]:
    """Return the lines that seem to name a key or a table, with the dotted name."""
    named, table = [], ""
    for number, line in enumerate(text.split("\n"), 1):
        if header := _HEADER.match(line):
            table = _dotted(header[1])
            named.append((number, table))
        elif assigned := _ASSIGNED.match(line):
            name = _dotted(assigned[1])
            named.append((number, f"{table}.{name}" if table else name))
    return named


def _dotted(written: str) -> str:
    return ".".join(part.strip("\"'") for part in _PART.findall(written))
