"""The file of `--metrics`: written while sessions live, for its owner alone, and without ever holding up the loop."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from outrider.acp.agent import EditorAgent
from outrider.acp.updates import metrics
from outrider.acp.updates.metrics import MetricsFile, append
from tests.acp.editor import introduced, running
from tests.cli.program import outrider


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not true():
            await asyncio.sleep(0.01)


async def test_each_session_has_a_last_line_with_its_counts(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one\n")
    file = tmp_path / "metrics.jsonl"
    async with introduced("--metrics", str(file), name="counting") as editor:
        one, two = await editor.new(tmp_path), await editor.new(tmp_path)
        await editor.prompt(one, "read notes.txt")
        await editor.ask("session/close", sessionId=one)
        assert await editor.close() == 0
    ends = {each["session"]: each for each in lines(file) if each["ended"]}
    assert list(ends) == [one, two]
    assert {each["client"] for each in ends.values()} == {"counting"}
    assert ends[one]["updates"]["sent"] == sum(ends[one]["patterns"].values()) >= 2  # a slow one sends more
    assert ends[one]["patterns"]["call"] == 1
    assert ends[one]["rate"]["most"] >= 1
    assert ends[one]["bytes"]["wanted"] > ends[one]["bytes"]["sent"] > 0
    assert ends[one]["seconds_detecting"] > 0
    assert ends[two]["updates"]["sent"] == 0


async def test_what_was_counted_outlives_a_process_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one\n")
    file = tmp_path / "metrics.jsonl"
    before = os.umask(0)
    try:
        async with introduced("--metrics", str(file)) as editor:
            session = await editor.new(tmp_path)
            await editor.prompt(session, "read notes.txt")
            await until(lambda: file.read_bytes())
            editor.process.kill()
            await editor.ended()
    finally:
        os.umask(before)
    (line,) = lines(file)
    assert (line["session"], line["ended"]) == (session, False)
    assert line["updates"]["sent"] >= 2  # a slow one sends more
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_counts_are_written_when_a_turn_ends(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one\n")
    file = tmp_path / "metrics.jsonl"
    heard: list[dict[str, Any]] = []
    writer: Any = lambda line: heard.append(json.loads(line))  # noqa: E731 - it has an attribute
    writer.congested = False
    writer.when_drained = lambda callback: asyncio.get_running_loop().call_soon(callback)
    agent = EditorAgent(writer, {"model": "demo"})
    agent._metrics_file = MetricsFile(file, interval=3_600)

    async def ask(number: int, method: str, **params: Any) -> Any:
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        agent.connection.feed(json.dumps(request).encode() + b"\n")
        await until(lambda: any(each.get("id") == number for each in heard))
        return next(each["result"] for each in heard if each.get("id") == number)

    await ask(1, "initialize", protocolVersion=1, clientCapabilities={})
    session = (await ask(2, "session/new", cwd=str(tmp_path), mcpServers=[]))["sessionId"]
    await ask(3, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "read notes.txt"}])
    await until(file.exists)
    await until(lambda: lines(file))
    updates = [each["params"]["update"]["sessionUpdate"] for each in heard if each.get("method") == "session/update"]
    sent = len([kind for kind in updates if kind.startswith("tool_call")])  # fewer if the machine is fast
    assert [(line["session"], line["ended"], line["updates"]["sent"]) for line in lines(file)] == [
        (session, False, sent)
    ]
    assert sent >= 2
    await agent.close()
    assert lines(file)[-1]["ended"]


async def test_counts_are_written_now_and_then_while_a_turn_goes_on_and_only_if_they_changed(tmp_path: Path) -> None:
    file, counts = tmp_path / "metrics.jsonl", {"n": 0}
    measured = MetricsFile(file, interval=0.01)
    measured.add_session("s", lambda: dict(counts))
    for number in (1, 2, 3):
        counts["n"] = number
        await until(lambda: file.exists() and lines(file)[-1]["n"] == counts["n"])
    await measured.close()
    assert [(line["n"], line["ended"]) for line in lines(file)] == [(1, False), (2, False), (3, False), (3, True)]


async def test_a_disk_that_does_not_answer_holds_up_nothing_and_nothing_piles_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, released, counts = tmp_path / "metrics.jsonl", threading.Event(), {"n": 0}

    def slow(path: Path, data: bytes) -> None:
        released.wait(20)
        append(path, data)

    monkeypatch.setattr(metrics, "append", slow)
    measured = MetricsFile(file, close_timeout=0.01)
    measured.add_session("s", lambda: dict(counts))
    begun = time.monotonic()
    for number in range(1, 1_001):
        counts["n"] = number
        measured.write("s")
        await asyncio.sleep(0)
    await measured.close()
    assert time.monotonic() - begun < 10, "neither the loop nor the end waits for the disk"
    released.set()
    await until(lambda: file.exists() and lines(file)[-1]["ended"])
    assert len(lines(file)) <= 3


async def test_a_disk_that_is_full_costs_the_line_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, counts = tmp_path / "metrics.jsonl", {"n": 1}
    failed = asyncio.Event()
    loop = asyncio.get_running_loop()

    def full(path: Path, data: bytes) -> None:
        loop.call_soon_threadsafe(failed.set)
        raise OSError(28, "No space left on device")

    measured = MetricsFile(file)
    measured.add_session("s", lambda: dict(counts))
    monkeypatch.setattr(metrics, "append", full)
    counts["n"] = 2
    measured.write("s")
    await asyncio.wait_for(failed.wait(), 20)
    monkeypatch.setattr(metrics, "append", append)
    await measured.close()
    assert [(line["n"], line["ended"]) for line in lines(file)] == [(2, True)]


@pytest.mark.parametrize("kind", ["folder", "pipe", "missing"])
def test_a_file_that_cannot_be_written_is_told_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "there"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path = path / "metrics.jsonl"
    ended = outrider("acp", "--metrics", str(path))
    assert ended.returncode == 2
    assert f"--metrics: {path} cannot be written" in ended.stderr


@pytest.mark.parametrize(
    ("given", "said"),
    [("soon", "must be a number of seconds, not 'soon'"), ("2", "from 0 to 1"), ("-1", "from 0 to 1")],
)
def test_an_interval_that_cannot_be_is_told_at_once(given: str, said: str) -> None:
    ended = outrider("acp", f"--update-interval={given}")
    assert ended.returncode == 2
    assert said in ended.stderr


async def test_without_a_file_nothing_is_written(tmp_path: Path) -> None:
    async with running() as editor:
        await editor.initialize()
        await editor.new(tmp_path)
        assert await editor.close() == 0
    assert not os.listdir(tmp_path)
