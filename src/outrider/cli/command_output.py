"""The output of a command as lines that can be shown in another place of the terminal."""

from __future__ import annotations

from outrider.terminal_text import rendered
from outrider.visible_text import safe_line


def command_output_lines(output: str) -> list[str]:
    """Return the lines as a terminal would show them: no colours or links; an overwritten line as it ended.

    >>> command_output_lines("10 %\\r100 %\\n\\x1b[32mok\\x1b[0m\\n")
    ['100 %', 'ok']
    """
    return [safe_line(line) for line in rendered(output).rstrip("\n").split("\n")] if output else []
