"""The input line in a terminal of its own."""

from __future__ import annotations

import asyncio
import os
import pty
import sys
import termios
from pathlib import Path

import pytest

from outrider.cli.chat.line_editor import Actions, LineEditor
from outrider.processes.programs import Programs
from tests.log import until_so

INPUT, LOCAL = 0, 3
"""Places of the flags in the attributes of a terminal."""


async def test_lines_above_leave_the_terminal_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it turns an Enter of that moment into a line break."""
    monkeypatch.setenv("TERM", "xterm")
    master, slave = pty.openpty()
    with os.fdopen(os.dup(slave)) as keys, os.fdopen(os.dup(slave), "w") as screen:
        monkeypatch.setattr(sys, "stdin", keys)
        monkeypatch.setattr(sys, "stdout", screen)
        actions = Actions(lambda: None, str, lambda text: None)
        programs = Programs([tmp_path])
        editor = LineEditor(tmp_path, programs, tmp_path / "history", dict, lambda columns: "", actions)
        asyncio.get_running_loop().add_reader(master, lambda: _answer(master))
        reading = asyncio.ensure_future(editor.read())
        seen: list[list[int]] = []
        await until_so(lambda: not termios.tcgetattr(slave)[LOCAL] & termios.ICANON)
        editor.above(lambda: seen.append(termios.tcgetattr(slave)))
        await until_so(lambda: seen)
        os.write(master, b"hi\r")
        assert await reading == "hi"
        asyncio.get_running_loop().remove_reader(master)
    assert not seen[0][INPUT] & termios.ICRNL
    assert not seen[0][LOCAL] & (termios.ECHO | termios.ICANON)
    os.close(slave)
    os.close(master)


def _answer(master: int) -> None:
    """Say where the cursor is as often as it is asked for."""
    for _ in range(os.read(master, 65536).count(b"\x1b[6n")):
        os.write(master, b"\x1b[1;1R")
