"""MCP servers that an editor passes with a session."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.acp.editor import Editor, allowing, introduced
from tests.cli.asking import everywhere
from tests.mcp.starting import scripted, servers_json
from tests.mcp.test_hostile_servers import is_running
from tests.modelserver import Answer, ModelServer


def given(**options: Any) -> list[dict[str, Any]]:
    server = scripted(**options)
    return [{"name": server.name, "command": server.command, "args": list(server.args), "env": []}]


def call(name: str, **arguments: Any) -> Answer:
    return Answer("", (("call_1", name, arguments),))


def body(server: ModelServer, number: int = -1) -> str:
    return json.dumps(server.requests[number].json)


async def ready(editor: Editor, session: str) -> None:
    """Wait until the servers have started: their prompts are announced."""
    await editor.until(lambda: any("greet" in each for each in commands(editor, session)), "the server's prompt")


def commands(editor: Editor, session: str) -> list[str]:
    told = [each["params"] for each in editor.received if each.get("method") == "session/update"]
    updates = [each["update"] for each in told if each["sessionId"] == session]
    lists = [each["availableCommands"] for each in updates if each["sessionUpdate"] == "available_commands_update"]
    return [command["name"] for command in lists[-1]] if lists else []


async def test_the_agent_says_which_servers_it_can_use() -> None:
    async with introduced() as editor:
        capabilities = editor.received[0]["result"]["agentCapabilities"]
    assert capabilities["mcpCapabilities"] == {"http": True, "sse": True}


async def test_the_tools_of_the_editors_servers_are_offered_called_and_end_with_the_session(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    async with (
        ModelServer([call("mcp__scripted__echo", text="from the editor"), Answer("Done.")]) as server,
        introduced(handlers=allowing(), **everywhere(server)) as editor,
    ):
        session = await editor.new(tmp_path, mcpServers=given(pid_file=str(pids)))
        await ready(editor, session)
        await editor.prompt(session, "Go")
        assert "mcp__scripted__echo" in body(server, 0)
        assert "from the editor" in body(server, 1)
        (asked,) = editor.asked_for("session/request_permission")
        assert asked["toolCall"]["title"] == "scripted: echo(text=from the editor)"
        assert "echo of the MCP server scripted may change something" in json.dumps(asked)
        await editor.ask("session/close", sessionId=session)
        await editor.until(lambda: not is_running(int(pids.read_text())), "the end of the server")


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_a_session_that_is_opened_again_has_them_too(tmp_path: Path, method: str) -> None:
    async with (
        ModelServer([Answer("One."), Answer("Two.")]) as server,
        introduced(**everywhere(server)) as editor,
    ):
        session = await editor.new(tmp_path)
        await editor.prompt(session, "Go")
        await editor.ask("session/close", sessionId=session)
        await editor.ask(method, sessionId=session, cwd=str(tmp_path), mcpServers=given())
        await ready(editor, session)
        await editor.prompt(session, "And now?")
        assert "mcp__" not in body(server, 0)
        assert "mcp__scripted__echo" in body(server, 1)


async def test_a_server_that_cannot_be_used_is_a_notice(tmp_path: Path) -> None:
    servers = [
        {"type": "pipe", "name": "odd", "url": "https://example.org/sse", "headers": []},
        {"name": "x" * 100, "command": "/bin/true", "args": [], "env": []},
        {"type": "http", "name": "mail", "url": "ftp://example.org", "headers": []},
    ]
    async with introduced(capabilities={"session": {"notices": {}}}) as editor:
        session = await editor.new(tmp_path, mcpServers=servers)
        seen = editor.seen(session)
        await editor.until(lambda: len(seen.notices) >= 3, "the notices")
        said = "\n".join(seen.notices)
    assert "The MCP server odd is not used: its type is 'pipe'; stdio, http and sse are supported" in said
    assert "has 1 to" in said
    assert "The MCP server mail is not used" in said


async def test_a_server_that_ends_between_turns_is_a_notice_at_once(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    server = scripted(pid_file=str(pids))
    given = {"name": "scripted", "command": server.command, "args": list(server.args), "env": []}
    async with introduced(capabilities={"session": {"notices": {}}}) as editor:
        session = await editor.new(tmp_path, mcpServers=[given])
        await editor.until(lambda: pids.exists() and pids.read_text().strip(), "the program")
        os.kill(int(pids.read_text()), signal.SIGKILL)
        await editor.until(lambda: any("signal 9" in note for note in editor.seen(session).notices), "a notice")


async def test_a_project_file_is_not_used_without_consent(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text(servers_json(scripted()))
    async with (
        ModelServer([Answer("Done.")]) as server,
        introduced(capabilities={"session": {"notices": {}}}, **everywhere(server)) as editor,
    ):
        session = await editor.new(tmp_path)
        await editor.until(lambda: any("outrider trust" in note for note in editor.seen(session).notices), "a note")
        await editor.prompt(session, "Go")
        assert "mcp__" not in body(server, 0)


async def test_prompts_and_resources_of_servers(tmp_path: Path) -> None:
    async with (
        ModelServer([Answer("Hello."), Answer("Read.")]) as server,
        introduced(**everywhere(server)) as editor,
    ):
        session = await editor.new(tmp_path, mcpServers=given())
        await ready(editor, session)
        assert "scripted:greet" in commands(editor, session)
        await editor.prompt(session, "/scripted:greet Ada")
        assert "Greet Ada." in body(server, 0)
        await editor.prompt(session, "Look at @scripted:memo://3")
        assert "text of memo://3" in body(server, 1)


async def test_a_question_is_a_form_of_the_editor(tmp_path: Path) -> None:
    def answer(params: dict[str, Any]) -> Any:
        return {"action": "accept", "content": {"name": "Ada", "age": 36}}

    handlers = {**allowing(), "elicitation/create": answer}
    async with (
        ModelServer([call("mcp__scripted__ask", text="Who are you?"), Answer("Done.")]) as server,
        introduced(
            handlers=handlers, capabilities={"elicitation": {"form": {}, "url": {}}}, **everywhere(server)
        ) as editor,
    ):
        session = await editor.new(tmp_path, mcpServers=given())
        await ready(editor, session)
        await editor.prompt(session, "Go")
        (asked,) = editor.asked_for("elicitation/create")
        assert asked["mode"] == "form"
        assert asked["message"] == "The MCP server scripted asks: Who are you?"
        assert set(asked["requestedSchema"]["properties"]) == {"name", "age"}
        assert "Ada" in body(server, 1)


async def test_without_forms_choices_are_asked_for_and_text_is_declined(tmp_path: Path) -> None:
    def choose(params: dict[str, Any]) -> Any:
        option = next(each for each in params["options"] if each["name"] in ("blue", "Allow"))
        return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}

    choice = {"type": "object", "properties": {"colour": {"enum": ["red", "blue"]}}, "required": ["colour"]}
    words = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    async with (
        ModelServer(
            [
                call("mcp__scripted__ask", text="Which?"),
                Answer("One."),
                call("mcp__scripted__ask", text="Who?"),
                Answer("Two."),
            ]
        ) as server,
        introduced(
            handlers={"session/request_permission": choose},
            capabilities={"session": {"notices": {}}},
            **everywhere(server),
        ) as editor,
    ):
        session = await editor.new(tmp_path, mcpServers=given(form=choice))
        await ready(editor, session)
        await editor.prompt(session, "Go")
        assert "blue" in body(server, 1)
        other = await editor.new(tmp_path, mcpServers=given(form=words))
        await ready(editor, other)
        await editor.prompt(other, "Go")
        assert "decline" in body(server, 3)
        assert any("this editor has no forms" in note for note in editor.seen(other).notices)


async def test_the_state_of_the_servers_is_a_command(tmp_path: Path) -> None:
    async with introduced() as editor:
        session = await editor.new(tmp_path, mcpServers=given())
        await ready(editor, session)
        await editor.prompt(session, "/mcp")
        assert re.search(r"- scripted  ready, \d+ tools, protocol 2026-07-28", editor.seen(session).text())
