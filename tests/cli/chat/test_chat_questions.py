"""Permission questions in the chat: what each answer does, to this call, the next one, the model and the project."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.chat.terminal import Terminal, answered_by, at_the_prompt_with, until
from tests.modelserver import ModelServer
from tests.streams import Answer


def bash(command: str, id: str = "call_1") -> Answer:
    return Answer("", ((id, "Bash", {"command": command}),))


async def asked(terminal: Terminal, said: str = "Do it.") -> None:
    """Say something, and wait for the question."""
    await terminal.wait_for_prompt()
    terminal.say(said)
    await terminal.wait_for("esc cancel")


async def test_yes_allows_it_once(project: Path) -> None:
    async with (
        ModelServer([bash("touch made"), bash("touch made again", "call_2"), Answer("Done.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await asked(terminal)
        assert re.search(r"^\? Allow Bash\(touch made\)$", terminal.screen, re.M)
        assert "y yes, once" in terminal.screen
        assert not (project / "made").exists()
        terminal.press("y")
        await terminal.wait_for(re.compile(r"Bash\(touch made again\).*esc cancel", re.S))
        assert (project / "made").exists()
        terminal.press("y")
        await terminal.wait_for("Done.")
        assert (project / "again").exists()
        await terminal.wait_for_prompt()
        assert "? Allow " not in terminal.screen


async def test_a_prefix_holds_in_the_repository_with_its_subfolders(project: Path) -> None:
    (project / ".git").mkdir()
    (sub := project / "sub").mkdir()
    async with (
        ModelServer([bash("touch one two"), bash("touch three", "call_2"), Answer("Done.")]) as server,
        Terminal(cwd=sub, **answered_by(server)) as terminal,
    ):
        await asked(terminal)
        assert "a always in this repository: exactly `touch one two`, up to access full" in terminal.screen
        assert "p always in this repository: commands that begin with `touch`" in terminal.screen
        terminal.press("p")
        await terminal.wait_for("enter confirm")
        terminal.press("enter")
        await terminal.wait_for("Done.")
        told = " ".join(terminal.transcript.split())
        assert "Stored for this repository, with its subfolders and worktrees: Bash(touch:**) full (in " in told
        assert "To undo it: outrider config forget 'Bash(touch:**) full'" in told
    async with (
        ModelServer([bash("touch four"), Answer("Done.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "Again.")
        assert "Done." in terminal.screen


async def test_always_holds_for_the_next_call_and_for_the_next_session_here_but_not_elsewhere(project: Path) -> None:
    other = project.parent / "other"
    other.mkdir()
    async with (
        ModelServer([bash("touch one"), bash("touch one", "call_2"), Answer("Done.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await asked(terminal)
        assert "a always in this folder: exactly `touch one`, up to access full" in terminal.screen
        terminal.press("a")
        await terminal.wait_for("enter confirm")
        assert "always in this folder: exactly `touch one`, up to access full" in terminal.screen
        terminal.press("enter")
        await terminal.wait_for("Done.")
        await terminal.wait_for_prompt()
        assert terminal.transcript.count("✓ Bash(touch one)") == 2
        told = " ".join(terminal.transcript.split())
        assert "Stored for this folder: Bash(touch one) full (in " in told
        assert "To undo it: outrider config forget 'Bash(touch one) full'" in told
    async with (
        ModelServer([bash("touch one"), Answer("Done.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "Again.")
        assert "Done." in terminal.screen
    async with (
        ModelServer([bash("touch one"), Answer("Done.")]) as server,
        Terminal(cwd=other, **answered_by(server)) as terminal,
    ):
        await asked(terminal)


@pytest.mark.parametrize("is_marked", [True, False])
async def test_a_paste_at_a_question_stores_nothing_and_waits_in_the_line(is_marked: bool, project: Path) -> None:
    async with (
        ModelServer([bash("touch one")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await asked(terminal)
        (terminal.paste if is_marked else terminal.type)("say: error at line 4")
        await terminal.wait_for("› say: error at line 4")
        assert "y yes, once" in terminal.screen
        terminal.press("escape")
        await terminal.wait_for("Interrupted.")
        await terminal.wait_for("› say: error at line 4")
        assert "Stored" not in terminal.transcript
    assert not (project / "one").exists()


async def test_no_stops_the_turn_with_the_other_calls_and_the_next_message_goes_on(project: Path) -> None:
    calls = tuple((f"call_{name}", "Bash", {"command": f"touch {name}"}) for name in ("one", "two", "three"))
    async with (
        ModelServer([Answer("", calls), Answer("That, then.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await asked(terminal)
        terminal.press("y")
        await terminal.wait_for(re.compile(r"Allow Bash\(touch two\).*esc cancel", re.S))
        assert "n no, stop here" in terminal.screen
        terminal.press("n")
        await terminal.wait_for("What should it do instead?")
        await terminal.wait_for_prompt()
        assert re.search(r"^✗ Bash\(touch two\)$", terminal.screen, re.M)
        assert "Allow Bash(touch three)" not in terminal.screen
        assert len(server.requests) == 1
        await at_the_prompt_with(terminal, "Something else.")
        assert "That, then." in terminal.screen
        body = server.requests[1].body
        assert b"Bash was not run: the user does not want this, and says next what to do" in body
        assert b"It was not run: another call of this reply was denied" in body
        assert b"Something else." in body
    assert [(project / name).exists() for name in ("one", "two", "three")] == [True, False, False]


async def test_words_are_told_to_the_model(project: Path) -> None:
    async with (
        ModelServer([bash("touch made"), Answer("Then that.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await asked(terminal)
        terminal.press("t")
        await terminal.wait_for("What should it do instead?")
        for number, key in enumerate("make it bIg", 1):
            terminal.press(key)
            await terminal.wait_for(f"instead? {'make it bIg'[:number].rstrip()}")
        terminal.press("enter")
        await terminal.wait_for("Then that.")
        assert b"make it bIg" in server.requests[1].body
    assert not (project / "made").exists()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("key", ["escape", "c-c"])
async def test_escape_stops_the_turn_and_the_conversation_goes_on(key: str, project: Path) -> None:
    async with (
        ModelServer([bash("touch made"), Answer("Something else, then.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await asked(terminal)
        terminal.press(key)
        await terminal.wait_for("Interrupted.")
        await terminal.wait_for_prompt()
        assert len(server.requests) == 1
        await at_the_prompt_with(terminal, "Something else?")
        assert "Something else, then." in terminal.screen
        roles = [message["role"] for message in server.requests[1].json["messages"]]
        assert roles[:2] == ["user", "assistant"]
        assert server.requests[1].body.count(b'"tool_result"') == 1
    assert not (project / "made").exists()


async def test_several_questions_come_one_after_the_other(project: Path) -> None:
    calls = tuple((f"call_{name}", "Bash", {"command": f"touch {name}"}) for name in ("one", "two", "three"))
    async with (
        ModelServer([Answer("", calls), Answer("Done.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await asked(terminal)
        for key in ("y", "y", "y"):
            (name,) = set(re.findall(r"Allow Bash\(touch (\w+)\)", terminal.screen))
            terminal.press(key)
            await until(lambda: f"Allow Bash(touch {name})" not in terminal.screen)  # noqa: B023
            await until(lambda: "esc cancel" in terminal.screen or "Done." in terminal.screen)
        await terminal.wait_for("Done.")
    assert all((project / name).exists() for name in ("one", "two", "three"))


async def test_a_very_long_command_is_seen_whole_before_it_is_agreed_to(project: Path) -> None:
    command = " && ".join(f"echo step-{number}-{'x' * 20}" for number in range(80)) + " && touch the-end"
    async with (
        ModelServer([bash(command), Answer("Done.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await asked(terminal)
        await terminal.wait_for("shown in full above")
        seen = re.sub(r"\s", "", terminal.transcript)
        assert re.sub(r"\s", "", command) in seen
        terminal.press("n")
        await terminal.wait_for("What should it do instead?")


async def test_a_change_is_asked_about_with_its_difference(project: Path) -> None:
    (project / "notes.txt").write_text("one\nmilk\nthree\nfour\nfive\nsix\n")
    steps = [
        Answer("", (("call_1", "Read", {"file_path": "notes.txt"}),)),
        Answer("", (("call_2", "Edit", {"file_path": "notes.txt", "old_string": "milk", "new_string": "bread"}),)),
        Answer("Done."),
    ]
    async with (
        ModelServer(steps) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await asked(terminal)
        assert terminal.colour("-milk") == "red"
        assert terminal.colour("+bread") == "green"
        assert "milk" in (project / "notes.txt").read_text()
        numbered = re.compile(r"^    1  one\n    2 -milk\n    2 \+bread\n    3  three", re.M)
        assert numbered.search(terminal.screen), "as in the file"
        terminal.press("y")
        await terminal.wait_for("Done.")
        await terminal.wait_for_prompt()
        assert numbered.search(terminal.screen.split("✓ Edit(notes.txt)")[1]), "and in what was done"
    assert "bread" in (project / "notes.txt").read_text()


async def test_reading_is_not_asked_about_and_secrets_are_refused(project: Path) -> None:
    (project / ".env").write_text("PASSWORD=hunter2")
    steps = [
        Answer("", (("call_1", "Read", {"file_path": "notes.txt"}), ("call_2", "Read", {"file_path": ".env"}))),
        Answer("Done."),
    ]
    async with (
        ModelServer(steps) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "Read.")
        assert "✓ Read(notes.txt)" in terminal.screen
        assert "✗ Read(.env)" in terminal.screen
        assert b"hunter2" not in server.requests[1].body
        assert "hunter2" not in terminal.transcript


async def test_shift_tab_changes_what_is_asked(project: Path) -> None:
    async with (
        ModelServer([bash("touch made"), Answer("Done.")]) as server,
        Terminal(cwd=project, columns=120, **answered_by(server)) as terminal,
    ):
        await terminal.wait_for("permissions: ask")
        for mode in ("edits", "all", "plan", "ask", "edits", "all"):
            terminal.press("s-tab")
            await terminal.wait_for(f"permissions: {mode}")
        await at_the_prompt_with(terminal, "Do it.")
        assert "Done." in terminal.screen
        assert "? Allow " not in terminal.transcript
    assert (project / "made").exists()


async def test_plan_changes_nothing(project: Path) -> None:
    async with (
        ModelServer([bash("touch made"), Answer("Only a plan.")]) as server,
        Terminal("--permissions", "plan", cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "Do it.")
        assert "Only a plan." in terminal.screen
    assert not (project / "made").exists()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("columns", "lines"), [(40, 24), (80, 12)])
async def test_a_question_fits_a_small_window(columns: int, lines: int, project: Path) -> None:
    async with (
        ModelServer([bash("touch made"), Answer("Done.")]) as server,
        Terminal(cwd=project, columns=columns, lines=lines, **answered_by(server)) as terminal,
    ):
        await asked(terminal)
        assert "touch made" in terminal.screen
        assert "esc cancel" in terminal.screen
        terminal.press("y")
        await terminal.wait_for("Done.")
        assert terminal.transcript.count("? Allow ") == 0


async def test_a_question_in_a_tiny_window_shows_what_is_asked(project: Path) -> None:
    async with (
        ModelServer([bash("touch made"), Answer("Done.")]) as server,
        Terminal(cwd=project, columns=60, lines=6, **answered_by(server)) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.say("Do it.")
        await terminal.wait_for("esc cancel")
        assert "Allow Bash(touch made)" in terminal.transcript
