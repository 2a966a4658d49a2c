"""Sessions of 100,000 messages, and ten thousand sessions: what it takes to open one, and to list them."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.figure import Figure
from outrider import Agent, Log, Session
from outrider.conversation.history import repair
from outrider.conversation.messages import Message, TextBlock, ToolResultBlock, ToolUseBlock
from outrider.log.entries import CallResult, Entry, Intent, MessageEntry
from outrider.providers.api import ApiProvider
from outrider.providers.base import Request

LONG, SHORT, SESSIONS = 100_000, 100, 10_000
MODEL = "anthropic/claude-opus-5-5"
AGENT = Agent(model=MODEL)
ROUNDS = 7


def measure() -> Iterator[Figure]:
    """Each opening in a process of its own, for its memory; the best of several rounds."""
    with tempfile.TemporaryDirectory() as folder:
        with Log(folder) as log:
            for name, count in (("long", LONG), ("short", SHORT)):
                journal = log.create()
                _fill(journal.write_now, count)
                Path(folder, name).write_text(journal.id)
                journal.close()
            _fill_with_sessions(log)
        long = [_opened(folder, "long") for _ in range(ROUNDS)]
        short = [_opened(folder, "short") for _ in range(ROUNDS)]
        listing = [_opened(folder, "list") for _ in range(3)]
    yield Figure(f"opening {LONG:,} messages and rendering the tail", min(ms for ms, _ in long), "ms", 150)
    yield Figure("the memory of that process", max(mb for _, mb in long), "MB", 100)
    yield Figure(f"opening {SHORT} messages", min(ms for ms, _ in short), "ms", 5)
    yield Figure(f"listing the newest 30 of {SESSIONS:,} sessions", min(ms for ms, _ in listing), "ms")


def _opened(folder: str, name: str) -> tuple[float, float]:
    said = subprocess.run([sys.executable, "-m", "bench.long_sessions", folder, name], capture_output=True, check=True)
    milliseconds, megabytes = said.stdout.split()
    return float(milliseconds), float(megabytes)


def _fill(write: Callable[..., object], messages: int) -> None:
    entries: list[Entry] = []
    for number in range(messages // 4):
        use = ToolUseBlock(f"call_{number}", "read_file", {"path": f"src/module_{number}.py"})
        entries += [
            MessageEntry(Message.user(f"Look at module {number}, please, and tell me what it does.")),
            MessageEntry(Message.assistant("I'll look.", use), model=MODEL),
            Intent(use.id, use.name, "read", use.id, use.input),
            CallResult(ToolResultBlock(use.id, (TextBlock("def answer():\n    return 42\n" * 10),))),
            MessageEntry(Message.assistant("It answers a question. " * 5), model=MODEL),
        ]
        if len(entries) >= 5_000:
            write(*entries)
            entries = []
    write(*entries)


def _fill_with_sessions(log: Log) -> None:
    """Ten thousand rows in the table of sessions, each with its entries."""
    source = log.create()
    source.write_now(MessageEntry(Message.user("Hello.")), MessageEntry(Message.assistant("Hello."), model=MODEL))
    source.close()
    for _ in range(SESSIONS):
        log.fork(source.id)


def _main() -> None:
    folder, name = sys.argv[1:]
    log = Log(folder)
    work = _list if name == "list" else _open
    for _ in range(2):  # the second time counts: the first one imports modules and starts the writer
        started = time.perf_counter()
        finish = work(log, Path(folder, name))
        spent = time.perf_counter() - started
        finish()
    print(spent * 1e3, _peak_megabytes())


def _peak_megabytes() -> float:
    """Of this program alone: what getrusage says has that of the process which started it, before it became this."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def _list(log: Log, _: Path) -> Callable[[], None]:
    assert len(log.sessions(limit=30)) == 30
    return lambda: None


def _open(log: Log, stored: Path) -> Callable[[], None]:
    session = Session.open(log, stored.read_text(), AGENT).now()
    if stored.name == "long":
        provider = session.provider
        assert isinstance(provider, ApiProvider)
        provider.render(Request(repair(session.history.tail), session.store))
    return session.close


if __name__ == "__main__":
    _main()
