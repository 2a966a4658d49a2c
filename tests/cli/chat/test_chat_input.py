"""The line that a person types: several lines, pastes, and what was typed before."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from tests.cli.chat.terminal import Terminal, answered_by, at_the_prompt_with
from tests.modelserver import ModelServer
from tests.streams import Answer


@pytest.mark.sampled(1)
@pytest.mark.parametrize("keys", [("\\", "enter"), ("alt-enter",), ("c-j",)])
async def test_a_message_can_have_several_lines(keys: tuple[str, ...], project: Path) -> None:
    async with (
        ModelServer([Answer("Two lines.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.type("one")
        terminal.press(*keys)
        await terminal.wait_for("·")
        terminal.say("two")
        await terminal.wait_for("Two lines.")
        assert b"one\\ntwo" in server.requests[0].body


@pytest.mark.sampled(1)
@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
async def test_pasted_lines_are_one_message(end: str, project: Path) -> None:
    lines = [f"line {number}" for number in range(50)]
    async with (
        ModelServer([Answer("Many lines.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.paste(end.join(lines))
        await terminal.wait_for("[50 pasted lines]")
        assert server.requests == []
        terminal.press("enter")
        await terminal.wait_for("Many lines.")
        assert "\\n".join(lines).encode() in server.requests[0].body


async def test_a_large_paste_arrives_whole(project: Path) -> None:
    text = "\n".join(f"{number} " + "x" * 70 for number in range(1500))
    async with (
        ModelServer([Answer("Much.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await terminal.wait_for_prompt()
        await terminal.type_slowly(f"\x1b[200~{text}\x1b[201~\r")
        await terminal.wait_for("Much.", 60)
        assert text.replace("\n", "\\n").encode() in server.requests[0].body


async def test_an_empty_line_says_nothing(project: Path) -> None:
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await at_the_prompt_with(terminal, "", "   ")
        terminal.press("c-d")
        await terminal.exit_code()
        assert "--resume" not in terminal.screen


async def test_what_was_typed_before_can_be_called_back_also_in_the_next_process(
    project: Path, own_data_folder: Path
) -> None:
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await at_the_prompt_with(terminal, "What is 2+2?")
        terminal.press("up")
        await terminal.wait_for(lambda: terminal.screen.count("› What is 2+2?") == 2)
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await terminal.wait_for_prompt()
        terminal.press("up")
        await terminal.wait_for("› What is 2+2?")
    assert (own_data_folder / "chat-history").stat().st_mode & 0o777 == 0o600


async def test_a_history_that_cannot_be_written_does_no_harm(project: Path, own_data_folder: Path) -> None:
    (own_data_folder / "chat-history").mkdir()
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await at_the_prompt_with(terminal, "What is 2+2?")
        assert "4" in terminal.screen.split()


async def test_letters_of_every_kind_arrive(project: Path) -> None:
    text = "Grüße, 世界! 🙂 e\u0301"
    async with (
        ModelServer([Answer("Привет, 世界 🙂.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, text)
        assert text.encode() in server.requests[0].body
        assert "Привет" in terminal.screen


PAUSE_SECONDS = 0.4
"""A pause between two keys that belong to nothing together; longer than the program may wait for the rest of one."""


async def test_a_key_after_escape_is_a_key_of_its_own(project: Path) -> None:
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await terminal.wait_for_prompt()
        terminal.press("escape")
        await asyncio.sleep(PAUSE_SECONDS)
        terminal.type("/cost")
        await terminal.wait_for(re.compile(r"^› /?cost$", re.M), 10)
        assert "› /cost" in terminal.screen
        terminal.press("escape")
        await asyncio.sleep(PAUSE_SECONDS)
        terminal.press("enter")
        await terminal.wait_for("No tokens used yet.")


async def test_a_paste_after_escape_arrives_whole_and_so_does_an_escape_in_it(project: Path) -> None:
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await terminal.wait_for_prompt()
        terminal.press("escape")
        await asyncio.sleep(PAUSE_SECONDS)
        terminal.paste("one \x1b[Atwo")
        await terminal.wait_for("› one ^[[Atwo", 10)


async def test_escape_twice_goes_back_also_with_a_pause_between(project: Path) -> None:
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await at_the_prompt_with(terminal, "What is 2+2?")
        terminal.press("escape")
        await asyncio.sleep(PAUSE_SECONDS)
        terminal.press("escape")
        await terminal.wait_for(re.compile(r"❯ .*What is 2\+2\?"), 10)


async def test_alt_and_a_key_arrive_together(project: Path) -> None:
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await terminal.wait_for_prompt()
        terminal.type("one three\x1bbtwo ")  # Alt-B: a word back
        await terminal.wait_for("› one two three")


async def test_escape_in_vi_leaves_the_insert_mode_at_once(project: Path) -> None:
    (project.parent / "home" / ".config" / "outrider").mkdir(parents=True)
    (project.parent / "home" / ".config" / "outrider" / "config.toml").write_text("[chat]\nvi_keys = true\n")
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await terminal.wait_for_prompt()
        terminal.type("one two")
        terminal.press("escape")
        await asyncio.sleep(PAUSE_SECONDS)
        terminal.type("bix")
        await terminal.wait_for("› one xtwo", 10)
