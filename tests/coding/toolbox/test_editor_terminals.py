"""Bash where an editor runs the commands, in terminals that are real processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from outrider.coding.sandbox.available import find_sandbox
from outrider.coding.sandbox.bubblewrap import Bubblewrap
from outrider.coding.sandbox.sandbox import Host, Sandbox
from outrider.coding.toolbox.shell.bash import bash
from outrider.coding.toolbox.shell.shell import Shell
from outrider.coding.toolbox.workspace import Workspace
from outrider.conversation.store import FolderStore
from outrider.runtime.calls import CANCELLED, CHECK
from outrider.testing import call
from outrider.tools.context import CallRef, ToolContext
from outrider.tools.result import ToolResult
from outrider.tools.threads import Threads
from tests.coding.toolbox.shelling import new_nap, sleepers, until
from tests.watching import Watched, last_results


class Terminal:
    """A process in a group of its own, and what it has printed; as a terminal does, with CR LF."""

    def __init__(self, process: asyncio.subprocess.Process, id: str, most: int) -> None:
        self.id = id
        self.process = process
        self.most = most
        self.released = False
        self.kills = 0
        self._printed = b""
        self._reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        assert self.process.stdout
        while data := await self.process.stdout.read(65536):
            self._printed += data

    async def wait(self) -> int | None:
        code = await self.process.wait()
        await self._reading
        return code if code >= 0 else None

    async def output(self) -> tuple[str, bool]:
        text = self._printed.decode(errors="replace").replace("\n", "\r\n")
        return text[-self.most :], len(text) > self.most

    async def kill(self) -> None:
        self.kills += 1
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    async def release(self) -> None:
        await self.kill()
        await self.process.wait()
        await self._reading
        self.released = True


class Editor:
    """Runs programs in an environment of its own, which has keys in it."""

    most = 10_000_000

    def __init__(self) -> None:
        self.terminals: list[Terminal] = []
        self.asked: list[tuple[Sequence[str], Path, int]] = []
        self.own = {**os.environ, "EDITORS_OWN": "here", "ANTHROPIC_API_KEY": "secret-key", "BASH_ENV": "/nowhere"}

    async def start(
        self, argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str], output_bytes: int
    ) -> Terminal:
        self.asked.append((argv, cwd, output_bytes))
        process = await asyncio.create_subprocess_exec(
            *self.program(argv),
            cwd=cwd,
            env={**self.own, **environment},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        self.terminals.append(Terminal(process, f"term-{len(self.terminals) + 1}", self.most))
        return self.terminals[-1]

    def program(self, argv: Sequence[str]) -> Sequence[str]:
        return argv


class ShellEditor(Editor):
    """Makes a line for a shell of its own of what it is given, without a quote."""

    def program(self, argv: Sequence[str]) -> Sequence[str]:
        return ["/bin/sh", "-c", f"{' '.join(argv)}; exit $?"]


class CuttingEditor(Editor):
    """Keeps little of the output."""

    most = 20


class FailingEditor(Editor):
    """Does not start anything, or does not say that it did."""

    def __init__(self, error: Exception, *, after: bool = False) -> None:
        super().__init__()
        self.error, self.after = error, after

    async def start(self, *args: Any, **kwargs: Any) -> Terminal:
        if self.after:
            await super().start(*args, **kwargs)
        raise self.error


class SlowEditor(Editor):
    """Says that it has started something when it is allowed to."""

    def __init__(self) -> None:
        super().__init__()
        self.allowed = asyncio.Event()
        self.started = asyncio.Event()

    async def start(self, *args: Any, **kwargs: Any) -> Terminal:
        terminal = await super().start(*args, **kwargs)
        self.started.set()
        await self.allowed.wait()
        return terminal


class LostTerminal(Terminal):
    """Fails whatever it is asked, but it is released."""

    async def wait(self) -> int | None:
        raise OSError("lost")

    async def output(self) -> tuple[str, bool]:
        raise OSError("lost")


class LosingEditor(Editor):
    """Loses sight of what it started."""

    async def start(self, *args: Any, **kwargs: Any) -> Terminal:
        terminal = await super().start(*args, **kwargs)
        self.terminals[-1] = LostTerminal(terminal.process, terminal.id, self.most)
        terminal._reading.cancel()
        return self.terminals[-1]


class FarEditor(Editor):
    """Runs commands where we cannot see them: without our mark."""

    def program(self, argv: Sequence[str]) -> Sequence[str]:
        launcher = Path(argv[1])
        launcher.write_text(launcher.read_text().replace("OUTRIDER_CALL=", "SOMETHING_ELSE="))
        return argv


class Calling:
    """A workspace with an editor, its Bash tool, and what observers are shown."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.workspace = Workspace(folder)
        self.folder = self.workspace.folder
        self.tool = bash(Shell(self.workspace, **options))
        self.shown: list[Any] = []

    def editor(self, editor: Editor) -> Any:
        self.workspace.terminals = editor
        return editor

    async def run(self, command: str, **arguments: Any) -> ToolResult:
        context = ToolContext(CallRef("call"), self.folder, Threads(), self.shown.append)
        return await self.tool.invoke({"command": command, **arguments}, context)


@pytest.fixture
def calling(tmp_path: Path) -> Iterator[Calling]:
    calling = Calling(tmp_path, unset=("ANTHROPIC_API_KEY", "BASH_ENV"))
    yield calling
    assert_nothing_is_left(calling)
    calling.workspace.close()


def assert_nothing_is_left(calling: Calling) -> None:
    editor = calling.workspace.terminals
    assert isinstance(editor, Editor)
    assert all(terminal.released for terminal in editor.terminals), "each terminal is released"
    left = [path.name for path in calling.workspace.temporary.rglob("*") if path.is_file()]
    assert [name for name in left if not name.startswith("output-")] == []


# What comes of it


async def test_a_command_runs_in_the_editor_and_its_result_is_the_usual_one(calling: Calling) -> None:
    editor = calling.editor(Editor())
    result = await calling.run('echo one; echo two >&2; printf \'%s\\n\' "it\'s" "$0"')
    assert result.text == "one\ntwo\nit's\nbash"
    assert not result.is_error
    assert result.details["terminal"] == "term-1"
    assert result.details["exit_code"] == 0
    assert result.details["bytes"] == len("one\ntwo\nit's\nbash\n")
    assert result.details["cwd"] == str(calling.folder)
    assert 0 < result.details["seconds"] < 20
    assert calling.shown == [{"terminal": "term-1"}]
    assert editor.asked[0][1] == calling.folder


@pytest.mark.parametrize(
    ("command", "said", "code"),
    [
        ("true", "There was no output.", 0),
        ("echo before; exit 3", "before\nExit code 3.", 3),
        ("echo x; kill -TERM $$", "x\nThe shell was killed by a signal.", None),
        ("no-such-command", "bash: line 1: no-such-command: command not found\nExit code 127.", 127),
        ("read -r line || echo nothing to read", "nothing to read", 0),
    ],
)
async def test_how_it_ends_is_said(command: str, said: str, code: int | None, calling: Calling) -> None:
    calling.editor(Editor())
    result = await calling.run(command)
    assert result.text == said
    assert result.is_error == (code != 0)
    assert result.details["exit_code"] == code


async def test_any_command_survives_an_editor_that_makes_a_line_for_a_shell_of_it(calling: Calling) -> None:
    calling.editor(ShellEditor())
    result = await calling.run("cat <<'END'\n$HOME \"quoted\" 'single' `x` \\ * ; & é\nEND\nexit 7")
    assert result.text == "$HOME \"quoted\" 'single' `x` \\ * ; & é\nExit code 7."


async def test_the_folder_is_kept_from_call_to_call(calling: Calling) -> None:
    (calling.folder / "it's deep" / "er").mkdir(parents=True)
    editor = calling.editor(Editor())
    assert (await calling.run('cd "it\'s deep" && cd er && false')).details["exit_code"] == 1
    assert calling.workspace.shell_cwd == calling.folder / "it's deep" / "er"
    assert (await calling.run("pwd")).text == str(calling.folder / "it's deep" / "er")
    assert editor.asked[1][1] == calling.folder / "it's deep" / "er"
    assert "outside the workspace" in (await calling.run("cd /")).text
    assert (await calling.run("pwd")).text == str(calling.folder)


async def test_a_command_cannot_make_us_wait_with_what_it_puts_in_the_place_of_the_report(calling: Calling) -> None:
    calling.editor(Editor())
    folder = calling.workspace.temporary / "tmp"
    result = await calling.run(f"cd /; rm {folder}/*; mkfifo {folder}/x; trap - EXIT")
    assert "did not say in which folder" in result.text
    (folder / "x").unlink()


async def test_a_folder_that_is_gone_is_said_also_when_the_editor_starts_nothing(calling: Calling) -> None:
    for editor in (Editor(), FailingEditor(OSError("no"))):
        calling.editor(editor)
        (calling.folder / "gone").mkdir()
        calling.workspace.shell_cwd = calling.folder / "gone"
        (calling.folder / "gone").rmdir()
        assert "does not exist any more" in (await calling.run("true")).text


async def test_a_long_output_is_stored_whole(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "work")
    workspace.folder.mkdir()
    workspace.terminals = Editor()
    watched = Watched(
        [call("Bash", command="seq 1 20000"), "done"],
        tools=[bash(Shell(workspace))],
        store=FolderStore(tmp_path / "store"),
    )
    await watched.session.run("go")
    [(text, is_error)] = last_results(watched.session)
    block = watched.session.messages[-2].tool_results[0].whole
    assert block is not None
    whole = FolderStore(tmp_path / "store").read(block).decode()
    assert whole == "".join(f"{number}\n" for number in range(1, 20001))
    assert "bytes left out here" in text
    assert text.startswith("1\n2\n")
    assert not is_error
    workspace.close()


async def test_an_output_whose_beginning_the_editor_cut_off_says_so(calling: Calling) -> None:
    calling.editor(CuttingEditor())
    result = await calling.run("seq 1 100")
    assert result.text.splitlines()[-2:] == [
        "100",
        "The editor kept only the end of the output: the beginning is missing.",
    ]
    assert len(result.text) < 120
    assert not result.is_error


# Where it runs


async def test_keys_do_not_reach_a_command_and_the_editors_environment_does(calling: Calling) -> None:
    calling.editor(Editor())
    result = await calling.run("env; cat /proc/$$/environ | tr '\\0' '\\n'")
    assert "EDITORS_OWN=here" in result.text
    assert "PAGER=cat" in result.text
    assert "secret-key" not in result.text
    assert "BASH_ENV" not in result.text


async def test_the_path_is_the_one_that_commands_are_to_have(tmp_path: Path) -> None:
    calling = Calling(tmp_path, environment={"PATH": "/usr/bin:/bin"})
    calling.editor(Editor()).own["PATH"] = ".:/usr/bin:/bin"
    assert (await calling.run("echo $PATH")).text == "/usr/bin:/bin"
    assert_nothing_is_left(calling)
    calling.workspace.close()


def fences(folder: Path) -> Iterator[Sandbox]:
    """Bubblewrap, if it is here; and one that fences nothing in and shows what it was started with."""
    if isinstance(found := find_sandbox(), Bubblewrap):  # with Landlock, no environment of a process can be read
        yield found
    program = folder / "no-fence"
    program.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; env; exec "$@"\n')
    program.chmod(0o755)
    yield Bubblewrap(str(program), Host(""), b"")


async def test_a_sandbox_is_around_the_command_and_has_no_keys_either(tmp_path: Path) -> None:
    (tmp_path / "work" / "below").mkdir(parents=True)
    for sandbox in fences(tmp_path):
        calling = Calling(tmp_path / "work", sandbox=sandbox, unset=("ANTHROPIC_API_KEY",))
        calling.editor(Editor())
        result = await calling.run("cd below; tr '\\0' '\\n' </proc/$PPID/environ; echo done")
        assert "EDITORS_OWN=here" in result.text
        assert "secret-key" not in result.text
        assert calling.workspace.shell_cwd == calling.folder / "below"
        assert_nothing_is_left(calling)
        calling.workspace.close()


async def test_the_access_level_holds_in_a_terminal(tmp_path: Path) -> None:
    if (sandbox := find_sandbox()) is None:
        pytest.skip("there is no sandbox here")
    for name in (".git", "below"):
        (tmp_path / "work" / name).mkdir(parents=True)
    calling = Calling(tmp_path / "work", sandbox=sandbox)
    calling.editor(Editor())
    assert "It seems to need access write" in (await calling.run("touch below/made")).text
    assert (await calling.run("touch below/made && ls below", access="write")).text == "made"
    assert "It seems to need access full" in (await calling.run("touch .git/x", access="write")).text
    await calling.run("touch ../outside", access="full")
    assert sorted(os.listdir(tmp_path)) == ["outside", "work"]
    await until(lambda: sorted(os.listdir(calling.folder)) == [".git", "below"])
    assert os.listdir(calling.folder / ".git") == []
    assert_nothing_is_left(calling)
    calling.workspace.close()


async def test_a_background_command_is_a_process_of_our_own(calling: Calling) -> None:
    editor = calling.editor(Editor())
    result = await calling.run("echo started", run_in_background=True)
    assert "background" in result.details
    assert editor.asked == []
    for path in calling.workspace.temporary.glob("background-*"):
        path.unlink()


async def test_what_the_editor_does_not_start_runs_in_a_process_of_our_own(calling: Calling) -> None:
    calling.editor(FailingEditor(OSError("no terminals today")))
    result = await calling.run("echo here")
    assert result.text == "here"
    assert "terminal" not in result.details
    assert calling.shown == [{"output": "here\n"}]


async def test_a_command_that_is_too_long_is_refused_as_ever(calling: Calling) -> None:
    editor = calling.editor(Editor())
    result = await calling.run(f"echo {'x' * 200_000}")
    assert "too long for the system" in result.text
    assert editor.asked == []


# Ends


async def test_a_time_out_kills_the_command_and_keeps_what_it_printed(calling: Calling) -> None:
    editor, nap = calling.editor(Editor()), new_nap()
    result = await calling.run(f"echo begun; (setsid sleep {nap} &); sleep {nap}", timeout=700)
    assert result.text.startswith("begun\n")
    assert result.text.endswith("\nThe command did not finish within 0.7 seconds and was stopped.")
    assert result.is_error
    assert result.details["exit_code"] is None
    assert editor.terminals[0].kills
    assert sleepers(nap) == []


async def test_what_a_command_leaves_running_is_stopped(calling: Calling) -> None:
    calling.editor(Editor())
    nap = new_nap()
    result = await calling.run(f"echo done; sleep {nap} >/dev/null 2>&1 & setsid sleep {nap} >/dev/null 2>&1 &")
    assert "2 processes were left running" in result.text
    assert sleepers(nap) == []


@pytest.mark.parametrize("kind", [Editor, ShellEditor, FarEditor])
async def test_a_cancel_kills_the_command_and_gives_what_it_printed(kind: type[Editor], calling: Calling) -> None:
    editor, nap = calling.editor(kind()), new_nap()
    running = asyncio.ensure_future(calling.run(f"echo begun; sleep {nap}"))
    await until(lambda: editor.terminals and b"begun" in editor.terminals[0]._printed)
    running.cancel()
    result = await running
    assert result.text.startswith("begun\n")
    assert result.text.endswith("\nThe command was stopped.")
    assert result.is_error
    await until(lambda: not sleepers(nap))
    assert editor.terminals[0].released


async def test_a_cancelled_session_gets_its_answer_with_the_output(tmp_path: Path) -> None:
    workspace, nap = Workspace(tmp_path), new_nap()
    workspace.terminals = editor = Editor()
    script = [call("Bash", command=f"trap '' TERM; echo begun; sleep {nap}; sleep {nap}"), "done"]
    watched = Watched(script, tools=[bash(Shell(workspace))])
    running = asyncio.ensure_future(watched.session.run("go"))
    await until(lambda: editor.terminals and b"begun" in editor.terminals[0]._printed)
    watched.session.cancel()
    await running
    [(text, is_error)] = last_results(watched.session)
    assert text.startswith(f"{CANCELLED} {CHECK}\nbegun\n")
    assert "\nThe command was stopped." in text  # on busy cores, the editor may confirm it too late
    assert is_error
    watched.check()
    await until(lambda: not sleepers(nap) and editor.terminals[0].released)
    workspace.close()


async def test_a_start_that_is_not_known_to_have_failed_is_not_tried_again(calling: Calling) -> None:
    for error in (TimeoutError(), ConnectionResetError()):
        editor, nap = calling.editor(FailingEditor(error, after=True)), new_nap()
        result = await calling.run(f"echo x >> tries; sleep {nap}")
        assert result.is_error
        assert "before you run it again" in result.text
        await until(lambda nap=nap: not sleepers(nap))
        await editor.terminals[0].release()
    tries = calling.folder / "tries"
    assert not tries.exists() or len(tries.read_text().splitlines()) <= 2


@pytest.mark.parametrize("cancelled", [True, False])
async def test_a_terminal_that_comes_too_late_is_killed_and_released(cancelled: bool, calling: Calling) -> None:
    editor, nap = calling.editor(SlowEditor()), new_nap()
    running = asyncio.ensure_future(calling.run(f"sleep {nap}", timeout=100_000 if cancelled else 300))
    await editor.started.wait()
    if cancelled:
        running.cancel()
    result = await running
    assert result.is_error
    assert "did not say whether it started" in result.text
    editor.allowed.set()
    await until(lambda: editor.terminals[0].released)
    assert sleepers(nap) == []


async def test_a_terminal_that_the_editor_loses_is_ended_and_said(calling: Calling) -> None:
    editor, nap = calling.editor(LosingEditor()), new_nap()
    result = await calling.run(f"sleep {nap}")
    assert result.is_error
    assert "stopped reporting on the command" in result.text
    assert "did not return the output of the command" in result.text
    assert sleepers(nap) == []
    assert editor.terminals[0].released


async def test_an_editor_that_hangs_does_not_hold_up_a_cancel(calling: Calling) -> None:
    class Hanging(Terminal):
        async def output(self) -> tuple[str, bool]:
            return await asyncio.Event().wait(), False  # type: ignore[return-value]

    editor, nap = calling.editor(Editor()), new_nap()
    running = asyncio.ensure_future(calling.run(f"echo begun; sleep {nap}"))
    await until(lambda: editor.terminals and b"begun" in editor.terminals[0]._printed)
    editor.terminals[0].__class__ = Hanging
    began = time.monotonic()
    running.cancel()
    result = await asyncio.wait_for(running, 30)
    assert "did not return the output of the command" in result.text
    assert time.monotonic() - began < 9, "it does not have the patience of a call that nobody cancelled"


async def test_a_subagent_has_the_same_terminals(calling: Calling) -> None:
    editor = calling.editor(Editor())
    assert calling.workspace.for_subagent().terminals is editor
    assert calling.workspace.temporary.exists()
