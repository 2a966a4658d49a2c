"""Messages sent while the agent works: shown above the input, delivered after the results, taken back, offered."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.chat.terminal import Terminal, answered_by
from tests.modelserver import Held, ModelServer
from tests.streams import Answer

LOOK = Answer("I look.", (("c1", "Bash", {"command": "echo begun; until [ -e go ]; do sleep 0.02; done"}),))
ALL = ("--permissions", "all")


async def looking(terminal: Terminal) -> None:
    """Begin a turn, and wait until its command runs."""
    await terminal.wait_for_prompt()
    terminal.say("Look.")
    await terminal.wait_for("begun")


async def test_enter_queues_a_message_that_the_model_reads_after_the_results(project: Path) -> None:
    async with (
        ModelServer([LOOK, Answer("En français.")]) as server,
        Terminal(*ALL, cwd=project, **answered_by(server)) as terminal,
    ):
        await looking(terminal)
        terminal.say("Answer in French.")
        await terminal.wait_for("queued: Answer in French.")
        (project / "go").touch()
        await terminal.wait_for("En français.")
        await terminal.wait_for_prompt()
        last = server.requests[1].json["messages"][-1]
        assert [block["type"] for block in last["content"]] == ["tool_result", "text"]
        assert last["content"][1]["text"] == "Answer in French."
        assert len(re.findall("^› Answer in French.", terminal.transcript, re.M)) == 1
        assert "queued:" not in terminal.screen


async def test_up_takes_the_last_message_back_into_the_line(project: Path) -> None:
    async with (
        ModelServer([LOOK, Answer("Done."), Answer("Oui.")]) as server,
        Terminal(*ALL, cwd=project, **answered_by(server)) as terminal,
    ):
        await looking(terminal)
        terminal.say("Be brief.")
        await terminal.wait_for("queued: Be brief.")
        terminal.say("Answer in French.")
        await terminal.wait_for("queued: Answer in French.")
        terminal.press("up")
        await terminal.wait_for(re.compile(r"^› Answer in French\.$", re.M))
        (project / "go").touch()
        await terminal.wait_for("Done.")
        await terminal.wait_for_prompt()
        assert b"Be brief." in server.requests[1].body
        assert b"French" not in server.requests[1].body
        terminal.press("enter")
        await terminal.wait_for("Oui.")


async def test_after_escape_what_was_queued_is_offered_in_the_line(project: Path) -> None:
    async with (
        ModelServer([LOOK, Answer("Oui.")]) as server,
        Terminal(*ALL, cwd=project, **answered_by(server)) as terminal,
    ):
        await looking(terminal)
        terminal.say("Answer in French.")
        await terminal.wait_for("queued: Answer in French.")
        terminal.press("escape")
        await terminal.wait_for_prompt()
        await terminal.wait_for(re.compile(r"^› Answer in French\.$", re.M))
        terminal.press("enter")
        await terminal.wait_for("Oui.")
        assert server.requests[1].body.count(b"Answer in French.") == 1


async def test_a_message_during_the_last_reply_is_answered_without_another_key(project: Path) -> None:
    async with (
        ModelServer([Held(Answer("The first half. The second half.")), Answer("Next.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.say("Tell me.")
        await terminal.wait_for("The first half")
        terminal.say("And then?")
        await terminal.wait_for("queued: And then?")
        server.release.set()
        await terminal.wait_for("Next.")
        assert b"And then?" in server.requests[1].body


async def test_a_command_is_not_queued_as_a_message(project: Path) -> None:
    async with (
        ModelServer([LOOK, Answer("Done.")]) as server,
        Terminal(*ALL, cwd=project, **answered_by(server)) as terminal,
    ):
        await looking(terminal)
        terminal.say("/help")
        await terminal.wait_for(re.compile(r"^› /help$", re.M))
        (project / "go").touch()
        await terminal.wait_for("Done.")
        await terminal.wait_for_prompt()
        assert b"/help" not in server.requests[1].body


async def test_a_command_that_must_wait_says_so_until_the_line_changes(project: Path) -> None:
    hint = "Commands can be sent when this has ended; Esc ends it now."
    async with (
        ModelServer([LOOK, Answer("Done.")]) as server,
        Terminal(*ALL, cwd=project, **answered_by(server)) as terminal,
    ):
        await looking(terminal)
        terminal.type("/cost")
        await terminal.wait_for(re.compile(r"^› /cost$", re.M))
        assert hint not in terminal.screen
        terminal.press("enter")
        await terminal.wait_for(hint, 10)
        terminal.press("c-u")
        await terminal.wait_until_gone(hint)
        await terminal.wait_until_gone("› /cost")
        terminal.say("/tasks")
        await terminal.wait_for(re.compile(r"^› /tasks$", re.M))
        await terminal.wait_for(hint)
        terminal.press("escape")
        await terminal.wait_for_prompt()
        terminal.press("enter")
        await terminal.wait_for("Nothing runs in the background.")
        assert len(server.requests) == 1


async def test_control_w_deletes_the_last_word_of_a_line_typed_meanwhile(project: Path) -> None:
    async with (
        ModelServer([LOOK, Answer("Done.")]) as server,
        Terminal(*ALL, cwd=project, **answered_by(server)) as terminal,
    ):
        await looking(terminal)
        terminal.type("Answer in Frensh ")
        await terminal.wait_for("› Answer in Frensh")
        terminal.press("c-w")
        await terminal.wait_until_gone("Frensh", 10)
        terminal.say("French.")
        await terminal.wait_for("queued: Answer in French.")
