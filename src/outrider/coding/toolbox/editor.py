"""What an editor lends to the tools: the text of files as it has them, and terminals in which commands run.

A front end that talks to an editor implements these and sets them on a workspace. Without them the tools use the disk
and processes of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol


class Buffers(Protocol):
    """Files as the editor has them, with changes that are not saved. Called in a tool's thread; may block.

    What does not answer must raise within seconds: nobody else keeps the time.
    """

    def read(self, path: Path) -> str | None:
        """The text; None if the editor cannot say, such as for a file that is not there.

        Raises OSError if there was no answer. A file is then not changed: it may have changes that are not saved.
        """

    def write(self, path: Path, text: str) -> bool:
        """Save the text. False if the editor cannot and nothing was written: then the tool writes the file itself.

        Lines end as in what `read` gave. Raises OSError if it is not known whether anything was written.
        """


class EditorTerminal(Protocol):
    """A command that runs in the editor."""

    id: str
    """The name by which the editor knows it."""

    async def wait(self) -> int | None:
        """Wait for its end. Gives the exit code; None if it was killed by a signal."""

    async def output(self) -> tuple[str, bool]:
        """All that it has printed so far, and whether the beginning was cut off."""

    async def kill(self) -> None:
        """End the command; its output can still be asked for."""

    async def release(self) -> None:
        """It is not needed any more. A command that still runs ends."""


class Terminals(Protocol):
    """Starts commands in the editor."""

    async def start(
        self, argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str], output_bytes: int
    ) -> EditorTerminal:
        """Run a program in a folder; of its output, the newest `output_bytes` are to be kept.

        `environment` is to be added to what the editor has.

        Raises TimeoutError or ConnectionError if it is not known whether it was started, and anything else if it was
        not: then the command runs in a process of our own.
        """
