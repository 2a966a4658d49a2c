"""Shared helpers of the log tests: scripted sessions, other processes, and waiting for conditions."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import pytest

from outrider.conversation.messages import Message
from outrider.log.entries import Asked, Entry, MessageEntry
from outrider.log.log import Log
from outrider.log.questions import Body, stored
from outrider.runtime.agent import Agent
from outrider.runtime.events import Event
from outrider.runtime.limits import Limits
from outrider.runtime.session import Session
from outrider.testing import ScriptedModel, Step
from tests.postgres import execute

DEADLINE = 60.0
"""Seconds after which what was waited for counts as never coming."""


def patch_everywhere(monkeypatch: pytest.MonkeyPatch, **values: Any) -> None:
    """Another value for names of the log, in every module that knows them."""
    for name, value in values.items():
        modules = [module for key, module in list(sys.modules.items()) if key.startswith("outrider.log.")]
        known = [module for module in modules if hasattr(module, name)]
        assert known, f"no module of the log knows {name}"
        for module in known:
            monkeypatch.setattr(module, name, value)


def entry(text: object) -> MessageEntry:
    """Return what a person says, as an entry."""
    return MessageEntry(Message.user(str(text)))


def texts(log: Log, name: str) -> list[str]:
    """Return the texts of the messages of a session."""
    return [message.text for message in log.messages(name)]


def until(condition: Callable[[], Any], seconds: float = DEADLINE) -> None:
    """Wait for a condition."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "what was waited for did not come"
        time.sleep(0.002)


async def until_so(condition: Callable[[], Any], seconds: float = DEADLINE) -> None:
    """The same beside an event loop that has other things to do."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "what was waited for did not come"
        await asyncio.sleep(0.001)


async def let_everything_happen() -> None:
    """Give the loop many turns: whatever waits for nothing else has then happened."""
    for _ in range(100):
        await asyncio.sleep(0)


def open_session(
    log: Log,
    steps: Sequence[Step] | Callable[..., Step] | ScriptedModel = (),
    tools: Sequence[Callable[..., Any]] = (),
    id: str | None = None,
    limits: Limits | None = None,
    observer: Callable[[Event], None] | None = None,
) -> Session:
    """A session in a log whose model is a script."""
    model = steps if isinstance(steps, ScriptedModel) else ScriptedModel(steps)
    agent = Agent(model=model, tools=tools, limits=limits or Limits())
    return Session.open(log, id, agent, observer=observer).now()


def entries_of(log: Log, id: str) -> list[Entry]:
    return [record.entry for record in log.records(id)]


def kinds_of(log: Log, id: str) -> list[str]:
    return [entry.kind for entry in entries_of(log, id)]


def is_postgres(log: Log) -> bool:
    return log.location.startswith("postgresql:")


def change(log: Log, statement: str, *values: Any) -> None:
    """Change the log behind its back."""
    if is_postgres(log):
        look(log, f"{statement} RETURNING 1" if statement.startswith(("UPDATE", "DELETE")) else statement, *values)
        return
    with closing(sqlite3.connect((log.folder / "log.db"), timeout=DEADLINE)) as connection, connection:
        connection.execute(statement, values)


def look(log: Log, query: str, *values: Any) -> list[tuple[Any, ...]]:
    """Look into the tables behind the log's back."""
    if is_postgres(log):
        for number in range(1, query.count("?") + 1):
            query = query.replace("?", f"${number}", 1)
        return execute(f"{log.location}?search_path=outrider", query, *values)
    with closing(sqlite3.connect((log.folder / "log.db"), timeout=DEADLINE)) as connection:
        return connection.execute(query, values).fetchall()


class Process:
    """Another Python process that runs a script and speaks line by line.

    The script has `hear()`, which waits for a line from here, and `say(…)`, whose lines come out of `hear()` here.
    """

    def __init__(self, script: str, *arguments: object) -> None:
        code = _PRELUDE + textwrap.dedent(script)
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", code, *map(str, arguments)],  # forks
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # so that what it forks ends with it
        )
        self.pid = self._process.pid
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait(DEADLINE)
        self._reader.join(DEADLINE)
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()

    def hear(self, seconds: float = DEADLINE) -> str:
        """The next line that it says."""
        line = self._lines.get(timeout=seconds)
        assert line is not None, f"the process ended with {self._process.wait(DEADLINE)}"
        assert not line.startswith("Traceback"), "\n".join([line, *iter(lambda: self._lines.get(timeout=5), None)])
        return line

    def tell(self, line: str = "go on") -> None:
        assert self._process.stdin
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def kill(self, *, bury: bool = True) -> None:
        """End it with SIGKILL; unburied it stays in the process table, as with a parent that does not look."""
        self._process.kill()
        if bury:
            self._process.wait(DEADLINE)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def end(self) -> list[str]:
        """Wait for its end, which must be a good one; what else it said."""
        code = self._process.wait(DEADLINE * 3)
        rest = [*iter(lambda: self._lines.get(timeout=DEADLINE), None)]
        assert code == 0, "\n".join(rest)
        return rest

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self._lines.put(line.rstrip())
        self._lines.put(None)


_PRELUDE = """
import asyncio, os, sys, time
from outrider.runtime.agent import Agent
from outrider.errors import *
from outrider.log.entries import *
from outrider.log.log import Log
from outrider.conversation.messages import *
from outrider.testing import ScriptedModel, call
from outrider.runtime.session import Session

arguments = sys.argv[1:]

def execute(*values):
    from tests.postgres import execute  # loads pytest, which takes as long as all the rest

    return execute(*values)

def say(*words):
    print(*words, flush=True)

def hear():
    line = sys.stdin.readline()
    if not line:
        os._exit(3)  # nobody is there any more
    return line.strip()

def echo(request):
    return "You said: " + request.messages[-1].text

def talk(log, id=None, tools=()):
    return Session.open(log, id, Agent(model=ScriptedModel(echo), tools=tools)).now()
"""


def asked(call_id: str, body: Body) -> Asked:
    """The entry of a question that ends with its holder."""
    return Asked(os.urandom(16).hex(), call_id, stored(body))
