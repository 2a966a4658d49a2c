"""Story 5: a script saves its conversation as JSON, is killed, and continues with other providers.

The script is examples/held_conversation.py as it stands there. It is killed while a tool waits for a file, a pipe into
which nobody writes, so that the moment is always the same one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.adapters import ONE_EACH
from tests.cli.asking import everywhere
from tests.cli.chat.terminal import until
from tests.cli.program import clean_environment
from tests.modelserver import ModelServer, Recorded
from tests.readback import items_of, rules_broken
from tests.stories.shell_picture import take_picture_of_shell
from tests.streams import Answer

SCRIPT = Path(__file__).parents[2] / "examples" / "held_conversation.py"
QUESTION = "Read january.txt and february.txt: which month was better?"
FINAL_TURN = b"This is your FINAL turn"


def asks_for(*paths: str, words: str = "") -> Answer:
    """A reply that reads files."""
    return Answer(words, tuple((f"call_{path[:3]}", "read_file", {"path": path}) for path in paths))


class Desk:
    """Where a person starts the script."""

    def __init__(self, folder: Path, server: ModelServer) -> None:
        self.folder = folder
        self._environment = clean_environment() | everywhere(server) | {"PYTHONUNBUFFERED": "1"}
        self.typed: list[tuple[str, str]] = []
        """Each command with what was printed."""

    @property
    def kept(self) -> list[dict[str, Any]]:
        """The conversation in the file."""
        messages: list[dict[str, Any]] = json.loads((self.folder / "conversation.json").read_bytes())
        return messages

    @contextlib.asynccontextmanager
    async def started(self, model: str, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """The script at work; at the end of the block `said` is what it printed."""
        script = await asyncio.create_subprocess_exec(
            sys.executable,
            SCRIPT,
            *arguments,
            cwd=self.folder,
            env=self._environment | {"OUTRIDER_MODEL": model},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            yield script
        finally:
            if script.returncode is None:
                script.kill()
            printed, _ = await script.communicate()
            self.said = printed.decode()
            command = " ".join(["python held_conversation.py", *(f'"{argument}"' for argument in arguments)])
            end = "Killed" if script.returncode == -signal.SIGKILL else ""
            chosen = (f"export OUTRIDER_MODEL={model}", "")
            self.typed += [] if chosen in self.typed else [chosen]
            self.typed.append((command, f"{self.said}{end}".rstrip()))

    async def run(self, model: str, *arguments: str) -> str:
        """Start the script, wait for its end, and say what it printed."""
        async with self.started(model, *arguments) as script:
            await asyncio.wait_for(script.wait(), 60)
        assert script.returncode == 0, self.said
        return self.said


def said_in(request: Recorded) -> list[tuple[str, str]]:
    """What a request says, after a look at whether its API would refuse it."""
    case = next(case for case in ONE_EACH if case.api == request.api)
    assert list(rules_broken(case.api, request.json, case.model)) == []
    return [(item.kind, item.text or item.name) for item in items_of(case.api, request.json)]


def kinds(message: dict[str, Any]) -> list[str]:
    """What the blocks of a stored message are."""
    return [block["type"] for block in message["content"]]


async def until_read(pipe: Path) -> int:
    """Wait until somebody reads from the pipe; it waits for more as long as the other end stays open."""
    ends: list[int] = []

    def is_read() -> bool:
        with contextlib.suppress(OSError):  # nobody has it open yet
            ends.append(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        return bool(ends)

    await until(is_read, what="the tool to open the file")
    return ends[0]


@pytest.mark.long
async def test_a_script_is_killed_and_goes_on_with_other_providers_until_it_has_finished(tmp_path: Path) -> None:
    for month, orders in (("january", 310), ("march", 350), ("april", 290)):
        (tmp_path / f"{month}.txt").write_text(f"{orders} orders\n")
    february = tmp_path / "february.txt"
    os.mkfifo(february)
    steps = [
        asks_for("january.txt", "february.txt", words="Let me read both."),
        asks_for("march.txt", words="February was better. I look at March, too."),
        asks_for("april.txt", words="And at April."),
        Answer("February was the best month: 420 orders."),
        Answer("April, with 290 orders."),
    ]
    async with ModelServer(steps) as server:
        desk = Desk(tmp_path, server)
        await think_and_be_killed(desk, february)
        february.unlink()
        february.write_text("420 orders\n")
        await go_on_run_out_of_turns_and_finish(desk, server)
        await ask_a_third_provider(desk, server)
    take_picture_of_shell("5-a-script-that-holds-its-conversation", *desk.typed)


async def think_and_be_killed(desk: Desk, february: Path) -> None:
    """The conversation is on disk, ends with two calls, and no result of theirs is anywhere."""
    async with desk.started("anthropic/claude-sonnet-4-5", QUESTION) as script:
        end = await until_read(february)
        script.send_signal(signal.SIGKILL)
        await script.wait()
        os.close(end)
    assert script.returncode == -signal.SIGKILL
    assert desk.said.splitlines() == [
        "think: Let me read both. (pending calls: 2)",
        "  2 messages are kept in conversation.json",
    ]
    assert [(message["role"], kinds(message)) for message in desk.kept] == [
        ("user", ["text"]),
        ("assistant", ["text", "tool_use", "tool_use"]),
    ]


async def go_on_run_out_of_turns_and_finish(desk: Desk, server: ModelServer) -> None:
    """Another provider gets both results in order; out of turns, every call is answered, and the next run ends it."""
    said = await desk.run("openai/gpt-5.6")
    assert said.splitlines() == [
        "run: max_turns (turns: 2)",
        "  7 messages are kept in conversation.json",
        "run: done (turns: 1)",
        "  8 messages are kept in conversation.json",
        "February was the best month: 420 orders.",
    ]
    asked, first, last_turn, after = server.requests
    assert [request.api for request in server.requests] == ["anthropic", "openai", "openai", "openai"]
    assert said_in(asked) == [("user", QUESTION)]
    assert said_in(first) == [
        ("user", QUESTION),
        ("assistant", "Let me read both."),
        ("call", "read_file"),
        ("call", "read_file"),
        ("result", "310 orders\n"),
        ("result", "420 orders\n"),
    ]
    assert [FINAL_TURN in request.body for request in server.requests] == [False, False, True, False]
    assert said_in(last_turn)[:-1] == [
        *said_in(first),
        ("assistant", "February was better. I look at March, too."),
        ("call", "read_file"),
        ("result", "350 orders\n"),
    ]
    assert said_in(after) == [
        *said_in(last_turn)[:-1],
        ("assistant", "And at April."),
        ("call", "read_file"),
        ("result", "290 orders\n"),
    ]
    assert FINAL_TURN not in (desk.folder / "conversation.json").read_bytes()


async def ask_a_third_provider(desk: Desk, server: ModelServer) -> None:
    """What is finished stays so, whoever is asked; a new question goes on from all of it."""
    finished = desk.kept
    assert await desk.run("gemini/gemini-3-pro") == (
        "run: done (turns: 0)\n  8 messages are kept in conversation.json\nFebruary was the best month: 420 orders.\n"
    )
    assert (len(server.requests), desk.kept) == (4, finished)
    assert (await desk.run("gemini/gemini-3-pro", "And the worst?")).endswith("\nApril, with 290 orders.\n")
    assert server.requests[-1].api == "gemini"
    assert said_in(server.requests[-1]) == [
        *said_in(server.requests[-2]),
        ("assistant", "February was the best month: 420 orders."),
        ("user", "And the worst?"),
    ]
    assert desk.kept[:8] == finished
    assert [kinds(message) for message in desk.kept[8:]] == [["text"], ["text"]]
