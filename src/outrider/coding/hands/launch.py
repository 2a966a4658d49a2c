"""Start hands through a command that runs a shell there: find Python, send the bundle if it is missing, run it."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any

import msgspec

from outrider.coding.hands import bootstrap
from outrider.coding.hands.starter import Streams
from outrider.errors import HandsError
from outrider.struct_types import described
from outrider.text.visible import one_line

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
        """The script, in one line."""
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
