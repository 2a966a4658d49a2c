"""In which line of a TOML file a key stands, so that an error can say so."""

from __future__ import annotations

import re

_HEADER = re.compile(r"\s*\[\[?\s*([^\[\]#]+?)\s*\]\]?\s*(?:#.*)?$")
_ASSIGNED = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")


def line_of(key: str, text: str) -> int | None:
    """The line in which a dotted key is set, else the one in which its table begins; None if there is no telling.

    >>> line_of("limits.turns", "[limits]\\n\\nturns = 0")
    3
    """
    while key:
        found = [number for number, name in _named(text) if name == key]
        if len(found) == 1:
            return found[0]
        if found:  # one of them may be a line in a long text
            return None
        key = key.rpartition(".")[0]
    return None


def _named(text: str) -> list[tuple[int, str]]:
    """The lines that look as if they named a key or a table, with the dotted name."""
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
