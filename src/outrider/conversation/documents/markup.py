"""A linear-time HTML tokenizer: text, opening tags and closing tags.

The standard library's parser takes a minute for 64 KB of `<a =<a =…`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

import msgspec

_TAG = re.compile(r"<(?:[a-zA-Z!?]|/[a-zA-Z])")
_NAME = re.compile(r"[a-zA-Z][^\s/>]*")
_QUOTE_OR_END = re.compile(r">|=\s*([\"'])")
RAW = frozenset({"script", "style", "title", "textarea", "xmp", "iframe", "noembed", "noframes"})
"""Elements whose content is raw text up to their closing tag."""


class Text(msgspec.Struct, frozen=True):
    """Text between tags, with entities not yet decoded."""

    raw: str


class Opening(msgspec.Struct, frozen=True):
    """A tag that opens an element."""

    name: str
    """In lower case."""
    attributes: str
    content: str = ""
    """The content of a raw text element."""


class Closing(msgspec.Struct, frozen=True):
    """A tag that closes an element."""

    name: str


def pieces(markup: str) -> Iterator[Text | Opening | Closing]:
    """Yield the tokens of a page, in order. Comments and declarations are left out."""
    tags = _Tags(markup)
    at = 0
    while found := _TAG.search(markup, at):
        if found.start() > at:
            yield Text(markup[at : found.start()])
        piece, at = tags.read(found.start())
        if piece:
            yield piece
    if at < len(markup):
        yield Text(markup[at:])


def attribute(opening: Opening, name: str) -> str:
    """Return the value of an attribute; empty if it is missing."""
    value = r"""(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))"""
    found = re.search(rf"(?:^|[\s\"'/]){name}\s*=\s*{value}", opening.attributes, re.IGNORECASE)
    return unescaped(next(filter(None, found.groups()), "")) if found else ""


def unescaped(text: str) -> str:
    """Decode the entities of a text."""
    if "&" not in text:
        return text
    try:
        return html.unescape(text)
    except ValueError:  # a numeric entity with thousands of digits
        return text


class _Tags:
    """Reads tags and comments."""

    def __init__(self, markup: str) -> None:
        self._markup = markup
        self._unclosed: set[str] = set()
        """Quote characters that do not occur again, so that each is searched for only once."""

    def read(self, start: int) -> tuple[Opening | Closing | None, int]:
        """Return the token at a position, and the position after it."""
        markup = self._markup
        if markup.startswith("<!--", start):
            return None, self._after("-->", start + 4)
        if markup.startswith(("<!", "<?"), start):
            return None, self._after(">", start)
        closing = markup.startswith("</", start)
        name = _NAME.match(markup, start + 1 + closing)
        assert name  # the search pattern guarantees it
        end = self._end(name.end())
        if closing:
            return Closing(name.group().lower()), end
        return self._opening(name.group().lower(), markup[name.end() : end - 1], end)

    def _opening(self, name: str, attributes: str, end: int) -> tuple[Opening, int]:
        if name not in RAW:
            return Opening(name, attributes), end
        closing = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(self._markup, end)
        if not closing:
            return Opening(name, attributes, self._markup[end:]), len(self._markup)
        return Opening(name, attributes, self._markup[end : closing.start()]), self._after(">", closing.end())

    def _after(self, mark: str, start: int) -> int:
        found = self._markup.find(mark, start)
        return len(self._markup) if found < 0 else found + len(mark)

    def _end(self, at: int) -> int:
        """Return the position after the current tag. A `>` in quotes does not end it."""
        while found := _QUOTE_OR_END.search(self._markup, at):
            at = found.end()
            quote = found.group(1)
            if not quote:
                return at
            if quote not in self._unclosed:
                close = self._markup.find(quote, at)
                if close < 0:
                    self._unclosed.add(quote)
                else:
                    at = close + 1
        return len(self._markup) + 1
