"""Parse front matter: the fields between `---` lines at the top of a Markdown file, in a small part of YAML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypeAlias

from outrider.late_pattern import late_pattern

Value: TypeAlias = "str | list[str] | dict[str, str]"

_FENCE = late_pattern(r"---[ \t]*(?:\n(.*?))?^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_FIELD = late_pattern(r"([A-Za-z_][\w-]*):(?:[ \t]+(.*)|[ \t]*)$")
_BLOCK = late_pattern(r"([|>])[-+]?$")
_QUOTED = late_pattern(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')(?:\s+#.*)?""")


def split(text: str) -> tuple[dict[str, Value], str]:
    """Return the fields and the text below them. Raises ValueError that names the line that cannot be parsed.

    >>> split("---\\nname: reader\\ntools: [Read, Grep]\\n---\\nYou read.")
    ({'name': 'reader', 'tools': ['Read', 'Grep']}, 'You read.')
    """
    text = text.replace("\r\n", "\n")
    found = _FENCE.match(text)
    if not found:
        return {}, text
    return dict(_fields((found[1] or "").split("\n"))), text[found.end() :].strip()


def _fields(lines: list[str]) -> Iterator[tuple[str, Value]]:
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        field = _FIELD.fullmatch(line.rstrip())
        if not field:
            raise ValueError(f"line {at + 1}: {line.strip()[:60]!r} must have the form `name: value`")
        name, first = field[1], _without_comment(field[2] or "")
        below = []
        while at < len(lines) and (lines[at].startswith((" ", "\t", "- ")) or not lines[at].strip()):
            below.append(lines[at])
            at += 1
        yield name, _value(first, below)


def _value(first: str, below: list[str]) -> Value:
    """Return the value after the colon and in the lines below that belong to it."""
    if block := _BLOCK.fullmatch(first):
        stripped = [line.strip() for line in below]
        return ("\n" if block[1] == "|" else " ").join(stripped).strip()
    filled = [line.strip() for line in below if line.strip() and not line.strip().startswith("#")]
    if first:
        inline = _inline(first)
        return " ".join([inline, *filled]) if isinstance(inline, str) and filled else inline
    if filled and all(line.startswith("-") for line in filled):
        return [_plain(_without_comment(line[1:].strip())) for line in filled]
    pairs = [_FIELD.fullmatch(line) for line in filled]
    if filled and all(pairs):
        return {pair[1]: _plain(_without_comment(pair[2] or "")) for pair in pairs if pair}
    return " ".join(filled)


def _inline(text: str) -> Value:
    if text.startswith("[") and text.endswith("]"):
        return [_plain(part) for part in _parts(text[1:-1])]
    if text.startswith("{") and text.endswith("}"):
        pairs = (part.partition(":") for part in text[1:-1].split(",") if part.strip())
        return {_plain(name.strip()): _plain(value.strip()) for name, _, value in pairs}
    return _plain(text)


def _plain(text: str) -> str:
    for quote in ('"', "'"):
        if len(text) >= 2 and text[0] == text[-1] == quote:
            inside = text[1:-1]
            return inside.replace("''", "'") if quote == "'" else _unescaped(inside)
    return text


def _unescaped(text: str) -> str:
    return re.sub(r'\\(["\\n])', lambda found: "\n" if found[1] == "n" else found[1], text)


def _without_comment(text: str) -> str:
    if text.startswith(('"', "'")):
        quoted = _QUOTED.fullmatch(text)
        return quoted[1] if quoted else text
    return re.split(r"\s#", text, maxsplit=1)[0].rstrip()


def _parts(text: str) -> list[str]:
    """Split at commas, except inside brackets: `Bash(git add, git push)` is one name."""
    parts, depth = [""], 0
    for char in text:
        depth = max(0, depth + (char == "(") - (char == ")"))
        if char == "," and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts if part.strip()]


def as_list(value: Any) -> list[str]:
    """Return a list, given a list or names separated by commas.

    >>> as_list("Read, Grep")
    ['Read', 'Grep']
    """
    return list(value) if isinstance(value, list) else _parts(str(value))
