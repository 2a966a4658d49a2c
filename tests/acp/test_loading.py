"""Sessions that are opened again: loaded, resumed, forked; by the same process, and by another."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.acp.editor import Editor, allowing, introduced
from tests.acp.seen import Seen
from tests.acp.test_prompting import PNG
from tests.cli.asking import everywhere
from tests.modelserver import Answer, Held, ModelServer

EDIT = {"file_path": "notes.txt", "old_string": "two", "new_string": "three"}
WORK = [
    Answer("I look.", (("r", "Read", {"file_path": "notes.txt"}), ("p", "Read", {"file_path": "p.png"})), "Hm."),
    Answer("I change.", (("e", "Edit", EDIT), ("w", "Write", {"file_path": "new.txt", "content": "fresh\n"}))),
    Answer(
        "",
        (
            ("b", "Bash", {"command": "seq 3; exit 3"}),
            ("x", "Edit", {"file_path": "notes.txt", "old_string": "nowhere", "new_string": "x"}),
            ("u", "NoSuchTool", {"x": 1}),
            ("i", "Read", {"wrong": True}),
            ("m", "Read", {"file_path": "missing.txt"}),
        ),
    ),
    Answer("A plan.", (("t", "Todo", {"todos": [{"content": "rest", "status": "in_progress"}]}),), "Plan first."),
    Answer("All done."),
]


@asynccontextmanager
async def worked(server: ModelServer, folder: Path, *arguments: str, **options: Any) -> AsyncIterator[tuple[Any, str]]:
    """An editor with a session in which all kinds of things happened."""
    (folder / "notes.txt").write_text("one\ntwo\n")
    (folder / "p.png").write_bytes(PNG)
    async with introduced("--permissions", "all", *arguments, **options, **everywhere(server)) as editor:
        session = await editor.new(folder)
        picture = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(PNG).decode()}
        assert await editor.prompt(session, "Work on this: ", picture) == "end_turn"
        yield editor, session


async def reloaded(editor: Editor, session: str, folder: Path) -> Seen:
    """The session closed, and loaded again."""
    await editor.ask("session/close", sessionId=session)
    editor.forget(session)
    await editor.load(session, folder)
    return editor.seen(session)


async def test_a_session_that_is_loaded_looks_as_it_did_when_it_happened(tmp_path: Path) -> None:
    async with ModelServer([*WORK, Answer("Still here.")]) as server, worked(server, tmp_path) as (editor, session):
        live = editor.seen(session)
        statuses = {name: call["status"] for name, call in live.calls.items()}
        assert statuses == {
            **dict.fromkeys(("r", "p", "e", "w", "t"), "completed"),
            **dict.fromkeys(("b", "x", "u", "i", "m"), "failed"),
        }
        assert live.calls["p"]["content"][-1]["content"]["type"] == "image"
        again = await reloaded(editor, session, tmp_path)
        assert again.lasting() == live.lasting()
        await editor.ask("session/close", sessionId=session)
        async with introduced(**everywhere(server)) as another:
            await another.load(session, tmp_path)
            assert another.seen(session).lasting() == live.lasting()
            assert await another.prompt(session, "Are you there?") == "end_turn"
            assert another.seen(session).text().endswith("Still here.")
        (body,) = (request.json for request in server.requests[-1:])
        assert "Work on this" in str(body["messages"][0])


async def test_a_session_is_told_before_the_answer_to_its_loading(tmp_path: Path) -> None:
    async with introduced() as editor:
        session = await editor.new(tmp_path)
        await editor.prompt(session, "What is 2 + 2?")
        await editor.ask("session/close", sessionId=session)
        before = len(editor.received)
        loaded = await editor.load(session, tmp_path)
        answer = next(number for number, each in enumerate(editor.received) if each.get("result") == loaded)
        kinds = [each["params"]["update"]["sessionUpdate"] for each in editor.received[before:answer]]
    assert kinds == ["user_message_chunk", "agent_message_chunk"]
    assert set(loaded) == {"modes", "configOptions"}


async def test_what_was_cancelled_looks_the_same_when_it_is_loaded(tmp_path: Path) -> None:
    replies = [
        Held(Answer("I begin with many words, and then")),
        Answer("A command.", (("b", "Bash", {"command": "echo begun; sleep 30"}),)),
    ]
    async with (
        ModelServer(replies) as server,
        introduced("--permissions", "all", **everywhere(server)) as editor,
    ):
        session = await editor.new(tmp_path)
        live = editor.seen(session)
        asked = editor.say(session, "Talk")
        await editor.until(lambda: "I begin" in live.text(), "a beginning")
        editor.tell("session/cancel", sessionId=session)
        assert (await editor.answer(asked))["stopReason"] == "cancelled"
        server.release.set()
        asked = editor.say(session, "Work")
        await editor.until(lambda: "begun" in str(live.calls), "output")
        editor.tell("session/cancel", sessionId=session)
        assert (await editor.answer(asked))["stopReason"] == "cancelled"
        assert live.calls["b"]["status"] == "failed"
        again = await reloaded(editor, session, tmp_path)
        assert again.lasting() == live.lasting()


async def test_an_edit_that_was_rejected_looks_the_same_when_it_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one\ntwo\n")
    replies = [
        Answer("", (("r", "Read", {"file_path": "notes.txt"}),)),
        Answer("", (("e", "Edit", EDIT), ("w", "Write", {"file_path": "notes.txt", "content": "fresh\n"}))),
        Answer("Then not."),
    ]
    async with ModelServer(replies) as server, introduced(handlers=allowing("no"), **everywhere(server)) as editor:
        session = await editor.new(tmp_path)
        await editor.prompt(session, "Change it")
        live = editor.seen(session)
        assert [call["status"] for call in live.calls.values()] == ["completed", "failed", "failed"]
        again = await reloaded(editor, session, tmp_path)
        assert again.lasting() == live.lasting()


async def test_sub_agents_look_the_same_when_their_sender_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one\n")
    prompt = 'Delegate "run `touch made`" and "read everything" as a table of file and lines'
    async with introduced(handlers=allowing()) as editor:
        session = await editor.new(tmp_path)
        await editor.prompt(session, prompt)
        live = editor.seen(session)
        (question,) = editor.asked_for("session/request_permission")
        assert live.parents[question["toolCall"]["toolCallId"]], "it is about the call of the sub-agent"
        again = await reloaded(editor, session, tmp_path)
        for seen in (live, again):  # the calls of two that work at the same time may change places
            seen.transcript.sort(key=lambda each: seen.parents.get(each[1], ""))
        assert again.lasting() == live.lasting()
        tasks = [call for call in live.calls.values() if call["name"] == "Task"]
        assert {task["toolCallId"] for task in tasks} == set(live.parents.values())
        for task in tasks:
            steps, *result = task["content"]
            assert "✓ " in steps["content"]["text"]
            assert result, "its result follows the steps"
        listed = (await editor.ask("session/list"))["sessions"]
        assert [each["sessionId"] for each in listed] == [session], "those of sub-agents are not listed"


async def test_output_that_was_appended_is_there_when_the_session_is_loaded(tmp_path: Path) -> None:
    capabilities = {"_meta": {"terminal_output": True}}
    command = Answer("", (("b", "Bash", {"command": "seq 3; exit 3"}),))
    async with ModelServer([command, Answer("Done.")]) as server:
        environment = everywhere(server)
        async with introduced("--permissions", "all", capabilities=capabilities, **environment) as editor:
            session = await editor.new(tmp_path)
            await editor.prompt(session, "Count")
            live = editor.seen(session)
            assert live.terminals == {"b": "1\n2\n3\n"}
            again = await reloaded(editor, session, tmp_path)
            assert again.lasting() == live.lasting()
            assert live.exits == {"b": 3}


async def test_a_session_that_is_resumed_is_not_told_again_and_goes_on(tmp_path: Path) -> None:
    async with (
        ModelServer([Answer("First."), Answer("Second.")]) as server,
        introduced(**everywhere(server)) as editor,
    ):
        session = await editor.new(tmp_path)
        await editor.prompt(session, "One")
        await editor.ask("session/close", sessionId=session)
        editor.forget(session)
        resumed = await editor.load(session, tmp_path, "session/resume")
        assert set(resumed) == {"modes", "configOptions"}
        assert await editor.prompt(session, "Two") == "end_turn"
        assert editor.seen(session).transcript == [("user", "Two"), ("agent", "Second.")]
        assert editor.seen(session).title == "", "it has its title already"
        said = [message["content"] for message in server.requests[-1].json["messages"]]
        assert len(said) == 3


async def test_a_fork_goes_its_own_way(tmp_path: Path) -> None:
    async with introduced() as editor:
        session = await editor.new(tmp_path)
        await editor.prompt(session, "What is 2 + 2?")
        forked = (await editor.load(session, tmp_path, "session/fork"))["sessionId"]
        assert forked != session
        await editor.prompt(forked, "What is 3 + 3?")
        await editor.prompt(session, "What is 4 + 4?")
        for each in (session, forked):
            await editor.ask("session/close", sessionId=each)
            editor.forget(each)
            await editor.load(each, tmp_path)
        assert editor.seen(forked).text("user") == "What is 2 + 2?What is 3 + 3?"
        assert editor.seen(session).text("user") == "What is 2 + 2?What is 4 + 4?"


async def test_a_session_that_another_editor_has_open_is_refused_in_words(tmp_path: Path) -> None:
    async with introduced() as one, introduced() as two:
        session = await one.new(tmp_path)
        await one.prompt(session, "What is 2 + 2?")
        refused = await two.refusal("session/load", sessionId=session, cwd=str(tmp_path), mcpServers=[])
        assert "open" in refused.message
        assert "Traceback" not in refused.message
        assert await one.close() == 0
        await two.load(session, tmp_path)
        assert two.seen(session).text().endswith("4")


async def test_a_session_can_be_loaded_in_the_name_of_nobody_but_itself(tmp_path: Path) -> None:
    async with introduced() as editor:
        session = await editor.new(tmp_path)
        await editor.prompt(session, "What is 2 + 2?")
        await editor.ask("session/close", sessionId=session)
        for name in (session[:8], "", session.upper() + "0", "../" + session):
            refused = await editor.refusal("session/load", sessionId=name, cwd=str(tmp_path), mcpServers=[])
            assert refused.code == -32002, name
        refused = await editor.refusal("session/load", sessionId=session, cwd="elsewhere", mcpServers=[])
        assert refused.code == -32602


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_a_turn_that_was_cut_off_goes_on_when_it_is_told_to(tmp_path: Path, method: str) -> None:
    (tmp_path / "notes.txt").write_text("one\n")
    read = Answer("I look.", (("r", "Read", {"file_path": "notes.txt"}),))
    async with (
        ModelServer([read, Held(Answer("Never said.")), Answer("It says one.")]) as server,
        introduced(**everywhere(server)) as editor,
    ):
        session = await editor.new(tmp_path)
        editor.say(session, "What do they say?")
        await asyncio.wait_for(server.held.wait(), 60)
        editor.process.kill()
        await editor.ended()
        async with introduced(**everywhere(server)) as editor:
            await editor.load(session, tmp_path, method)
            assert await editor.prompt(session, "/continue") == "end_turn"
            assert editor.seen(session).text().endswith("It says one.")
            assert not editor.seen(session).open_calls


@pytest.mark.parametrize("answer", ["once", "no"])
async def test_the_question_about_web_search_is_shown_again_when_the_session_is_loaded(
    tmp_path: Path, answer: str
) -> None:
    async with (
        ModelServer([Answer("", (("c", "web_search", {"query": "x"}),)), Answer("Still here.")]) as server,
        introduced(handlers=allowing(answer), **everywhere(server), OUTRIDER_WEB_SEARCH="ask") as editor,
    ):
        session = await editor.new(tmp_path)
        await editor.prompt(session, "Hi")
        live = editor.seen(session)
        (asked,) = live.calls.values()
        assert asked["status"] == ("completed" if answer == "once" else "failed")
        again = await reloaded(editor, session, tmp_path)
        assert again.lasting() == live.lasting()
