"""Extract the text of RTF documents."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from outrider.conversation.documents.blocks import BYTES, Block, Budget, markdown
from outrider.errors import AttachmentError

_TOKEN = re.compile(
    r"\\([a-zA-Z]{1,32})(-?[0-9]{1,9})? ?"  # a control word, with its number
    r"|\\'([0-9a-fA-F]{2})"  # a byte
    r"|\\(.)"  # an escaped character
    r"|([{}])|[\r\n]+|[^\\{}\r\n]+|\\",
    re.DOTALL,
)
_SKIPPED = frozenset(
    {"fonttbl", "colortbl", "stylesheet", "info", "pict", "object", "objdata", "fldinst", "listtable", "header"}
    | {"footer", "headerl", "headerr", "headerf", "footerl", "footerr", "footerf", "themedata", "datastore", "revtbl"}
    | {"listoverridetable", "rsidtbl", "generator", "xmlnstbl", "filetbl", "ftnsep", "ftnsepc", "aftnsep", "nonshppict"}
)
"""Groups with settings, pictures, or headers and footers."""
_CHARACTERS = {
    "line": "\n", "tab": "\t", "emdash": "\N{EM DASH}", "endash": "\N{EN DASH}", "bullet": "\N{BULLET}",
    "lquote": "\N{LEFT SINGLE QUOTATION MARK}", "rquote": "\N{RIGHT SINGLE QUOTATION MARK}",
    "ldblquote": "\N{LEFT DOUBLE QUOTATION MARK}", "rdblquote": "\N{RIGHT DOUBLE QUOTATION MARK}",
    "emspace": " ", "enspace": " ", "footnote": " [note: ",
}  # fmt: skip
_SYMBOLS = {"~": "\N{NO-BREAK SPACE}", "_": "-", "\\": "\\", "{": "{", "}": "}", "\n": "\n", "\r": "\n"}
_CHARSETS = {
    77: "mac_roman", 128: "cp932", 129: "cp949", 134: "gbk", 136: "cp950", 161: "cp1253", 162: "cp1254",
    163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874", 238: "cp1250",
}  # fmt: skip
"""The charsets of non-Western fonts."""
DEEPEST = 1_000
"""The limit on nested groups."""


def rtf_blocks(stream: BinaryIO, budget: Budget) -> Iterator[Block]:
    """Return the paragraphs and tables of a document."""
    data = stream.read(BYTES)
    if not data.startswith(b"{\\rtf"):
        raise AttachmentError("it does not begin with an RTF header")
    return _Reader(budget).blocks(data.decode("latin-1"))


class _Group(msgspec.Struct):
    """The state of a group, until its closing brace."""

    skipped: bool = False
    codec: str = ""
    """The font's codec; empty for the document's default."""
    fallback: int = 1
    """The number of fallback characters after a Unicode escape, for readers without Unicode support."""
    ending: str = ""
    """The text to write when the group closes."""


class _Reader:
    """Reads a document token by token."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._groups = [_Group()]
        self._codec = "cp1252"
        self._fonts: dict[int, str] = {}
        self._font = 0
        """The current font number."""
        self._left = 0
        """The number of fallback characters still to skip."""
        self._bytes: list[str] = []
        """Bytes that are not decoded yet: several may form one character."""
        self._words: list[str] = []
        self._row: list[str] = []
        self._rows: list[list[str]] = []
        self._in_table = False

    def blocks(self, text: str) -> Iterator[Block]:
        """Yield the blocks of a document, given its bytes decoded as Latin-1."""
        at = 0
        while at < len(text) and (token := _TOKEN.match(text, at)):
            at = token.end()
            self._budget.spend_element()
            word, number, byte, symbol, brace = token.groups()
            if word == "bin":
                at += max(0, int(number or 0))
            elif word:
                yield from self._control(word, int(number) if number else None)
            elif byte:
                self._say_byte(chr(int(byte, 16)))
            elif brace:
                self._brace(brace)
            elif symbol:
                self._symbol(symbol)
            elif token.group()[0] not in "\r\n\\":
                self._say_bytes(token.group())
        yield from self._paragraph(ended=True)

    def _control(self, word: str, number: int | None) -> Iterator[Block]:
        group = self._groups[-1]
        if word in _SKIPPED:
            group.skipped = True
        if word in ("f", "fcharset", "ansicpg", "uc"):
            self._set(word, number or 0)
        elif group.skipped:
            return
        elif word == "u" and number is not None:
            self._say(chr(number % 0x10000))
            self._left = group.fallback
        elif word in ("par", "page", "sect", "row", "cell", "intbl", "pard"):
            yield from self._structure(word)
        elif word in _CHARACTERS:
            self._say(_CHARACTERS[word])
            group.ending = "]" if word == "footnote" else group.ending

    def _set(self, word: str, number: int) -> None:
        self._flush()
        group = self._groups[-1]
        match word:
            case "f":
                self._font = number
                group.codec = self._fonts.get(number, "")
            case "fcharset" if number in _CHARSETS:
                self._fonts[self._font] = _CHARSETS[number]
            case "ansicpg" if _is_codec(f"cp{number}"):
                self._codec = f"cp{number}"
            case "uc":
                group.fallback = min(max(number, 0), 16)

    def _structure(self, word: str) -> Iterator[Block]:
        match word:
            case "cell":
                self._row.append(self._taken())
            case "row":
                self._rows.append(self._row)
                self._row, self._in_table = [], False
            case "intbl":
                self._in_table = True
            case "pard":
                self._in_table = False
            case _ if self._in_table:
                self._say(" ")
            case _:
                yield from self._paragraph()

    def _paragraph(self, *, ended: bool = False) -> Iterator[Block]:
        text = self._taken().strip()
        if ended and self._row:  # a truncated table
            self._rows.append(self._row)
        if self._rows and (text or ended):
            yield Block(markdown(self._rows))
            self._rows = []
        yield Block(text)

    def _brace(self, brace: str) -> None:
        self._flush()
        if brace == "{":
            if len(self._groups) > DEEPEST:
                raise AttachmentError("it is nested too deeply")
            self._groups.append(msgspec.structs.replace(self._groups[-1], ending=""))
        elif len(self._groups) > 1:
            ended = self._groups.pop()
            if ended.ending:
                self._say(ended.ending)

    def _symbol(self, symbol: str) -> None:
        if symbol == "*":  # an optional group, which never holds text
            self._groups[-1].skipped = True
        elif symbol in _SYMBOLS:
            self._say_bytes(_SYMBOLS[symbol]) if symbol in "\\{}" else self._say(_SYMBOLS[symbol])

    def _say_byte(self, byte: str) -> None:
        if self._left:
            self._left -= 1
        elif not self._groups[-1].skipped:
            self._bytes.append(byte)

    def _say_bytes(self, text: str) -> None:
        left, self._left = text[self._left :], max(0, self._left - len(text))
        if left and not self._groups[-1].skipped:
            self._bytes.append(left)

    def _say(self, text: str) -> None:
        self._flush()
        self._left = 0
        if not self._groups[-1].skipped:
            self._words.append(text)

    def _flush(self) -> None:
        if self._bytes:
            codec = self._groups[-1].codec or self._codec
            self._words.append("".join(self._bytes).encode("latin-1").decode(codec, "replace"))
            self._bytes = []

    def _taken(self) -> str:
        self._flush()
        words, self._words = "".join(self._words), []
        return words.replace("\0", "")


def _is_codec(name: str) -> bool:
    try:
        return codecs.lookup(name)._is_text_encoding
    except LookupError:
        return False
