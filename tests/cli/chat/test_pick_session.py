"""Choosing a session: `--resume` without an id, and `--continue` in a folder without a session."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from outrider.cli.chat.picker import Picker, PickerChoice
from tests.cli.chat.terminal import Terminal, at_the_prompt_with
from tests.cli.program import outrider

pytestmark = pytest.mark.long  # `test_chat.py` is the short form


@pytest.fixture
async def elsewhere(project: Path) -> Path:
    """Another folder, in which nothing was said yet; in the project, two sessions are stored."""
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await at_the_prompt_with(terminal, "What is 2+2?", "/clear", "What is 3+4?")
    folder = project.parent / "elsewhere"
    folder.mkdir()
    return folder


async def test_continue_says_that_the_folder_has_no_session_and_offers_others(elsewhere: Path) -> None:
    async with Terminal("--model", "demo", "--continue", cwd=elsewhere, columns=200) as terminal:
        await terminal.wait_for("There is no session of this folder to continue.")
        await terminal.wait_for(re.compile(r"❯ .*What is 3\+4\?"))
        assert "project" in terminal.screen, "it says where they were"
        terminal.press("escape")
        await terminal.wait_for("Type /help")
        await terminal.wait_for_prompt()
        assert "last messages" not in terminal.screen


async def test_resume_without_an_id_lets_the_user_search(elsewhere: Path) -> None:
    async with Terminal("--model", "demo", "--resume", cwd=elsewhere) as terminal:
        await terminal.wait_for("2 of 2")
        terminal.type("2+2")
        await terminal.wait_for("1 of 2")
        terminal.press("enter")
        await terminal.wait_for("last messages:")
        await terminal.wait_for("› What is 2+2?")


async def test_the_list_has_chats_of_the_repository_first_and_all_sessions_on_request(elsewhere: Path) -> None:
    """The search also finds what was said, and what a list of chats does not show."""
    project = elsewhere.parent / "project"
    (project / ".git").mkdir()
    (project / "src").mkdir()
    printed = outrider("-p", "Say the word elephant", "--model", "demo", cwd=elsewhere)
    assert printed.returncode == 0, printed.stderr
    async with Terminal("--model", "demo", "What is 300*4001?", cwd=elsewhere) as terminal:
        await terminal.wait_for(re.compile(r"^1200300$", re.M))
    async with Terminal("--model", "demo", cwd=project / "src") as terminal:
        await terminal.wait_for("Type /help")
        terminal.say("/resume")
        await terminal.wait_for("3 of 3")
        rows = [line for line in terminal.screen.split("\n") if "What is" in line]
        assert [re.search(r"What is (.*?)\?", row)[1] for row in rows] == ["3+4", "2+2", "300*4001"]  # type: ignore[index]
        assert ["elsewhere" in row for row in rows] == [False, False, True]
        assert all("1 turn" in row and "$0.0000" in row for row in rows)
        terminal.press("tab")
        await terminal.wait_for("4 of 4")
        assert re.search(r"elephant .*-p", terminal.screen)
        terminal.press("tab")
        await terminal.wait_for("3 of 3")
        terminal.type("zebra")  # nothing has this title; a number could be part of an id
        await terminal.wait_for("Nothing is found.")
        terminal.press(*["backspace"] * 5)
        terminal.type("1200300")  # an answer has it
        await terminal.wait_for(re.compile(r"❯ What is 300\*4001\?.*\n.*1 of 3"))
        terminal.press("enter")
        await terminal.wait_for("last messages:")


async def test_a_model_is_kept_for_the_next_chat_there(project: Path) -> None:
    (project / ".git").mkdir()
    (project / "src").mkdir()
    async with Terminal("--model", "anthropic/claude-sonnet-4-5", cwd=project, ANTHROPIC_API_KEY="x") as terminal:
        await at_the_prompt_with(terminal, "/model demo")
        assert "Kept for later chats here" in terminal.screen
    async with Terminal(cwd=project / "src", ANTHROPIC_API_KEY="x") as terminal:
        await terminal.wait_for(re.compile(r"^demo · ", re.M))
        await at_the_prompt_with(terminal, "/model default")
        assert re.search(r"Model: anthropic/claude-.* As the settings say\.", terminal.screen)
    async with Terminal(cwd=project, ANTHROPIC_API_KEY="x") as terminal:
        await terminal.wait_for(re.compile(r"^\S*claude-\S* · ", re.M))


async def test_a_list_that_is_longer_than_the_window_can_be_walked_through(project: Path) -> None:
    async with Terminal("--model", "demo", cwd=project, lines=12) as terminal:
        for number in range(6):
            await at_the_prompt_with(terminal, f"What is {number}+1?", "/clear")
        terminal.say("/sessions")
        await terminal.wait_for("6 of 6")
        for _ in range(5):
            terminal.press("down")
        await terminal.wait_for(re.compile(r"❯ .*What is 0\+1\?"))


def test_nothing_found_is_said() -> None:
    picker = Picker("Choose", [PickerChoice("a", "alpha", "first"), PickerChoice("b", "beta")])
    picker._search.text = "FIRST alp"
    assert [choice.value for choice in picker._found] == ["a"]
    picker._search.text = "gamma"
    assert "Nothing is found." in picker._rows().value
