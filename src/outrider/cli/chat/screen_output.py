"""The output of prompt_toolkit, kept from filling the scrollback."""

from __future__ import annotations

from prompt_toolkit.output.vt100 import Vt100_Output


class ScreenOutput(Vt100_Output):
    """Erases below the cursor without copying the screen to the scrollback.

    In the first column of the first row, tmux and other terminals take that code for clearing the screen.
    """

    def erase_down(self) -> None:
        """Erase the rest of the line, and the lines below."""
        self.write_raw("\x1b7\x1b[K\x1b[C\x1b[J\x1b8")
