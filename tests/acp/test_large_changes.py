"""A large change of a file reaches the editor once, however it is asked about and however it ends."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from outrider.acp.permission_requests import PermissionRequester
from outrider.acp.schema import PermissionOutcome, RequestPermissionResponse
from outrider.coding.permissions.question import Question
from tests.acp.editor import Editor, allowing, introduced
from tests.acp.updates.observing import watched
from tests.cli.asking import everywhere
from tests.modelserver import Answer, ModelServer

pytestmark = pytest.mark.long  # large files take seconds

TEXT = "a line of text\n" * 70_000
SIZE = len(json.dumps(TEXT))
WRITE = Answer("I write it.", (("w", "Write", {"file_path": "big.txt", "content": TEXT}),))


@asynccontextmanager
async def written(folder: Path, *arguments: str, answer: str = "once", **options: Any) -> AsyncIterator[Editor]:
    """An editor that has seen a file of 1 MB being written, by a model with a large window."""
    (folder / "window.json").write_text('{"*": {"context_tokens": 2000000}}')
    options["OUTRIDER_CAPABILITIES"] = str(folder / "window.json")
    async with (
        ModelServer([WRITE, Answer("Done.")]) as server,
        introduced(*arguments, handlers=allowing(answer), **everywhere(server), **options) as editor,
    ):
        session = await editor.new(folder)
        assert await editor.prompt(session, "Write it") == "end_turn"
        yield editor


def seen(editor: Editor) -> tuple[dict[str, Any], int]:
    """The call as it is shown, and the bytes of all lines that came."""
    (session,) = editor.sessions
    return editor.seen(session).calls["w"], sum(map(len, editor.lines))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mode", ["ask", "edits"])
async def test_a_new_file_of_1_mb_is_sent_once(tmp_path: Path, mode: str) -> None:
    async with written(tmp_path, "--permissions", mode) as editor:
        call, sent = seen(editor)
    assert len((tmp_path / "big.txt").read_text()) == len(TEXT)
    assert call["status"] == "completed"
    assert call["title"] == "Write(big.txt)"
    assert [item["type"] for item in call["content"]] == ["diff"]
    assert call["content"][0]["newText"] == TEXT
    assert SIZE < sent < 1.01 * SIZE


async def test_its_arguments_are_shortened_because_the_diff_has_them(tmp_path: Path) -> None:
    async with written(tmp_path, "--permissions", "edits") as editor:
        call, _ = seen(editor)
    assert call["rawInput"]["file_path"] == "big.txt"
    assert call["rawInput"]["content"].startswith("a line of text\na line")
    assert call["rawInput"]["content"].endswith("… [1,050,000 characters; the diff has them all]")


async def test_the_question_says_why_in_the_title_and_the_title_goes_back(tmp_path: Path) -> None:
    async with written(tmp_path) as editor:
        (question,) = editor.asked_for("session/request_permission")
        call, _ = seen(editor)
    assert question["toolCall"]["title"] == "Write(big.txt): writes 70,000 lines · it writes big.txt"
    assert "content" not in question["toolCall"], "the editor has it"
    assert len(json.dumps(question)) < 2_000
    assert call["title"] == "Write(big.txt)"


async def test_a_question_repeats_a_diff_that_a_person_can_read(tmp_path: Path) -> None:
    text = "a line of text\n" * 700
    write = Answer("", (("w", "Write", {"file_path": "big.txt", "content": text}),))
    async with (
        ModelServer([write, Answer("Done.")]) as server,
        introduced(handlers=allowing(), **everywhere(server)) as editor,
    ):
        session = await editor.new(tmp_path)
        await editor.prompt(session, "Write it")
        (question,) = editor.asked_for("session/request_permission")
        *_, end = editor.seen(session).of_call("w")
    assert question["toolCall"]["content"][0]["newText"] == text
    assert "content" not in end, "10 kB are not sent a third time"


async def test_a_refusal_says_why(tmp_path: Path) -> None:
    async with written(tmp_path, answer="no") as editor:
        call, _ = seen(editor)
    assert call["status"] == "failed"
    assert "does not want this" in call["content"][-1]["content"]["text"]
    assert call["title"] == "Write(big.txt)"
    assert not (tmp_path / "big.txt").exists()


async def test_an_editor_that_forgets_gets_all_of_it_each_time(tmp_path: Path) -> None:
    async with written(tmp_path, "--full-updates") as editor:
        (question,) = editor.asked_for("session/request_permission")
        (session,) = editor.sessions
        *_, end = editor.seen(session).of_call("w")
    assert question["toolCall"]["content"][0]["newText"] == TEXT
    assert end["content"][0]["newText"] == TEXT


async def test_it_looks_the_same_when_the_session_is_loaded(tmp_path: Path) -> None:
    async with written(tmp_path) as editor:
        (session,) = editor.sessions
        live = editor.seen(session).lasting()
        await editor.ask("session/close", sessionId=session)
        editor.forget(session)
        await editor.load(session, tmp_path)
        assert editor.seen(session).lasting() == live


async def test_small_arguments_and_those_of_other_tools_stay_as_they_are(tmp_path: Path) -> None:
    command = "true " + "x" * 5_000
    small = {"file_path": "small.txt", "content": "y" * 1_024}
    calls = (("b", "Bash", {"command": command}), ("w", "Write", small))
    async with (
        ModelServer([Answer(calls=calls), Answer("Done.")]) as server,
        introduced("--permissions", "all", **everywhere(server)) as editor,
    ):
        session = await editor.new(tmp_path)
        await editor.prompt(session, "Do it")
        shown = editor.seen(session).calls
    assert shown["b"]["rawInput"] == {"command": command}
    assert shown["w"]["rawInput"] == small


async def test_the_question_of_a_sub_agent_ends_without_sending_it_again(tmp_path: Path) -> None:
    engine, observer, _ = watched()

    async def permit(request: Any) -> RequestPermissionResponse:
        return RequestPermissionResponse(PermissionOutcome("selected", "once"))

    session: Any = SimpleNamespace(client=SimpleNamespace(request_permission=permit), id="s", engine=engine)
    ask = PermissionRequester(session, tmp_path, lambda file: b"", lambda _: "")
    question = Question("w", "Write", {"file_path": "big.txt", "content": TEXT}, "it writes big.txt", asker="Explore")
    assert (await ask(question)).verdict == "once"
    announcement, end = observer.updates
    assert announcement.title == "Explore: Write(big.txt): it writes big.txt"
    assert end.changes.keys() == {"title", "status", "locations"}
    assert end.title == f"{announcement.title} Allowed."
