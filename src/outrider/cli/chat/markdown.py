"""Streaming Markdown: finished blocks become permanent lines, the last block is redrawn as text arrives."""

from __future__ import annotations

import re

from outrider.text.visible import safe_lines

_VISIBLE = re.compile(r"^(?:\x1b\[[0-9;]*m|\s)*[^\s\x1b]")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$")


MOST_REDRAWN = 10_000
"""Characters of a block that are drawn again and again while it grows."""


class MarkdownStream:
    """Splits streamed text into finished blocks. Each line is scanned once."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        """The lines of the last block, which more text may still change."""
        self._tail: list[str] = []
        """The pieces of the incomplete last line."""
        self._fence = ""
        self._after_blank = False

    @property
    def open(self) -> str:
        return "".join((*self._lines, *self._tail))

    def ending(self, most: int) -> str:
        """Return the last lines of the unfinished text; for a code block, with its opening fence."""
        if len(self._lines) <= most:
            return self.open[-MOST_REDRAWN:]
        head = next((line for line in self._lines if _FENCE.match(line.rstrip("\n"))), "") if self._fence else ""
        return head + "".join((*self._lines[-most:], *self._tail))[-MOST_REDRAWN:]

    def feed(self, text: str) -> str:
        """Add text; return the blocks that no further text can change, as one string."""
        return "".join(self.blocks(text))

    def blocks(self, text: str) -> list[str]:
        """Add text; return each block that no further text can change.

        A block ends at a blank line followed by an unindented line, because an indented line may belong to a list item
        above. Inside a fence no block ends.
        """
        finished: list[str] = []
        if "\n" in text:
            *whole, tail = "".join((*self._tail, text)).split("\n")
            for line in whole:
                self._take(f"{line}\n", finished)
            self._tail = [tail] if tail else []
        elif text:
            self._tail.append(text)
        if self._tail:
            self._cut_before(self._tail[0], finished)
        return finished

    def end(self) -> str:
        """Reset the stream and return the unfinished text."""
        rest = self.open
        self._lines, self._tail, self._fence, self._after_blank = [], [], "", False
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


def rendered(text: str, width: int, *, light: bool = False, is_live: bool = False) -> list[str]:
    """Render Markdown as coloured lines: one blank line between blocks, none around them.

    `light` chooses the colours of code for a light background. Lines of code are as long as they are, so that they can
    be copied, unless the text `is_live`: then it is redrawn.
    """
    stream = MarkdownStream()
    lines: list[str] = []
    for block in (*stream.blocks(safe_lines(text)), stream.end()):
        if drawn := _rendered_block(block, width, light=light, is_live=is_live):
            lines += ["", *drawn] if lines else drawn
    return lines


def _rendered_block(text: str, width: int, *, light: bool, is_live: bool) -> list[str]:
    if not text.strip():
        return []
    from outrider.cli.chat.rich_page import page_text  # imports rich

    drawn = page_text(text, width, light=light, is_live=is_live)
    lines = [line if _VISIBLE.search(line) else "" for line in drawn.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    first = next((number for number, line in enumerate(lines) if line), 0)
    return [line.rstrip() for line in lines[first:]]
