"""Prompts in version 2: accepted at once, and all that comes of them told with ids, states and bytes, each once."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.acp.editor import allowing
from tests.acp.editor_v2 import EditorV2, in_v2
from tests.cli.asking import everywhere
from tests.modelserver import Answer, Held, ModelServer, Status


def bash(command: str, call_id: str = "b") -> Answer:
    return Answer(calls=((call_id, "Bash", {"command": command}),))


async def test_a_prompt_is_accepted_with_the_id_of_its_message_and_its_end_is_told(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one\n")
    replies = [
        Answer("I will look.", (("c1", "Read", {"file_path": "notes.txt"}),), thinking="What is asked?"),
        Held(Answer("It says one.")),
    ]
    async with ModelServer(replies) as server, in_v2(**everywhere(server)) as editor:
        session = await editor.open(tmp_path)
        accepted = await editor.answer(editor.say(session, "What do my notes say?"))
        screen = editor.screen(session)
        await editor.until(lambda: screen.text() == "I will look.It say", "half of the answer")
        assert screen.state == "running"
        server.release.set()
        await editor.until(lambda: screen.stops, "the end")
    assert accepted == {"messageId": "message-1"}
    assert screen.order == [
        ("user", "message-1"),
        ("thought", "message-2"),
        ("agent", "message-2"),
        ("call", "c1"),
        ("agent", "message-3"),
    ]
    assert screen.text("user") == "What do my notes say?"
    assert screen.text() == "I will look.It says one."
    assert [state["state"] for state in screen.states] == ["running", "idle"]
    assert screen.stops == ["end_turn"]
    assert screen.updates[-1]["sessionUpdate"] == "state_update", "the end comes last"
    assert screen.calls["c1"] == {
        "title": "Read(notes.txt)",
        "name": "Read",
        "kind": "read",
        "status": "completed",
        "rawInput": {"file_path": "notes.txt"},
        "locations": [{"path": str(tmp_path / "notes.txt")}],
        "content": [{"type": "content", "content": {"type": "text", "text": "```\n     1\tone\n```"}}],
    }


async def test_each_byte_of_a_command_is_sent_once_and_while_it_runs(tmp_path: Path) -> None:
    command = "printf 'first é\\n'; until test -e go; do sleep 0.01; done; seq 1 1500; printf 'no end of line'; exit 3"
    async with (
        ModelServer([bash(command), Answer("Done.")]) as server,
        in_v2("--permissions", "all", **everywhere(server)) as editor,
    ):
        session = await editor.open(tmp_path)
        editor.say(session, "Run it")
        screen = editor.screen(session)
        await editor.until(lambda: screen.terminals.get("b", {}).get("output"), "live output")
        assert screen.output("b") == "first é\n".encode()
        assert screen.calls["b"]["status"] == "in_progress"
        (tmp_path / "go").touch()
        await editor.until(lambda: screen.stops, "the end")
    terminal = screen.terminals["b"]
    whole = "".join(["first é\n", *(f"{number}\n" for number in range(1, 1501)), "no end of line"]).encode()
    assert terminal == {"command": command, "cwd": str(tmp_path), "output": whole, "exitStatus": {"exitCode": 3}}
    sent = [update["data"] for update in screen.updates if update["sessionUpdate"] == "terminal_output_chunk"]
    assert sum(len(base64.b64decode(data)) for data in sent) == len(whole)
    assert screen.calls["b"]["content"] == [{"type": "terminal", "terminalId": "b"}]
    assert screen.calls["b"]["status"] == "failed"
    of_call = sum(len(json.dumps(update)) for update in screen.of_call("b"))
    assert of_call < 1_500, "what was printed stands in the terminal alone"


@pytest.mark.parametrize("last", [3_000, 40_000])
async def test_of_much_output_at_once_the_end_is_live_and_the_whole_is_there_when_the_command_is_over(
    last: int, tmp_path: Path
) -> None:
    async with (
        ModelServer([bash(f"seq 1 {last}"), Answer("Done.")]) as server,
        in_v2("--permissions", "all", **everywhere(server)) as editor,
    ):
        session = await editor.open(tmp_path)
        await editor.prompted(session, "Run it")
        screen = editor.screen(session)
    whole = "".join(f"{number}\n" for number in range(1, last + 1)).encode()
    assert screen.output("b") == whole
    assert sum(len(json.dumps(update)) for update in screen.updates) < 3 * len(whole) + 4_000


async def test_a_large_change_is_shown_as_it_was_made_in_the_end(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("".join(f"line {number}\n" for number in range(1, 501)))
    old = "".join(f"line {number}\n" for number in range(200, 400))
    edit = {"file_path": "notes.txt", "old_string": old, "new_string": old.replace("line", "LINE")}
    replies = [
        Answer(calls=(("r", "Read", {"file_path": "notes.txt"}),)),
        Answer(calls=(("e", "Edit", edit),)),
        Answer("Done."),
    ]
    async with ModelServer(replies) as server, in_v2("--permissions", "edits", **everywhere(server)) as editor:
        session = await editor.open(tmp_path)
        assert await editor.prompted(session, "Change it") == "end_turn"
        (shown,) = editor.screen(session).calls["e"]["content"]
    assert "\n@@ -197," in shown["patch"]["text"]


async def test_changes_of_files_are_shown_as_patches(tmp_path: Path) -> None:
    notes, fresh = tmp_path / "notes.txt", tmp_path / "new file.txt"
    notes.write_text("".join(f"line {number}\n" for number in range(1, 31)))
    edit = {"file_path": "notes.txt", "old_string": "line 20\n", "new_string": "twenty\n"}
    replies = [
        Answer(calls=(("r", "Read", {"file_path": "notes.txt"}),)),
        Answer(calls=(("e", "Edit", edit), ("w", "Write", {"file_path": str(fresh), "content": "a\nb"}))),
        Answer(calls=(("o", "Write", {"file_path": str(fresh), "content": "a\nc\n"}),)),
        Answer(calls=(("f", "Edit", edit | {"old_string": "nowhere"}),)),
        Answer("Done."),
    ]
    async with ModelServer(replies) as server, in_v2("--permissions", "edits", **everywhere(server)) as editor:
        session = await editor.open(tmp_path)
        assert await editor.prompted(session, "Change it") == "end_turn"
        calls = editor.screen(session).calls
        of_edit = editor.screen(session).of_call("e")
    around = "".join(f" line {number}\n" for number in (17, 18, 19))
    after = "".join(f" line {number}\n" for number in (21, 22, 23))
    headers = f"diff --git {notes} {notes}\n--- {notes}\n+++ {notes}\n"
    assert calls["e"]["content"] == [
        {
            "type": "diff",
            "changes": [{"operation": "modify", "path": str(notes), "fileType": "text"}],
            "patch": {
                "format": "git_patch",
                "text": f"{headers}@@ -17,7 +17,7 @@\n{around}-line 20\n+twenty\n{after}",
            },
        }
    ]
    assert sum("content" in update for update in of_edit) == 2, "as it was proposed, and as it was made"
    (added,) = calls["w"]["content"]
    assert added["changes"] == [{"operation": "add", "path": str(fresh), "fileType": "text"}]
    assert added["patch"]["text"] == (
        f"diff --git {fresh} {fresh}\nnew file mode 100644\n--- /dev/null\n+++ {fresh}\t\n"
        "@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n"
    )
    (overwritten,) = calls["o"]["content"]
    assert overwritten["changes"][0]["operation"] == "modify"
    assert overwritten["patch"]["text"].endswith(" a\n-b\n\\ No newline at end of file\n+c\n")
    assert calls["f"]["status"] == "failed"
    assert [item["type"] for item in calls["f"]["content"]] == ["diff", "content"]
    assert [update["sessionUpdate"] for update in editor.screen(session).of_call("f")[-2:]] == [
        "tool_call_content_chunk",
        "tool_call_update",
    ], "why it failed is added to what is known"


@pytest.mark.parametrize(("option", "status"), [("once", "completed"), ("no", "failed"), ("nonsense", "failed")])
async def test_a_command_runs_only_if_the_person_allows_it(option: str, status: str, tmp_path: Path) -> None:
    async with (
        ModelServer([bash("touch made"), Answer("Well.")]) as server,
        in_v2(handlers=allowing(option), **everywhere(server)) as editor,
    ):
        session = await editor.open(tmp_path)
        assert await editor.prompted(session, "Make it") == "end_turn"
        screen = editor.screen(session)
    (question,) = editor.asked_for("session/request_permission")
    assert question["title"] == "Allow Bash(touch made)?"
    assert question["description"]
    assert question["subject"] == {
        "type": "command",
        "command": "touch made",
        "cwd": str(tmp_path),
        "toolCallId": "b",
    }
    assert [state["state"] for state in screen.states] == ["running", "requires_action", "running", "idle"]
    assert screen.calls["b"]["status"] == status
    assert (tmp_path / "made").exists() == (option == "once")


async def test_a_question_about_a_file_is_about_its_call_which_shows_the_change(tmp_path: Path) -> None:
    seen: list[Any] = []

    async with (
        ModelServer([Answer(calls=(("w", "Write", {"file_path": "n", "content": "x\n"}),)), Answer()]) as server,
        in_v2(**everywhere(server)) as editor,
    ):
        session = await editor.open(tmp_path)

        def look(params: dict[str, Any]) -> dict[str, Any]:
            seen.append((params["subject"], editor.screen(session).calls["w"]["content"]))
            return {"outcome": {"outcome": "selected", "optionId": "once"}}

        editor.handlers["session/request_permission"] = look
        await editor.prompted(session, "Write")
    ((subject, content),) = seen
    assert subject == {"type": "tool_call", "toolCall": {"toolCallId": "w"}}
    assert content[0]["changes"][0]["operation"] == "add"
    assert (tmp_path / "n").read_text() == "x\n"


async def begun(editor: EditorV2, folder: Path) -> str:
    """A session in which a command runs and has printed something."""
    session = await editor.open(folder)
    await editor.answer(editor.say(session, "Run it"))
    await editor.until(lambda: editor.screen(session).terminals.get("b", {}).get("output"), "live output")
    return session


async def test_a_command_that_is_cancelled_ends_as_cancelled_with_its_terminal_before_the_session_rests(
    tmp_path: Path,
) -> None:
    async with (
        ModelServer([bash("echo begun; sleep 600"), Answer("Again.")]) as server,
        in_v2("--permissions", "all", **everywhere(server)) as editor,
    ):
        session = await begun(editor, tmp_path)
        editor.tell("session/cancel", sessionId=session)
        screen = editor.screen(session)
        await editor.until(lambda: screen.stops, "the end")
        assert screen.stops == ["cancelled"]
        assert screen.calls["b"]["status"] == "cancelled"
        assert "cancelled" in screen.calls["b"]["content"][1]["content"]["text"]
        assert screen.terminals["b"]["exitStatus"] == {}
        assert screen.output("b") == b"begun\n"
        assert screen.updates[-1]["state"] == "idle"
        assert await editor.prompted(session, "And now?") == "end_turn"
        assert screen.text() == "Again."


async def test_a_call_whose_reply_is_cut_off_by_a_cancel_ends_as_cancelled(tmp_path: Path) -> None:
    reply = Answer("I write.", (("w", "Write", {"file_path": "big.txt", "content": "word " * 2_000}),))
    async with ModelServer([Held(reply, "all but the end")]) as server, in_v2(**everywhere(server)) as editor:
        session = await editor.open(tmp_path)
        editor.say(session, "Write much")
        screen = editor.screen(session)
        await editor.until(lambda: "w" in screen.calls, "the call")
        editor.tell("session/cancel", sessionId=session)
        await editor.until(lambda: screen.stops, "the end")
    assert screen.stops == ["cancelled"]
    assert screen.calls["w"]["status"] == "cancelled"
    assert screen.text("user") == "Write much", "marks of ours are not shown as words of the person"


async def test_a_question_is_taken_back_when_the_work_is_cancelled(tmp_path: Path) -> None:
    async with ModelServer([bash("touch made")]) as server, in_v2(**everywhere(server)) as editor:
        editor.handlers["session/request_permission"] = lambda _: editor.until(lambda: False, "never")
        session = await editor.open(tmp_path)
        editor.say(session, "Make it")
        screen = editor.screen(session)
        await editor.until(lambda: screen.state == "requires_action" and editor.asked, "the question")
        editor.tell("session/cancel", sessionId=session)
        await editor.until(lambda: screen.stops, "the end")
    assert [state["state"] for state in screen.states] == ["running", "requires_action", "idle"]
    assert screen.stops == ["cancelled"]
    assert screen.calls["b"]["status"] == "cancelled"
    (taken_back,) = [each for each in editor.received if each.get("method") == "$/cancel_request"]
    assert taken_back["params"] == {"requestId": editor.asked[0]["id"]}
    assert not (tmp_path / "made").exists()


async def test_a_prompt_that_comes_while_the_agent_works_waits_for_its_turn(tmp_path: Path) -> None:
    async with (
        ModelServer([Held(Answer("The first.")), Answer("The second.")]) as server,
        in_v2(**everywhere(server)) as editor,
    ):
        session = await editor.open(tmp_path)
        await editor.answer(editor.say(session, "One"))
        second = editor.say(session, "Two")
        await editor.ask("session/list")
        assert editor.screen(session).text("user") == "One"
        server.release.set()
        assert await editor.answer(second) == {"messageId": "message-3"}
        await editor.until(lambda: len(editor.screen(session).stops) == 2, "both ends")
        assert editor.screen(session).text() == "The first.The second."


@pytest.mark.parametrize("how", ["session/cancel", "session/close", "$/cancel_request"])
async def test_a_prompt_that_waits_can_be_taken_back(how: str, tmp_path: Path) -> None:
    async with ModelServer([Held(Answer("The first."))]) as server, in_v2(**everywhere(server)) as editor:
        session = await editor.open(tmp_path)
        await editor.answer(editor.say(session, "One"))
        second = editor.say(session, "Two")
        if how == "$/cancel_request":
            editor.tell(how, requestId=second)
        elif how == "session/cancel":
            editor.tell(how, sessionId=session)
        else:
            await editor.ask(how, sessionId=session)
        with pytest.raises(Exception, match="-32800"):
            await editor.answer(second)
        server.release.set()
        await editor.until(lambda: editor.screen(session).stops, "the end")
        assert editor.screen(session).stops == ["end_turn" if how == "$/cancel_request" else "cancelled"]
        assert editor.screen(session).text("user") == "One"


async def test_closing_a_session_tells_the_end_of_its_work_before_the_answer(tmp_path: Path) -> None:
    async with (
        ModelServer([bash("echo begun; sleep 600")]) as server,
        in_v2("--permissions", "all", **everywhere(server)) as editor,
    ):
        session = await begun(editor, tmp_path)
        await editor.ask("session/close", sessionId=session)
        assert editor.received[-2]["params"]["update"]["stopReason"] == "cancelled"
        assert editor.screen(session).calls["b"]["status"] == "cancelled"
        assert await editor.close() == 0


async def test_what_a_model_fails_with_is_how_the_work_ended_and_the_prompt_stands(tmp_path: Path) -> None:
    async with ModelServer([Status(400), Answer("Now.")]) as server, in_v2(**everywhere(server)) as editor:
        session = await editor.open(tmp_path)
        assert await editor.prompted(session, "Hello") == "error"
        error = editor.screen(session).states[-1]["error"]
        assert error["code"] == -32603
        assert "no luck" in error["message"]
        assert await editor.prompted(session, "And now?") == "end_turn"
        assert editor.screen(session).text() == "Now."


async def test_a_reply_that_breaks_off_is_cleared_and_what_comes_after_it_is_another_message(tmp_path: Path) -> None:
    half = Held(Answer("It was half said", thinking="Hm."), "all but the end")
    async with ModelServer([half, half, Answer("Whole.")]) as server, in_v2(**everywhere(server)) as editor:
        session = await editor.open(tmp_path)
        screen = editor.screen(session)
        for number, said in enumerate(("Hello", "/continue"), 1):
            editor.say(session, said)
            await editor.until(lambda: screen.text() == "It was half said", "the reply")
            await server.close()
            await server.open(server.port)
            await editor.until(lambda ends=number: len(screen.stops) == ends, "the end")
            assert screen.text() == screen.text("thought") == ""
        cleared = [each for each in screen.updates if each.get("content", "") is None]
        assert [(each["sessionUpdate"], each["messageId"]) for each in cleared] == [
            ("agent_message", "message-2"),
            ("agent_thought", "message-2"),
            ("agent_message", "message-2-1"),
            ("agent_thought", "message-2-1"),
        ]
        assert screen.stops == ["error", "error"]
        assert await editor.prompted(session, "/continue") == "end_turn"
        assert screen.text() == "Whole."
        assert screen.order[-1] == ("agent", "message-2-2")


async def test_a_plan_is_told_by_its_id(tmp_path: Path) -> None:
    steps = [{"content": "Look", "status": "in_progress"}, {"content": "Leap", "status": "pending"}]
    async with (
        ModelServer([Answer(calls=(("t", "Todo", {"todos": steps}),)), Answer("So.")]) as server,
        in_v2(**everywhere(server)) as editor,
    ):
        session = await editor.open(tmp_path)
        await editor.prompted(session, "Plan")
        ((_, entries),) = editor.screen(session).plans.items()
    assert [(each["content"], each["status"]) for each in entries] == [("Look", "in_progress"), ("Leap", "pending")]
