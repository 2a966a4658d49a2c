"""`/rewind` in a real terminal."""

from __future__ import annotations

import re
from pathlib import Path

from outrider.cli.chat.commands.sessions import _parts
from outrider.coding.rewind_points import beginning
from outrider.conversation.messages import AttachmentBlock, Message, TextBlock
from outrider.log.rewinding import RewindPreview
from outrider.log.working_folder import FileChange
from tests.cli.chat.terminal import Terminal, answered_by, at_the_prompt_with, until
from tests.modelserver import ModelServer
from tests.streams import Answer


def write(name: str, id: str) -> Answer:
    return Answer("", ((id, "Write", {"file_path": name, "content": "made\n"}),))


async def test_going_back_with_a_preview_and_taking_it_back(project: Path) -> None:
    answers = [write("one.txt", "call_1"), Answer("Made one."), write("two.txt", "call_2"), Answer("Made two.")]
    async with (
        ModelServer(answers) as server,
        Terminal("--permissions", "all", cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "make one", "make two", "/rewind 2")
        assert "delete  two.txt" in terminal.transcript
        assert (project / "two.txt").exists()
        terminal.say("/rewind 2 both")
        await until(lambda: not (project / "two.txt").exists(), what="the file to go")
        await terminal.wait_for(re.compile("To take it back.*› make two", re.DOTALL))
        await terminal.wait_for_prompt()
        assert (project / "one.txt").exists()
        before = terminal.prompts
        terminal.press("c-c")  # clears the line, which has the message
        await until(lambda: terminal.prompts > before, what="an empty line")
        await at_the_prompt_with(terminal, "/rewind undo")
        assert (project / "two.txt").read_text() == "made\n"


async def test_a_list_with_a_preview_goes_back(project: Path) -> None:
    answers = [write("one.txt", "call_1"), Answer("Made one."), write("two.txt", "call_2"), Answer("Made two.")]
    async with (
        ModelServer(answers) as server,
        Terminal("--permissions", "all", cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "make one", "make two\\\rin two lines", "/rewind x")
        assert "Write /rewind, /rewind N" in terminal.flowing
        terminal.press("escape", "escape")
        await terminal.wait_for(re.compile(r"❯  2  make two in two lines +just now\n   1  make one +just now"))
        await terminal.wait_for(re.compile(r"  make two\n  in two lines"))  # the whole message, below the list
        terminal.press("down", "enter")
        await terminal.wait_for("Back to before: make one")
        await terminal.wait_for(re.compile("❯ the conversation and the files +8 messages less, 2 files change"))
        await terminal.wait_for("delete  two.txt")
        terminal.press("down")
        await terminal.wait_until_gone("delete  two.txt")  # the preview is that of the chosen row
        terminal.press("escape")
        await terminal.wait_for("❯  1  make one")
        terminal.press("up", "enter")
        await terminal.wait_for("1 file changes")
        before = terminal.prompts
        terminal.press("enter")
        await until(lambda: not (project / "two.txt").exists(), what="the file to go")
        await until(lambda: terminal.prompts > before, what="the next prompt")
        assert (project / "one.txt").exists()
        await terminal.wait_for("Went back to before message 2; restored 1 file.")
        await terminal.wait_for(re.compile(r"› make two\n· in two lines"))


def test_texts_of_one_message_stay_apart_and_files_are_named() -> None:
    picture = AttachmentBlock("0" * 64, "image/png", 3, name="a.png")
    message = Message("user", (TextBlock("Look"), picture, TextBlock("first\n"), TextBlock("second")))
    assert beginning(message) == "Look [a.png] first second"
    assert beginning(message, 8) == "Look [a…"


def test_files_that_someone_else_changed_make_the_conversation_the_first_choice() -> None:
    file = FileChange("a.txt", "change", is_conflict=True)
    preview = RewindPreview(1, Message.user("x"), 2, (file,))
    assert [each.value for each in _parts(preview)] == ["conversation", "both", "files"]
    assert _parts(preview)[1].detail == "2 messages less, 1 file changes, also 1 that someone else changed since"
    assert [each.value for each in _parts(RewindPreview(1, Message.user("x"), 2))] == ["conversation"]


async def test_undo_goes_further_back_each_time_and_redo_returns(project: Path) -> None:
    answers = [write("one.txt", "call_1"), Answer("Made one."), write("two.txt", "call_2"), Answer("Made two.")]
    one, two = project / "one.txt", project / "two.txt"
    async with (
        ModelServer([*answers, Answer("Hello.")]) as server,
        Terminal("--permissions", "all", cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "/undo", "/redo", "make one", "make two")
        assert "There are no messages yet." in terminal.flowing
        terminal.say("/undo")
        await terminal.wait_for("Undo the last turn?")
        assert "delete two.txt" in terminal.flowing
        before = terminal.prompts
        terminal.press("escape")
        await until(lambda: terminal.prompts > before, what="the prompt")
        assert two.exists()
        for gone in (two, one):
            await terminal.wait_for_prompt()
            await at_the_prompt_with(terminal, "/undo yes")
            assert not gone.exists()
        assert "/undo again goes further back, /redo returns." in terminal.flowing
        await at_the_prompt_with(terminal, "/undo")
        assert "There is no message to undo." in terminal.flowing
        await at_the_prompt_with(terminal, "/redo")
        assert (one.exists(), two.exists()) == (True, False)
        await at_the_prompt_with(terminal, "/redo", "/redo")
        assert two.exists()
        assert "There is nothing to redo." in terminal.flowing
        terminal.say("/undo")
        await terminal.wait_for("Undo the last turn?")
        terminal.press("enter")
        await until(lambda: not two.exists(), what="the undo")
        await at_the_prompt_with(terminal, "hello", "/redo")
        assert "Nothing was redone: you have sent a message since." in terminal.flowing
        assert not two.exists()
