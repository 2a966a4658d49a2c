"""Markdown drawn by rich. Importing it takes a while, so the chat does that while the user types."""

from __future__ import annotations

from io import StringIO

from markdown_it import MarkdownIt  # shows HTML tags as text; rich alone would drop them
from rich.cells import cell_len
from rich.console import Console
from rich.markdown import CodeBlock, Heading, Markdown, TableElement
from rich.syntax import Syntax
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


class PlainCodeBlock(CodeBlock):
    """A code block that can be copied: its lines are neither indented nor broken, except inside a list."""

    breaks = False

    def __rich_console__(self, console, options):  # type: ignore[no-untyped-def]
        code = str(self.text).rstrip()
        breaks = self.breaks or options.max_width < console.width
        longest = max(map(cell_len, code.split("\n")))
        room = options if breaks else options.update(width=max(longest, options.max_width))
        yield from console.render(Syntax(code, self.lexer_name, theme=self.theme, word_wrap=breaks), room)


class BrokenCodeBlock(PlainCodeBlock):
    """A code block in lines of the terminal: for what is redrawn."""

    breaks = True


class MarkdownPage(Markdown):
    """Markdown with our headings and tables."""

    elements = {  # noqa: RUF012 - as in its base class
        **Markdown.elements,
        "code_block": PlainCodeBlock,
        "fence": PlainCodeBlock,
        "heading_open": LeftAlignedHeading,
        "table_open": FoldingTable,
    }


class LivePage(MarkdownPage):
    """The same in lines of the terminal."""

    elements = {**MarkdownPage.elements, "code_block": BrokenCodeBlock, "fence": BrokenCodeBlock}  # noqa: RUF012


def page_text(text: str, width: int, *, light: bool, is_live: bool) -> str:
    """Return Markdown as text with the sequences of a terminal. If it `is_live`, no line is wider than the terminal."""
    stream = StringIO()
    console = Console(
        file=stream,
        width=width,
        force_terminal=True,
        color_system="standard",
        legacy_windows=False,
        theme=Theme({"markdown.code": "cyan", "markdown.h1": "bold underline", "markdown.h2": "bold underline"}),
    )
    page = (LivePage if is_live else MarkdownPage)(
        text, hyperlinks=False, code_theme="ansi_light" if light else "ansi_dark"
    )
    page.parsed = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).parse(text)
    console.print(page, end="", crop=False)
    return stream.getvalue()
