"""`/rewind` in a real terminal."""

from __future__ import annotations

from pathlib import Path

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
        await at_the_prompt_with(terminal, "make one", "make two", "/rewind")
        assert "1  make one" in terminal.transcript
        assert "2  make two" in terminal.transcript
        await at_the_prompt_with(terminal, "/rewind 2")
        assert "delete  two.txt" in terminal.transcript
        assert (project / "two.txt").exists()
        terminal.say("/rewind 2 both")
        await until(lambda: not (project / "two.txt").exists(), what="the file to go")
        await until(lambda: "› make two" in terminal.screen.rstrip().rsplit("To take it back", 1)[-1])
        assert (project / "one.txt").exists()
        before = terminal.prompts
        terminal.press("c-c")  # clears the line, which has the message
        await until(lambda: terminal.prompts > before, what="an empty line")
        await at_the_prompt_with(terminal, "/rewind undo")
        assert (project / "two.txt").read_text() == "made\n"


async def test_escape_twice_lists_the_messages(project: Path) -> None:
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await at_the_prompt_with(terminal, "What is 2+2?")
        terminal.press("escape", "escape")
        await until(lambda: "1  What is 2+2?" in terminal.transcript, what="the list")
        await at_the_prompt_with(terminal, "/rewind x")
        assert "Write /rewind, /rewind N" in terminal.flowing


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
