"""Which version is spoken, and what there is in version 2: introduction, options, sessions that are not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from outrider.version import __version__
from tests.acp.editor import introduced, running
from tests.acp.editor_v2 import in_v2, speaking
from tests.acp.official import check

INFO = {"name": "tests", "version": "1"}


async def test_an_editor_that_offers_version_2_gets_1_where_the_draft_was_not_asked_for() -> None:
    async with running() as editor:
        answer = await editor.ask("initialize", protocolVersion=2, info=INFO, capabilities={})
    assert answer["protocolVersion"] == 1
    assert answer["agentCapabilities"]["loadSession"] is True


async def test_an_editor_that_offers_only_version_1_gets_that_and_all_of_its_methods(tmp_path: Path) -> None:
    async with introduced("--v2") as editor:
        session = await editor.new(tmp_path)
        assert await editor.prompt(session, "What is 2 + 2?") == "end_turn"
        await editor.ask("session/set_mode", sessionId=session, modeId="edits")
        assert editor.seen(session).mode == "edits"


@pytest.mark.parametrize("offered", [2, 3, 65535])
async def test_an_editor_that_offers_version_2_or_more_gets_it_with_the_flag(offered: int) -> None:
    async with speaking("--v2") as editor:
        answer = await editor.ask("initialize", protocolVersion=offered, info=INFO)
    assert answer == {
        "protocolVersion": 2,
        "info": {"name": "outrider", "version": __version__, "title": "Outrider"},
        "capabilities": {
            "session": {"prompt": {"image": {}, "embeddedContext": {}}, "delete": {}, "additionalDirectories": {}}
        },
    }
    assert len(editor.received) == 1


async def test_a_version_that_nobody_speaks_is_refused_with_those_that_are_and_another_can_follow() -> None:
    async with speaking("--v2") as editor:
        refused = await editor.refusal("initialize", protocolVersion=0, info=INFO)
        assert refused.code == -32022
        assert editor.errors[0]["data"] == {"requested": 0, "supported": [1, 2]}
        check("UnsupportedProtocolVersionErrorData", editor.errors[0]["data"], 2)
        assert (await editor.introduce())["protocolVersion"] == 2


async def test_an_introduction_can_be_repeated_until_something_else_is_asked(tmp_path: Path) -> None:
    async with in_v2() as editor:
        await editor.introduce()
        assert (await editor.refusal("initialize", protocolVersion=1, info=INFO)).code == -32600
        await editor.open(tmp_path)
        assert (await editor.refusal("initialize", protocolVersion=2, info=INFO)).code == -32600


async def test_sessions_of_version_1_are_not_taken_over_into_version_2(tmp_path: Path) -> None:
    async with introduced("--v2") as editor:
        session = await editor.new(tmp_path)
        assert (await editor.refusal("initialize", protocolVersion=2)).code == -32600
        assert await editor.prompt(session, "What is 2 + 2?") == "end_turn"


@pytest.mark.parametrize("method", ["session/load", "session/set_mode", "session/fork", "authenticate", "auth/login"])
async def test_what_version_2_does_not_have_is_not_there(method: str, tmp_path: Path) -> None:
    async with in_v2() as editor:
        editor.is_honest = False
        assert (await editor.refusal(method, sessionId="x", cwd=str(tmp_path))).code == -32601


async def test_modes_and_models_are_options_and_every_change_is_told(tmp_path: Path) -> None:
    async with in_v2() as editor:
        opened = await editor.ask("session/new", cwd=str(tmp_path))
        session = opened["sessionId"]
        assert [option["configId"] for option in opened["configOptions"]] == ["mode", "model"]
        assert {command["name"] for command in opened["availableCommands"]} >= {"model", "permissions", "cost"}
        change = {"sessionId": session, "configId": "mode", "type": "id", "value": "edits"}
        answer = await editor.ask("session/set_config_option", **change)
        assert answer["configOptions"][0]["currentValue"] == "edits"
        assert editor.screen(session).options == answer["configOptions"]
        for wrong in ({"value": "everything"}, {"configId": "colour"}, {"type": "boolean", "value": True}):
            assert (await editor.refusal("session/set_config_option", **change | wrong)).code == -32602
        assert await editor.prompted(session, "/permissions plan") == "end_turn"
        assert editor.screen(session).options[0]["currentValue"] == "plan"


async def test_what_is_said_to_the_program_is_shown_with_its_answer_and_stands_in_no_conversation(
    tmp_path: Path,
) -> None:
    async with in_v2() as editor:
        session = await editor.open(tmp_path)
        answer = await editor.answer(editor.say(session, "/cost"))
        await editor.until(lambda: editor.screen(session).stops, "the end")
        screen = editor.screen(session)
        assert screen.order == [("user", answer["messageId"]), ("agent", answer["messageId"])]
        assert "tokens" in screen.text()
        await editor.prompted(session, "What is 2 + 2?")
        assert screen.order[2:] == [("user", "message-1"), ("agent", "message-2")]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("session/prompt", {"prompt": [{"type": "text", "text": "hello"}]}),
        ("session/resume", {"cwd": "/"}),
        ("session/delete", {}),
        ("session/set_config_option", {"configId": "mode", "type": "id", "value": "ask"}),
        ("tool_call/cancel", {"toolCallId": "c"}),
    ],
)
async def test_a_session_that_nobody_knows_is_named_in_the_error(method: str, params: dict[str, Any]) -> None:
    async with in_v2() as editor:
        refused = await editor.refusal(method, sessionId="0" * 32, **params)
        assert refused.code == -32002
        assert editor.errors[-1]["data"] == {"sessionId": "0" * 32}


async def test_what_is_not_supported_is_refused_instead_of_left_out(tmp_path: Path) -> None:
    server = {"type": "stdio", "name": "files", "command": "/bin/true"}
    async with in_v2() as editor:
        assert (await editor.refusal("session/new", cwd=str(tmp_path), mcpServers=[server])).code == -32602
        session = await editor.open(tmp_path)
        for method, part in (("tool_call/cancel", "toolCallId"), ("terminal/cancel", "terminalId")):
            assert (await editor.refusal(method, sessionId=session, **{part: "c"})).code == -32602
        editor.is_honest = False
        assert (await editor.refusal("session/prompt", sessionId=session, prompt=[])).code == -32602
        assert editor.screen(session).state == "idle"


async def test_sessions_are_listed_closed_and_deleted(tmp_path: Path) -> None:
    async with in_v2() as editor:
        session = await editor.open(tmp_path)
        await editor.prompted(session, "What is 2 + 2?")
        for _ in range(2):  # to close one that is not open is no mistake
            assert await editor.ask("session/close", sessionId=session) == {}
        listed = (await editor.ask("session/list", cwd=str(tmp_path)))["sessions"]
        assert [(each["sessionId"], each["title"]) for each in listed] == [(session, "What is 2 + 2?")]
        await editor.ask("session/delete", sessionId=session)
        assert (await editor.ask("session/list"))["sessions"] == []
