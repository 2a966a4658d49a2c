"""Prompts and their updates: text, thoughts, calls, plans, usage, sub-agents and errors, in order."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.acp.editor import Editor, Refused, allowing, introduced
from tests.acp.seen import FINAL, diff_at
from tests.cli.asking import KEY, everywhere, messages
from tests.modelserver import Answer, Held, ModelServer, Paced, Status

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def test_thoughts_text_and_calls_are_told_in_the_order_in_which_they_come(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one\n")
    replies = [
        Answer("I will look.", (("c1", "Read", {"file_path": "notes.txt"}),), thinking="What is asked?"),
        Answer("It says one.", thinking="So that is it."),
    ]
    async with ModelServer(replies) as server, introduced(**everywhere(server)) as editor:
        session = await editor.new(tmp_path)
        assert await editor.prompt(session, "What do my notes say?") == "end_turn"
        seen = editor.seen(session)
    assert seen.transcript == [
        ("user", "What do my notes say?"),
        ("thought", "What is asked?"),
        ("agent", "I will look."),
        ("call", "c1"),
        ("thought", "So that is it."),
        ("agent", "It says one."),
    ]
    assert seen.calls["c1"] == {
        "toolCallId": "c1",
        "title": "Read(notes.txt)",
        "name": "Read",
        "kind": "read",
        "status": "completed",
        "rawInput": {"file_path": "notes.txt"},
        "locations": [{"path": str(tmp_path / "notes.txt")}],
        "content": [{"type": "content", "content": {"type": "text", "text": "```\n     1\tone\n```"}}],
    }
    assert seen.title == "What do my notes say?"
    assert [each for each in editor.received if "result" in each][-1] is editor.received[-1], "the answer comes last"


async def test_how_full_the_context_is_and_what_it_cost_is_told_where_it_is_known(tmp_path: Path) -> None:
    async with ModelServer([Answer("Hello.")]) as server, introduced(**everywhere(server)) as editor:
        session = await editor.new(tmp_path)
        await editor.prompt(session, "Hello")
        usage = editor.seen(session).usage
        demo = await editor.new(tmp_path)
        await editor.ask("session/set_config_option", sessionId=demo, configId="model", value="demo")
        await editor.prompt(demo, "What is 2 + 2?")
    assert usage["size"] == 200_000
    assert usage["used"] == 11 + 5 + 3 + 7
    assert usage["cost"]["currency"] == "USD"
    assert 0 < usage["cost"]["amount"] < 0.01
    assert "usage_update" not in editor.seen(demo).kinds()


async def test_each_kind_of_call_has_its_title_kind_and_places(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one\ntwo\n")
    calls = (
        ("r", "Read", {"file_path": "notes.txt", "offset": 2}),
        ("g", "Glob", {"pattern": "*.txt", "path": str(tmp_path)}),
        ("s", "Grep", {"pattern": "two"}),
        ("b", "Bash", {"command": "echo hi"}),
        ("n", "NoSuchTool", {"x": 1}),
        ("w", "Read", {"wrong": True}),
    )
    async with (
        ModelServer([Answer(calls=calls), Answer("Done.")]) as server,
        introduced("--permissions", "all", **everywhere(server)) as editor,
    ):
        session = await editor.new(tmp_path)
        assert await editor.prompt(session, "Do it all") == "end_turn"
        seen = editor.seen(session)
    told = {name: (call["title"], call["kind"], call["status"]) for name, call in seen.calls.items()}
    assert told == {
        "r": ("Read(notes.txt)", "read", "completed"),
        "g": ("Glob(*.txt in .)", "search", "completed"),
        "s": ("Grep(two)", "search", "completed"),
        "b": ("Bash(echo hi)", "execute", "completed"),
        "n": ("NoSuchTool(x=1)", "other", "failed"),
        "w": ("Read(wrong=True)", "read", "failed"),
    }
    assert seen.calls["r"]["locations"] == [{"path": str(tmp_path / "notes.txt"), "line": 2}]
    assert not seen.calls["g"].get("locations"), "a folder is nothing to follow"
    assert seen.calls["b"]["rawOutput"]["exit_code"] == 0
    for call_id in seen.calls:
        assert seen.of_call(call_id)[0]["sessionUpdate"] == "tool_call"


async def test_edits_and_new_files_are_shown_as_diffs(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one\ntwo\n")
    edit = {"file_path": "notes.txt", "old_string": "two", "new_string": "three"}
    replies = [
        Answer(calls=(("r", "Read", {"file_path": "notes.txt"}),)),
        Answer(calls=(("e", "Edit", edit), ("w", "Write", {"file_path": "new.txt", "content": "fresh\n"}))),
        Answer(calls=(("f", "Edit", edit | {"old_string": "nowhere"}),)),
        Answer("Done."),
    ]
    async with (
        ModelServer(replies) as server,
        introduced("--permissions", "edits", **everywhere(server)) as editor,
    ):
        session = await editor.new(tmp_path)
        await editor.prompt(session, "Change it")
        calls = editor.seen(session).calls
    assert (tmp_path / "notes.txt").read_text() == "one\nthree\n"
    assert (tmp_path / "new.txt").read_text() == "fresh\n"
    path = str(tmp_path / "notes.txt")
    assert calls["e"]["content"] == [diff_at(1, tmp_path / "notes.txt", "one\ntwo\n", "one\nthree\n")]
    assert calls["w"]["content"] == [{"type": "diff", "path": str(tmp_path / "new.txt"), "newText": "fresh\n"}]
    assert calls["e"]["locations"] == [{"path": path, "line": 1}]
    assert [calls[each]["kind"] for each in "ew"] == ["edit", "edit"]
    assert calls["f"]["status"] == "failed"
    assert "nowhere" in json.dumps(calls["f"]["content"][0])
    assert calls["f"]["content"][1]["content"]["text"], "why it failed is said beside what was wanted"


async def test_a_replaced_file_is_shown_with_its_old_text_at_the_changed_lines(tmp_path: Path) -> None:
    old = "".join(f"line {number}\n" for number in range(1, 31))
    new = old.replace("line 10\n", "ten\n").replace("line 25\n", "")
    (tmp_path / "notes.txt").write_text(old)
    write = {"file_path": "notes.txt", "content": new}
    replies = [
        Answer(calls=(("r", "Read", {"file_path": "notes.txt"}),)),
        Answer(calls=(("w", "Write", write),)),
        Answer("Done."),
    ]
    async with (
        ModelServer(replies) as server,
        introduced("--permissions", "edits", **everywhere(server)) as editor,
    ):
        session = await editor.new(tmp_path)
        await editor.prompt(session, "Change it")
        live = editor.seen(session).calls["w"]
    async with introduced() as editor:
        await editor.load(session, tmp_path)
        replayed = editor.seen(session).calls["w"]
    first, second = live["content"]
    assert (first["_meta"], second["_meta"]) == ({"outrider": {"line": 7}}, {"outrider": {"line": 22}})
    assert first["oldText"] == "".join(f"line {number}\n" for number in range(7, 14))
    assert first["newText"] == first["oldText"].replace("line 10", "ten")
    assert "line 25\n" in second["oldText"]
    assert "line 25\n" not in second["newText"]
    assert live["locations"] == [{"path": str(tmp_path / "notes.txt"), "line": 7}]
    assert (replayed["content"], replayed["locations"]) == (live["content"], live["locations"])


async def test_each_file_is_asked_for_once_an_edit_and_a_new_one_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one\ntwo\n")
    edit = {"file_path": "notes.txt", "old_string": "two", "new_string": "three"}
    replies = [
        Answer(calls=(("r", "Read", {"file_path": "notes.txt"}),)),
        Answer(calls=(("e", "Edit", edit), ("w", "Write", {"file_path": "new.txt", "content": "fresh\n"}))),
        Answer("Done."),
    ]

    def read(params: dict[str, Any]) -> dict[str, Any]:
        return {"content": Path(params["path"]).read_text()}

    def write(params: dict[str, Any]) -> dict[str, Any]:
        Path(params["path"]).write_text(params["content"])
        return {}

    files = {"fs": {"readTextFile": True, "writeTextFile": True}}
    handlers = {"fs/read_text_file": read, "fs/write_text_file": write}
    async with (
        ModelServer(replies) as server,
        introduced("--permissions", "edits", capabilities=files, handlers=handlers, **everywhere(server)) as editor,
    ):
        session = await editor.new(tmp_path)
        await editor.prompt(session, "Change it")
        asked = [Path(params["path"]).name for params in editor.asked_for("fs/read_text_file")]
    assert asked == ["notes.txt", "notes.txt"], "once to read it, once to edit it"
    assert (tmp_path / "new.txt").read_text() == "fresh\n"


async def test_the_title_is_known_while_large_arguments_still_arrive(tmp_path: Path) -> None:
    text = "line of text\n" * 4_000
    big = Answer(calls=(("w", "Write", {"file_path": "big.txt", "content": text}),))
    async with (
        ModelServer([Held(big, "all but the end"), Answer("Done.")]) as server,
        introduced("--permissions", "edits", **everywhere(server)) as editor,
    ):
        session = await editor.new(tmp_path)
        asked = editor.say(session, "Write much")
        seen = editor.seen(session)
        await editor.until(lambda: "w" in seen.calls and seen.calls["w"]["locations"], "where it writes")
        assert seen.calls["w"]["title"] == "Write(big.txt)"
        assert seen.calls["w"]["status"] == "pending"
        assert seen.calls["w"]["locations"] == [{"path": str(tmp_path / "big.txt")}]
        assert not (tmp_path / "big.txt").exists()
        server.release.set()
        assert (await editor.answer(asked))["stopReason"] == "end_turn"
        sent = sum(len(json.dumps(update)) for update in seen.of_call("w"))
    assert (tmp_path / "big.txt").read_text() == text
    assert seen.calls["w"]["content"][0]["newText"] == text
    assert sent < 4 * len(json.dumps(text)), "the file is told in its arguments, as a diff, and with the end"


async def test_arguments_that_come_byte_by_byte_make_few_updates(tmp_path: Path) -> None:
    steps = [{"content": f"step {number}", "status": "pending"} for number in range(40)]
    steps[0]["status"] = "in_progress"
    slow = Paced(Answer("Plan.", (("t", "Todo", {"todos": steps}),)), "bytes")
    async with ModelServer([slow, Answer("Done.")]) as server, introduced(**everywhere(server)) as editor:
        session = await editor.new(tmp_path)
        assert await editor.prompt(session, "Plan it") == "end_turn"
        seen = editor.seen(session)
    assert seen.calls["t"]["title"] == "Todo"
    assert seen.calls["t"]["rawInput"] == {"todos": steps}
    assert len(seen.of_call("t")) <= 5
    assert [(entry["content"], entry["status"]) for entry in seen.plan[:2]] == [
        ("step 0", "in_progress"),
        ("step 1", "pending"),
    ]
    assert len(seen.plan) == 40
    assert seen.text() == "Plan.Done."


async def test_what_sub_agents_do_stands_inside_their_calls_and_their_questions_are_asked(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one\n")
    prompt = 'Delegate "run `touch made; sleep 0.2`" and "read everything" as a table of file and lines'
    async with introduced(handlers=allowing()) as editor:
        session = await editor.new(tmp_path)
        assert await editor.prompt(session, prompt) == "end_turn"
        seen = editor.seen(session)
    assert (tmp_path / "made").exists()
    command, reading = seen.call("Task(Bash: run"), seen.call("Task(Explore: read everything")
    assert "… Bash(touch made; sleep 0.2)" in json.dumps(seen.of_call(command["toolCallId"]), ensure_ascii=False)
    assert reading["rawOutput"]["structured_output"] == [{"file": "notes.txt", "lines": 1}]
    (question,) = editor.asked_for("session/request_permission")
    assert question["toolCall"]["title"] == "Bash: run `touch made; sleep 0.2`: Bash(touch made; sleep 0.2)"
    assert seen.calls[question["toolCall"]["toolCallId"]]["status"] == "completed"
    assert not seen.open_calls


@pytest.mark.parametrize("answer", ["no", "cancelled", "error"])
async def test_a_sub_agent_that_may_not_says_so(tmp_path: Path, answer: str) -> None:
    def permit(params: dict[str, Any]) -> dict[str, Any]:
        if answer == "error":
            raise Refused(-32603, "no window is open")
        outcome = {"outcome": "cancelled"} if answer == "cancelled" else {"outcome": "selected", "optionId": "no"}
        return {"outcome": outcome}

    async with introduced(handlers={"session/request_permission": permit}) as editor:
        session = await editor.new(tmp_path)
        ending = await editor.prompt(session, 'Delegate "run `touch made`" to a sub-agent')
        assert ending == ("end_turn" if answer == "error" else "cancelled"), "a no ends the turn"
        seen = editor.seen(session)
    assert not (tmp_path / "made").exists()
    assert not seen.open_calls
    assert seen.call("Bash(touch made)")["status"] == "failed"
    if answer == "error":
        assert "the user does not want this" in json.dumps(seen.call("Task")["content"])


# What can be said


async def said(editor: Editor, folder: Path, *blocks: str | dict[str, Any]) -> tuple[str, list[Any]]:
    """What the demo model says to it, and the blocks of the message that it got."""
    session = await editor.new(folder)
    assert await editor.prompt(session, *blocks) == "end_turn"
    first = messages(session)[0]
    return editor.seen(session).text(), [*first.content]


async def test_pictures_files_and_links_reach_the_model(tmp_path: Path) -> None:
    (tmp_path / "with space.txt").write_text("text\n")
    (tmp_path / "chart.png").write_bytes(PNG)
    picture = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(PNG).decode()}
    text = {"uri": f"file://{tmp_path}/with%20space.txt", "text": "as it is in the editor", "mimeType": "text/plain"}
    blob = {"uri": f"file://{tmp_path}/chart.png", "blob": picture["data"], "mimeType": "image/png"}
    async with introduced() as editor:
        _, blocks = await said(editor, tmp_path, "What is it?", picture)
        assert [type(block).__name__ for block in blocks] == ["TextBlock", "AttachmentBlock"]
        assert (blocks[1].mime_type, blocks[1].size) == ("image/png", len(PNG))
        _, blocks = await said(editor, tmp_path, "What is it?", {"type": "resource", "resource": text})
        assert f'<file path="{tmp_path}/with space.txt">\nas it is in the editor\n</file>' in blocks[1].text
        _, blocks = await said(editor, tmp_path, "And this?", {"type": "resource", "resource": blob})
        assert (blocks[1].mime_type, blocks[1].name) == ("image/png", "chart.png")
        link = {"type": "resource_link", "name": "with space.txt", "uri": text["uri"]}
        _, blocks = await said(editor, tmp_path, "Look at", link)
        assert blocks[1].text == f"[with space.txt]({tmp_path}/with space.txt)"
        link = {"type": "resource_link", "name": "chart.png", "uri": blob["uri"], "mimeType": "image/png"}
        _, blocks = await said(editor, tmp_path, "Look at", link)
        assert [type(block).__name__ for block in blocks] == ["TextBlock", "TextBlock", "AttachmentBlock"]
        link = {"type": "resource_link", "name": "spec", "uri": "https://example.org/spec"}
        _, blocks = await said(editor, tmp_path, "Look at", link)
        assert blocks[1].text == "[spec](https://example.org/spec)"


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ({"type": "audio", "mimeType": "audio/wav", "data": "AAAA"}, "audio"),
        ({"type": "image", "mimeType": "image/png", "data": "not base64!"}, "base64"),
        ({"type": "resource", "resource": {"uri": "file:///x"}}, "has no content"),
        ({"type": "hologram"}, "hologram"),
        ({"type": "text"}, "text"),
    ],
)
async def test_what_cannot_be_taken_is_refused_in_words_and_the_session_goes_on(
    tmp_path: Path, block: dict[str, Any], words: str
) -> None:
    async with introduced() as editor:
        session = await editor.new(tmp_path)
        refused = await editor.refusal("session/prompt", sessionId=session, prompt=[block])
        assert refused.code == -32602
        assert words in refused.message
        assert await editor.prompt(session, "What is 2 + 2?") == "end_turn"


@pytest.mark.parametrize("blocks", [[], [""], ["  \n"]])
async def test_a_prompt_that_says_nothing_is_refused_in_words(tmp_path: Path, blocks: list[str]) -> None:
    async with introduced() as editor:
        session = await editor.new(tmp_path)
        refused = await editor.refusal(
            "session/prompt", sessionId=session, prompt=[{"type": "text", "text": text} for text in blocks]
        )
        assert refused.code == -32602
        assert "nothing to answer" in refused.message
        assert await editor.prompt(session, "What is 2 + 2?") == "end_turn"


# What goes wrong


async def test_a_failing_model_is_a_sentence_and_never_a_key_or_a_traceback(tmp_path: Path) -> None:
    overloaded = Status(400, body=json.dumps({"error": {"message": f"bad key {KEY}"}}).encode())
    async with ModelServer([overloaded, Answer("Better.")]) as server, introduced(**everywhere(server)) as editor:
        session = await editor.new(tmp_path)
        refused = await editor.refusal("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "Hello"}])
        assert refused.code == -32603
        assert "bad key" in refused.message
        assert await editor.prompt(session, "Again") == "end_turn"
        assert editor.seen(session).text() == "Better."
    everything = b"".join(editor.lines).decode()
    assert KEY not in everything
    assert "Traceback" not in everything


async def test_a_missing_key_asks_for_authentication(tmp_path: Path) -> None:
    async with introduced("--model", "openai/gpt-4.1-mini") as editor:
        session = await editor.new(tmp_path)
        refused = await editor.refusal("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "Hello"}])
    assert refused.code == -32000
    assert "OPENAI_API_KEY" in refused.message


async def test_a_call_of_a_reply_that_broke_off_ends_and_the_next_may_have_its_id(tmp_path: Path) -> None:
    call = Answer("", (("call_0", "Bash", {"command": "touch made"}),))
    replies = [Held(call, "all but the end"), call, call, Answer("Done.")]
    async with ModelServer(replies) as server, introduced(handlers=allowing(), **everywhere(server)) as editor:
        session = await editor.new(tmp_path)
        asked = editor.say(session, "Go")
        seen = editor.seen(session)
        await editor.until(lambda: "call_0" in seen.calls, "a call")
        editor.tell("session/cancel", sessionId=session)
        assert (await editor.answer(asked))["stopReason"] == "cancelled"
        assert seen.calls["call_0"]["status"] == "failed"
        assert await editor.prompt(session, "Go on") == "end_turn"
        assert (tmp_path / "made").exists()
        assert [call["status"] for call in seen.calls.values()] == ["failed", "completed", "completed"]
        questions = [question["toolCall"]["toolCallId"] for question in editor.asked_for("session/request_permission")]
        assert questions == list(seen.calls)[1:]
        await editor.ask("session/close", sessionId=session)
        editor.forget(session)
        await editor.load(session, tmp_path)
        assert [call["status"] for call in editor.seen(session).calls.values()] == ["completed", "completed"]


async def test_a_model_that_uses_an_id_again_after_a_resume_makes_no_second_call_of_it(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one\n")
    call = Answer("", (("call_0", "Read", {"file_path": "notes.txt"}),))
    async with (
        ModelServer([call, Answer("Once."), call, Answer("Twice.")]) as server,
        introduced(**everywhere(server)) as editor,
    ):
        session = await editor.new(tmp_path)
        await editor.prompt(session, "Read it")
        await editor.ask("session/close", sessionId=session)
        editor.forget(session)
        await editor.load(session, tmp_path, "session/resume")
        assert await editor.prompt(session, "Read it again") == "end_turn"
        assert [call["status"] for call in editor.seen(session).calls.values()] == ["completed"]


async def test_a_run_that_reaches_a_limit_says_which(tmp_path: Path, own_data_folder: Path) -> None:
    settings = own_data_folder / "settings" / "outrider" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("[limits]\nmax_turns = 1\n")
    (tmp_path / "notes.txt").write_text("one\n")
    replies = [Answer(calls=(("a", "Read", {"file_path": "notes.txt"}),))] * 3
    async with ModelServer(replies) as server, introduced(**everywhere(server)) as editor:
        session = await editor.new(tmp_path)
        assert await editor.prompt(session, "Hello") == "max_turn_requests"
        assert "The limit of turns is reached" in editor.seen(session).text("thought")
        assert all(call["status"] in FINAL for call in editor.seen(session).calls.values())
