"""Pictures of the screen for the pages of the stories, taken while the tests run.

`OUTRIDER_PICTURES=1 pytest tests/stories` writes them anew to docs/stories/pictures; other runs write nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from pathlib import Path

from pyte.screens import Char

from tests.cli.chat.terminal import Terminal

ARE_WANTED = bool(os.environ.get("OUTRIDER_PICTURES"))  # read here, because tests see none of the user's variables
PICTURES = Path(__file__).parents[2] / "docs" / "stories" / "pictures"
WIDTH, HEIGHT = 8.4, 18
MARGIN = 14
BACKGROUND, FOREGROUND = "#1e1e2e", "#cdd6f4"
COLOURS = {
    "default": FOREGROUND,
    "black": "#45475a",
    "red": "#f38ba8",
    "green": "#a6e3a1",
    "brown": "#f9e2af",
    "blue": "#89b4fa",
    "magenta": "#cba6f7",
    "cyan": "#94e2d5",
    "white": "#bac2de",
}


def take_picture(name: str, terminal: Terminal) -> None:
    """Keep what the terminal shows now, if pictures are wanted."""
    if ARE_WANTED:
        PICTURES.mkdir(parents=True, exist_ok=True)
        (PICTURES / f"{name}.svg").write_text(svg(terminal.rows))


def svg(rows: Sequence[Sequence[Char]]) -> str:
    """The rows of a screen as a picture; blank ones at the end are left out."""
    shown = list(rows)
    while shown and not any(cell.data.strip() for cell in shown[-1]):
        shown.pop()
    columns = max((len(row) for row in shown), default=0)
    width, height = columns * WIDTH + 2 * MARGIN, len(shown) * HEIGHT + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" '
        f'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14">',
        f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>',
    ]
    for number, row in enumerate(shown):
        parts += _line(row, MARGIN + number * HEIGHT + 13)
    return "\n".join([*parts, "</svg>", ""])


def _line(row: Sequence[Char], y: int) -> Iterator[str]:
    """One text element for each stretch of one style."""
    column = 0
    for (colour, bold, _), grouped in groupby(row, lambda cell: (cell.fg, cell.bold, not cell.data.strip())):
        cells = list(grouped)
        text = "".join(cell.data for cell in cells)
        if text.strip():
            weight = ' font-weight="bold"' if bold else ""
            x, length = MARGIN + column * WIDTH, len(cells) * WIDTH
            yield (
                f'<text x="{x:.1f}" y="{y}" fill="{_colour(colour)}"{weight} textLength="{length:.1f}" '
                f'lengthAdjust="spacingAndGlyphs" xml:space="preserve">{escape(text)}</text>'
            )
        column += len(cells)


def _colour(name: str) -> str:
    """A named colour of the terminal, a bright one, or one of the 256 as six digits."""
    if len(name) == 6 and all(digit in "0123456789abcdef" for digit in name):
        return f"#{name}"
    return COLOURS.get(name.removeprefix("bright"), FOREGROUND)
