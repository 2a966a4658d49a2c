"""HTML in pieces: text, tags that open and tags that close, each character looked at once, whatever the page is.

The parser of the standard library takes a minute for 64 KB of `<a =<a =…`.
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
"""Elements in which nothing is a tag but their own end."""


class Text(msgspec.Struct, frozen=True):
    """What stands between tags, with entities still written out."""

    raw: str


class Opening(msgspec.Struct, frozen=True):
    """A tag that opens an element."""

    name: str
    """In lower case."""
    attributes: str
    content: str = ""
    """What is in it, if it is one of those in which nothing is a tag."""


class Closing(msgspec.Struct, frozen=True):
    """A tag that closes an element."""

    name: str


def pieces(markup: str) -> Iterator[Text | Opening | Closing]:
    """The pieces of a page, in order. What a browser would not show, such as comments, is left out."""
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
    """The value of an attribute; empty if there is none."""
    value = r"""(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))"""
    found = re.search(rf"(?:^|[\s\"'/]){name}\s*=\s*{value}", opening.attributes, re.IGNORECASE)
    return unescaped(next(filter(None, found.groups()), "")) if found else ""


def unescaped(text: str) -> str:
    """The text with the characters that its entities stand for."""
    if "&" not in text:
        return text
    try:
        return html.unescape(text)
    except ValueError:  # a number of thousands of digits
        return text


class _Tags:
    """Reads tags and comments."""

    def __init__(self, markup: str) -> None:
        self._markup = markup
        self._unclosed: set[str] = set()
        """Quotes of which there are no more: they are not looked for again and again."""

    def read(self, start: int) -> tuple[Opening | Closing | None, int]:
        """The piece at a position, and the position after it."""
        markup = self._markup
        if markup.startswith("<!--", start):
            return None, self._after("-->", start + 4)
        if markup.startswith(("<!", "<?"), start):
            return None, self._after(">", start)
        closing = markup.startswith("</", start)
        name = _NAME.match(markup, start + 1 + closing)
        assert name  # that is how the position was found
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
        """The position after the tag that goes on here. A `>` in quotes does not end it."""
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
