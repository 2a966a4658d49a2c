"""The output of a command as lines that can be shown in another place of the terminal."""

from __future__ import annotations

from outrider.coding.toolbox.shell.output import readable
from outrider.visible_text import safe_line


def command_output_lines(output: str) -> list[str]:
    """Return the lines as a terminal would show them: no colours or links; an overwritten line as it ended.

    >>> command_output_lines("10 %\\r100 %\\n\\x1b[32mok\\x1b[0m\\n")
    ['100 %', 'ok']
    """
    lines = output.replace("\r\n", "\n").rstrip("\n").split("\n")
    last = ([piece for piece in line.split("\r") if piece] or [""] for line in lines)
    return [safe_line(readable(pieces[-1])) for pieces in last] if output else []
