"""Parse the YAML of front matter: block mappings of texts.

The strict form is what the Agent Skills specification has: anchors, tags and collections in brackets are refused. The
lenient form is for the files of commands and profiles, whose authors write `tools: [Read, Grep]` and colons in plain
text. In both, no text is larger than its file, and depth and length are bounded.
"""

from __future__ import annotations

import re
from typing import TypeAlias

Value: TypeAlias = "str | list[Value] | dict[str, Value]"

MAX_DEPTH = 20
MAX_LENGTH = 32 * 1024
"""Characters."""
_KEY = r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s"'#&*!|>%@`,\[\]{}-][^\n]*?|-[^\s][^\n]*?):(?:[ \t]+(.*))?$"""
_UNPRINTABLE = "[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]"
_END = r"^\.\.\.(?=[ \t\n]|\Z)"
_BLOCK = r"([|>])(?:([+-])?([1-9])?|([1-9])([+-]))(?:[ \t]+#.*)?"
_ESCAPE = r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)"
_ESCAPES = {
    "0": "\0",
    "a": "\a",
    "b": "\b",
    "t": "\t",
    "\t": "\t",
    "n": "\n",
    "v": "\v",
    "f": "\f",
    "r": "\r",
    "e": "\x1b",
    " ": " ",
    '"': '"',
    "/": "/",
    "\\": "\\",
    "N": "\x85",
    "_": "\xa0",
    "L": "\u2028",
    "P": "\u2029",
}
_REFUSED = {
    **dict.fromkeys("[{", "lists and tables in brackets are not allowed; write one item a line"),
    **dict.fromkeys("&*", "anchors and aliases are not allowed"),
    "!": "tags are not allowed",
    **dict.fromkeys("%@`,]}", "a text cannot begin with this character; put it in quotes"),
}


def parse_mapping(text: str, *, lenient: bool = False) -> dict[str, Value]:
    """Return the fields of a YAML mapping; every scalar is a text. Raises ValueError that names the line.

    `lenient` allows lists and tables in brackets, and any character in a text without quotes.

    >>> parse_mapping("name: pdf\\nmetadata:\\n  version: 1.0")
    {'name': 'pdf', 'metadata': {'version': '1.0'}}
    >>> parse_mapping("tools: [Read, Grep]\\ndescription: use when: asked", lenient=True)
    {'tools': ['Read', 'Grep'], 'description': 'use when: asked'}
    """
    if len(text) > MAX_LENGTH:
        raise ValueError(f"the fields have more than {MAX_LENGTH:,} characters")
    if found := re.search(_UNPRINTABLE, text):
        line = text.count("\n", 0, found.start()) + 1
        raise ValueError(f"line {line}: the character U+{ord(found[0]):04X} is not allowed")
    if found := re.search(_END, text, re.MULTILINE):
        if text[found.end() :].strip():
            raise ValueError(f"line {text.count(chr(10), 0, found.start()) + 1}: there is more after the end, `...`")
        text = text[: found.start()]
    parser = _Parser(text.split("\n"), lenient=lenient)
    parser.skip_blank()
    if parser.at == len(parser.lines):
        raise ValueError("there are no fields")
    fields = parser.mapping(parser.indent(), 0)
    parser.skip_blank()
    if parser.at < len(parser.lines):
        raise parser.error("the indentation does not fit the lines above")
    return fields


class _Parser:
    """Reads lines from top to bottom."""

    def __init__(self, lines: list[str], *, lenient: bool) -> None:
        self.lines = lines
        self.at = 0
        self._lenient = lenient

    def error(self, problem: str) -> ValueError:
        return ValueError(f"line {self.at + 1}: {problem}")

    def skip_blank(self) -> None:
        while self.at < len(self.lines) and _is_blank(self.lines[self.at]):
            self.at += 1

    def indent(self) -> int:
        line = self.lines[self.at]
        spaces = len(line) - len(line.lstrip(" "))
        if line[spaces : spaces + 1] == "\t":
            raise self.error("indent with spaces, not with tabs")
        return spaces

    def block(self, indent: int, depth: int) -> Value:
        """Return the mapping, list or text that begins here."""
        if depth > MAX_DEPTH:
            raise self.error("the fields are nested too deeply")
        line = self.lines[self.at].strip()
        if line == "-" or line.startswith("- "):
            return self._list(indent, depth)
        if self._key_of(line):
            return self.mapping(indent, depth)
        self.at += 1
        return self._scalar(line, indent - 1)

    def _key_of(self, line: str) -> re.Match[str] | None:
        found = re.match(_KEY, line)
        if not found:
            return None
        key = found[1]
        if key[0] not in "\"'" and (": " in key or ":\t" in key or " #" in key):
            key_end = re.search(r":[ \t]| #", key)
            if key_end and key[key_end.start()] == " ":
                return None
            return re.match(r"([^\n]+?):[ \t]+(.*)$", line)
        return found if len(key) < 1024 else None

    def mapping(self, indent: int, depth: int) -> dict[str, Value]:
        """Return the mapping that begins here."""
        fields: dict[str, Value] = {}
        while self._goes_on(indent):
            line = self.lines[self.at].strip()
            found = self._key_of(line)
            if found and "\t" in found[1] and found[1][0] not in "\"'":
                raise self.error("a name cannot have a tab in it")
            if not found or line.startswith(("- ", "? ")) or line in ("-", "?"):
                raise self.error(f"{line[:60]!r} must have the form `name: value`")
            key = _unquoted(found[1], self)
            if not key:
                raise self.error("a name cannot be empty")
            if key in fields:
                raise self.error(f"the field {key[:60]!r} is there twice")
            fields[key] = self._value((found[2] or "").strip(" \t"), indent, depth)
        return fields

    def _list(self, indent: int, depth: int) -> list[Value]:
        items: list[Value] = []
        while self._goes_on(indent):
            line = self.lines[self.at]
            rest = line.strip()
            if rest != "-" and not rest.startswith("- "):
                break  # the next name of the mapping, if the list is not indented; else its indentation does not fit
            inner = rest[1:].lstrip(" ")
            if inner and (inner.startswith("- ") or self._key_of(inner)):
                # The item is a block of its own, which begins in this line.
                column = indent + len(rest) - len(inner)
                self.lines[self.at] = " " * column + inner
                items.append(self.block(column, depth + 1))
            else:
                items.append(self._value(inner, indent, depth, is_item=True))
        return items

    def _goes_on(self, indent: int) -> bool:
        self.skip_blank()
        if self.at == len(self.lines):
            return False
        found = self.indent()
        if found > indent:
            raise self.error("the indentation does not fit the lines above")
        return found == indent

    def _value(self, text: str, indent: int, depth: int, *, is_item: bool = False) -> Value:
        """Return what follows a key or a dash, which is in the current line."""
        if text and not text.startswith("#"):
            self.at += 1
            return self._scalar(text, indent)
        self.at += 1
        self.skip_blank()
        if self.at == len(self.lines):
            return ""
        below, line = self.indent(), self.lines[self.at].strip()
        is_list = line == "-" or line.startswith("- ")
        if below > indent or (below == indent and is_list and not is_item):
            return self.block(below, depth + 1)
        return ""

    def _scalar(self, text: str, indent: int) -> Value:
        """Return a text that begins in the line above; in the lenient form, also a list or a table in brackets."""
        self.at -= 1
        first = text[0]
        if first in "|>":
            return self._literal(text, indent)
        if first in "\"'":
            return self._quoted(text, indent)
        if self._lenient:
            return _flow(self._plain(text, indent), self)
        if first in _REFUSED:
            raise self.error(_REFUSED[first])
        if text.startswith(("- ", "? ", ": ")) or text in ("-", "?", ":"):
            raise self.error("a list or a table cannot begin here; put the text in quotes")
        return self._plain(text, indent)

    def _plain(self, text: str, indent: int) -> str:
        pieces: list[str] = []
        breaks = 0
        line: str | None = text
        while line is not None:
            words, commented = _without_comment(line)
            if not self._lenient and "\t" in self.lines[self.at].partition(" #")[0]:
                raise self.error("a text with a tab must be in quotes")
            if not self._lenient and re.search(r":(?=[ \t]|$)", words):
                raise self.error("a text with a colon and a space must be in quotes")
            pieces.append(("\n" * breaks if breaks else " ") + words if pieces else words)
            self.at += 1
            if commented:
                break
            line, breaks = self._continuation(indent)
        return "".join(pieces)

    def _continuation(self, indent: int) -> tuple[str | None, int]:
        """Return the next line of a plain text, and how many blank lines are before it. None ends the text."""
        at, breaks = self.at, 0
        while at < len(self.lines) and not self.lines[at].strip():
            at, breaks = at + 1, breaks + 1
        if at == len(self.lines):
            return None, 0
        line = self.lines[at]
        spaces = len(line) - len(line.lstrip(" "))
        if spaces <= indent or line.lstrip().startswith("#"):
            return None, 0
        self.at = at
        return line.strip(), breaks

    def _quoted(self, text: str, indent: int) -> str:
        quote = text[0]
        end = re.compile(r'"(?:[^"\\]|\\.)*"' if quote == '"' else r"'(?:[^']|'')*'", re.DOTALL)
        found, whole, count = None, "", 1
        while found is None:  # most texts end in their first line; joining all lines for each text takes quadratic time
            whole = "\n".join([text, *(line.strip() for line in self.lines[self.at + 1 : self.at + count])])
            found = end.match(whole)
            if not found and self.at + count >= len(self.lines):
                raise self.error(f"the text in {quote} does not end")
            count *= 4
        self.at += found[0].count("\n")
        rest = whole[found.end() :].partition("\n")[0]
        if (rest.strip() and not re.match(r"[ \t]+#", rest)) or self.lines[self.at].rstrip(" ").endswith("\t"):
            raise self.error(f"there is more text after the closing {quote}")
        value = _unquoted(found[0], self)
        self.at += 1
        if self._continuation(indent)[0] is not None:
            raise self.error(f"there is more text after the closing {quote}")
        return value

    def _literal(self, header: str, indent: int) -> str:
        found = re.fullmatch(_BLOCK, header)
        if not found:
            raise self.error(f"{header[:20]!r} is not the beginning of a block of text")
        self.at += 1
        given = found[3] or found[4]
        begun = self.at
        lines: list[str] = []
        width = max(indent, 0) + int(given) if given else 0
        while self.at < len(self.lines):
            line = self.lines[self.at]
            spaces = len(line) - len(line.lstrip(" "))
            if line.strip(" "):
                if not width:
                    width = spaces
                    if width <= indent or any(len(each) > width for each in lines):
                        break
                if spaces < width or width <= indent:
                    break
            lines.append(line)
            self.at += 1
        if not width:
            self.at = begun + len(lines)
        content = [line[width:] for line in lines]
        return _folded(content, found[1] == ">", found[2] or found[5] or "")


def _is_blank(line: str) -> bool:
    return not line.strip(" ") or line.lstrip(" ").startswith("#")


def _without_comment(text: str) -> tuple[str, bool]:
    parts = re.split(r"[ \t]#", text, maxsplit=1)
    return parts[0].rstrip(), len(parts) > 1


def _folded(lines: list[str], fold: bool, chomping: str) -> str:
    """Return a block of text: folded lines are joined with spaces, and the end is cut as the header says."""
    trailing = 0
    while lines and not lines[-1]:
        lines = lines[:-1]
        trailing += 1
    if not lines:
        return "\n" * trailing if chomping == "+" else ""
    text = _joined(lines) if fold else "\n".join(lines)
    ends = {"-": "", "+": "\n" * (trailing + 1)}
    return text + ends.get(chomping, "\n")


def _joined(lines: list[str]) -> str:
    text, breaks = lines[0], 0
    kept = lines[0][:1] in (" ", "\t")
    for line in lines[1:]:
        if not line:
            breaks += 1
            continue
        is_kept = line[:1] in (" ", "\t")
        if kept or is_kept:
            text += "\n" * (breaks + 1)
        else:
            text += "\n" * breaks if breaks else " "
        text, breaks, kept = text + line, 0, is_kept
    return text


def _unquoted(text: str, parser: _Parser) -> str:
    if text[0] not in "\"'":
        return text.rstrip()
    inside = _fold_lines(text[1:-1], is_double=text[0] == '"')
    if text[0] == "'":
        return inside.replace("''", "'")

    def replaced(found: re.Match[str]) -> str:
        code = found[1]
        if code in _ESCAPES:
            return _ESCAPES[code]
        if code[0] in "xuU" and len(code) > 1 and int(code[1:], 16) <= 0x10FFFF:
            return chr(int(code[1:], 16))
        raise parser.error(f"unknown escape \\{code}")

    return re.sub(_ESCAPE, replaced, inside, flags=re.DOTALL)


def _fold_lines(text: str, *, is_double: bool) -> str:
    """Join the lines of a quoted text: one break is a space, an empty line is a break."""
    if "\n" not in text:
        return text
    first, *others = text.split("\n")
    last = len(others) - 1
    result = first.rstrip(" \t")
    breaks = 0
    for number, line in enumerate(others):
        stripped = line.strip(" \t") if number < last else line.lstrip(" \t")
        if not stripped and number < last:
            breaks += 1
            continue
        escaped = is_double and re.search(r"(?<!\\)(?:\\\\)*\\$", result)
        result = result[:-1] if escaped else result + ("\n" * breaks if breaks else " ")
        result, breaks = result + stripped, 0
    return result


def _flow(text: str, parser: _Parser) -> Value:
    """Return the list or the table that a text in brackets is, else the text. Their items are texts."""
    if text.startswith("[") and text.endswith("]"):
        return [_item(part, parser) for part in split_names(text[1:-1])]
    if text.startswith("{") and text.endswith("}"):
        pairs = (part.partition(":") for part in split_names(text[1:-1]))
        return {_item(name.strip(), parser): _item(value.strip(), parser) for name, _, value in pairs}
    return text


def _item(text: str, parser: _Parser) -> str:
    return _unquoted(text, parser) if len(text) > 1 and text[0] in "\"'" and text[0] == text[-1] else text


def split_names(text: str) -> list[str]:
    """Split at commas, except inside brackets and quotes.

    >>> split_names("Bash(git add, git push), Read, 'a, b'")
    ['Bash(git add, git push)', 'Read', "'a, b'"]
    """
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'" and not parts[-1].strip():  # an apostrophe within a word is no quote
            quote = character
        depth = max(0, depth + (character == "(") - (character == ")"))
        if character == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]
