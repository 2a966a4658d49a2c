"""What a program printed, for another terminal than the one that it believes to have."""

from __future__ import annotations

from outrider.cli.plain import plain
from outrider.coding.toolbox.shell.output import readable


def printed_lines(output: str) -> list[str]:
    """The lines as a terminal would show them: without colours and links, a line that was overwritten as it ended.

    >>> printed_lines("10 %\\r100 %\\n\\x1b[32mok\\x1b[0m\\n")
    ['100 %', 'ok']
    """
    lines = output.replace("\r\n", "\n").rstrip("\n").split("\n")
    last = ([piece for piece in line.split("\r") if piece] or [""] for line in lines)
    return [plain(readable(pieces[-1])) for pieces in last] if output else []
