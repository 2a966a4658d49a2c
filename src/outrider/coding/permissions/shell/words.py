"""Words of a command line as bash passes them to a program, if that is known before it runs.

tree-sitter parses almost as bash does, and an attacker looks for the differences. So the text of each node is checked
again here, character by character, and everything ambiguous is a doubt.
"""

from __future__ import annotations

import os.path
import re
from typing import TYPE_CHECKING, TypeAlias

import msgspec

if TYPE_CHECKING:
    from tree_sitter import Node

UNKNOWN = "\N{REPLACEMENT CHARACTER}"
"""The part of a hint that is unknown until the command runs."""


class Word(msgspec.Struct, frozen=True):
    """One word of a command."""

    source: str
    """The text in the command line."""
    value: str | None
    """The word as the program receives it; None if it is unknown until the command runs."""
    hint: str
    """The value, or the known parts of it, with wildcards and braces."""
    single: bool = True
    """Whether it is certainly one word. Without quotes, an expansion may become several words or none."""


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
    """Return the word of a node. Add a doubt for everything ambiguous."""
    text = source[node.start_byte : node.end_byte].decode(errors="replace")
    match node.type:
        case "word" | "number" | "test_operator" | "extglob_pattern" | "regex" if node.child_count == 0:
            return _unquoted(text, doubts)
        case "raw_string" if text.startswith("'") and text.find("'", 1) == len(text) - 1:
            return Word(text, text[1:-1], text[1:-1])
        case "ansi_c_string" if form := _ANSI_C.fullmatch(text):
            return _ansi_c(text, form[1])
        case "string":
            return _double_quoted(node, source, text, doubts)
        case "concatenation":
            return _concatenation(node, source, text, doubts)
        case "command_name" if node.child_count == 1:
            return read_word(node.children[0], source, doubts)
    return _expansion(node, text, doubts)


def variable_of(text: str) -> str:
    """Return the variable of a plain expansion, or ""."""
    text = text.lstrip()
    return text.strip("${}#") or text[1:] if _VARIABLE.fullmatch(text) else ""


def _unquoted(text: str, doubts: Doubts) -> Word:
    if not _PLAIN.fullmatch(text):
        doubts.append(f"`{text[:40]}` is ambiguous")
        return Word(text, None, UNKNOWN, single=False)
    plain = re.sub(r"\\(.)", r"\1", text)
    if _LITERAL.fullmatch(text):
        return Word(text, plain, plain)
    if _HOME.match(text):
        return Word(text, None, os.path.expanduser("~") + plain[1:], single=False)
    if text.startswith("~"):  # another user's home, or a folder of the shell
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
    if "\0" in value or not value.isascii():  # raw bytes, or a text that ends early
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
    """Return an expansion in quotes. The node may include blanks before it."""
    text = source[node.start_byte : node.end_byte].decode(errors="replace")
    if node.type == "expansion" and _VARIABLE.fullmatch(text.lstrip()):
        return Word(text, None, UNKNOWN)
    return read_word(node, source, doubts)


def unescaped(text: str, doubts: Doubts) -> str:
    """Unescape the text between the expansions of a double-quoted string."""
    if not _IN_QUOTES.fullmatch(text):
        doubts.append("a text in quotes is ambiguous")
    return re.sub(r"\\([$`\"\\])|\\\n", r"\1", text)


def _concatenation(node: Node, source: bytes, text: str, doubts: Doubts) -> Word:
    at = node.start_byte
    parts: list[Word] = []
    for child in node.children:
        if child.start_byte != at:
            doubts.append(f"`{text[:40]}` is ambiguous")
        parts.append(_part(child, source, doubts, first=at == node.start_byte))
        at = child.end_byte
    hint = "".join(part.hint for part in parts)
    single = all(part.single for part in parts)
    known = single and all(part.value is not None for part in parts)
    return Word(text, hint if known else None, hint, single)


def _part(node: Node, source: bytes, doubts: Doubts, *, first: bool) -> Word:
    """Return a part of a word. `#` and `~` are special only at its beginning."""
    text = source[node.start_byte : node.end_byte].decode(errors="replace")
    if first and text.startswith("~") and "/" not in text:  # the next part decides whether it is a home folder
        return Word(text, None, UNKNOWN, single=False)
    if first or node.type != "word" or not text.startswith(("#", "~")):
        return read_word(node, source, doubts)
    rest = _unquoted(f"_{text}", doubts)
    value = None if text[0] == "~" or rest.value is None else rest.value[1:]
    return Word(text, value, text if value is None else value, rest.single)


def _expansion(node: Node, text: str, doubts: Doubts) -> Word:
    """Return a word that is unknown until the command runs."""
    if node.type in ("simple_expansion", "expansion"):
        if not _VARIABLE.fullmatch(text):
            doubts.append(f"`{text[:40]}` does more than expand a variable")
    elif node.type == "arithmetic_expansion":
        if not _SUM.fullmatch(text):  # a variable in arithmetic can hold a command
            doubts.append(f"`{text[:40]}` has arithmetic with more than numbers")
    elif node.type not in ("command_substitution", "process_substitution", "brace_expression"):
        doubts.append(f"`{text[:40]}` is ambiguous")
    return Word(text, None, UNKNOWN, single=False)
