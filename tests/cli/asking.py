"""`outrider -p` as a user and as a script run it: against a loopback model server, and while it runs."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from outrider.conversation.messages import Message
from outrider.log.entries import CallResult as Answered
from outrider.runtime.events import Event
from outrider.sync import default_log
from tests.cli.program import clean_environment, outrider, start
from tests.modelserver import ModelServer

DEADLINE = 60.0
KEY = "correct-horse-battery-staple"
MODEL = "anthropic/claude-sonnet-4-5"
Ended: TypeAlias = subprocess.CompletedProcess[str]


def everywhere(server: ModelServer) -> dict[str, str]:
    """An environment in which every provider has a key and the server stands in for all of them."""
    keys = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"), KEY)
    addresses = {"ANTHROPIC_BASE_URL": server.url, "OPENAI_BASE_URL": f"{server.url}/v1"}
    return keys | addresses | {"GOOGLE_GEMINI_BASE_URL": server.url, "OUTRIDER_MODEL": MODEL}


async def ask(
    server: ModelServer, *arguments: str, cwd: Path | None = None, input: bytes = b"", **environment: str
) -> Ended:
    """Run the program to its end while the server plays."""
    environment = everywhere(server) | environment
    return await asyncio.to_thread(lambda: outrider(*arguments, cwd=cwd, input=input, **environment))


@contextmanager
def running(*arguments: str, cwd: Path | None = None, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """The program while it runs. It does not outlive the block."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background of a shell it is ignored
    try:
        process = start(
            *arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd,
            env=clean_environment() | environment,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    with process:
        try:
            yield process
        finally:
            process.kill()


def wait_until(condition: Callable[[], object], process: subprocess.Popen[str]) -> None:
    """Wait for something that a running program does."""
    until = time.monotonic() + DEADLINE
    while not condition():
        assert process.poll() is None, f"it ended before: {process.communicate()}"
        assert time.monotonic() < until
        time.sleep(0.01)


def unread(pipe: int) -> int:
    """The bytes that wait in a pipe."""
    import fcntl
    import termios

    waiting = array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, waiting)
    return waiting[0]


def in_shell(script: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """A line of shell in which `outrider` is the program."""
    line = f'outrider() {{ "{sys.executable}" -m outrider "$@"; }}; {script}'
    environment = clean_environment() | environment
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, env=environment, stdin=subprocess.DEVNULL, timeout=60
    )


def streamed(stdout: str) -> tuple[list[Event], dict[str, Any]]:
    """The events and the result of a stream: the first line names the session, all but the last are known events."""
    *lines, last = stdout.splitlines()
    assert stdout.endswith("\n")
    if lines:  # else it ended before there was a session
        assert msgspec.json.decode(lines.pop(0)) == {"type": "session", "session": msgspec.json.decode(last)["session"]}
    events = [msgspec.json.decode(line, type=Event) for line in lines]
    assert [msgspec.json.encode(event).decode() for event in events] == lines, "what was decoded is all that was there"
    result = msgspec.json.decode(last)
    assert result.pop("type") == "result"
    check_result(result)
    return events, result


def check_result(result: dict[str, Any]) -> None:
    """The fields that every result object has, and no others."""
    always = ["status", "text", "structured_output", "session", "turns", "usage", "cost"]
    assert list(result)[:7] == always
    assert set(result) <= {*always, "error", "stop_reason"}
    assert list(result["usage"]) == [
        "input_tokens",
        "output_tokens",
        "cached_tokens",
        "cache_write_tokens",
        "reasoning_tokens",
        "web_searches",
        "cache_write_1h_tokens",
        "cached_share",
    ]


def latest() -> str:
    """The id of the session that was used last."""
    with default_log() as log:
        return log.sessions(1)[0].id


def messages(session: str = "") -> list[Message]:
    """What was said in it."""
    with default_log() as log:
        return log.messages(session or latest())


def answers() -> list[Answered]:
    """What calls were answered with, in the last session."""
    with default_log() as log:
        return [record.entry for record in log.records(latest()) if isinstance(record.entry, Answered)]


def sessions() -> int:
    """How many there are."""
    with default_log() as log:
        return len(log.sessions())


def is_alive(process_id: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        os.kill(process_id, 0)
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
