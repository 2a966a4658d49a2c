"""Plan mode in the chat: the plan on the screen, the four answers, and the ways into the mode and out of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.chat.terminal import Terminal, answered_by, at_the_prompt_with
from tests.modelserver import ModelServer
from tests.streams import Answer

PLAN = "# Greet the cat\n\n1. Write **hello.txt**.\n2. Read it.\n"
WRITE = Answer("", (("call_w", "Write", {"file_path": "hello.txt", "content": "Hello.\n"}),))


def proposal(plan: str = PLAN, id: str = "call_1") -> Answer:
    return Answer("", ((id, "ExitPlan", {"plan": plan}),))


def tools(server: ModelServer, request: int) -> set[str]:
    return {each["name"] for each in server.requests[request].json["tools"] if "name" in each}


async def asked(terminal: Terminal) -> None:
    await terminal.wait_for_prompt()
    terminal.say("Greet the cat.")
    await terminal.wait_for("esc no: stop here")


def planning(server: ModelServer, project: Path, **options: Any) -> Terminal:
    return Terminal("--permissions", "plan", cwd=project, **options, **answered_by(server))


async def test_go_shows_the_plan_and_carries_it_out_with_questions(project: Path) -> None:
    async with (
        ModelServer([proposal(), WRITE, Answer("Done.")]) as server,
        planning(server, project) as terminal,
    ):
        await asked(terminal)
        assert re.search(r"^ 1 Write hello\.txt\.$", terminal.screen, re.M), "it is rendered"
        assert "? Carry out this plan?" in terminal.screen
        assert b"Plan mode is on" in server.requests[0].body
        assert not {"Write", "Edit"} & tools(server, 0)
        terminal.press("y")
        await terminal.wait_for(re.compile(r"Allow Write\(hello\.txt\).*esc cancel", re.S))
        assert "permissions: ask" in terminal.screen
        assert {"Write", "Edit"} <= tools(server, 1)
        assert "ExitPlan" not in tools(server, 1)
        assert b"Plan mode is on" not in server.requests[1].body
        terminal.press("y")
        await terminal.wait_for("Done.")
        assert " 1 Write hello.txt." in terminal.transcript, "the plan stays"
    assert (project / "hello.txt").exists()


async def test_go_with_edits_needs_enter_and_asks_no_more(project: Path) -> None:
    async with (
        ModelServer([proposal(), WRITE, Answer("Done.")]) as server,
        planning(server, project) as terminal,
    ):
        await asked(terminal)
        terminal.press("e")
        await terminal.wait_for("enter confirm")
        terminal.press("escape")
        await terminal.wait_for("esc no: stop here")
        assert len(server.requests) == 1
        terminal.press("e")
        await terminal.wait_for("enter confirm")
        terminal.press("enter")
        await terminal.wait_for("Done.")
        await terminal.wait_for("permissions: edits")
        assert "? Allow " not in terminal.transcript
    assert (project / "hello.txt").exists()


async def test_words_change_the_plan_and_plan_mode_stays(project: Path) -> None:
    async with (
        ModelServer([proposal(), proposal("# Greet the dog", "call_2"), Answer("Well.")]) as server,
        planning(server, project) as terminal,
    ):
        await asked(terminal)
        terminal.press("t")
        await terminal.wait_for("What should change?")
        terminal.press("escape")
        await terminal.wait_for("esc no: stop here")
        terminal.press("t")
        await terminal.wait_for("What should change?")
        terminal.paste("the dog, please")
        await terminal.wait_for("What should change? the dog, please")
        terminal.press("enter")
        await terminal.wait_for(re.compile(r"Greet the dog.*esc no: stop here", re.S))
        assert b"The user wants another plan: the dog, please" in server.requests[1].body
        assert "ExitPlan" in tools(server, 1)


@pytest.mark.parametrize("key", ["n", "escape", "c-c"])
async def test_no_ends_the_turn_and_the_conversation_goes_on_in_plan_mode(key: str, project: Path) -> None:
    async with (
        ModelServer([proposal(), Answer("Something else, then.")]) as server,
        planning(server, project) as terminal,
    ):
        await asked(terminal)
        terminal.press(key)
        await terminal.wait_for_prompt()
        await terminal.wait_for("permissions: plan")
        assert len(server.requests) == 1
        await at_the_prompt_with(terminal, "Something else?")
        assert "Something else, then." in terminal.screen
        assert b"Plan mode is on" in server.requests[1].body


async def test_a_paste_answers_nothing(project: Path) -> None:
    async with ModelServer([proposal()]) as server, planning(server, project) as terminal:
        await asked(terminal)
        terminal.paste("yes, n or e")
        await terminal.wait_for("› yes, n or e")
        assert "? Carry out this plan?" in terminal.screen
        assert len(server.requests) == 1


async def test_a_plan_fits_a_small_window(project: Path) -> None:
    long = "\n".join(f"{number}. Step {number} of the plan." for number in range(1, 40))
    async with (
        ModelServer([proposal(long), Answer("Done.")]) as server,
        planning(server, project, columns=34, lines=12) as terminal,
    ):
        await asked(terminal)
        assert "? Carry out this plan?" in terminal.screen
        for number in (1, 20, 39):
            assert f"Step {number} of the plan." in terminal.transcript
        terminal.press("y")
        await terminal.wait_for("Done.")


async def test_the_command_switches_the_mode_and_shows_the_plan(project: Path) -> None:
    async with (
        ModelServer([proposal(), Answer("Done."), Answer("Hello.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.say("/plan show")
        await terminal.wait_for("There is no plan yet.")
        terminal.say("/plan")
        await terminal.wait_for("Permissions: plan.")
        await asked(terminal)
        terminal.press("y")
        await terminal.wait_for("Done.")
        await terminal.wait_for_prompt()
        terminal.say("/plan")
        await terminal.wait_for("permissions: plan")
        terminal.say("/plan")
        await terminal.wait_for("Permissions: ask.")
        await at_the_prompt_with(terminal, "Hi.")
        assert b"Plan mode is on" not in server.requests[2].body
        terminal.say("/plan show")
        await terminal.wait_for(re.compile(r"plan show.*Greet the cat.*1 Write hello\.txt", re.S))
        terminal.say("/plan nonsense")
        await terminal.wait_for("/plan switches plan mode on or off")
