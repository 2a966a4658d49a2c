"""Interrupts, and ends of every kind: the turn stops, its processes die, the conversation stays valid."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from outrider.sync import default_log
from tests.cli.chat.terminal import Terminal, answered_by, at_the_prompt_with, until
from tests.modelserver import Held, ModelServer
from tests.processes import machine_pid
from tests.streams import Answer

pytestmark = pytest.mark.long  # `test_prompt_interrupts.py` is the short form

LONG = "sleep 1000"


def bash(command: str) -> Answer:
    return Answer("", (("call_1", "Bash", {"command": command}),))


def sleeping(project: Path) -> str:
    """A command that does not end, and says who it is."""
    return f"echo $$ > {project}/pid; echo begun; {LONG}; echo never"


def pid(project: Path) -> int:
    return machine_pid(project / "pid")


def family(parent: int) -> list[int]:
    """A process and those of its group that are alive."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if stat[0] != "Z" and int(stat[2]) == parent:
                found.append(int(entry))
    return found


async def begun(terminal: Terminal, project: Path) -> int:
    """Say something that makes the command run; its process group."""
    await terminal.wait_for_prompt()
    terminal.say("Run it.")
    await terminal.wait_for(re.compile(r"^    begun$", re.M))
    await until(lambda: pid(project))
    group = os.getpgid(pid(project))
    assert family(group)
    return group


@pytest.mark.sampled(1)
@pytest.mark.parametrize("key", ["escape", "c-c"])
async def test_an_interrupt_stops_the_words_and_the_conversation_goes_on(key: str, project: Path) -> None:
    whole = "The first half of it is here. The second half of it is there."
    async with (
        ModelServer([Held(Answer(whole)), Answer("Something else.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.say("Tell me.")
        await terminal.wait_for("The first half")
        terminal.press(key)
        await terminal.wait_for("Interrupted. The conversation so far is kept.")
        await terminal.wait_for_prompt()
        assert "The first half" in terminal.screen, "what was said stays on the screen"
        await until(server.left.is_set)
        await at_the_prompt_with(terminal, "Something else?")
        assert "Something else." in terminal.screen
        sent = server.requests[1].json["messages"]
        assert [message["role"] for message in sent] == ["user", "assistant", "user"]
        assert b"The first half" in server.requests[1].body


@pytest.mark.sampled(1)
@pytest.mark.parametrize("key", ["escape", "c-c"])
async def test_an_interrupt_kills_the_command_and_the_conversation_goes_on(key: str, project: Path) -> None:
    async with (
        ModelServer([bash(sleeping(project)), Answer("Something else.")]) as server,
        Terminal("--permissions", "all", cwd=project, **answered_by(server)) as terminal,
    ):
        group = await begun(terminal, project)
        terminal.press(key)
        await terminal.wait_for("Interrupted.")
        await terminal.wait_for_prompt()
        await until(lambda: not family(group), what="the end of the command")
        assert re.search(r"^✗ Bash\(", terminal.screen, re.M)
        await at_the_prompt_with(terminal, "Something else?")
        assert "Something else." in terminal.screen
        assert server.requests[1].body.count(b'"tool_result"') == 1


async def test_control_c_warns_before_it_leaves_a_stubborn_turn_and_nothing_is_left_behind(project: Path) -> None:
    stubborn = f"trap '' TERM INT; {sleeping(project)}; {LONG}"
    async with (
        ModelServer([bash(stubborn)]) as server,
        Terminal("--permissions", "all", cwd=project, **answered_by(server)) as terminal,
    ):
        group = await begun(terminal, project)
        terminal.press("c-c", "c-c")
        await terminal.wait_for("Press Ctrl-C again to exit.")
        terminal.press("c-c")
        await terminal.exit_code()
        await until(lambda: not family(group), what="the end of the command")
        assert "Traceback" not in terminal.transcript
        assert "never retrieved" not in terminal.transcript
        assert "outrider --resume" in terminal.transcript


async def test_control_c_at_the_prompt_says_how_to_leave_and_the_second_leaves(project: Path) -> None:
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await terminal.wait_for_prompt()
        terminal.press("c-c")
        await terminal.wait_for("Press Ctrl-C again to exit.")
        await terminal.wait_for_prompt()
        terminal.press("c-c")
        assert await terminal.exit_code() == 0


async def test_control_c_empties_the_line_and_does_not_count_as_the_first(project: Path) -> None:
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await terminal.wait_for_prompt()
        terminal.type("What is 5+5?")
        await terminal.wait_for("› What is 5+5?")
        before = terminal.prompts
        terminal.press("c-c")
        await until(lambda: terminal.prompts > before)
        await terminal.wait_for_prompt()
        await at_the_prompt_with(terminal, "What is 2+2?")
        assert re.search(r"^4$", terminal.screen, re.M)
        assert not re.search(r"^10$", terminal.screen, re.M)
        terminal.press("c-c")
        await terminal.wait_for("Press Ctrl-C again to exit.")
        await at_the_prompt_with(terminal, "What is 3+3?")
        terminal.press("c-c")
        await until(lambda: terminal.transcript.count("Press Ctrl-C again to exit.") == 2)


async def test_control_d_leaves_an_empty_line_only(project: Path) -> None:
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await terminal.wait_for_prompt()
        terminal.type("What is 2+2?")
        terminal.press("c-d")
        terminal.press("enter")
        await terminal.wait_for(re.compile(r"^4$", re.M))
        await terminal.wait_for_prompt()
        terminal.press("c-d")
        assert await terminal.exit_code() == 0


async def test_escape_and_control_c_are_not_two_control_cs(project: Path) -> None:
    async with (
        ModelServer([Held(Answer("The first half of it. The second half of it."))]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.say("Tell me.")
        await terminal.wait_for("The first half")
        terminal.press("escape")
        await terminal.wait_for("Interrupted.")
        await terminal.wait_for_prompt()
        terminal.press("c-c")
        await terminal.wait_for("Press Ctrl-C again to exit.")


async def test_an_interrupt_may_come_as_a_signal(project: Path) -> None:
    async with (
        ModelServer([Held(Answer("The first half of it. The second half of it."))]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.say("Tell me.")
        await terminal.wait_for("The first half")
        os.kill(terminal.process.pid, signal.SIGINT)
        await terminal.wait_for("Interrupted.")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_ends_it_and_its_command(number: signal.Signals, project: Path) -> None:
    async with (
        ModelServer([bash(sleeping(project))]) as server,
        Terminal("--permissions", "all", cwd=project, **answered_by(server)) as terminal,
    ):
        group = await begun(terminal, project)
        os.kill(terminal.process.pid, number)
        await terminal.exit_code()
        await until(lambda: not family(group), what="the end of the command")
        assert "Traceback" not in terminal.transcript
    with default_log() as log:
        assert log.sessions(limit=1)[0].holder is None, "it was closed"


async def test_a_signal_at_the_prompt_ends_it_and_the_terminal_is_as_before(project: Path) -> None:
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await terminal.wait_for_prompt()
        os.kill(terminal.process.pid, signal.SIGTERM)
        await terminal.exit_code()
        assert terminal.raw.rfind(b"\x1b[?2004l") > terminal.raw.rfind(b"\x1b[?2004h")
        assert "Traceback" not in terminal.transcript


async def test_an_interrupt_in_the_first_moment_is_heard(project: Path) -> None:
    async with (
        ModelServer([Held(Answer("The first half of it. The second half of it."))]) as server,
        Terminal("Tell me this.", cwd=project, **answered_by(server)) as terminal,
    ):
        await terminal.wait_for("permissions: ask")
        terminal.press("escape")
        await terminal.wait_for_prompt(5)


async def test_after_a_kill_in_the_middle_of_a_command_it_goes_on(project: Path) -> None:
    async with ModelServer([bash(sleeping(project)), Answer("I shall not do that again.")]) as server:
        async with Terminal("--permissions", "all", cwd=project, **answered_by(server)) as terminal:
            group = await begun(terminal, project)
            os.kill(terminal.process.pid, signal.SIGKILL)
            await terminal.exit_code()
            for each in family(group):
                os.kill(each, signal.SIGKILL)
        async with Terminal("--continue", cwd=project, **answered_by(server)) as terminal:
            await terminal.wait_for_prompt()
            assert "› Run it." in terminal.screen
            assert "The last turn was interrupted. /continue resumes it" in terminal.flowing
            await at_the_prompt_with(terminal, "/continue")
            assert "I shall not do that again." in terminal.screen
            await at_the_prompt_with(terminal, "/continue")
            assert "No turn was interrupted." in terminal.screen
        assert b"outcome of this call is unknown" in server.requests[1].body


async def test_after_a_kill_in_the_middle_of_the_words_something_else_can_be_said(project: Path) -> None:
    async with ModelServer([Held(Answer("The first half. The second half.")), Answer("Yes, else.")]) as server:
        async with Terminal(cwd=project, **answered_by(server)) as terminal:
            await terminal.wait_for_prompt()
            terminal.say("Tell me.")
            await terminal.wait_for("The first")
            os.kill(terminal.process.pid, signal.SIGKILL)
            await terminal.exit_code()
        async with Terminal("--continue", cwd=project, **answered_by(server)) as terminal:
            await at_the_prompt_with(terminal, "Something else?")
            assert "Yes, else." in terminal.screen


async def test_an_interrupted_reply_is_followed_by_a_note_and_not_by_words_of_the_user(project: Path) -> None:
    note = "The reply above was interrupted here, before it was complete."
    async with ModelServer([Held(Answer("The first half. The second half."))]) as server:
        async with Terminal(cwd=project, **answered_by(server)) as terminal:
            await terminal.wait_for_prompt()
            terminal.say("Tell me.")
            await terminal.wait_for("The first")
            terminal.press("escape")
            await terminal.wait_for("Interrupted.")
            await at_the_prompt_with(terminal, "/export talk.md", "/export talk.html")
        async with Terminal("--continue", cwd=project, **answered_by(server)) as terminal:
            await terminal.wait_for_prompt()
            await terminal.wait_for(f"! {note}", 10)
            assert "› Tell me." in terminal.screen
            assert f"› [{note}" not in terminal.screen
    text, page = (project / "talk.md").read_text(), (project / "talk.html").read_text()
    assert f"\n*{note}*\n" in text
    assert "> Tell me." in text
    assert f'<p class="note">{note}</p>' in page
    assert '<div class="user">Tell me.</div>' in page


async def test_what_is_typed_while_the_model_answers_is_the_beginning_of_the_next_line(project: Path) -> None:
    async with (
        ModelServer([Held(Answer("The first half. The second half.")), Answer("The next answer.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.say("Tell me.")
        await terminal.wait_for("The first half")
        terminal.type("And thx\x7fen?")
        await terminal.wait_for("› And then?")
        server.release.set()
        await terminal.wait_for("The second half.")
        await terminal.wait_for_prompt()
        terminal.press("enter")
        await terminal.wait_for("The next answer.")
        assert b"And then?" in server.requests[1].body


async def test_control_c_also_empties_a_line_that_was_typed_meanwhile(project: Path) -> None:
    async with (
        ModelServer([Held(Answer("The first half. The second half."))]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.say("Tell me.")
        await terminal.wait_for("The first half")
        terminal.type("And then?")
        await terminal.wait_for("› And then?")
        server.release.set()
        await terminal.wait_for("The second half.")
        await terminal.wait_for_prompt()
        before = terminal.prompts
        terminal.press("c-c")
        await until(lambda: terminal.prompts > before)
        await terminal.wait_for_prompt()
        terminal.type("x")
        await terminal.wait_for(re.compile(r"^› \S*.*x$", re.M))
        assert re.search(r"^› x$", terminal.screen, re.M)


async def test_a_terminal_that_is_closed_ends_it_and_its_command(project: Path) -> None:
    async with (
        ModelServer([bash(sleeping(project))]) as server,
        Terminal("--permissions", "all", cwd=project, **answered_by(server)) as terminal,
    ):
        group = await begun(terminal, project)
        terminal.close()
        await until(lambda: terminal.process.poll() is not None, what="the end of the program")
        await until(lambda: not family(group), what="the end of the command")
    with default_log() as log:
        assert log.sessions(limit=1)[0].holder is None, "it was closed"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("leaving", ["c-d", "/exit\r"])
async def test_a_command_in_the_background_ends_with_the_chat(leaving: str, project: Path) -> None:
    command = {"command": f"echo $$ > {project}/pid; {LONG}", "run_in_background": True}
    async with (
        ModelServer([Answer("", (("call_1", "Bash", command),)), Answer("It runs.")]) as server,
        Terminal("--permissions", "all", cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "Run it.")
        await until(lambda: pid(project))
        group = os.getpgid(pid(project))
        assert family(group)
        terminal.press(leaving)
        assert await terminal.exit_code() == 0
        await until(lambda: not family(group), what="the end of the command")


async def test_an_interrupt_answers_every_call_of_a_reply(project: Path) -> None:
    calls = (
        ("call_1", "Bash", {"command": sleeping(project)}),
        ("call_2", "Bash", {"command": "touch after"}),
        ("call_3", "Read", {"file_path": "notes.txt"}),
    )
    async with (
        ModelServer([Answer("", calls), Answer("Something else.")]) as server,
        Terminal("--permissions", "all", cwd=project, **answered_by(server)) as terminal,
    ):
        group = await begun(terminal, project)
        terminal.press("escape")
        await terminal.wait_for("Interrupted.")
        await until(lambda: not family(group), what="the end of the command")
        await at_the_prompt_with(terminal, "Something else?")
        assert "Something else." in terminal.screen
        assert server.requests[1].body.count(b'"tool_result"') == 3
    assert not (project / "after").exists()


async def test_control_z_is_not_a_letter(project: Path) -> None:
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await terminal.wait_for_prompt()
        terminal.type("a\x1ab")
        await terminal.wait_for(re.compile(r"^› a.*b$", re.M))
        assert "^Z" not in terminal.screen
