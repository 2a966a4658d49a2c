"""Markdown drawn by rich. Importing it takes a while, so the chat does that while the user types."""

from __future__ import annotations

from io import StringIO

from markdown_it import MarkdownIt  # shows HTML tags as text; rich alone would drop them
from rich.console import Console
from rich.markdown import Heading, Markdown, TableElement
from rich.theme import Theme


class LeftAlignedHeading(Heading):
    """A left-aligned heading: centred ones would jump while text streams."""

    def __rich_console__(self, console, options):  # type: ignore[no-untyped-def]
        yield self.text


class FoldingTable(TableElement):
    """A table that breaks long words: rich would cut them."""

    def __rich_console__(self, console, options):  # type: ignore[no-untyped-def]
        for table in super().__rich_console__(console, options):
            for column in table.columns:  # type: ignore[union-attr]
                column.overflow = "fold"
            yield table


class MarkdownPage(Markdown):
    """Markdown with our headings and tables."""

    elements = {  # noqa: RUF012 - as in its base class
        **Markdown.elements,
        "heading_open": LeftAlignedHeading,
        "table_open": FoldingTable,
    }


def page_text(text: str, width: int, *, light: bool) -> str:
    """Return Markdown as text with the sequences of a terminal."""
    stream = StringIO()
    console = Console(
        file=stream,
        width=width,
        force_terminal=True,
        color_system="standard",
        legacy_windows=False,
        theme=Theme({"markdown.code": "cyan", "markdown.h1": "bold underline", "markdown.h2": "bold underline"}),
    )
    page = MarkdownPage(text, hyperlinks=False, code_theme="ansi_light" if light else "ansi_dark")
    page.parsed = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).parse(text)
    console.print(page, end="")
    return stream.getvalue()
