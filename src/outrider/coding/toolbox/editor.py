"""Interfaces that an editor offers to the tools: the text of its open files, and terminals for commands.

A front end that talks to an editor implements them and sets them on a workspace. Without them, the tools use the disk
and start processes themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol


class Buffers(Protocol):
    """The editor's versions of files, with unsaved changes. Called in a tool's thread; may block.

    An implementation must raise within seconds if the editor does not respond: callers set no timeout.
    """

    def read(self, path: Path) -> str | None:
        """Return the text, or None if the editor cannot tell, for example because the file is missing.

        Raises OSError if the editor did not respond. The file is then not changed, as it may have unsaved changes.
        """

    def write(self, path: Path, text: str) -> bool:
        """Save the text. Return False if the editor cannot and nothing was written: the tool then writes the file.

        Lines end as in the text from `read`. Raises OSError if it is unknown whether anything was written.
        """


class EditorTerminal(Protocol):
    """A command that runs in the editor."""

    id: str
    """The editor's id of the terminal."""

    async def wait(self) -> int | None:
        """Wait for the command to end. Return its exit code, or None if a signal killed it."""

    async def output(self) -> tuple[str, bool]:
        """Return the output so far, and whether its beginning was cut off."""

    async def kill(self) -> None:
        """Kill the command. Its output stays available."""

    async def release(self) -> None:
        """Release the terminal. A command that still runs is killed."""


class Terminals(Protocol):
    """Starts commands in the editor."""

    async def start(
        self, argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str], output_bytes: int
    ) -> EditorTerminal:
        """Run a program in a folder. The editor keeps the newest `output_bytes` of its output.

        `environment` is added to the editor's environment.

        Raises TimeoutError or ConnectionError if it is unknown whether the program was started. Any other exception
        means that it was not: the command then runs in a process of our own.
        """
