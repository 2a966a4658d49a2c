"""Files in a message: `@path`, `--attach`, and completion."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from PIL import Image

from tests.cli.chat.terminal import Terminal, answered_by, at_the_prompt_with, until
from tests.modelserver import ModelServer
from tests.streams import Answer


async def test_a_text_file_and_a_picture_go_with_the_words(project: Path) -> None:
    Image.new("RGB", (8, 8), "red").save(project / "cat.png")
    (project / "my notes.txt").write_text("Call Kim.")
    async with (
        ModelServer([Answer("I see.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, 'Compare @notes.txt, @cat.png and @"my notes.txt"!')
        assert "I see." in terminal.screen
        body = server.requests[0].body
        assert b"Buy milk." in body
        assert b"Call Kim." in body
        assert b'"image/png"' in body


async def test_a_file_that_is_not_there_is_just_words(project: Path) -> None:
    async with (
        ModelServer([Answer("I see.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "Ask @kim about @nothing.txt")
        assert "I see." in terminal.screen
        (message,) = server.requests[0].json["messages"]
        assert "Ask @kim about @nothing.txt" in str(message["content"])


async def test_a_file_that_is_too_large_is_said_and_nothing_is_lost(project: Path) -> None:
    with (project / "large.txt").open("wb") as file:
        file.truncate(25 * 1024 * 1024)
    async with (
        ModelServer([Answer("I see.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "Look at @large.txt please")
        assert "large.txt" in terminal.screen.partition("please")[2]
        assert server.requests == []
        terminal.press("up")
        await terminal.wait_for("› Look at @large.txt please")
        before = terminal.prompts
        terminal.press("c-c")
        await until(lambda: terminal.prompts > before)
        await at_the_prompt_with(terminal, "Then not.")
        assert "I see." in terminal.screen


async def test_a_file_that_cannot_be_read_is_said(project: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    (project / "locked.txt").write_text("x")
    (project / "locked.txt").chmod(0)
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await at_the_prompt_with(terminal, "Look at @locked.txt")
        assert "✗" in terminal.screen


async def test_an_attached_file_goes_with_the_first_words_only(project: Path) -> None:
    async with (
        ModelServer([Answer("One."), Answer("Two.")]) as server,
        Terminal("--attach", "notes.txt", cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "Look.", "Again.")
        assert server.requests[0].body.count(b"Buy milk.") == 1
        assert server.requests[1].body.count(b"Buy milk.") == 1


async def test_tab_completes_a_file(project: Path) -> None:
    (project / "src").mkdir()
    (project / "src" / "elephant.py").write_text("big = True\n")
    async with (
        ModelServer([Answer("I see.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.type("Read @eleph")
        await terminal.wait_for(re.compile(r"^ +src/elephant\.py", re.M))
        terminal.press("tab")
        await terminal.wait_for("› Read @src/elephant.py")
        terminal.type(" now")
        terminal.press("enter")
        await terminal.wait_for("I see.")
        assert b"big = True" in server.requests[0].body


async def test_tab_completes_a_command(project: Path) -> None:
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await terminal.wait_for_prompt()
        terminal.type("/to")
        await terminal.wait_for("list the tools of the agent")
        terminal.press("tab")
        await terminal.wait_for("› /tools")
        terminal.press("enter")
        terminal.press("enter")
        await terminal.wait_for(re.compile(r"^  Read ", re.M))
