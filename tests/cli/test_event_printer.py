"""Progress of `-p` and the demo: lines that change in place, and lines printed meanwhile."""

from __future__ import annotations

import asyncio
import os
import pty
from collections.abc import Iterator
from contextlib import closing
from io import StringIO

import pyte
import pytest

from outrider.cli import event_printer
from outrider.cli.event_printer import EventPrinter
from outrider.conversation.messages import TextBlock, ToolResultBlock
from outrider.conversation.usage import Usage
from outrider.runtime.events import (
    Event,
    HandedOff,
    ModelSwitched,
    Notice,
    ReplyDiscarded,
    Retrying,
    RunFinished,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnStarted,
)

END = "\x1b]0;end\x07"
"""The title of the window, which nobody sees here."""


class Terminal:
    """What a person sees of the events."""

    def __init__(self) -> None:
        self._master, slave = pty.openpty()
        self._screen = pyte.Screen(60, 12)
        self._stream = pyte.ByteStream(self._screen)
        self._file = os.fdopen(slave, "w")
        self._shown = EventPrinter(self._file)

    def show(self, *events: Event) -> list[str]:
        for event in events:
            self._shown.show(event)
        self._file.write(END)
        self._file.flush()
        written = b""
        while not written.endswith(END.encode()):  # a terminal passes things on in pieces, and in its own time
            written += os.read(self._master, 65536)
        self._stream.feed(written)
        return [line.rstrip() for line in self._screen.display if line.strip()]

    def close(self) -> None:
        self._file.close()
        os.close(self._master)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    with closing(Terminal()) as terminal:
        yield terminal


def started(name: str) -> ToolStarted:
    return ToolStarted(name, "look", {"path": name}, "read")


def finished(name: str) -> ToolFinished:
    return ToolFinished(name, "look", ToolResultBlock(name, (TextBlock("seen"),)))


def test_each_call_has_one_line_which_changes(terminal: Terminal) -> None:
    assert terminal.show(started("a"), started("b")) == [
        "  look(a)                      started",
        "  look(b)                      started",
    ]
    assert terminal.show(finished("b"), ToolProgress("a", "half")) == [
        "  look(a)                      half",
        "  look(b)                      ✓ seen",
    ]


def test_what_is_said_while_calls_run_stands_above_them_and_stays(terminal: Terminal) -> None:
    shown = terminal.show(started("a"), Notice("the network is slow"), started("b"), finished("a"), finished("b"))
    assert shown == [
        "✗ the network is slow",
        "  look(a)                      ✓ seen",
        "  look(b)                      ✓ seen",
    ]
    shown = terminal.show(RunFinished("done", 1, Usage(), ""), Notice("afterwards"))
    assert shown[-1] == "✗ afterwards"
    assert len(shown) == 4


def test_a_switched_model_and_a_handoff_have_a_line_each(terminal: Terminal) -> None:
    shown = terminal.show(ModelSwitched("a/x", "b/y", "It is down"), HandedOff("triage", "billing"))
    assert shown == ["✗ a/x cannot answer; b/y goes on. It is down", "triage hands over to billing"]


def test_colours_and_links_of_a_program_are_not_repeated(terminal: Terminal) -> None:
    output = "\x1b[32mok\x1b[0m \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\"
    shown = terminal.show(started("a"), ToolProgress("a", {"output": output}))
    assert shown == ["  look(a)                      ok link"]


def test_without_a_terminal_each_change_that_matters_is_a_line() -> None:
    stream = StringIO()
    screen = EventPrinter(stream)
    for event in (started("a"), ToolProgress("a", "half"), Notice("slow"), finished("a")):
        screen.show(event)
    assert [line.strip() for line in stream.getvalue().splitlines()] == [
        "look(a)                      started",
        "✗ slow",
        "look(a)                      ✓ seen",
    ]


def test_a_retry_is_one_line_that_changes_and_goes_away(terminal: Terminal) -> None:
    first = terminal.show(started("a"), finished("a"), ReplyDiscarded("overloaded"), Retrying(2, 12.0, "overloaded"))
    assert first[1:] == ["✗ overloaded; retrying in 12 s (attempt 2)"]
    second = terminal.show(Retrying(3, 24.0, "still overloaded"))
    assert second == [first[0], "✗ still overloaded; retrying in 24 s (attempt 3)"]
    assert terminal.show(started("b"), RunFinished("done", 1, Usage(), "")) == [
        first[0],
        "  look(b)                      started",
    ]


async def test_the_line_of_a_retry_counts_down(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_printer, "TICK_SECONDS", 0.01)
    now = 0.0
    monkeypatch.setattr(event_printer, "monotonic", lambda: now)
    assert terminal.show(Retrying(2, 30.0, "slow")) == ["✗ slow; retrying in 30 s (attempt 2)"]
    now = 18.0
    async with asyncio.timeout(20):
        while terminal.show() != ["✗ slow; retrying in 12 s (attempt 2)"]:
            await asyncio.sleep(0.01)
    assert terminal.show(TurnStarted(2)) == []


def test_without_a_terminal_a_retry_is_a_line() -> None:
    stream = StringIO()
    screen = EventPrinter(stream)
    for event in (ReplyDiscarded("overloaded"), Retrying(2, 0.5, "overloaded")):
        screen.show(event)
    assert stream.getvalue() == "✗ overloaded; retrying in 0.5 s (attempt 2)\n"
