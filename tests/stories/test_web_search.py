"""Web search in the terminal program: one question, sources for people and scripts, and a log that keeps it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from outrider.cli.sources import has_links
from outrider.coding.config.settings import PermissionSettings, Settings, WebSettings
from outrider.coding.front_end import FrontEnd
from outrider.coding.permissions.question import Answer as Decision
from outrider.coding.permissions.question import Question
from outrider.coding.workbench import Workbench
from outrider.log.log import Log
from tests.acp.editor import allowing, introduced, selecting
from tests.cli.asking import MODEL, ask, everywhere, running
from tests.cli.chat.terminal import Terminal, answered_by
from tests.cli.program import outrider
from tests.modelserver import Answer, Endless, ModelServer, Raw
from tests.searches import FOUND, PRINTED, RAN, USE, anthropic_stream

pytestmark = pytest.mark.long  # a story with programs

ASK = {"OUTRIDER_WEB_SEARCH": "ask"}
ON = {"OUTRIDER_WEB_SEARCH": "on"}


def searches(request: Any) -> bool:
    """Whether the API may search."""
    return any(tool.get("type", "").startswith("web_search") for tool in request.json["tools"])


def may_ask(request: Any) -> bool:
    """Whether the model has the tool that asks."""
    return any(tool.get("name") == "web_search" and "input_schema" in tool for tool in request.json["tools"])


WANTS = Answer("", (("call_1", "web_search", {"query": "ferries to Oban"}),))


# The chat


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


async def test_the_chat_asks_once_when_the_model_wants_to_search_and_remembers_always(project: Path) -> None:
    async with (
        ModelServer([Answer("Hi."), WANTS, Raw(anthropic_stream()), Answer("Two."), Raw(anthropic_stream())]) as server,
        Terminal(cwd=project, **answered_by(server) | ASK) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.say("Hello.")
        await terminal.wait_for("Hi.")
        await terminal.wait_for_prompt()
        assert "Allow" not in terminal.transcript, "nothing is asked before the model wants to search"
        terminal.say("Search.")
        await terminal.wait_for("esc cancel")
        assert "? Allow web_search(ferries to Oban)" in terminal.screen
        terminal.press("a")
        await terminal.wait_for("enter confirm")
        terminal.press("enter")
        await terminal.wait_for("[1] A — https://a.test")
        await terminal.wait_for_prompt()
        terminal.say("Again.")
        await terminal.wait_for("Two.")
        assert terminal.transcript.count("? Allow web_search") <= 2, "it is redrawn, not asked again"
        async with Terminal(cwd=project, **answered_by(server) | ASK) as another:
            await another.wait_for_prompt()
            another.say("Search.")
            await another.wait_for("[1] A — https://a.test")
    assert [searches(each) for each in server.requests] == [False, False, True, True, True]
    assert [may_ask(each) for each in server.requests] == [True, True, False, False, False]
    assert b"The user allows web search, from now on in this session." in server.requests[2].body


async def test_no_holds_for_the_chat(project: Path) -> None:
    async with (
        ModelServer([WANTS, Answer("One."), Answer("Two.")]) as server,
        Terminal(cwd=project, **answered_by(server) | ASK) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.say("Search.")
        await terminal.wait_for("esc cancel")
        assert "y yes, in this session" in terminal.screen
        assert "n no, go on without" in terminal.screen
        terminal.press("n")
        await terminal.wait_for("One.")
        await terminal.wait_for_prompt()
        assert "What should it do instead?" not in terminal.transcript
        terminal.say("Again.")
        await terminal.wait_for("Two.")
    assert not any(map(searches, server.requests))
    assert [may_ask(each) for each in server.requests] == [True, False, False]
    assert b"the user does not want this" in server.requests[1].body


async def test_sources_are_links_where_the_terminal_has_them(project: Path) -> None:
    async with (
        ModelServer([Raw(anthropic_stream())]) as server,
        Terminal(cwd=project, **answered_by(server) | ON, TERM_PROGRAM="WezTerm") as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.say("Search.")
        await terminal.wait_for("[1] A")
        assert "— https://a.test" not in terminal.screen


def test_a_multiplexer_gets_no_links() -> None:
    assert has_links({"VTE_VERSION": "7600", "TERM": "xterm-256color"})
    assert not has_links({"VTE_VERSION": "7600", "TERM": "tmux-256color", "TMUX": "/tmp/1"})
    assert not has_links({"TERM": "xterm-256color"})


# The question, in one process


async def opened(project: Path, asked: list[Question], verdict: str, **settings: Any) -> tuple[Workbench, Any]:
    async def answer(question: Question) -> Decision:
        asked.append(question)
        return Decision(verdict)  # type: ignore[arg-type]

    bench = Workbench(Settings(**settings), project, front_end=FrontEnd(answer))
    return bench, bench.open(Log(project.parent / "log"), model="anthropic/claude-sonnet-4-5")


@pytest.mark.parametrize(
    ("settings", "questions", "is_on"),
    [
        ({}, 1, [False, True]),
        ({"web": WebSettings(search="on")}, 0, [True, True]),
        ({"web": WebSettings(search="off")}, 0, [False, False]),
        ({"tools": ("Read",)}, 0, [False, False]),
        ({"tools": ("Read", "web_search")}, 1, [False, True]),
        ({"lean": "on"}, 0, [False, False]),
        ({"permissions": PermissionSettings(mode="plan")}, 1, [False, True]),
        ({"permissions": PermissionSettings(mode="all")}, 0, [True, True]),
    ],
)
async def test_settings_decide_whether_there_is_a_question(
    project: Path, settings: dict[str, Any], questions: int, is_on: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Question] = []
    async with ModelServer([WANTS, Answer("Two.")]) as server:
        for name, value in everywhere(server).items():
            monkeypatch.setenv(name, value)
        bench, session = await opened(project, asked, "once", **settings)
        await session.run("Hello")
        session.close()
        bench.close()
    assert len(asked) == questions
    assert [searches(request) for request in server.requests] == is_on
    assert [may_ask(request) for request in server.requests] == [questions == 1, False]


async def test_a_turn_that_is_cancelled_at_the_question_asks_again(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Question] = []
    async with ModelServer([WANTS, WANTS]) as server:
        for name, value in everywhere(server).items():
            monkeypatch.setenv(name, value)
        bench, session = await opened(project, asked, "no")

        async def cancel(question: Question) -> Decision:
            asked.append(question)
            session.cancel()
            return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

        bench.permissions._ask = cancel
        for count in (1, 2):
            result = await session.run("Hello")
            assert (result.status, len(asked)) == ("cancelled", count)
        session.close()
        bench.close()
    assert all(map(may_ask, server.requests))


async def test_a_sub_agent_asks_for_itself_and_the_answer_is_for_all(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Question] = []
    given = {"description": "look it up", "prompt": "Search.", "subagent_type": "General"}
    steps = [Answer("", (("t", "Task", given),)), WANTS, Answer("Found."), Answer("Done.")]
    async with ModelServer(steps) as server:
        for name, value in everywhere(server).items():
            monkeypatch.setenv(name, value)
        bench, session = await opened(project, asked, "once")
        await session.run("Delegate it")
        session.close()
        bench.close()
    assert [each.asker for each in asked] == ["General: look it up"]
    assert [searches(each) for each in server.requests] == [False, False, True, True]


# Editors


async def test_an_editor_is_asked_for_permission_once(tmp_path: Path) -> None:
    async with (
        ModelServer([WANTS, Raw(anthropic_stream()), Answer("Two.")]) as server,
        introduced(handlers=allowing(), **everywhere(server) | ASK) as editor,
    ):
        session = await editor.new(tmp_path)
        assert await editor.prompt(session, "Search.") == "end_turn"
        assert await editor.prompt(session, "Again.") == "end_turn"
        (question,) = editor.asked_for("session/request_permission")
        assert (question["toolCall"]["toolCallId"], question["toolCall"]["title"]) == (
            "call_1",
            "web_search(ferries to Oban)",
        )
        assert [option["kind"] for option in question["options"]] == [
            "allow_once",
            "allow_always",
            "reject_once",
            "reject_always",
        ]
        assert "[A](https://a.test)" in editor.seen(session).text()
    assert [searches(each) for each in server.requests] == [False, True, True]


async def test_an_editor_that_rejects_it_works_without(tmp_path: Path) -> None:
    async with (
        ModelServer([WANTS, Answer("One.")]) as server,
        introduced(handlers=selecting_no(), **everywhere(server) | ASK) as editor,
    ):
        session = await editor.new(tmp_path)
        assert await editor.prompt(session, "Hello.") == "end_turn"
        assert "One." in editor.seen(session).text(), "the turn goes on"
    assert not any(map(searches, server.requests))
    assert [may_ask(each) for each in server.requests] == [True, False]


def selecting_no() -> dict[str, Any]:
    return {"session/request_permission": selecting("no")}


# Scripts


async def test_a_script_searches_only_if_it_may(tmp_path: Path) -> None:
    async with ModelServer([Answer("One."), Answer("Two."), Answer("Three.")]) as server:
        where: dict[str, Any] = {"cwd": tmp_path, **everywhere(server)}
        await asyncio.to_thread(lambda: outrider("-p", "Hi", **where | ASK))
        await asyncio.to_thread(lambda: outrider("-p", "Hi", "--permissions", "all", **where | ASK))
        await asyncio.to_thread(lambda: outrider("-p", "Hi", **where | ON))
    assert [searches(request) for request in server.requests] == [False, True, True]
    assert not any(map(may_ask, server.requests))


async def test_a_script_gets_the_sources(tmp_path: Path) -> None:
    async with ModelServer([Raw(anthropic_stream()), Raw(anthropic_stream())]) as server:
        text = await ask(server, "-p", "Search.", cwd=tmp_path)
        found = await ask(server, "-p", "Search.", "--output-format", "json", cwd=tmp_path)
    assert text.stdout.endswith("a cathedral.\n\n[1] A — https://a.test\n")
    (source,) = json.loads(found.stdout)["citations"]
    assert (source["url"], source["title"]) == ("https://a.test", "A")


# The log


async def test_a_killed_session_goes_on_with_its_searches(tmp_path: Path) -> None:
    """The first reply is in the log; the process dies by SIGKILL in the second one."""
    async with ModelServer(
        [Raw(anthropic_stream()), Endless(silent=False), Answer("More."), Answer("Fork.")]
    ) as server:
        environment = everywhere(server) | ON
        first = await asyncio.to_thread(lambda: outrider("-p", "Search.", cwd=tmp_path, **environment))
        assert first.returncode == 0, first.stderr
        with running("-p", "And?", "--continue", cwd=tmp_path, **environment) as process:
            while len(server.requests) < 2:
                await asyncio.sleep(0.01)
            process.kill()
            await asyncio.to_thread(process.wait)
        resumed = await asyncio.to_thread(lambda: outrider("-p", "--continue", cwd=tmp_path, **environment))
        assert resumed.stdout == "More.\n", resumed.stderr
        listed = await asyncio.to_thread(lambda: outrider("sessions", "--json", "--all", cwd=tmp_path, **environment))
        assert listed.returncode == 0, listed.stderr
        session = json.loads(listed.stdout)[0]["id"]
        forked = await asyncio.to_thread(lambda: outrider("sessions", "fork", session, cwd=tmp_path, **environment))
        assert forked.returncode == 0, forked.stderr
        again = await asyncio.to_thread(lambda: outrider("-p", "Once more", "--continue", cwd=tmp_path, **environment))
        assert again.stdout == "Fork.\n", again.stderr
        shown = await asyncio.to_thread(lambda: outrider("wire", session, "--as", MODEL, cwd=tmp_path, **environment))
        assert "web_search" in [tool["name"] for tool in json.loads(shown.stdout)["tools"]]
        elsewhere = await asyncio.to_thread(lambda: outrider("wire", session, "--as", "ollama/x", cwd=tmp_path))
        assert "web_search was called with" in elsewhere.stdout
    for request in server.requests[1:]:
        assert request.json["messages"][1]["content"][:4] == [USE, FOUND, RAN, PRINTED]
