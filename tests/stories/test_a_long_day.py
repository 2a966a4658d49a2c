"""Story 6: a long day of 300 turns, with two compactions, a `kill -9`, a rewind, and its end in another editor.

In the morning `outrider -p` walks through a house of many rooms, in a window that is far too small for it. In the
middle of a turn it is killed; `--continue` goes on. At noon a wrong turn deletes files: `outrider sessions rewind`
takes back the files and what was said. In the evening another program, an editor, loads the session, walks through the
rest, compacts it by hand, and asks for a fact of the morning, which the model finds with Recall. Every room was entered
once, nothing that was read is lost, and no request was longer than the window.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from outrider.conversation.messages import Message
from outrider.log.entries import CompactionEntry
from outrider.sync import default_log
from tests.acp.editor import introduced
from tests.acp.seen import Seen
from tests.cli.asking import MODEL, everywhere, latest, messages, running
from tests.cli.program import clean_environment, outrider
from tests.interop import installing
from tests.modelserver import Endless, ModelServer, Raw, Recorded, Status, Step
from tests.streams import Answer, stream_of

HERE = Path(__file__).parent
BYTES_IN_TOKENS = 3.2
TOO_LONG = b'{"error": {"type": "invalid_request_error", "message": "prompt is too long: %d tokens > %d maximum"}}'
_INPUT = re.compile(rb'"input_tokens":\d+')
_CACHED = re.compile(rb'"(cache_read_input_tokens|cache_creation_input_tokens)":\d+')
FLAGS = ("--lean", "--permissions", "all", "--max-turns", "400")
MORNING, NOON, EVENING = "Walk through the first rooms.", "Tidy up the codes.", "Walk through the other rooms."
LAST = "What is the code of room 3?"
NOON_CALL, LAST_CALL = 1001, 1002


def code(room: int) -> str:
    return f"{room * 7919 % 100_000:05}"


class Walker:
    """The model: a room a turn, a note of every fifth. It refuses what is longer than its window."""

    def __init__(self, turns: int, window: int, killed_at: int) -> None:
        self.noon, self.turns, self.window = turns * 2 // 3, turns, window
        self.room = 0
        self.refused = 0
        self.summaries = 0
        self.longest = 0
        self.is_hanging = asyncio.Event()
        self._killed_at = killed_at
        self._prompt = MORNING
        """The newest prompt that a request had: compactions leave it out of later ones."""

    def __call__(self, request: Recorded) -> Step:
        tokens = int(len(request.body) / BYTES_IN_TOKENS)
        self.longest = max(self.longest, tokens)
        if tokens > self.window:
            self.refused += 1
            return Status(400, body=TOO_LONG % (tokens, self.window))
        answer = self._answer(request.body)
        if answer is None:
            self.is_hanging.set()
            return Endless(silent=True)
        events = b"".join(stream_of("anthropic", answer))
        counted = _INPUT.sub(b'"input_tokens":%d' % tokens, events)
        return Raw(_CACHED.sub(lambda found: b'"%b":0' % found[1], counted))

    def _answer(self, body: bytes) -> Answer | None:
        if b"Write a summary of the conversation so far" in body:
            self.summaries += 1
            return Answer("## Goal\nWalk through the house.\n## Open work\nThe next room.")
        whole = body.decode()
        self._prompt = next((prompt for prompt in (LAST, EVENING, NOON) if prompt in whole), self._prompt)
        if self._prompt == NOON:
            return self._once(body, f"toolu_{NOON_CALL:020}", "Bash", command="rm -r codes", access="write")
        if self._prompt == LAST:
            return self._once(body, f"toolu_{LAST_CALL:020}", "Recall", query='"code of room 3 is"')
        return self._walk()

    def _walk(self) -> Answer | None:
        if self.room + 1 == self._killed_at and not self.is_hanging.is_set():
            return None
        if self.room == (self.noon if self._prompt == MORNING else self.turns):
            return Answer("I have been in all of these rooms.")
        self.room += 1
        return Answer("", (self._entering(self.room), *self._noting(self.room)))

    def _entering(self, room: int) -> tuple[str, str, dict[str, Any]]:
        return f"toolu_{room:020}", "Read", {"file_path": f"rooms/{room}.txt"}

    def _noting(self, room: int) -> list[tuple[str, str, dict[str, Any]]]:
        wanted = {"file_path": f"codes/{room}.txt", "content": f"{code(room)}\n"}
        return [(f"toolu_n{room:019}", "Write", wanted)] if room % 5 == 0 else []

    def _once(self, body: bytes, id: str, tool: str, **arguments: Any) -> Answer:
        """Call the tool, then say what it found."""
        results = [block for message in json.loads(body)["messages"] for block in blocks_of(message)]
        found = [each for each in results if each.get("tool_use_id") == id]
        if not found:
            return Answer("", ((id, tool, arguments),))
        codes = re.findall(r"code of room 3 is (\d+)", json.dumps(found))
        return Answer(f"It is {codes[0]}." if codes else "It is tidy now.")


def blocks_of(message: Any) -> list[Any]:
    return message["content"] if isinstance(message["content"], list) else []


class Day:
    """The house, and the environment of the programs."""

    def __init__(self, folder: Path, turns: int, window: int) -> None:
        self.project = folder / "house"
        (self.project / "rooms").mkdir(parents=True)
        for room in range(1, turns + 1):
            text = f"The code of room {room} is {code(room)}. " + "There is an old chair in the corner. " * 40
            (self.project / "rooms" / f"{room}.txt").write_text(text)
        capabilities = folder / "capabilities.json"
        capabilities.write_text(json.dumps({MODEL: {"context_tokens": window}}))
        self.model = Walker(turns, window, killed_at=turns // 3)
        self.capabilities = {"OUTRIDER_CAPABILITIES": str(capabilities)}

    def environment(self, server: ModelServer) -> dict[str, str]:
        return everywhere(server) | self.capabilities

    async def outrider(self, server: ModelServer, *arguments: str) -> str:
        ended = await asyncio.to_thread(outrider, *arguments, cwd=self.project, **self.environment(server))
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def noted(self) -> dict[str, str]:
        return {path.stem: path.read_text().strip() for path in (self.project / "codes").glob("*.txt")}


Finish = Callable[[Day, ModelServer, str], Awaitable[Seen]]


async def finish_in_the_suites_editor(day: Day, server: ModelServer, session: str) -> Seen:
    async with introduced("--permissions", "all", "--lean", **day.environment(server)) as editor:
        await editor.load(session, day.project)
        for prompt in (EVENING, "/compact", LAST):
            assert await editor.prompt(session, prompt) == "end_turn"
        assert await editor.close() == 0
        return editor.seen(session)


async def finish_with_the_official_sdk(day: Day, server: ModelServer, session: str) -> Seen:
    python = installing.python_sdk()
    agent = json.dumps([sys.executable, "-m", "outrider", "acp", "--permissions", "all", "--lean"])
    prompts = json.dumps([EVENING, "/compact", LAST])
    client = [str(python), str(HERE / "loading_client.py"), agent, session, str(day.project), prompts]
    ended = await asyncio.to_thread(
        subprocess.run,
        client,
        env=clean_environment() | day.environment(server),
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
    heard = json.loads(ended.stdout)
    assert heard["stops"] == ["end_turn"] * 3
    seen = Seen()
    for update in heard["told"]:
        seen.take(update)
    return seen


@pytest.mark.parametrize(
    ("turns", "window", "finish"),
    [
        pytest.param(30, 8_000, finish_in_the_suites_editor, id="30"),
        pytest.param(300, 16_000, finish_with_the_official_sdk, id="300", marks=pytest.mark.long),
    ],
)
@pytest.mark.timeout(600)
async def test_a_long_day_is_killed_rewound_and_finished_in_another_editor(
    tmp_path: Path, turns: int, window: int, finish: Finish
) -> None:
    day = Day(tmp_path, turns, window)
    async with ModelServer(day.model) as server:
        await be_killed_and_go_on(day, server)
        session = latest()
        await take_back_a_mistake(day, server, session)
        seen = await finish(day, server, session)
    assert f"It is {code(3)}." in seen.text(), "a fact of the morning, from before the cuts"
    assert (day.model.room, day.model.refused) == (turns, 0)
    nothing_is_lost(messages(session), day, seen)
    with default_log() as log:
        cuts = [record for record in log.records(session) if isinstance(record.entry, CompactionEntry)]
    assert len(cuts) == day.model.summaries >= 2


async def be_killed_and_go_on(day: Day, server: ModelServer) -> None:
    """The process dies while the model thinks; the next one goes on with the next room."""
    with running("-p", MORNING, *FLAGS, cwd=day.project, **day.environment(server)) as process:
        await asyncio.wait_for(day.model.is_hanging.wait(), 300)
        process.kill()
        await asyncio.to_thread(process.wait)
    before = day.model.room
    assert 0 < before < day.model.noon
    said = await day.outrider(server, "-p", "--continue", *FLAGS)
    assert (said, day.model.room) == ("I have been in all of these rooms.\n", day.model.noon)


async def take_back_a_mistake(day: Day, server: ModelServer, session: str) -> None:
    """The notes are deleted by a command, and come back, and nobody ever asked for it."""
    noted, said = day.noted(), messages(session)
    assert noted == {str(room): code(room) for room in range(5, day.model.noon + 1, 5)}
    assert await day.outrider(server, "-p", NOON, "--continue", *FLAGS) == "It is tidy now.\n"
    assert day.noted() == {}
    await day.outrider(server, "sessions", "rewind", session, "--to", "2", "--yes")
    assert (day.noted(), messages(session)) == (noted, said)


def nothing_is_lost(said: list[Message], day: Day, seen: Seen) -> None:
    """The log has every room once, in order; so has the editor, which came in the evening."""
    rooms = [f"toolu_{room:020}" for room in range(1, day.model.turns + 1)]
    calls = [call.id for message in said for call in message.tool_calls]
    assert [call for call in calls if call in set(rooms)] == rooms
    results = {result.tool_use_id: result for message in said for result in message.tool_results}
    for room, call in enumerate(rooms, 1):
        assert f"The code of room {room} is {code(room)}." in results[call].text
    assert not any(result.is_error for result in results.values())
    assert [call for call in seen.calls if call in set(rooms)] == rooms
    assert not seen.open_calls
    assert day.noted() == {str(room): code(room) for room in range(5, day.model.turns + 1, 5)}
    assert "rm -r codes" not in msgspec.json.encode(said).decode()
