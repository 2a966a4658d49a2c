"""The editor agent as a process: how soon it answers, how fast it writes, what a command that prints takes in bytes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from bench.figure import Figure

ROUNDS, UPDATES, BURST = 7, 10_000, 100
LINES = 2_000
PRINTED = LINES * 81
HERE = Path(__file__).parent
OURS = (sys.executable, "-P", "-m", "outrider", "acp")
PEER = HERE / "peers" / "acp_sdk_agent.py"
MISSING = "the Python SDK is missing: name a Python that has it in OUTRIDER_BENCH_ACP_PYTHON"
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
_SCRIPT = f"""\
for number in $(seq {LINES}); do
    printf '%080d\\n' $number
    [ $((number % 50)) = 0 ] && sleep 0.05
done
true
"""


def measure() -> Iterator[Figure]:
    """Each figure from rounds in which both take turns; the best round counts."""
    python = peer()
    yield _spawning(python)
    yield _opening()
    yield _writing(python)
    for name, capabilities, most in (
        ("in version 1 alone", {}, 1.3),
        ("with output appended", {"_meta": {"terminal_output": True}}, 1.3),
    ):
        sent, updates = _printing(capabilities)
        detail = f"{sent:,} bytes in {updates} updates"
        yield Figure(f"2,000 lines of 80 characters {name}, sent / printed", sent / PRINTED, "x", most, detail)


def peer() -> str:
    """A Python that has the SDK: the named one, the one of the benchmarks, or the one that the tests have made."""
    places = (HERE / ".peers" / "acp", Path(sys.prefix) / "interop" / "agent-client-protocol")
    found = [str(place / "bin" / "python") for place in places if (place / "bin" / "python").exists()]
    return os.environ.get("OUTRIDER_BENCH_ACP_PYTHON") or next(iter(found), "")


# How soon it answers


def _spawning(python: str) -> Figure:
    agents: dict[str, Sequence[str]] = {"ours": OURS} | ({"theirs": (python, str(PEER))} if python else {})
    best = dict.fromkeys(agents, float("inf"))
    for number in range(ROUNDS + 1):
        for name, argv in agents.items():
            seconds = _seconds_to_answer(argv)
            if number:  # the first round compiles
                best[name] = min(best[name], seconds)
    own = f"{best['ours'] * 1e3:.0f} ms"
    if not python:
        return Figure("from the start of the agent to its first answer", best["ours"] * 1e3, "ms", None, MISSING)
    detail = f"{own} against {best['theirs'] * 1e3:.0f}"
    ratio = best["ours"] / best["theirs"]
    return Figure("from its start to its first answer / the Python SDK", ratio, "x", 0.25, detail)


def _seconds_to_answer(argv: Sequence[str]) -> float:
    started = time.perf_counter()
    with Agent(argv, ENVIRONMENT) as agent:
        agent.initialize()
        return time.perf_counter() - started


def _opening() -> Figure:
    """The first session of a process. The client asks for it as soon as it has its first answer."""
    best = float("inf")
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as home:
        own = {"OUTRIDER_HOME": home, "XDG_CONFIG_HOME": home, "OUTRIDER_MODEL": "demo"}
        for _ in range(ROUNDS):
            with Agent(OURS, ENVIRONMENT | own) as agent:
                agent.initialize()
                started = time.perf_counter()
                agent.ask("session/new", {"cwd": folder, "mcpServers": []})
                best = min(best, time.perf_counter() - started)
    return Figure("from the first session/new to its answer", best * 1e3, "ms", 200, f"best of {ROUNDS}")


# How fast it writes


def _writing(python: str) -> Figure:
    name = f"{UPDATES:,} updates of one field, from the change to the pipe"
    writers: dict[str, Sequence[str]] = {"ours": (sys.executable, "-m", "bench.acp")}
    if python:
        writers["theirs"] = (python, str(PEER))
    best = dict.fromkeys(writers, float("inf"))
    for _ in range(3):
        for each, argv in writers.items():
            best[each] = min(best[each], _seconds_to_write(argv))
    rate = {each: f"{UPDATES / seconds:,.0f} a second" for each, seconds in best.items()}
    if not python:
        return Figure(name, best["ours"] / UPDATES * 1e6, "µs", None, f"{rate['ours']}; {MISSING}")
    detail = f"{rate['ours']} against {rate['theirs']}"
    return Figure(f"{name} / the SDK", best["ours"] / best["theirs"], "x", 1 / 3, detail)


def _seconds_to_write(argv: Sequence[str]) -> float:
    """CPU seconds, as the writer says on stderr when all has been taken from its pipe."""
    ended = subprocess.run([*argv, str(UPDATES)], stdin=subprocess.PIPE, capture_output=True, env=ENVIRONMENT)
    assert ended.stdout.count(b"\n") == UPDATES + 1, ended.stderr.decode()
    return float(ended.stderr)


async def _write(count: int) -> float:
    """CPU seconds for changes of one field through the engine and the wire, as a session has them."""
    from outrider.acp.client import EditorClient
    from outrider.acp.connection import Connection
    from outrider.acp.content import to_session_update
    from outrider.acp.update_sender import UpdateSender
    from outrider.acp.updates.call_state import CallState
    from outrider.acp.updates.engine import Engine
    from outrider.acp.updates.pacer import UpdateTarget
    from outrider.acp.writer import PipeWriter

    writer = PipeWriter(1, _gone)
    client = EditorClient(Connection(writer, {}, {}), writer)
    sender = UpdateSender(client, "0123456789abcdef0123456789abcdef", _no_file, lambda: (None, None))
    engine = Engine(UpdateTarget(lambda update: sender.send(to_session_update(update, _no_file)), client))
    engine.announce(CallState("call_0001", title="Edit", kind="edit"))
    engine.flush()
    started = time.process_time()
    for number in range(count):
        engine.change("call_0001", title=f"Step {number}")
        engine.flush()
        if number % BURST == 0:
            await asyncio.sleep(0)
    await writer.flush(60)
    return time.process_time() - started


def _gone() -> NoReturn:
    raise BrokenPipeError("nobody reads")


def _no_file(_: Any) -> bytes:
    return b""


# How many bytes a printing command takes


def _printing(capabilities: dict[str, Any]) -> tuple[int, int]:
    """Bytes and number of the updates for a command that prints for some two seconds."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as home:
        Path(folder, "lines.sh").write_text(_SCRIPT)
        own = {"OUTRIDER_HOME": home, "XDG_CONFIG_HOME": home, "OUTRIDER_MODEL": "demo"}
        with Agent((*OURS, "--permissions", "all"), ENVIRONMENT | own) as agent:
            agent.initialize(capabilities)
            opened, _ = agent.ask("session/new", {"cwd": folder, "mcpServers": []})
            prompt = [{"type": "text", "text": "run `bash lines.sh`"}]
            ended, told = agent.ask("session/prompt", {"sessionId": opened["sessionId"], "prompt": prompt})
    assert ended["stopReason"] == "end_turn"
    about_it = [line for line in told if b'"sessionUpdate":"tool_call' in line]
    last = b"%080d" % LINES
    assert any(last in line for line in about_it), "the last line that was printed has been sent"
    return sum(map(len, about_it)), len(about_it)


class Agent:
    """An agent's process, and a client that is no more than lines."""

    def __init__(self, argv: Sequence[str], environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self._number = 0

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def initialize(self, capabilities: dict[str, Any] | None = None) -> None:
        """The first request of a client."""
        answer, _ = self.ask("initialize", {"protocolVersion": 1, "clientCapabilities": capabilities or {}})
        assert answer["protocolVersion"] == 1

    def ask(self, method: str, params: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        """The answer, and the lines that came before it."""
        self._number += 1
        request = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(msgspec.json.encode(request) + b"\n")
        self._process.stdin.flush()
        before: list[bytes] = []
        for line in self._process.stdout:
            message = msgspec.json.decode(line)
            if message.get("method") == "session/request_permission":
                self._allow(message["id"])
            if message.get("id") == self._number and "method" not in message:
                assert "result" in message, message
                return message["result"], before
            before.append(line)
        raise EOFError(f"the agent ended before it answered {method}")

    def close(self) -> None:
        """End it in good order."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.stdin = None
        self._process.wait(60)

    def _allow(self, id: int) -> None:
        """A person who says yes."""
        outcome = {"outcome": {"outcome": "selected", "optionId": "once"}}
        assert self._process.stdin
        self._process.stdin.write(msgspec.json.encode({"jsonrpc": "2.0", "id": id, "result": outcome}) + b"\n")
        self._process.stdin.flush()


if __name__ == "__main__":
    print(asyncio.run(_write(int(sys.argv[1]))), file=sys.stderr)
