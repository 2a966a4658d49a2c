"""Words of a command line, as bash would pass them on, or not known before it runs.

tree-sitter reads bash nearly as bash does, and "nearly" is what an attacker looks for. So the text of each piece is
checked again here, character by character, and whatever could be read otherwise is a doubt.
"""

from __future__ import annotations

import os.path
import re
from typing import TYPE_CHECKING, TypeAlias

import msgspec

if TYPE_CHECKING:
    from tree_sitter import Node

UNKNOWN = "\N{REPLACEMENT CHARACTER}"
"""Stands in a hint for what is not known before the command runs."""


class Word(msgspec.Struct, frozen=True):
    """One word of a command."""

    source: str
    """As it is written."""
    value: str | None
    """As a program gets it; None if that is not known before the command runs."""
    hint: str
    """The value, or what is known of it: with unknown parts, wildcards and braces."""
    single: bool = True
    """Whether it is certainly one word: what is not in quotes may become several, or none."""


Doubts: TypeAlias = list[str]

_PLAIN = re.compile(r"(?:[^\\\s'\"`$;&|<>()#]|(?<!^)#|\\[^\n])+")
_LITERAL = re.compile(r"(?:[^\\*?\[\]{}~]|\\.|(?<=[^:=])~)*", re.DOTALL)
_ANSI_C = re.compile(r"\$'((?:[^'\\]|\\(?:[abefnrtv\\'\"?]|x[0-9a-fA-F]{1,2}|[0-7]{1,3}))*)'")
_ANSI_C_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_ANSI_C_LETTERS = {"a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_VARIABLE = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[?#$!@*0-9-])|\$\{#?[A-Za-z_][A-Za-z0-9_]*\}")
_SUM = re.compile(r"\$\(\([0-9\s+*/%()<>=!&|^~,?:-]*\)\)")
_IN_QUOTES = re.compile(r"(?:[^\\$`\"]|\\.)*", re.DOTALL)
_HOME = re.compile(r"~(?=/|\Z)")


def read_word(node: Node, source: bytes, doubts: Doubts) -> Word:
    """The word that a node stands for. What cannot be relied on is added to the doubts."""
    text = source[node.start_byte : node.end_byte].decode(errors="replace")
    match node.type:
        case "word" | "number" | "test_operator" | "extglob_pattern" | "regex" if node.child_count == 0:
            return _bare(text, doubts)
        case "raw_string" if text.startswith("'") and text.find("'", 1) == len(text) - 1:
            return Word(text, text[1:-1], text[1:-1])
        case "ansi_c_string" if form := _ANSI_C.fullmatch(text):
            return _ansi_c(text, form[1])
        case "string":
            return _double_quoted(node, source, text, doubts)
        case "concatenation":
            return _joined(node, source, text, doubts)
        case "command_name" if node.child_count == 1:
            return read_word(node.children[0], source, doubts)
    return _expanded(node, text, doubts)


def variable_of(text: str) -> str:
    """The variable that an expansion shows; empty if it is something else."""
    text = text.lstrip()
    return text.strip("${}#") or text[1:] if _VARIABLE.fullmatch(text) else ""


def _bare(text: str, doubts: Doubts) -> Word:
    if not _PLAIN.fullmatch(text):
        doubts.append(f"`{text[:40]}` cannot be read for certain")
        return Word(text, None, UNKNOWN, single=False)
    plain = re.sub(r"\\(.)", r"\1", text)
    if _LITERAL.fullmatch(text):
        return Word(text, plain, plain)
    if _HOME.match(text):
        return Word(text, None, os.path.expanduser("~") + plain[1:], single=False)
    if text.startswith("~"):  # the home of another, or where the shell stands or stood
        return Word(text, None, UNKNOWN + "".join(plain.partition("/")[1:]), single=False)
    return Word(text, None, plain, single=False)


def _ansi_c(text: str, body: str) -> Word:
    def decoded(escape: re.Match[str]) -> str:
        code = escape[1]
        if code[0] == "x":
            return chr(int(code[1:], 16))
        if code[0].isdigit():
            return chr(int(code, 8) & 0xFF)
        return _ANSI_C_LETTERS.get(code, code)

    value = _ANSI_C_ESCAPE.sub(decoded, body)
    if "\0" in value or not value.isascii():  # bytes, and a text that ends early
        return Word(text, None, UNKNOWN)
    return Word(text, value, value)


def _double_quoted(node: Node, source: bytes, text: str, doubts: Doubts) -> Word:
    pieces: list[str] = []
    known = True
    at = node.start_byte + 1
    for child in node.children:
        if child.type in ('"', "string_content"):
            continue
        pieces.append(unescaped(source[at : child.start_byte].decode(errors="replace"), doubts))
        part = _in_quotes(child, source, doubts)
        known = known and part.value is not None
        pieces.append(part.hint)
        at = child.end_byte
    pieces.append(unescaped(source[at : node.end_byte - 1].decode(errors="replace"), doubts))
    if len(text) < 2 or text[0] + text[-1] != '""':
        doubts.append("a quote does not close")
        known = False
    value = "".join(pieces)
    return Word(text, value if known else None, value)


def _in_quotes(node: Node, source: bytes, doubts: Doubts) -> Word:
    """Something that is expanded in quotes; blanks before it may belong to the node."""
    text = source[node.start_byte : node.end_byte].decode(errors="replace")
    if node.type == "expansion" and _VARIABLE.fullmatch(text.lstrip()):
        return Word(text, None, UNKNOWN)
    return read_word(node, source, doubts)


def unescaped(text: str, doubts: Doubts) -> str:
    """A part of a string in double quotes between what is expanded in it."""
    if not _IN_QUOTES.fullmatch(text):
        doubts.append("a text in quotes cannot be read for certain")
    return re.sub(r"\\([$`\"\\])|\\\n", r"\1", text)


def _joined(node: Node, source: bytes, text: str, doubts: Doubts) -> Word:
    at = node.start_byte
    parts: list[Word] = []
    for child in node.children:
        if child.start_byte != at:
            doubts.append(f"`{text[:40]}` cannot be read for certain")
        parts.append(_part(child, source, doubts, first=at == node.start_byte))
        at = child.end_byte
    hint = "".join(part.hint for part in parts)
    single = all(part.single for part in parts)
    known = single and all(part.value is not None for part in parts)
    return Word(text, hint if known else None, hint, single)


def _part(node: Node, source: bytes, doubts: Doubts, *, first: bool) -> Word:
    """A part of a word: `#` and `~` mean something only where the word begins."""
    text = source[node.start_byte : node.end_byte].decode(errors="replace")
    if first and text.startswith("~") and "/" not in text:  # whether it is a home depends on what follows
        return Word(text, None, UNKNOWN, single=False)
    if first or node.type != "word" or not text.startswith(("#", "~")):
        return read_word(node, source, doubts)
    rest = _bare(f"_{text}", doubts)
    value = None if text[0] == "~" or rest.value is None else rest.value[1:]
    return Word(text, value, text if value is None else value, rest.single)


def _expanded(node: Node, text: str, doubts: Doubts) -> Word:
    """A word that is not known before the command runs."""
    if node.type in ("simple_expansion", "expansion"):
        if not _VARIABLE.fullmatch(text):
            doubts.append(f"`{text[:40]}` does more than show a variable")
    elif node.type == "arithmetic_expansion":
        if not _SUM.fullmatch(text):  # a variable in a sum can hold a command
            doubts.append(f"`{text[:40]}` calculates with more than numbers")
    elif node.type not in ("command_substitution", "process_substitution", "brace_expression"):
        doubts.append(f"`{text[:40]}` cannot be read for certain")
    return Word(text, None, UNKNOWN, single=False)
