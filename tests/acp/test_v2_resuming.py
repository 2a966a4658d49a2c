"""A session that is resumed in version 2 looks as it did when it was live: the same ids, ends, patches and bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acp.editor import allowing
from tests.acp.editor_v2 import in_v2
from tests.acp.seen_v2 import SeenV2
from tests.acp.test_v2_work import bash
from tests.cli.asking import everywhere
from tests.modelserver import Answer, Held, ModelServer


async def test_a_session_that_is_replayed_looks_as_it_did(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("one\ntwo\n")
    (tmp_path / "below").mkdir()
    edit = {"file_path": "notes.txt", "old_string": "two", "new_string": "three"}
    replies = [
        Answer("I look.", (("r", "Read", {"file_path": "notes.txt"}),), thinking="Hm."),
        Answer(
            calls=(("e", "Edit", edit), ("w", "Write", {"file_path": "new.txt", "content": "fresh\n"})),
        ),
        bash("printf 'a\\n\\n\\n'; cd below; exit 4", "b1"),
        bash("pwd", "b2"),
        bash("true", "b3"),
        Answer("Done."),
        bash("printf 'no end'", "b4"),
        Answer(calls=(("t", "Todo", {"todos": [{"content": "Rest", "status": "pending"}]}),)),
        Answer("Really done."),
    ]
    async with ModelServer(replies) as server, in_v2("--permissions", "all", **everywhere(server)) as editor:
        session = await editor.open(tmp_path)
        assert await editor.prompted(session, "Do all of it") == "end_turn"
        assert await editor.prompted(session, "/cost") == "end_turn"
        assert await editor.prompted(session, "And more") == "end_turn"
        live = editor.screen(session)
        await editor.ask("session/close", sessionId=session)
        editor.seen_sessions.clear()
        await editor.resume(session, tmp_path)
        again = editor.screen(session)
    assert again.lasting() == live.lasting()
    assert again.output("b1") == b"a\n\n\n"
    assert again.terminals["b2"]["cwd"] == str(tmp_path / "below")
    assert again.terminals["b3"] == {
        "command": "true",
        "cwd": str(tmp_path / "below"),
        "output": b"",
        "exitStatus": {"exitCode": 0},
    }
    assert [state["state"] for state in again.states] == ["idle"]
    assert editor.received[-2]["params"]["update"] == {"sessionUpdate": "state_update", "state": "idle"}


async def test_what_was_refused_and_what_was_cancelled_is_so_when_it_is_replayed(tmp_path: Path) -> None:
    replies = [bash("touch made", "no"), bash("echo begun; sleep 600", "b"), Held(Answer("I was about to say"))]
    answers = iter(["no", "once"])
    asked = {"session/request_permission": lambda params: allowing(next(answers))["session/request_permission"](params)}
    async with ModelServer(replies) as server, in_v2(handlers=asked, **everywhere(server)) as editor:
        session = await editor.open(tmp_path)
        live = editor.screen(session)
        editor.say(session, "Try")
        await editor.until(lambda: live.terminals.get("b", {}).get("output"), "live output")
        editor.tell("session/cancel", sessionId=session)
        await editor.until(lambda: live.stops, "the end")
        editor.say(session, "Say something")
        await editor.until(lambda: live.text(), "half of the answer")
        editor.tell("session/cancel", sessionId=session)
        await editor.until(lambda: len(live.stops) == 2, "the end")
        await editor.ask("session/close", sessionId=session)
        editor.seen_sessions.clear()
        await editor.resume(session, tmp_path)
        again = editor.screen(session)
    assert [call["status"] for call in live.calls.values()] == ["failed", "cancelled"]
    assert again.lasting() == live.lasting()
    assert again.output("b") == b"begun\n"


async def test_ids_go_on_where_they_were_in_another_process_that_replays_nothing(tmp_path: Path) -> None:
    async with ModelServer([Answer("First."), Answer("Second."), Answer("Third.")]) as server:
        async with in_v2(**everywhere(server)) as editor:
            session = await editor.open(tmp_path)
            await editor.prompted(session, "One")
        async with in_v2(**everywhere(server)) as editor:
            await editor.resume(session, tmp_path, replay=False)
            assert editor.screen(session).kinds() == ["state_update"]
            await editor.prompted(session, "Two")
            first = editor.screen(session)
        async with in_v2(**everywhere(server)) as editor:
            await editor.resume(session, tmp_path)
            await editor.prompted(session, "Three")
            whole = editor.screen(session)
    assert first.order == [("user", "message-3"), ("agent", "message-4")]
    assert whole.order == [(who, f"message-{n}") for n, who in enumerate(("user", "agent") * 3, 1)]
    assert shown(whole)[2:4] == shown(first)


@pytest.mark.parametrize("kind", ["message", "_ours", ""])
async def test_a_place_to_replay_from_that_is_not_known_is_refused(kind: str, tmp_path: Path) -> None:
    async with in_v2() as editor:
        session = await editor.open(tmp_path)
        await editor.ask("session/close", sessionId=session)
        editor.is_honest = False
        refused = await editor.refusal(
            "session/resume", sessionId=session, cwd=str(tmp_path), replayFrom={"type": kind}
        )
        assert refused.code == -32602
        await editor.resume(session, tmp_path)


def shown(screen: SeenV2) -> list[object]:
    return [(key, screen.messages[key]) for key in screen.order]
