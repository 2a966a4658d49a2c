"""MCP servers in the chat: consent, questions, prompts, resources and their state."""

from __future__ import annotations

import json
import os
import re
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cli.chat.terminal import Terminal, answered_by, at_the_prompt_with
from tests.mcp.starting import scripted, servers_json
from tests.modelserver import ModelServer
from tests.streams import Answer

FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name"},
        "age": {"type": "integer"},
        "colour": {"type": "string", "enum": ["red", "blue"]},
    },
    "required": ["name", "age", "colour"],
}


def call(name: str, **arguments: Any) -> Answer:
    return Answer("", (("call_1", name, arguments),))


def body(server: ModelServer, number: int = -1) -> str:
    return json.dumps(server.requests[number].json)


@pytest.fixture
def users_server(project: Path) -> Path:
    """The user's own server, which needs no consent."""
    folder = project.parent / "home" / ".config" / "outrider"
    folder.mkdir(parents=True)
    (folder / "mcp.json").write_text(servers_json(scripted(form=FORM)))
    return project


async def ready(terminal: Terminal) -> None:
    """Ask for the state until the server is ready."""
    await terminal.wait_for_prompt()
    for _ in range(100):
        await at_the_prompt_with(terminal, "/mcp")
        if re.search(r"scripted  ready, \d+ tools", terminal.transcript):
            return
    raise AssertionError("the server does not get ready")


async def completed(terminal: Terminal, typed: str, wanted: str) -> None:
    """Type until a completion is offered: a server that is slow on a busy machine is asked again later."""
    for _ in range(10):
        terminal.type(typed)
        with suppress(AssertionError):
            await terminal.wait_for(wanted, 12)
            return
        terminal.type("\x15")  # Ctrl-U
    raise AssertionError(f"{wanted} is not offered")


async def test_what_waits_for_consent_is_named_and_not_started(project: Path) -> None:
    (project / ".mcp.json").write_text(servers_json(scripted()))
    async with (
        ModelServer([Answer("One.")]) as server,
        Terminal(cwd=project, columns=120, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "Hello")
        assert "1 MCP server waits for your consent, not used until you agree: outrider trust" in terminal.flowing
        assert "mcp__" not in body(server, 0)
        await at_the_prompt_with(terminal, "/mcp")
        assert "outrider trust, then start the chat again" in terminal.flowing


async def fill(terminal: Terminal, field: str, text: str) -> None:
    """Write a value, and then press Enter: both at once would be a paste."""
    terminal.type(text)
    await terminal.wait_for(f"{field}{text}▏")
    terminal.press("enter")


async def test_a_question_of_a_server_is_answered_in_the_chat(users_server: Path) -> None:
    async with (
        ModelServer([call("mcp__scripted__ask", text="Who are you?"), Answer("Done.")]) as server,
        Terminal("--permissions", "all", cwd=users_server, columns=100, **answered_by(server)) as terminal,
    ):
        await ready(terminal)
        terminal.say("Go")
        await terminal.wait_for("? The MCP server scripted asks:")
        await terminal.wait_for("y answer")
        assert "Who are you?" in terminal.screen
        terminal.press("y")
        await terminal.wait_for("Your name (text): ▏")
        await fill(terminal, "Your name (text): ", "Ada")
        await terminal.wait_for("age (a whole number): ▏")
        await fill(terminal, "age (a whole number): ", "old")
        await terminal.wait_for("Write a whole number.")
        await fill(terminal, "age (a whole number): ", "36")
        await terminal.wait_for("2 blue")
        await terminal.wait_for("colour (a number of the list): ▏")
        await fill(terminal, "colour (a number of the list): ", "2")
        await terminal.wait_for("Done.")
        answered = body(server, 1)
    for part in ("Ada", "36", "blue"):
        assert part in answered


async def test_a_question_can_be_declined_and_cancelled(users_server: Path) -> None:
    asking = call("mcp__scripted__ask", text="Who are you?")
    async with (
        ModelServer([asking, asking, Answer("Done."), asking]) as server,
        Terminal("--permissions", "all", cwd=users_server, columns=100, **answered_by(server)) as terminal,
    ):
        await ready(terminal)
        terminal.say("Go")
        await terminal.wait_for("y answer")
        terminal.type("yes, no, whatever")
        await terminal.wait_for("› yes, no, whatever")
        assert "y answer" in terminal.screen, "a paste is no answer"
        terminal.press("escape")
        await terminal.wait_for("Interrupted.")
        await terminal.wait_for("› yes, no, whatever")
        terminal.type("\x15")  # Ctrl-U
        terminal.say("Again")
        await terminal.wait_for("y answer")
        terminal.press("n")
        await terminal.wait_for("Done.")
        assert "decline" in body(server, 2)
        await terminal.wait_for_prompt()
        terminal.say("Again")
        await terminal.wait_for("y answer")
        terminal.press("escape")
        await terminal.wait_for("Interrupted.")
        await terminal.wait_for_prompt()


async def test_a_question_between_turns_waits_for_the_next_enter(project: Path, tmp_path: Path) -> None:
    gate, answer = tmp_path / "gate", tmp_path / "answer"
    folder = project.parent / "home" / ".config" / "outrider"
    folder.mkdir(parents=True)
    server = scripted(era="legacy", ask_after=str(gate), answer_file=str(answer))
    (folder / "mcp.json").write_text(servers_json(server))
    async with (
        ModelServer([Answer("Hello.")]) as model,
        Terminal(cwd=project, columns=100, **answered_by(model)) as terminal,
    ):
        await ready(terminal)
        terminal.type("Hel")
        gate.touch()
        await terminal.wait_for("The MCP server scripted asks something. Press Enter to see it.")
        terminal.say("lo")
        await terminal.wait_for("Are you there?")
        await terminal.wait_for("y answer")
        terminal.press("y")
        await terminal.wait_for("Hello.")
        await terminal.wait_for_prompt()
        assert '"Hello"' in body(model, 0), "the line that was being written is sent"
    assert json.loads(answer.read_text()) == {"action": "accept", "content": {}}


async def test_the_end_of_a_server_is_shown_at_once(project: Path, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    folder = project.parent / "home" / ".config" / "outrider"
    folder.mkdir(parents=True)
    (folder / "mcp.json").write_text(servers_json(scripted(pid_file=str(pids))))
    async with Terminal(cwd=project, columns=100) as terminal:
        await ready(terminal)
        terminal.type("half a line")
        os.kill(int(pids.read_text()), signal.SIGKILL)
        await terminal.wait_for("The MCP server scripted ended (signal 9).")
        await terminal.wait_for("half a line")


async def test_the_permission_question_names_server_and_tool(users_server: Path) -> None:
    async with (
        ModelServer([call("mcp__scripted__echo", text="x"), Answer("Done.")]) as server,
        Terminal(cwd=users_server, columns=100, **answered_by(server)) as terminal,
    ):
        await ready(terminal)
        terminal.say("Go")
        await terminal.wait_for("esc cancel")
        assert "? Allow scripted: echo(text=x)" in terminal.screen
        assert "a always in this folder: every call of echo of the MCP server scripted" in terminal.screen
        terminal.press("y")
        await terminal.wait_for("Done.")


async def test_prompts_and_resources_are_completed_and_sent(users_server: Path) -> None:
    async with (
        ModelServer([Answer("Hello."), Answer("Read.")]) as server,
        Terminal(cwd=users_server, columns=100, **answered_by(server)) as terminal,
    ):
        await ready(terminal)
        await completed(terminal, "/scripted:", "/scripted:greet")
        terminal.say("greet Ada Lovelace")
        await terminal.wait_for("Hello.")
        assert "Greet Ada Lovelace." in body(server, 0)
        await terminal.wait_for_prompt()
        await completed(terminal, "Look at @scripted:m", "scripted:memo://1")
        terminal.type("emo://1 please\r")
        await terminal.wait_for("Read.")
        assert "text of memo://1" in body(server, 1)
        assert "No file" not in terminal.transcript


async def test_a_prompt_without_its_argument_says_what_it_needs(users_server: Path) -> None:
    async with Terminal("--model", "demo", cwd=users_server, columns=100) as terminal:
        await ready(terminal)
        await at_the_prompt_with(terminal, "/scripted:greet")
        assert "The prompt needs who. Write: /SERVER:greet WHO" in terminal.flowing
        await at_the_prompt_with(terminal, "/scripted:nothing")
        assert "has no prompt 'nothing'. Its prompts are: greet." in terminal.flowing
