"""A picture of a shell in which commands were typed."""

from __future__ import annotations

from itertools import chain

import pyte

from tests.stories.picture import ARE_WANTED, PICTURES, svg

COLUMNS = 100


def take_picture_of_shell(name: str, *typed: tuple[str, str]) -> None:
    """Keep the commands and what they printed as one screen, if pictures are wanted."""
    if not ARE_WANTED:
        return
    said = "\n".join(filter(None, chain.from_iterable((f"\x1b[1m$ {line}\x1b[0m", printed) for line, printed in typed)))
    screen = pyte.Screen(COLUMNS, len(said))
    pyte.Stream(screen).feed(said.replace("\n", "\r\n"))
    PICTURES.mkdir(parents=True, exist_ok=True)
    rows = [[screen.buffer[line][column] for column in range(COLUMNS)] for line in range(screen.lines)]
    (PICTURES / f"{name}.svg").write_text(svg(rows))
