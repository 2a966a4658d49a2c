"""Markdown while it arrives: what is finished becomes lines for good, the block at the end is drawn again and again."""

from __future__ import annotations

import re
from io import StringIO

from outrider.cli.plain import plain_lines

_VISIBLE = re.compile(r"^(?:\x1b\[[0-9;]*m|\s)*[^\s\x1b]")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$")


class MarkdownStream:
    """Takes text piece by piece and says what of it is finished. Each line is looked at once."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        """The lines of the block at the end, which more text may still change."""
        self._tail = ""
        """The line at the end, as far as it came."""
        self._fence = ""
        self._after_blank = False

    @property
    def open(self) -> str:
        """The text that is not finished."""
        return "".join(self._lines) + self._tail

    def ending(self, most: int) -> str:
        """The last lines of the text that is not finished; of a code block with the line that makes it one."""
        if len(self._lines) <= most:
            return self.open
        head = next((line for line in self._lines if _FENCE.match(line.rstrip("\n"))), "") if self._fence else ""
        return head + "".join(self._lines[-most:]) + self._tail

    def feed(self, text: str) -> str:
        """Take more; return the blocks that no further text can change."""
        return "".join(self.blocks(text))

    def blocks(self, text: str) -> list[str]:
        """Take more; return each block that no further text can change.

        A block ends at a blank line that is followed by a line at the margin, for what is indented may belong to the
        item of a list above; inside a fence nothing ends.
        """
        finished: list[str] = []
        *whole, self._tail = (self._tail + text).split("\n")
        for line in whole:
            self._take(f"{line}\n", finished)
        if self._tail:
            self._cut_before(self._tail, finished)
        return finished

    def end(self) -> str:
        """No more comes: the rest."""
        rest = self.open
        self._lines, self._tail, self._fence, self._after_blank = [], "", "", False
        return rest

    def _take(self, line: str, finished: list[str]) -> None:
        self._cut_before(line, finished)
        self._lines.append(line)
        if mark := _FENCE.match(line.rstrip("\r\n")):
            if not self._fence:
                self._fence = mark[1]
            elif mark[1][0] == self._fence[0] and len(mark[1]) >= len(self._fence) and not mark[2].strip():
                self._fence = ""
        self._after_blank = not line.strip() and not self._fence

    def _cut_before(self, line: str, finished: list[str]) -> None:
        if self._lines and not self._fence and self._after_blank and line[0] not in " \t\r\n":
            finished.append("".join(self._lines))
            self._lines = []


def rendered(text: str, width: int) -> list[str]:
    """Markdown as lines for a terminal, with colours: one blank line between blocks, and none around them."""
    stream = MarkdownStream()
    lines: list[str] = []
    for block in (*stream.blocks(plain_lines(text)), stream.end()):
        if drawn := _rendered_block(block, width):
            lines += ["", *drawn] if lines else drawn
    return lines


def _rendered_block(text: str, width: int) -> list[str]:
    from markdown_it import MarkdownIt  # what looks like HTML is shown as it stands; rich alone would drop it
    from rich.console import Console
    from rich.markdown import Heading, Markdown
    from rich.theme import Theme

    if not text.strip():
        return []

    class AtTheMargin(Heading):
        """A heading that stands where its text stands: centred ones jump about while text streams."""

        def __rich_console__(self, console, options):  # type: ignore[no-untyped-def]
            yield self.text

    class Page(Markdown):
        elements = {**Markdown.elements, "heading_open": AtTheMargin}  # noqa: RUF012 - as its parent has it

    stream = StringIO()
    console = Console(
        file=stream,
        width=width,
        force_terminal=True,
        color_system="standard",
        legacy_windows=False,
        theme=Theme({"markdown.code": "cyan", "markdown.h1": "bold underline", "markdown.h2": "bold underline"}),
    )
    page = Page(text, hyperlinks=False, code_theme="ansi_dark")
    page.parsed = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).parse(text)
    console.print(page, end="")
    lines = [line if _VISIBLE.search(line) else "" for line in stream.getvalue().split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    first = next((number for number, line in enumerate(lines) if line), 0)
    return [line.rstrip() for line in lines[first:]]
