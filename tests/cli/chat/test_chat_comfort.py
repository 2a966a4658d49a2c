"""What makes the chat comfortable: typing ahead, own commands, the pager, copying, exporting, themes."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import stat
import subprocess
from pathlib import Path

import pytest

from outrider.cli.chat.terminal_codes import BackgroundQuestion
from tests.cli.chat.terminal import Terminal, answered_by, at_the_prompt_with, until
from tests.cli.chat.test_pastes import PICTURE
from tests.modelserver import ModelServer
from tests.streams import Answer

pytestmark = pytest.mark.long  # `test_chat.py` is the short form

EDIT = {"file_path": "notes.txt", "old_string": "Buy milk.", "new_string": "Buy oats."}
FULL = {"access": "full"}
READ = ("call_1", "Read", {"file_path": "notes.txt"})


def edits(*, then: str = "Edited.") -> list[Answer]:
    return [Answer(calls=(READ,)), Answer(calls=(("call_2", "Edit", EDIT),)), Answer(then)]


# Typing ahead


@pytest.mark.sampled(1)
@pytest.mark.parametrize("end", ["\r", "\n"], ids=["raw", "cooked"])
async def test_what_is_typed_during_start_up_is_sent_by_enter_and_not_echoed(end: str, project: Path) -> None:
    typed = f"What is 2+2?{end}"
    async with (
        ModelServer([Answer("Four.")]) as server,
        Terminal(cwd=project, typed=typed, **answered_by(server)) as terminal,
    ):
        await terminal.wait_for("Four.")
        await terminal.wait_for_prompt()
        assert server.requests[0].json["messages"][0]["content"][1]["text"] == "What is 2+2?"
        assert terminal.transcript.count("What is 2+2?") == 1


async def test_the_terminal_is_as_before_at_the_end(project: Path) -> None:
    import termios

    async with Terminal("--model", "demo", cwd=project) as terminal:
        await terminal.wait_for_prompt()
        terminal.press("c-d")
        await terminal.exit_code()
        flags = termios.tcgetattr(terminal._master)
        assert flags[3] & termios.ECHO
        assert flags[3] & termios.ICANON
        assert flags[0] & termios.ICRNL


# The line


async def test_one_tab_completes_a_path_and_a_folder_is_explained(project: Path) -> None:
    (project / "chapters").mkdir()
    (project / "chapters" / "one.md").write_text("One.")
    (project / "check.py").write_text("")
    (project / ".env").write_text("KEY=1")
    async with (
        ModelServer([Answer("A folder.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.type("@chap")
        terminal.press("tab")
        await terminal.wait_for(re.compile("› @chapters/"))
        terminal.press("enter")  # takes the completion
        terminal.say("")
        await terminal.wait_for("chapters/ is a folder")
        await terminal.wait_for("A folder.")


async def test_a_long_line_being_edited_does_not_fill_the_scrollback(project: Path) -> None:
    async with Terminal("--model", "demo", cwd=project, lines=12) as terminal:
        await terminal.wait_for_prompt()
        for number in range(20):
            terminal.type(f"edited line {number:02}")
            terminal.press("c-j")
        await terminal.wait_for("edited line 19")

        def goes_up() -> bool:
            terminal.press("up")
            return terminal.shows("edited line 02")

        await until(goes_up, what="the beginning")
        for number in range(3):  # a window that changes is drawn anew
            terminal.resize(79 + number, 12)
            terminal.type(f"<{number}>")
            await terminal.wait_for(f"<{number}>")
        found = re.findall(r"edited line \d\d", terminal.transcript)
        assert len(found) == len(set(found)), "no line is there twice"
        assert terminal.transcript.count("permissions: ask") <= 1


async def test_control_g_edits_the_message_in_the_editor(project: Path) -> None:
    editor = project.parent / "editor"
    editor.write_text('#!/bin/sh\nprintf "%s, please" "$(cat "$1")" > "$1"\n')
    editor.chmod(0o755)
    async with Terminal("--model", "demo", cwd=project, VISUAL=str(editor), EDITOR=str(editor)) as terminal:
        await terminal.wait_for_prompt()
        terminal.type("Tea")
        await terminal.wait_for("› Tea")
        terminal.type("\x07")
        await terminal.wait_for("› Tea, please")


# Calls


async def test_control_o_opens_the_whole_output(project: Path) -> None:
    pager = project.parent / "pager"
    pager.write_text(f"#!/bin/sh\ncat > '{project.parent}/paged'\n")
    pager.chmod(0o755)
    command = {"command": "seq 1 50", "description": "Count", "access": "read"}
    async with (
        ModelServer([Answer(calls=(("call_1", "Bash", command),)), Answer("Counted.")]) as server,
        Terminal("--permissions", "all", cwd=project, PAGER=str(pager), **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "Count.")
        assert "more lines above (Ctrl-O opens all)" in terminal.screen
        terminal.type("\x0f")
        paged = project.parent / "paged"
        await until(lambda: paged.exists() and "    50\n" in paged.read_text(), what="the pager")
        assert [int(line) for line in paged.read_text().split("\n") if line.strip().isdigit()] == list(range(1, 51))
        await terminal.wait_for_prompt()


async def test_control_o_opens_the_output_during_a_turn_and_loses_nothing(project: Path) -> None:
    """The pager reads from the terminal until a key is pressed; the agent works on meanwhile, and ends."""
    pager, paged = project.parent / "pager", project.parent / "paged"
    pager.write_text(f"#!/bin/sh\ncat > '{paged}'\necho PAGER; read key </dev/tty; echo \"key:$key:\" >> '{paged}'\n")
    pager.chmod(0o755)
    calls = [
        Answer(calls=(("call_1", "Bash", {"command": "seq 1 50", "access": "read"}),)),
        Answer(calls=(("call_2", "Bash", {"command": "until [ -e go ]; do sleep 0.02; done; echo late", **FULL}),)),
        Answer("Counted."),
    ]
    async with (
        ModelServer(calls) as server,
        Terminal("--permissions", "all", cwd=project, PAGER=str(pager), **answered_by(server)) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.say("Count.")
        await terminal.wait_for("until [ -e go ]")
        terminal.type("\x0f")
        await terminal.wait_for("PAGER")
        assert "    50\n" in paged.read_text()
        (project / "go").touch()
        await until(lambda: len(server.requests) == 3, what="the agent works on")
        for _ in range(20):  # the pager keeps the screen to itself
            await asyncio.sleep(0.05)
            assert "Counted." not in terminal.screen
        terminal.type("q\n")
        await terminal.wait_for("Counted.")
        await terminal.wait_for_prompt()
        assert paged.read_text().endswith("key:q:\n"), "the key is for the pager"
        assert terminal.transcript.count("late") == 2, "the call and its output, once each"
        assert terminal.transcript.count("Counted.") == 1
        await at_the_prompt_with(terminal, "/tasks")
        assert "Nothing runs in the background." in terminal.screen


async def test_diffs_and_refusals_are_there_after_a_resume(project: Path) -> None:
    async with ModelServer([*edits(), Answer(calls=(("call_3", "Edit", EDIT),)), Answer("Denied.")]) as server:
        async with Terminal(cwd=project, **answered_by(server)) as terminal:
            await terminal.wait_for_prompt()
            terminal.say("Edit.")
            await terminal.wait_for("yes, once")
            terminal.press("y")
            await terminal.wait_for("Edited.")
            await terminal.wait_for_prompt()
            terminal.say("Again.")
            await terminal.wait_for("yes, once")
            terminal.press("t")
            await terminal.wait_for("What should it do instead?")
            terminal.type("Leave it.")
            await terminal.wait_for("instead? Leave it.")
            terminal.press("enter")
            await terminal.wait_for("Denied.")
            await terminal.wait_for_prompt()
            live = turns(terminal)
        async with Terminal("--continue", cwd=project, lines=60, **answered_by(server)) as terminal:
            await terminal.wait_for("last messages")
            await terminal.wait_for_prompt()
            assert turns(terminal) == live, "both are drawn from the same events"
            assert "-Buy milk." in terminal.transcript
            assert "+Buy oats." in terminal.transcript
            refused = terminal.transcript.partition("✗ Edit(notes.txt)")[2]
            assert "Leave it." in refused.partition("Denied.")[0], "the reason is shown"


def turns(terminal: Terminal) -> str:
    """What was said and done from the first message on."""
    return terminal.transcript[terminal.transcript.index("› Edit.") :].split("Denied.")[0]


async def test_all_edits_of_the_session_can_be_allowed(project: Path) -> None:
    again = {**EDIT, "old_string": "Feed the cat.", "new_string": "Feed the dog."}
    steps = [*edits()[:2], Answer(calls=(("call_3", "Edit", again),)), Answer("Both.")]
    async with ModelServer(steps) as server, Terminal(cwd=project, **answered_by(server)) as terminal:
        await terminal.wait_for_prompt()
        terminal.say("Edit twice.")
        await terminal.wait_for("all edits in this session")
        terminal.press("e")
        await terminal.wait_for("enter confirm")
        terminal.press("enter")
        await terminal.wait_for("Both.")
        assert (project / "notes.txt").read_text() == "Buy oats.\nFeed the dog.\n"
        await terminal.wait_for("permissions: edits")


# Commands


async def test_the_output_of_an_own_command_goes_with_the_next_message(project: Path) -> None:
    async with ModelServer([Answer("Seen.")]) as server, Terminal(cwd=project, **answered_by(server)) as terminal:
        await at_the_prompt_with(terminal, "!echo one && exit 3")
        assert "Exit code 3." in terminal.screen
        assert server.requests == []
        await at_the_prompt_with(terminal, "Why?")
        content = server.requests[0].json["messages"][0]["content"]
        assert content[1]["text"] == "Why?"
        assert "echo one && exit 3" in content[-1]["text"]
        assert "Exit code: 3\nOutput:\none" in content[-1]["text"]


async def test_an_own_command_can_be_interrupted_with_its_children(project: Path) -> None:
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await terminal.wait_for_prompt()
        terminal.say("!sleep 300 & echo $! > pid; echo waiting; wait")
        await terminal.wait_for(re.compile("^waiting", re.MULTILINE))
        terminal.press("c-c")
        await terminal.wait_for_prompt()
        pid = int((project / "pid").read_text())
        await until(lambda: not _runs(pid), what="the end of the child")


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_the_last_answer_is_copied(project: Path) -> None:
    async with ModelServer([Answer("Copy *me*.")]) as server, Terminal(cwd=project, **answered_by(server)) as terminal:
        await at_the_prompt_with(terminal, "/copy")
        assert "no answer to copy" in terminal.screen
        await at_the_prompt_with(terminal, "Hello", "/copy")
        assert b"\x1b]52;c;" + base64.b64encode(b"Copy *me*.") + b"\x07" in terminal.raw


async def test_the_diff_of_the_folder_runs_no_program_of_the_repository(project: Path) -> None:
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org")
    hostile = [("config", key, f"touch {project}/ran; true") for key in ("diff.external", "core.fsmonitor")]
    for command in (("init", "-q"), ("add", "."), ("commit", "-qm", "One"), *hostile):
        await asyncio.to_thread(subprocess.run, [*git, *command], cwd=project, check=True)
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await at_the_prompt_with(terminal, "/diff")
        assert "Nothing has changed" in terminal.screen
        (project / "notes.txt").write_text("Buy oats.\nFeed the cat.\n")
        (project / "new.txt").write_text("New.\n")
        await at_the_prompt_with(terminal, "/diff")
        assert "-Buy milk." in terminal.screen
        assert "+Buy oats." in terminal.screen
        assert "new file: new.txt" in terminal.screen
        assert not (project / "ran").exists()


async def test_no_repository_is_an_error_and_not_an_end(project: Path) -> None:
    async with Terminal("--model", "demo", cwd=project, GIT_CEILING_DIRECTORIES=str(project.parent)) as terminal:
        await at_the_prompt_with(terminal, "/diff")
        assert "not a git repository" in terminal.screen


async def test_a_conversation_is_exported_with_its_pictures(project: Path) -> None:
    (project / "dot.png").write_bytes(PICTURE)
    steps = [Answer("A <b>dot</b>.", calls=(READ,)), Answer("| a | b |\n| --- | --- |\n| 1 | 2 |\n")]
    async with (
        ModelServer(steps) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "/export", "See @dot.png", "/export talk.md", "/export talk.html")
        page, text = (project / "talk.html").read_text(), (project / "talk.md").read_text()
        picture = f"data:image/png;base64,{base64.b64encode(PICTURE).decode()}"
        assert f'src="{picture}"' in page
        assert f"({picture})" in text
        assert "<td>1</td>" in page
        assert "&lt;b&gt;dot" in page
        assert "<b>" not in page
        assert "default-src 'none'" in page
        assert "> See @dot.png" in text
        assert "Buy milk." in text
        assert stat.S_IMODE((project / "talk.html").stat().st_mode) == 0o600
        await at_the_prompt_with(terminal, "/export talk.md")
        assert "exists; give another name" in terminal.flowing
        assert (project / "talk.md").read_text() == text


async def test_a_session_is_renamed(project: Path) -> None:
    async with ModelServer([Answer("Hi.")]) as server, Terminal(cwd=project, **answered_by(server)) as terminal:
        await at_the_prompt_with(terminal, "/rename Early", "Hello", "/rename", "/rename The   plan")
        assert "no session to rename" in terminal.screen
        assert "Give the title" in terminal.screen
        terminal.say("/sessions")
        await terminal.wait_for(re.compile(r"❯ .*The plan"))
        terminal.press("escape")
        await terminal.wait_for_prompt()


# Signals


async def test_a_question_rings_the_bell_or_notifies(project: Path, own_data_folder: Path) -> None:
    for setting, code in (("bell", b"\a"), ("desktop", b"\x1b]9;Outrider: A question waits"), ("off", b"")):
        config = project.parent / f"{setting}.toml"
        config.write_text(f'[chat]\nnotify = "{setting}"\n')
        async with (
            ModelServer(edits()) as server,
            Terminal(cwd=project, OUTRIDER_CONFIG=str(config), **answered_by(server)) as terminal,
        ):
            await terminal.wait_for_prompt()
            before = len(terminal.raw)
            terminal.say("Edit.")
            await terminal.wait_for("yes, once")
            rung = terminal.raw[before:]
            assert code in rung
            assert setting != "off" or b"\a" not in rung


async def test_control_c_warns_before_it_exits(project: Path) -> None:
    async with ModelServer([Answer("Hi.")]) as server, Terminal(cwd=project, **answered_by(server)) as terminal:
        await terminal.wait_for_prompt()
        terminal.say("!python3 -c 'print(1, flush=True); __import__(\"time\").sleep(300)'")
        await terminal.wait_for(re.compile("^1$", re.MULTILINE))
        terminal.press("c-c")
        await terminal.wait_for_prompt()
        terminal.press("c-c")
        await terminal.wait_for("Press Ctrl-C again to exit.")
        assert terminal.process.poll() is None
        await terminal.wait_for_prompt()
        terminal.press("c-c")
        await terminal.exit_code()


# Themes


@pytest.mark.parametrize(
    ("answer", "background"),
    [
        (b"\x1b]11;rgb:ffff/ffff/ffff\x1b\\", "light"),
        (b"\x1b]11;rgb:fd/f6/e3\x07", "light"),
        (b"\x1b]11;rgb:1e1e/1e1e/2e2e\x1b\\", "dark"),
        (b"", "dark"),
    ],
)
def test_the_terminal_is_asked_for_its_background(
    answer: bytes, background: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner, outer = os.pipe()
    with open(inner, closefd=True) as stdin, open(os.devnull, "w") as stdout:
        monkeypatch.setattr("sys.stdin", stdin)
        monkeypatch.setattr("sys.stdout", stdout)
        question = BackgroundQuestion("auto", {"TERM": "xterm"})
        os.write(outer, b"typed" + answer + b" ahead\x1b[?62;22c")
        assert question.answer() == (background, "typed ahead")
        assert BackgroundQuestion("light", {"TERM": "xterm"}).answer() == ("light", "")
        assert BackgroundQuestion("auto", {"TERM": "dumb"}).answer() == ("dark", "")
    os.close(outer)


@pytest.mark.long
async def test_no_color_means_none(project: Path) -> None:
    answer = Answer("# Head\n\n`code` and\n\n```python\nimport os  # why\n```\n")
    async with (
        ModelServer([answer]) as server,
        Terminal(cwd=project, from_scratch=True, NO_COLOR="1", **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "/help", "Show.")
        assert {cell.fg for row in terminal.rows for cell in row} == {"default"}
        assert {cell.bg for row in terminal.rows for cell in row} == {"default"}
