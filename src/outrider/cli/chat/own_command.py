"""`!command`: a command of the user in the user's terminal.

It has a terminal of its own, which is copied to and from the user's: so programs that fill the screen or ask for a
password work, keys such as Ctrl-C are for them, and what they print can be sent to the agent.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import get_terminal_size

from outrider.processes.guard import Guard
from outrider.processes.process_tree import MARK
from outrider.processes.pseudo_terminal import open_terminal, set_size, taking_terminal
from outrider.processes.signals import on_signals
from outrider.processes.starting import SHELL, start
from outrider.text.screen import Screen

KEPT = 20_000
"""Characters of the output that are sent."""
_BASH = "/bin/bash"
"""After a Ctrl-C that its program has handled, bash goes on, as interactive shells do; other shells end."""
_READ = 65536
_STOP, _STOPPED_SECONDS = b"\x1a", 0.2
_USUAL = "\x1b[0m\x1b[?25h\x1b[?1l\x1b>\x1b[?1000l\x1b[?1002l\x1b[?1006l\x1b[?2004l"
"""Colours, cursor, keys, mouse and pastes as programs should leave them; one that was killed does not."""


async def run_shell_command(command: str, folder: Path) -> tuple[int, str]:
    """Run a command of the user in the terminal. Return its exit code and the end of what it printed.

    It runs with the user's rights, outside of the sandbox, and ends with everything that it started if it is cancelled.
    Raises OSError.
    """
    mark = os.urandom(8).hex()
    guard = Guard(mark)  # ends it if this program is killed
    with suppress(OSError):
        guard.watch([])  # before the command runs, which carries the mark
    ours, program = open_terminal(get_terminal_size())
    try:
        process = await start(
            taking_terminal([_shell(), "-c", command]),
            environment={**os.environ, MARK: mark},  # as in the user's own shell: it is the user's command
            folder=folder,
            input=program,
            output=program,
            errors=program,
        )
    finally:
        os.close(program)
    with suppress(OSError):
        guard.watch([process.pid])
    copy = _TerminalCopy(ours, process.pid)
    try:
        with copy.running():
            code = await process.wait()
        return code, copy.printed[-KEPT:]
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        guard.close()
        os.close(ours)
        await process.wait()


def _shell() -> str:
    return _BASH if os.path.exists(_BASH) else SHELL


def as_message(command: str, code: int, output: str) -> str:
    """Return what the agent reads about a command of the user."""
    return f"I ran this command: {command}\nExit code: {code}\nOutput:\n{output or '(none)'}\n"


class _TerminalCopy:
    """Copies keys to a terminal of ours, and what is printed there to the user's."""

    def __init__(self, ours: int, group: int) -> None:
        self._ours = ours
        self._group = group
        self._user = sys.stdin.fileno()
        self._loop = asyncio.get_running_loop()
        self._keys = b""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._screen = Screen(*get_terminal_size())
        self.printed = ""
        """What the command has left on the screen."""

    @contextmanager
    def running(self) -> Iterator[None]:
        """Copy until the end of the block, with the user's terminal out of the way."""
        sys.stdout.flush()
        with on_signals(self._resize, (signal.SIGWINCH,)), _raw(self._user):
            self._loop.add_reader(self._ours, self._print)
            self._loop.add_reader(self._user, self._read)
            try:
                yield
            finally:
                for handle in (self._ours, self._user):
                    self._loop.remove_reader(handle)
                self._loop.remove_writer(self._ours)
                while self._print():
                    pass
                left = "\x1b[?1049l" if self._screen.is_full else ""
                os.write(sys.stdout.fileno(), f"{left}{_USUAL}".encode() + (b"\r\n" if self._screen.column else b""))
                self.printed = self._screen.take()

    def _resize(self, _: signal.Signals) -> None:
        size = get_terminal_size()
        set_size(self._ours, size)
        self._screen.resize(*size)

    def _print(self) -> bool:
        """Show what the command has printed. Return whether there was something."""
        data = b""
        try:
            data = os.read(self._ours, _READ)
        except BlockingIOError:
            pass
        except OSError:  # no program has it any more
            self._loop.remove_reader(self._ours)
        self._screen.add(self._decoder.decode(data))
        self._screen.answers = ""  # the user's terminal answers
        shown = data
        while shown:
            shown = shown[os.write(sys.stdout.fileno(), shown) :]
        return bool(data)

    def _read(self) -> None:
        keys = b""
        with suppress(OSError):
            keys = os.read(self._user, _READ)
        if not keys:  # the terminal was closed
            self._loop.remove_reader(self._user)
        if _STOP in keys:
            self._loop.call_later(_STOPPED_SECONDS, self._go_on)
        self._keys += keys
        self._loop.add_writer(self._ours, self._type)

    def _go_on(self) -> None:
        """Continue a program that has stopped itself on Ctrl-Z: no shell is there that could."""
        with suppress(OSError):
            os.killpg(self._group, signal.SIGCONT)

    def _type(self) -> None:
        with suppress(OSError):
            self._keys = self._keys[os.write(self._ours, self._keys[:1024]) :]
        if not self._keys:
            self._loop.remove_writer(self._ours)


@contextmanager
def _raw(terminal: int) -> Iterator[None]:
    """Let every key through as it is, and what is printed too."""
    before = termios.tcgetattr(terminal)
    tty.setraw(terminal)
    try:
        yield
    finally:
        with suppress(termios.error):  # the terminal may be gone
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)
