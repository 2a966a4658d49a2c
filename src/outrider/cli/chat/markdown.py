"""Markdown while it arrives: what is finished becomes lines for good, the block at the end is drawn again and again."""

from __future__ import annotations

import re
from io import StringIO

from outrider.cli.plain import plain_lines

_VISIBLE = re.compile(r"^(?:\x1b\[[0-9;]*m|\s)*[^\s\x1b]")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$")


class MarkdownStream:
    """Takes text piece by piece and says what of it is finished."""

    def __init__(self) -> None:
        self._open = ""
        """The block at the end, which more text may still change."""

    @property
    def open(self) -> str:
        """The text that is not finished."""
        return self._open

    def feed(self, text: str) -> str:
        """Take more; return the blocks that no further text can change."""
        self._open += text
        at = settled(self._open)
        finished, self._open = self._open[:at], self._open[at:]
        return finished

    def end(self) -> str:
        """No more comes: the rest."""
        rest, self._open = self._open, ""
        return rest


def settled(text: str) -> int:
    """Up to where the text consists of whole blocks, each followed by the beginning of another.

    A block ends at a blank line that is followed by a line at the margin, for what is indented may belong to the item
    of a list above; inside a fence nothing ends.

    >>> settled("# Title\\n\\nSome wor")
    9
    >>> settled("```\\na\\n\\nb\\n")
    0
    """
    at = position = 0
    fence = ""
    after_blank = False
    for line in text.splitlines(keepends=True):
        if not fence and after_blank and line[0] not in " \t\r\n":
            at = position
        if found := _FENCE.match(line.rstrip("\n")):
            if not fence:
                fence = found[1]
            elif found[1][0] == fence[0] and len(found[1]) >= len(fence) and not found[2].strip():
                fence = ""
        after_blank = not line.strip() and not fence
        position += len(line)
    return at


def rendered(text: str, width: int) -> list[str]:
    """Markdown as lines for a terminal, with colours, and without blank lines around them."""
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
    console.print(Page(plain_lines(text), hyperlinks=False, code_theme="ansi_dark"), end="")
    lines = [line if _VISIBLE.search(line) else "" for line in stream.getvalue().split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    first = next((number for number, line in enumerate(lines) if line), 0)
    return [line.rstrip() for line in lines[first:]]
