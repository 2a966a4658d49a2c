"""A terminal with a person before it: the real program in a pseudo-terminal, and the screen that it draws.

    async with Terminal("--model", "demo", cwd=folder) as terminal:
        await terminal.wait_for_prompt()
        terminal.say("What is 2+2?")
        await terminal.wait_for("4")

It reads on the test's own event loop, where the model server runs as well, so nothing here may block.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import re
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from copy import copy
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias

import pyte
from pyte.screens import Char

from tests.cli.program import clean_environment, start
from tests.cli.warm import take_terminal
from tests.modelserver import ModelServer

DEADLINE = 90.0
MODEL = "anthropic/claude-sonnet-4-5"
KEY = "correct-horse-battery-staple"
EDITING = b"\x1b[6n\x1b[?2004h"
"""What the line editor sends when it begins: where is the cursor, and mark pastes. A turn only asks for the latter."""
KEYS = {
    "enter": "\r",
    "escape": "\x1b",
    "tab": "\t",
    "s-tab": "\x1b[Z",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "left": "\x1b[D",
    "backspace": "\x7f",
    "alt-enter": "\x1b\r",
    "c-a": "\x01",
    "c-b": "\x02",
    "c-c": "\x03",
    "c-d": "\x04",
    "c-j": "\n",
    "c-l": "\x0c",
    "c-u": "\x15",
    "c-w": "\x17",
    "c-z": "\x1a",
}
Wanted: TypeAlias = str | re.Pattern[str] | Callable[[], object]


class _Screen(pyte.HistoryScreen):
    """Keeps what scrolls away, and answers when it is asked where the cursor is."""

    answer: Callable[[str], None]

    def write_process_input(self, data: str) -> None:
        self.answer(data)

    def select_graphic_rendition(self, *attributes: int, private: bool = False) -> None:
        """Set colours; vim sends another sequence that looks like it."""
        if not private:
            super().select_graphic_rendition(*attributes)

    def erase_in_display(self, how: int = 0, *args: Any, **kwargs: Any) -> None:
        """Erase; as tmux does, copy what is on the screen to the scrollback if all of it is erased."""
        if how == 2 or (how == 0 and (self.cursor.x, self.cursor.y) == (0, 0)):
            used = max((row + 1 for row, line in enumerate(self.display) if line.strip()), default=0)
            self.history.top.extend(copy(self.buffer[row]) for row in range(used))
        super().erase_in_display(how, *args, **kwargs)


class Terminal:
    """Runs the program in a terminal of a given size until the end of the block."""

    def __init__(
        self,
        *arguments: str,
        cwd: Path,
        columns: int = 80,
        lines: int = 24,
        from_scratch: bool = False,
        first_start: bool = False,
        typed: str = "",
        **environment: str,
    ) -> None:
        """`typed`: what is typed before the program has begun to read."""
        self._typed = typed
        self._from_scratch = from_scratch
        self._arguments = arguments
        self._cwd = cwd
        self.environment = terminal_environment(cwd) | environment
        home = Path(self.environment["OUTRIDER_HOME"])
        if not first_start and not home.is_file():
            home.mkdir(parents=True, exist_ok=True, mode=0o700)
            (home / "keys.json").write_text("{}")  # the offer to enter a key was made before
        self.raw = b""
        """Every byte that the program wrote."""
        self._screen = _Screen(columns, lines, history=20_000, ratio=0.5)
        self._screen.answer = self.type
        self._stream = pyte.ByteStream(self._screen)
        self._size = (columns, lines)
        self._lines: list[str] | None = None
        """What can be seen, until more is drawn: to put it together takes longer than to wait for it."""

    async def __aenter__(self) -> Terminal:
        self._master, slave = pty.openpty()
        self._set_size(*self._size)
        self.type(self._typed)
        self.process = self._start(slave)
        os.close(slave)
        os.set_blocking(self._master, False)
        asyncio.get_running_loop().add_reader(self._master, self._read)
        return self

    def _start(self, slave: int) -> subprocess.Popen[Any]:
        return start(
            *self._arguments,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=self._cwd,
            env=self.environment,
            start_new_session=True,
            has_terminal=True,
            from_scratch=self._from_scratch,
        )

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()
        self.close()
        if error:
            error.add_note(f"The screen:\n{self.screen}\n(exit code {self.process.returncode})")

    async def _end(self) -> None:
        """Let it end what it has started, and end it in any case."""
        with contextlib.suppress(AssertionError):
            self.process.terminate()
            await until(lambda: self.process.poll() is not None, 5)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        await asyncio.to_thread(self.process.wait)

    def close(self) -> None:
        """Close the window."""
        if self._master >= 0:
            asyncio.get_running_loop().remove_reader(self._master)
            os.close(self._master)
            self._master = -1

    def _read(self) -> None:
        try:
            data = os.read(self._master, 65536)
        except BlockingIOError:
            return
        except OSError:  # nobody has the other end open any more
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._master)
            return
        self._draw(data)

    def _draw(self, data: bytes) -> None:
        self.raw += data
        self._stream.feed(data)
        self._lines = None

    # What the person does

    def type(self, text: str) -> None:
        """Press the keys of a text."""
        data = text.encode()
        while data:
            data = data[os.write(self._master, data) :]

    async def type_slowly(self, text: str) -> None:
        """Much text: as fast as the program takes it."""
        data = text.encode()
        while data:
            with contextlib.suppress(BlockingIOError):
                data = data[os.write(self._master, data[:1024]) :]
            await asyncio.sleep(0.001)

    def press(self, *keys: str) -> None:
        """Press keys by their names, or characters."""
        for key in keys:
            self.type(KEYS.get(key, key))

    def paste(self, text: str) -> None:
        """Paste, as terminals do where the program wants to know."""
        self.type(f"\x1b[200~{text}\x1b[201~")

    def say(self, text: str) -> None:
        """Type a line and press Enter."""
        self.type(f"{text}\r")

    def resize(self, columns: int, lines: int) -> None:
        """Change the size of the window."""
        self._set_size(columns, lines)
        self._screen.resize(lines, columns)
        self._lines = None
        os.killpg(self.process.pid, signal.SIGWINCH)

    def _set_size(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    # What they see

    @property
    def _display(self) -> list[str]:
        if self._lines is None:
            self._lines = self._screen.display
        return self._lines

    @property
    def screen(self) -> str:
        """The lines that can be seen."""
        return "\n".join(line.rstrip() for line in self._display)

    @property
    def rows(self) -> list[list[Char]]:
        """The characters that can be seen, with their colours."""
        buffer, columns = self._screen.buffer, range(self._screen.columns)
        return [[buffer[row][column] for column in columns] for row in range(self._screen.lines)]

    @property
    def transcript(self) -> str:
        """What has scrolled away, and the screen."""
        width = self._screen.columns
        above = ("".join(line[column].data for column in range(width)) for line in self._screen.history.top)
        return "\n".join([*(line.rstrip() for line in above), self.screen])

    @property
    def flowing(self) -> str:
        """The transcript as one line, for what is broken into several."""
        return " ".join(self.transcript.split())

    def cells(self, text: str) -> list[Char]:
        """The characters of a text on the screen, with their colours: the last place where it stands."""
        for row in reversed(range(self._screen.lines)):
            line = self._screen.buffer[row]
            cells = [line[column] for column in range(self._screen.columns)]
            at = "".join(cell.data or "\0" for cell in cells).rfind(text)
            if at >= 0:
                return cells[at : at + len(text)]
        raise AssertionError(f"{text!r} is not on the screen")

    def colour(self, text: str) -> str:
        """The one colour in which a text stands."""
        (colour,) = {cell.fg for cell in self.cells(text) if cell.data.strip()}
        return str(colour)

    # What they wait for

    async def wait_for(self, wanted: Wanted, deadline: float = DEADLINE) -> None:
        """Wait until a text or a pattern is on the screen, or until something is true."""
        await self._until(lambda: self.shows(wanted), deadline, f"{wanted!r} on the screen")

    async def _until(self, true: Callable[[], object], deadline: float, what: str) -> None:
        """Wait for something that cannot come after the end of the program."""
        await until(lambda: true() or self.process.poll() is not None, deadline, what)
        if not true():
            self._read_rest()
            assert true(), f"the program ended before {what}"

    async def wait_until_gone(self, wanted: Wanted, deadline: float = DEADLINE) -> None:
        """Wait until a text or a pattern is not on the screen any more."""
        await until(lambda: not self.shows(wanted), deadline, f"{wanted!r} to leave the screen")

    def shows(self, wanted: Wanted) -> bool:
        """Whether it can be seen now; a text may be broken into lines."""
        if isinstance(wanted, str):
            return " ".join(wanted.split()) in " ".join(self.screen.split())
        return bool(wanted.search(self.screen) if isinstance(wanted, re.Pattern) else wanted())

    async def wait_for_prompt(self, deadline: float = DEADLINE) -> None:
        """Wait until a line can be typed: the cursor stands in one."""
        await self._until(self.at_the_prompt, deadline, "the prompt")

    def at_the_prompt(self) -> bool:
        """Whether a line is being edited."""
        line = self._display[self._screen.cursor.y]
        return line.startswith(("› ", "· ")) and self.raw.rfind(EDITING) > self.raw.rfind(b"\x1b[?2004l")

    @property
    def prompts(self) -> int:
        """How often a line could be typed so far."""
        return self.raw.count(EDITING)

    async def exit_code(self, deadline: float = DEADLINE) -> int:
        """Wait for the end."""
        await until(lambda: self.process.poll() is not None, deadline, "the end of the program")
        await asyncio.sleep(0)
        self._read_rest()
        code = self.process.returncode
        assert code is not None
        return code

    def _read_rest(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(self._master, 65536):
                self._draw(data)


class ShellTerminal(Terminal):
    """Runs the program as a job of an interactive shell."""

    def _start(self, slave: int) -> subprocess.Popen[Any]:
        environment = {**self.environment, "PS1": "shell> ", "BASH_SILENCE_DEPRECATION_WARNING": "1"}
        shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-i"],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=self._cwd,
            env=environment,
            preexec_fn=take_terminal,
            start_new_session=True,
        )
        self.say(shlex.join([sys.executable, "-m", "outrider", *self._arguments]))
        return shell

    async def _end(self) -> None:
        """Let the shell end its jobs, which it does on SIGHUP; an interactive one takes no notice of SIGTERM."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGHUP)
        await super()._end()


async def until(true: Callable[[], object], deadline: float = DEADLINE, what: str = "it") -> None:
    """Wait for something, with a deadline."""
    end = time.monotonic() + deadline
    while not true():
        if time.monotonic() > end:
            raise AssertionError(f"waited {deadline:.0f} s in vain for {what}")
        await asyncio.sleep(0.02)


async def at_the_prompt_with(terminal: Terminal, *said: str) -> None:
    """Say each line, and wait for the prompt before it."""
    for line in said:
        await terminal.wait_for_prompt()
        before = terminal.prompts
        terminal.say(line)
        await until(lambda: terminal.prompts > before, what="the next prompt")  # noqa: B023 - it waits here
    await terminal.wait_for_prompt()


def terminal_environment(cwd: Path) -> dict[str, str]:
    """A clean one: no keys, no configuration of the developer, an ordinary terminal."""
    home = cwd.parent / "home"
    home.mkdir(exist_ok=True)
    unwanted = (
        "COLUMNS",
        "LINES",
        "TMUX",
        "STY",
        "TERM_PROGRAM",
        "KITTY_WINDOW_ID",
        "NO_COLOR",
        "PROMPT_TOOLKIT_NO_CPR",
    )
    kept = {name: value for name, value in clean_environment().items() if name not in unwanted}
    return kept | {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "TERM": "xterm-256color",
        "LC_ALL": "C.UTF-8",
    }


def answered_by(server: ModelServer) -> dict[str, str]:
    """An environment in which the server is the model."""
    return {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url, "OUTRIDER_MODEL": MODEL}
