"""Cancel at any time: every call ends, the prompt ends as cancelled, no process is left, the session continues."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.acp.editor import Editor, Refused, introduced
from tests.cli.asking import everywhere
from tests.modelserver import Answer, Held, ModelServer
from tests.processes import is_running

Cancel: TypeAlias = Callable[[Editor, str, int], None]


def by_notification(editor: Editor, session: str, request: int) -> None:
    editor.tell("session/cancel", sessionId=session)


def by_request(editor: Editor, session: str, request: int) -> None:
    editor.tell("$/cancel_request", requestId=request)


BOTH = pytest.mark.parametrize("cancel", [by_notification, by_request])


async def cancelled(editor: Editor, session: str, request: int, cancel: Cancel) -> None:
    """Cancel, and hold the agent to what it owes: an answer that says so, and an end for each call."""
    cancel(editor, session, request)
    assert await editor.answer(request) == {"stopReason": "cancelled"}
    assert not editor.seen(session).open_calls


@BOTH
async def test_a_reply_is_cancelled_in_its_middle_and_the_session_goes_on(tmp_path: Path, cancel: Cancel) -> None:
    async with (
        ModelServer([Held(Answer("A long story of many words")), Answer("Yes.")]) as server,
        introduced(**everywhere(server)) as editor,
    ):
        session = await editor.new(tmp_path)
        request = editor.say(session, "Tell me a story")
        await editor.until(lambda: "A long" in editor.seen(session).text(), "a beginning")
        await cancelled(editor, session, request, cancel)
        await asyncio.wait_for(server.left.wait(), 60)
        assert await editor.prompt(session, "Are you there?") == "end_turn"
        assert editor.seen(session).text().endswith("Yes.")
        roles = [message["role"] for message in server.requests[-1].json["messages"]]
        assert roles == ["user", "assistant", "user"]


@BOTH
async def test_a_command_is_cancelled_with_all_its_processes(tmp_path: Path, cancel: Cancel) -> None:
    command = "(trap '' TERM; echo $BASHPID > deaf; while true; do sleep 1; done) & echo $$ > pid; wait"
    calls = (("b", "Bash", {"command": command}), ("later", "Bash", {"command": "touch later"}))
    async with (
        ModelServer([Answer(calls=calls), Answer("Yes.")]) as server,
        introduced("--permissions", "all", **everywhere(server)) as editor,
    ):
        session = await editor.new(tmp_path)
        request = editor.say(session, "Wait for ever")
        files = [tmp_path / "pid", tmp_path / "deaf"]
        await editor.until(lambda: all(each.exists() and each.read_text() for each in files))
        await cancelled(editor, session, request, cancel)
        calls_seen = editor.seen(session).calls
        assert {name: call["status"] for name, call in calls_seen.items()} == {"b": "failed", "later": "failed"}
        assert "cancelled" in json.dumps(calls_seen["later"]["content"])
        await editor.until(lambda: not any(map(is_running, files)))
        assert not (tmp_path / "later").exists()
        assert await editor.prompt(session, "Are you there?") == "end_turn"


@BOTH
async def test_a_question_that_is_open_is_taken_back(tmp_path: Path, cancel: Cancel) -> None:
    never = asyncio.Event()

    async def permit(params: dict[str, Any]) -> dict[str, Any]:
        await never.wait()  # a person who has gone home; the answer comes when nobody waits any more
        return {"outcome": {"outcome": "selected", "optionId": "once"}}

    async with introduced(handlers={"session/request_permission": permit}) as editor:
        session = await editor.new(tmp_path)
        request = editor.say(session, "run `touch made`")
        await editor.until(lambda: editor.asked, "a question")
        await cancelled(editor, session, request, cancel)
        taken_back = [each["params"] for each in editor.received if each.get("method") == "$/cancel_request"]
        assert taken_back == [{"requestId": editor.asked[0]["id"]}]
        never.set()
        assert await editor.prompt(session, "What is 2 + 2?") == "end_turn"
        assert not (tmp_path / "made").exists()


async def test_a_question_that_the_editor_answers_with_cancelled_after_a_cancel_ends_the_turn(tmp_path: Path) -> None:
    taken_back = asyncio.Event()

    async def permit(params: dict[str, Any]) -> dict[str, Any]:
        await taken_back.wait()
        return {"outcome": {"outcome": "cancelled"}}  # as the specification wants it

    async with introduced(handlers={"session/request_permission": permit}) as editor:
        session = await editor.new(tmp_path)
        request = editor.say(session, "run `touch made`")
        await editor.until(lambda: editor.asked, "a question")
        by_notification(editor, session, request)
        taken_back.set()
        assert await editor.answer(request) == {"stopReason": "cancelled"}
        assert not editor.seen(session).open_calls


@BOTH
async def test_a_prompt_that_is_cancelled_at_once_is_not_carried_out(tmp_path: Path, cancel: Cancel) -> None:
    async with introduced("--permissions", "all") as editor:
        session = await editor.new(tmp_path)
        both = []
        editor.send, send = both.append, editor.send  # type: ignore[method-assign]
        request = editor.say(session, "run `sleep 30`")
        cancel(editor, session, request)
        editor.send = send  # type: ignore[method-assign]
        lines = b"".join(json.dumps({"jsonrpc": "2.0", **each}).encode() + b"\n" for each in both)
        os.write(editor.process.stdin.fileno(), lines)  # type: ignore[union-attr]
        if cancel is by_notification:
            assert await editor.answer(request) == {"stopReason": "cancelled"}
        else:
            with pytest.raises(Refused, match="-32800"):  # it had not even begun
                await editor.answer(request)
        assert not editor.seen(session).open_calls
        assert await editor.prompt(session, "What is 2 + 2?") == "end_turn"


async def test_sub_agents_are_cancelled_with_their_sender(tmp_path: Path) -> None:
    async with introduced("--permissions", "all") as editor:
        session = await editor.new(tmp_path)
        request = editor.say(session, 'Delegate "run `echo $$ > pid; sleep 30`" to a sub-agent')
        pid = tmp_path / "pid"
        await editor.until(lambda: pid.exists() and pid.read_text())
        await cancelled(editor, session, request, by_notification)
        await editor.until(lambda: not is_running(pid))
        assert editor.seen(session).call("Task")["status"] == "failed"


async def test_a_cancel_of_one_session_leaves_the_other_alone(tmp_path: Path) -> None:
    async with introduced("--permissions", "all") as editor:
        one, two = await editor.new(tmp_path), await editor.new(tmp_path)
        first = editor.say(one, "run `touch one; sleep 30`")
        second = editor.say(two, "run `touch two; while [ ! -e go ]; do sleep 0.02; done; echo through`")
        await editor.until(lambda: (tmp_path / "one").exists() and (tmp_path / "two").exists())
        await cancelled(editor, one, first, by_notification)
        (tmp_path / "go").touch()
        assert await editor.answer(second) == {"stopReason": "end_turn"}
        assert editor.seen(two).call("Bash")["status"] == "completed"


async def test_a_session_that_is_closed_while_it_works_answers_its_prompt(tmp_path: Path) -> None:
    async with introduced("--permissions", "all") as editor:
        session = await editor.new(tmp_path)
        request = editor.say(session, "run `touch begun; sleep 30`")
        await editor.until(lambda: (tmp_path / "begun").exists())
        await editor.ask("session/close", sessionId=session)
        assert await editor.answer(request) == {"stopReason": "cancelled"}
        assert not editor.seen(session).open_calls


async def test_an_impatient_person_cancels_many_times(tmp_path: Path) -> None:
    async with introduced("--permissions", "all") as editor:
        session = await editor.new(tmp_path)
        editor.tell("session/cancel", sessionId=session)  # of nothing
        request = editor.say(session, "run `touch begun; sleep 30`")
        await editor.until(lambda: (tmp_path / "begun").exists())
        for _ in range(20):
            editor.tell("session/cancel", sessionId=session)
            editor.tell("$/cancel_request", requestId=request)
        assert await editor.answer(request) == {"stopReason": "cancelled"}
        assert not editor.seen(session).open_calls
        assert await editor.prompt(session, "What is 2 + 2?") == "end_turn"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_ends_the_agent_in_good_order(tmp_path: Path, number: signal.Signals) -> None:
    async with introduced("--permissions", "all") as editor:
        session = await editor.new(tmp_path)
        request = editor.say(session, "run `echo $$ > pid; sleep 30`")
        pid = tmp_path / "pid"
        await editor.until(lambda: pid.exists() and pid.read_text())
        editor.process.send_signal(number)
        assert await editor.answer(request) == {"stopReason": "cancelled"}
        assert not editor.seen(session).open_calls
        await editor.ended()
        assert not is_running(pid)
