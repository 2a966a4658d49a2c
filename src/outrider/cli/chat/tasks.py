"""Follows the output of a command that runs in the background, until it ends or the user presses Esc."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from outrider.cli.command_output import command_output_lines
from outrider.coding.tasks import ended, newest_text
from outrider.coding.toolbox.background_commands import OutputReader

if TYPE_CHECKING:
    from outrider.cli.chat.session_view import SessionView
    from outrider.coding.toolbox.background_commands import BackgroundCommand

EVERY_SECONDS = 0.2


async def follow_task(command: BackgroundCommand, view: SessionView) -> None:
    """Show the newest output, and more as it comes."""
    view.dim(f"Following command {command.number}: Esc stops, and it goes on. /tasks end {command.number} ends it.")
    with OutputReader(command.path) as reader:
        if text := newest_text(command):
            view.write(command_output_lines(text))
        try:
            while command.running:
                await asyncio.sleep(EVERY_SECONDS)
                if text := reader.lines():
                    view.write(command_output_lines(text))
        except asyncio.CancelledError:  # Esc: only the watching ends
            view.dim(f"Command {command.number} goes on.")
            return
        if text := reader.lines(rest=True):
            view.write(command_output_lines(text))
    view.dim(ended(command))
