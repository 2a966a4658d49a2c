"""How hands are started: the seam, programs such as `ssh` and `docker exec`, and the installation there.

A command that runs a shell there finds Python, gets the bundle if it is missing, and runs it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import PIPE
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any, Protocol

import msgspec

from outrider.coding.hands import bootstrap
from outrider.errors import HandsError
from outrider.processes.starting import start
from outrider.struct_types import described
from outrider.text.visible import one_line


class Streams(Protocol):
    """The standard streams of the hands."""

    @property
    def reader(self) -> asyncio.StreamReader:
        """What they say."""

    @property
    def writer(self) -> asyncio.StreamWriter:
        """What is said to them."""

    def said(self) -> str:
        """Return the end of their standard error, for an error message."""

    async def close(self) -> None:
        """End them."""


class Starter(Protocol):
    """Starts hands in one place."""

    def describe(self) -> str:
        """Return where the hands are, for people and as the name under which their rules are kept."""

    async def start(self) -> Streams:
        """Start the hands. Called again after a lost connection. Raises HandsError or OSError."""


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
        return self._place

    async def start(self) -> Streams:
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


START_SECONDS = 60.0
"""How long the other side may take for each answer; it may have to receive the bundle first."""
MOST_NOISE = 256 * 1024
"""Bytes that login scripts may print before the first answer."""
LONGEST_REASON = 600
"""Characters of what the other side says, in an error."""
# One line without single quotes, which any login shell passes on to sh as it is.
_SCRIPT = (
    "for p in python3 python3.14 python3.13 python3.12 python3.11 python; do "
    'if command -v $p >/dev/null 2>&1 && $p -IS -c "import sys; sys.exit(sys.version_info < (3, 11))" 2>/dev/null; '
    'then exec $p -IS -c "import sys; b = sys.stdin.buffer; exec(b.read(int(b.readline())))" WORD; fi; done; '
    'echo; echo WORD "{\\"python\\": \\"$(python3 -V 2>&1 || true)\\"}"'
)


class _Answer(msgspec.Struct):
    """What the bootstrap says."""

    target: dict[str, str] = {}
    has: tuple[str, ...] = ()
    ready: bool = False
    error: str = ""
    python: str | None = None
    """The version of a Python that is too old, or why there is none."""


class ShellScript(msgspec.Struct, frozen=True):
    """What runs there, for `sh -c`, and the word before each of its answers."""

    word: str = msgspec.field(default_factory=lambda: f"outrider-{token_hex(8)}")

    @property
    def text(self) -> str:
        return _SCRIPT.replace("WORD", self.word)


class Installation:
    """The talk with the bootstrap, until the hands begin."""

    def __init__(self, streams: Streams, word: str) -> None:
        self._streams, self._word = streams, word

    async def run(self, folder: str) -> None:
        """Send the bundle unless it is there, and have it run. The next byte is the first of the hands'.

        Raises HandsError; the command has ended then.
        """
        try:
            await self._run(folder)
        except (ConnectionError, TimeoutError, EOFError) as error:
            late = f"it did not answer within {START_SECONDS:g} seconds" if isinstance(error, TimeoutError) else ""
            await self._streams.close()
            said = self._streams.said()
            raise _error(said or late or "the connection ended before the hands began") from None
        except BaseException:
            await self._streams.close()
            raise

    async def _run(self, folder: str) -> None:
        source = await asyncio.to_thread(Path(bootstrap.__file__).read_bytes)
        self._streams.writer.write(b"%d\n" % len(source) + source)
        said = await self._answer()
        if said.python is not None:
            there = said.python if said.python.startswith("Python ") else "no Python"
            raise _error(f"there is {there}, and hands need Python 3.11 or newer there")
        content = await asyncio.to_thread(_bundle_for, said.target)
        digest = sha256(content).hexdigest()
        if digest in said.has:
            said = await self._ask({"bundle": digest, "folder": folder, "size": 0})
        if not said.ready and not said.error:
            said = await self._ask({"bundle": digest, "folder": folder, "size": len(content)}, content)
        if not said.ready:
            raise _error(said.error or "the hands did not begin")

    async def _ask(self, what: dict[str, Any], content: bytes = b"") -> _Answer:
        self._streams.writer.write(msgspec.json.encode(what) + b"\n" + content)
        return await self._answer()

    async def _answer(self) -> _Answer:
        """Return what follows the word. Lines before it are noise."""
        noise = 0
        async with asyncio.timeout(START_SECONDS):
            while True:
                try:
                    line = await self._streams.reader.readline()
                except ValueError:  # a line that is longer than the reader's limit
                    line, noise = b"", MOST_NOISE
                _, found, answer = line.partition(f"{self._word} ".encode())
                noise += len(line)
                if found or noise >= MOST_NOISE:
                    break
                if not line:
                    raise EOFError
        try:
            return msgspec.json.decode(answer, type=described(_Answer))
        except msgspec.MsgspecError:
            raise _error("the other side prints too much, or does not answer as it should") from None


def _error(reason: str) -> HandsError:
    return HandsError(one_line(reason, LONGEST_REASON))


def _bundle_for(target: dict[str, str]) -> bytes:
    from outrider.coding.hands.bundle import Target, find_bundle  # imports zipfile

    try:
        return find_bundle(msgspec.convert(target, described(Target)))
    except msgspec.ValidationError:
        raise HandsError("the other side does not say which Python it has") from None
