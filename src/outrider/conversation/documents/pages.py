"""Convert HTML pages to readable text, much like Markdown: headings, lists, links, code and tables.

The tokenizer takes linear time: the standard library's parser takes a minute for 64 KB of `<a =<a =…`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from urllib.parse import urljoin

import msgspec

_TAG = re.compile(r"<(?:[a-zA-Z!?]|/[a-zA-Z])")
_NAME = re.compile(r"[a-zA-Z][^\s/>]*")
_QUOTE_OR_END = re.compile(r">|=\s*([\"'])")
RAW = frozenset({"script", "style", "title", "textarea", "xmp", "iframe", "noembed", "noframes"})
"""Elements whose content is raw text up to their closing tag."""
MAX_CHARACTERS = 5_000_000
"""The limit on the part of a page that is read."""
DEEPEST = 8
"""The deepest indentation of lists and quotations."""

_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_PARAGRAPHS = frozenset(
    {"p", "div", "section", "article", "header", "footer", "main", "nav", "aside", "dl", "table", "figure", "form"}
    | {"ul", "ol", "pre", "blockquote", "address", "fieldset", "details", "hr", *_HEADINGS}
)
_LINES = frozenset({"li", "tr", "dt", "dd", "summary", "figcaption", "option", "legend", "caption", "br"})
_SKIPPED = frozenset({"svg", "template"})
_SPACE = re.compile(r"\s+")


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


class Page(msgspec.Struct, frozen=True):
    """The content of a page."""

    title: str
    text: str


def read_page(markup: str, address: str = "") -> Page:
    """Return the title and the text of a page. Links are resolved against its address. Any input is accepted.

    >>> read_page("<title>T</title><h1>One</h1><p>Two <a href=b>three</a><script>4</script>", "http://a.example/").text
    '# One\\n\\nTwo three (http://a.example/b)'
    """
    writer = _Writer(address)
    for piece in pieces(markup[:MAX_CHARACTERS]):
        writer.take(piece)
    note = "\n\n[The page goes on; this is its beginning.]" if len(markup) > MAX_CHARACTERS else ""
    return Page(_SPACE.sub(" ", unescaped(writer.title)).strip(), writer.finished() + note)


class _Writer:
    """Writes the text of a page, piece by piece."""

    def __init__(self, address: str) -> None:
        self.title = ""
        self._address = address
        self._written: list[str] = []
        self._breaks = 0
        """Pending line breaks before the next word."""
        self._marker = ""
        """The pending marker of a list item or a heading."""
        self._is_fresh = True
        """Whether the current item or cell is still empty, so that no line break is needed."""
        self._lists: list[int] = []
        """The number of the last item of each open list; -1 for bullet lists."""
        self._skipped = ""
        self._skipped_depth = 0
        self._is_verbatim = False
        self._quotations = 0
        self._cells = 0
        self._before_row = 0
        """The length of `_written` at the start of the table row."""
        self._link: tuple[str, int] | None = None
        """The target of the open link, and the length of `_written` at its start."""

    def take(self, piece: Text | Opening | Closing) -> None:
        """Write one token."""
        if self._skipped_depth:
            self._skip(piece)
        elif isinstance(piece, Text):
            self._say(unescaped(piece.raw))
        elif isinstance(piece, Opening):
            self._open(piece)
        else:
            self._close(piece.name)

    def finished(self) -> str:
        """Return the text."""
        if self._is_verbatim:
            self._end_code()
        lines = "".join(self._written).split("\n")
        return "\n".join(line.rstrip() for line in lines).strip("\n")

    def _skip(self, piece: Text | Opening | Closing) -> None:
        if isinstance(piece, Opening) and piece.name == self._skipped and not _closes_itself(piece):
            self._skipped_depth += 1
        elif isinstance(piece, Closing) and piece.name == self._skipped:
            self._skipped_depth -= 1

    def _say(self, text: str) -> None:
        if self._is_verbatim:
            self._written.append(text)
            return
        words = _SPACE.sub(" ", text)
        if self._breaks or self._is_fresh or not self._written or self._written[-1].endswith((" ", "\n")):
            words = words.lstrip(" ")
        if words:
            self._write(words)

    def _write(self, words: str) -> None:
        if self._breaks and self._written:
            self._written.append("\n" * self._breaks + "> " * min(self._quotations, DEEPEST))
        self._written.append(self._marker + words)
        self._breaks, self._marker, self._is_fresh = 0, "", False

    def _break(self, lines: int) -> None:
        if not self._is_fresh:
            self._breaks = max(self._breaks, lines)

    def _open(self, tag: Opening) -> None:
        name = tag.name
        if name in RAW:
            self._take_raw(tag)
        elif name in _SKIPPED:
            self._skipped, self._skipped_depth = name, int(not _closes_itself(tag))
        elif self._is_verbatim:
            self._break_code(name)
        else:
            self._begin_block(name)
            if opener := _OPENERS.get(name):
                opener(self, tag)

    def _close(self, name: str) -> None:
        if name == "pre" and self._is_verbatim:
            self._end_code()
        elif self._is_verbatim:
            self._break_code(name)
        else:
            if closer := _CLOSERS.get(name):
                closer(self)
            self._begin_block(name)

    def _begin_block(self, name: str) -> None:
        if name in _PARAGRAPHS:
            self._break(1 if self._lists and name in ("ul", "ol") else 2)
        elif name in _LINES:
            self._break(1)

    def _take_raw(self, tag: Opening) -> None:
        if tag.name == "title":
            self.title = self.title or tag.content
        elif tag.name in ("textarea", "xmp"):
            self._say(unescaped(tag.content))

    def _begin_code(self, _: Opening) -> None:
        self._write("```\n")
        self._is_verbatim = True

    def _break_code(self, name: str) -> None:
        if name in _PARAGRAPHS | _LINES and not self._written[-1].endswith("\n"):
            self._written.append("\n")

    def _end_code(self) -> None:
        self._break_code("br")
        self._written.append("```")
        self._is_verbatim, self._breaks = False, 2

    def _begin_heading(self, tag: Opening) -> None:
        self._marker, self._is_fresh = _HEADINGS[tag.name], True

    def _end_item(self) -> None:
        self._marker, self._is_fresh, self._breaks = "", False, min(self._breaks, 1)

    def _begin_list(self, tag: Opening) -> None:
        self._lists.append(0 if tag.name == "ol" else -1)

    def _end_list(self) -> None:
        if self._lists:
            self._lists.pop()

    def _begin_item(self, _: Opening) -> None:
        mark = "- "
        if self._lists and self._lists[-1] >= 0:
            self._lists[-1] += 1
            mark = f"{self._lists[-1]}. "
        self._marker = "  " * (min(len(self._lists), DEEPEST) - 1) + mark
        self._is_fresh = True

    def _begin_row(self, _: Opening) -> None:
        self._cells, self._before_row = 0, len(self._written)

    def _end_row(self) -> None:
        if len(self._written) > self._before_row:
            self._breaks = 0

    def _begin_cell(self, _: Opening) -> None:
        self._cells += 1
        if self._cells > 1:
            self._end_row()
            self._write(" | ")
        self._is_fresh = True

    def _begin_quotation(self, _: Opening) -> None:
        self._quotations += 1
        self._breaks = 2

    def _end_quotation(self) -> None:
        self._quotations = max(0, self._quotations - 1)

    def _begin_link(self, tag: Opening) -> None:
        self._end_link()
        address = attribute(tag, "href").strip()
        self._link = (address, len(self._written)) if address else None

    def _end_link(self) -> None:
        """Write the link's target, if the link has text and leads to another page."""
        link, self._link = self._link, None
        if link and len(self._written) > link[1] and (address := self._absolute(link[0])):
            self._written.append(f" ({address})")

    def _absolute(self, address: str) -> str:
        if address.startswith("#"):
            return ""
        try:
            whole = urljoin(self._address, address)
        except ValueError:
            return ""
        return _SPACE.sub("", whole) if whole.startswith(("http:", "https:")) else ""

    def _show_image(self, tag: Opening) -> None:
        if words := attribute(tag, "alt").strip():
            self._say(f" [image: {words}] ")

    def _write_rule(self, _: Opening) -> None:
        self._write("---")
        self._breaks = 2


def _closes_itself(tag: Opening) -> bool:
    return tag.attributes.endswith("/")


_OPENERS: dict[str, Callable[[_Writer, Opening], None]] = {
    **dict.fromkeys(_HEADINGS, _Writer._begin_heading),
    "a": _Writer._begin_link,
    "blockquote": _Writer._begin_quotation,
    "hr": _Writer._write_rule,
    "img": _Writer._show_image,
    "li": _Writer._begin_item,
    "ol": _Writer._begin_list,
    "pre": _Writer._begin_code,
    "td": _Writer._begin_cell,
    "th": _Writer._begin_cell,
    "tr": _Writer._begin_row,
    "ul": _Writer._begin_list,
}
_CLOSERS: dict[str, Callable[[_Writer], None]] = {
    **dict.fromkeys(_HEADINGS, _Writer._end_item),
    "a": _Writer._end_link,
    "blockquote": _Writer._end_quotation,
    "li": _Writer._end_item,
    "ol": _Writer._end_list,
    "tr": _Writer._end_row,
    "ul": _Writer._end_list,
}
