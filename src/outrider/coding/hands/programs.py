"""Hands that a program starts: `ssh`, `docker exec`, or any command line that runs `outrider hands` somewhere."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import PIPE
from collections.abc import Mapping, Sequence
from contextlib import suppress

from outrider.coding.hands.starter import Streams
from outrider.errors import HandsError
from outrider.processes.starting import start
from outrider.text.visible import one_line

_SAID = 4_000
"""Bytes of its standard error that an error may quote."""
_END_SECONDS = 2.0


class ProgramStarter:
    """Starts a program whose standard streams lead to the hands. It ends with the connection."""

    def __init__(self, argv: Sequence[str], place: str, environment: Mapping[str, str] | None = None) -> None:
        """`argv` begins with an absolute path. `place` says where the hands are, for people."""
        self._argv = list(argv)
        self._place = place
        self._environment = environment

    def describe(self) -> str:
        """Return where the hands are."""
        return self._place

    async def start(self) -> Streams:
        """Start the program. Raises HandsError."""
        try:
            process = await start(self._argv, environment=self._environment, input=PIPE, output=PIPE, errors=PIPE)
        except OSError as error:
            raise HandsError(f"{self._argv[0]} cannot be started: {error.strerror}") from None
        except ValueError as error:
            raise HandsError(str(error)) from None
        return ProgramStreams(process)


class ProgramStreams:
    """The streams of a running program."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout
        assert process.stdin
        assert process.stderr
        self.process = process
        self.reader: asyncio.StreamReader = process.stdout
        self.writer: asyncio.StreamWriter = process.stdin
        self._said = b""
        self._listening = asyncio.ensure_future(self._listen(process.stderr))

    async def _listen(self, errors: asyncio.StreamReader) -> None:
        while data := await errors.read(_SAID):
            self._said = (self._said + data)[-_SAID:]

    def said(self) -> str:
        """Return the last line on its standard error that says something."""
        lines = [line for line in self._said.decode(errors="replace").splitlines() if line.strip()]
        return one_line(lines[-1], _SAID) if lines else ""

    async def close(self) -> None:
        """End the program. It has a moment to end by itself, with what runs there."""
        self.writer.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                await self.process.wait()
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            with suppress(TimeoutError):  # asyncio notices the end of a program only once its output has been read
                async with asyncio.timeout(_END_SECONDS):
                    while await self.reader.read(1 << 16):
                        pass
                    await self.process.wait()
        with suppress(TimeoutError):  # a process that it started may still have its standard error
            async with asyncio.timeout(_END_SECONDS):
                await self._listening
