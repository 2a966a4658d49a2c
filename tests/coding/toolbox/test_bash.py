"""The Bash tool: results, the working directory, output as it comes, background commands."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider.coding.toolbox.shell.bash import bash
from outrider.coding.toolbox.shell.shell import Shell
from outrider.coding.toolbox.workspace import Workspace
from outrider.conversation.attachments import MAX_BYTES
from outrider.conversation.store import FolderStore
from outrider.runtime.limits import Limits
from outrider.testing import call
from outrider.text.terminal import rendered
from outrider.tools.context import CallRef, ToolContext
from outrider.tools.threads import Threads
from tests.coding.hands.elsewhere import ShellingElsewhere
from tests.coding.toolbox.shelling import Shelling, new_nap, sleepers, until
from tests.watching import Watched, last_results


@pytest.fixture(params=["here", "elsewhere"])
def shelling(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shelling]:
    """Bash in this process, and at the other end of a pipe."""
    shelling = ShellingElsewhere(tmp_path) if request.param == "elsewhere" else Shelling(tmp_path)
    yield shelling
    shelling.close()


@pytest.fixture
def shelling_here(tmp_path: Path) -> Iterator[Shelling]:
    """For tests of the files and the environment of this process."""
    shelling = Shelling(tmp_path)
    yield shelling
    shelling.close()


# What the model is told and gets


def test_the_tool_has_the_name_and_arguments_that_models_know(tmp_path: Path) -> None:
    tool = bash(Shell(Workspace(tmp_path)))
    assert tool.name == "Bash"
    usual = ["command", "description", "timeout", "run_in_background", "access"]
    assert list(tool.parameters["properties"]) == [*usual, "terminal", "session"]
    assert tool.parameters["required"] == ["command"]
    assert tool.effect == "write"
    assert not tool.concurrent
    assert tool.timeout is not None
    assert tool.timeout > 600
    assert "Milliseconds" in tool.parameters["properties"]["timeout"]["description"]


async def test_output_and_errors_come_in_the_order_in_which_they_were_printed(shelling: Shelling) -> None:
    result = await shelling.run("echo one; echo two >&2; echo three")
    assert result.text == "one\ntwo\nthree"
    assert not result.is_error
    assert result.details["exit_code"] == 0
    assert result.details["bytes"] == 14
    assert result.details["cwd"] == str(shelling.workspace.folder)
    assert 0 < result.details["seconds"] < 20


async def test_a_command_without_output_says_so(shelling: Shelling) -> None:
    assert (await shelling.run("true")).text == "There was no output."


async def test_an_exit_code_is_said_and_is_an_error(shelling: Shelling) -> None:
    result = await shelling.run("echo before; exit 3")
    assert result.text == "before\nExit code 3."
    assert result.is_error
    assert result.details["exit_code"] == 3


@pytest.mark.parametrize(
    ("command", "said", "code"),
    [
        ("kill -SEGV $$", "The shell was killed by SIGSEGV.", -11),
        ("bash -c 'kill -ABRT $$'; exit $?", "Exit code 134 (SIGABRT).", 134),
        ("exit 255", "Exit code 255.", 255),
    ],
)
async def test_signals_have_names(command: str, said: str, code: int, shelling: Shelling) -> None:
    result = await shelling.run(command)
    assert result.text.endswith(said)
    assert result.is_error
    assert result.details["exit_code"] == code


async def test_errors_of_the_shell_have_the_line_of_the_command(shelling: Shelling) -> None:
    result = await shelling.run("echo fine\nno_such_command_here\n")
    assert "fine\nbash: line 2: no_such_command_here: command not found" in result.text
    assert result.text.endswith("Exit code 127.")


async def test_a_command_over_several_lines_with_quotes_and_a_here_document(shelling: Shelling) -> None:
    command = 'cat <<\'EOF\' | tr a-z A-Z\nit\'s "quoted" $HOME\nEOF\necho "$0 $#"'
    assert (await shelling.run(command)).text == 'IT\'S "QUOTED" $HOME\nbash 0'


async def test_a_command_may_begin_with_a_dash(shelling: Shelling) -> None:
    assert "-x: command not found" in (await shelling.run("-x")).text


async def test_the_environment_is_the_one_given_and_nothing_waits_for_a_pager(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "GREETING": "hello"}
    shelling = Shelling(tmp_path, environment=environment)
    lines = (await shelling.run("env")).text.splitlines()
    shelling.workspace.close()
    names = {name for line in lines if not (name := line.partition("=")[0]).startswith("GIT_CONFIG_")}
    assert names == {"PATH", "GREETING", "PAGER", "GIT_PAGER", "TERM", "OUTRIDER_CALL", "PWD", "SHLVL", "_"}
    assert {"GREETING=hello", "PAGER=cat", "GIT_PAGER=cat", "TERM=dumb"} <= set(lines)


async def test_without_one_it_is_that_of_the_process(shelling_here: Shelling, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROM_OUTSIDE", "yes")
    assert (await shelling_here.run("echo $FROM_OUTSIDE")).text == "yes"


@pytest.mark.parametrize("command", ["", "  \n "])
async def test_no_command_is_a_sentence(command: str, shelling: Shelling) -> None:
    result = await shelling.run(command)
    assert result.is_error
    assert result.text == "There is no command to run: give one."


async def test_a_time_out_must_be_over_zero(shelling: Shelling) -> None:
    result = await shelling.run("echo no", timeout=0)
    assert result.is_error
    assert result.text == "The command was not run: its timeout is 0; it must be over 0 milliseconds."


# The working directory


async def test_the_folder_is_kept_from_call_to_call(shelling: Shelling) -> None:
    folder = shelling.workspace.folder
    (folder / "a" / "b").mkdir(parents=True)
    result = await shelling.run("cd a")
    assert result.details["cwd"] == str(folder / "a")
    assert (await shelling.run("cd b && pwd")).text == str(folder / "a" / "b")
    assert shelling.workspace.shell_cwd == folder / "a" / "b"
    assert (await shelling.run("cd ../.. ; pwd")).text == str(folder)


@pytest.mark.parametrize(
    "command",
    [
        "cd a; exit 3",
        "set -e; cd a; false; cd ..",
        "set -eu; cd a; echo $nothing",
        "cd a\nif then",
        "set -x; cd a",
        "set -C; cd a",
        "cd a; PWD=/nowhere",
        "pwd() { echo /nowhere; }; cd a",
        "cd a; exec 3>/dev/null 9>/dev/null",
        "cd a; echo /nowhere >&87; echo /nowhere >&88",
        "cd a; exec >/dev/null 2>&1",
        "pushd a",
    ],
)
async def test_the_folder_is_known_however_the_shell_ends(command: str, shelling: Shelling) -> None:
    (shelling.workspace.folder / "a").mkdir()
    result = await shelling.run(command)
    assert result.details["cwd"] == str(shelling.workspace.folder / "a")
    assert "nowhere" not in result.text.replace("echo /nowhere", "")


@pytest.mark.parametrize("command", ["cd a; exec ls", "cd a; kill -9 $$", "trap 'echo mine' EXIT; cd a"])
async def test_a_shell_that_cannot_tell_leaves_the_folder_and_that_is_said(command: str, shelling: Shelling) -> None:
    folder = shelling.workspace.folder
    (folder / "a").mkdir()
    result = await shelling.run(command)
    assert result.text.endswith(f"The shell did not say in which folder it ended: the next command runs in {folder}.")
    assert shelling.workspace.shell_cwd == folder


async def test_exec_without_cd_has_nothing_to_say_about_folders(shelling: Shelling) -> None:
    (shelling.workspace.folder / "a").mkdir()
    assert (await shelling.run("exec ls")).text == "a"


async def test_a_subshell_changes_nothing(shelling: Shelling) -> None:
    assert (await shelling.run("(cd /; pwd)")).text == "/"
    assert shelling.workspace.shell_cwd == shelling.workspace.folder


async def test_a_folder_outside_is_not_kept_and_that_is_said(shelling: Shelling) -> None:
    folder = shelling.workspace.folder
    (folder / "a").mkdir()
    await shelling.run("cd a")
    result = await shelling.run("cd /usr && pwd")
    assert result.text == f"/usr\n/usr is outside the workspace: the next command runs in {folder}."
    assert not result.is_error
    assert (await shelling.run("pwd")).text == str(folder)


async def test_a_link_that_leads_outside_is_outside(shelling: Shelling) -> None:
    (shelling.workspace.folder / "link").symlink_to("/usr")
    assert "outside the workspace" in (await shelling.run("cd link")).text
    assert shelling.workspace.shell_cwd == shelling.workspace.folder


async def test_a_folder_that_the_command_removed_is_left(shelling: Shelling) -> None:
    folder = shelling.workspace.folder
    result = await shelling.run("mkdir gone && cd gone && rmdir ../gone")
    assert result.text.endswith(f"The shell's folder does not exist any more: the next command runs in {folder}.")
    assert (await shelling.run("pwd")).text == str(folder)


async def test_a_folder_that_somebody_else_removed_meanwhile_is_left(shelling: Shelling) -> None:
    folder = shelling.workspace.folder
    (folder / "a").mkdir()
    await shelling.run("cd a")
    (folder / "a").rmdir()
    result = await shelling.run("pwd")
    assert result.text == f"{folder}\nThe folder {folder}/a does not exist any more, so the command ran in {folder}."


async def test_a_workspace_that_is_gone_is_a_sentence(tmp_path: Path) -> None:
    shelling = Shelling(tmp_path / "project")
    result = await shelling.run("echo no")
    assert result.is_error
    assert result.text == f"The command was not run: the folder {tmp_path}/project does not exist."


@pytest.mark.parametrize("name", ["with space", "with\nnewline\n", "quote'", "ünï", "-dash"])
async def test_folders_of_any_name_are_kept(name: str, shelling: Shelling) -> None:
    folder = shelling.workspace.folder / name
    folder.mkdir()
    await shelling.run("cd -- *")
    assert shelling.workspace.shell_cwd == folder


async def test_where_there_is_no_bash_sh_does(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("sh", "env", "ls"):
        (programs / name).symlink_to(shutil.which(name) or "")
    project = tmp_path / "project"
    (project / "a").mkdir(parents=True)
    shelling = Shelling(project, environment={"PATH": str(programs)})
    assert (await shelling.run("echo $0; cd a; exit 4")).text == "sh\nExit code 4."
    assert shelling.workspace.shell_cwd == project / "a"
    shelling.workspace.close()


async def test_where_there_is_no_shell_at_all_a_sentence_says_so(tmp_path: Path) -> None:
    shelling = Shelling(tmp_path, environment={"PATH": str(tmp_path)})
    result = await shelling.run("echo no")
    assert result.is_error
    assert result.text == "The command was not run: there is no shell, neither bash nor sh is in the PATH."


# Output as it comes


async def test_output_is_shown_while_the_command_runs(shelling: Shelling) -> None:
    gate = shelling.workspace.folder / "gate"
    running = asyncio.ensure_future(shelling.run("echo early; until [ -e gate ]; do sleep 0.02; done; echo late"))
    await shelling.until_shown("early")
    assert not running.done()
    gate.touch()
    assert (await running).text == "early\nlate"
    assert "".join(shelling.shown) == "early\nlate\n"


async def test_many_small_prints_are_shown_together(shelling: Shelling) -> None:
    began = time.monotonic()
    result = await shelling.run("for i in {1..500}; do echo line $i; done; sleep 0.3")
    most = (time.monotonic() - began) / 0.1 + 2
    assert result.details["bytes"] == len("".join(shelling.shown))
    assert len(shelling.shown) <= most


async def test_colours_and_control_characters_are_left_out_live_and_at_the_end(shelling: Shelling) -> None:
    result = await shelling.run("printf '\\e[32mgreen\\e[0m\\0\\n'")
    assert result.text == "green\ufffd"
    assert shelling.shown == ["green\ufffd\n"]


async def test_a_progress_bar_is_one_line_live_and_at_the_end(shelling: Shelling) -> None:
    result = await shelling.run("for i in {1..600}; do printf '\\r%3d of 600' $i; done; echo")
    assert result.text == "600 of 600"
    shown = "".join(shelling.shown)
    assert rendered(shown) == "600 of 600\n"
    assert shown.count("\n") == 1
    assert len(shown) < 2_000


# Long output


def long_session(tmp_path: Path, command: str, **options: object) -> Watched:
    tool = bash(Shell(Workspace(tmp_path)))
    return Watched([call("Bash", command=command), "ok"], [tool], store=FolderStore(tmp_path / "store"), **options)


async def test_the_whole_of_a_long_output_is_stored_and_the_model_told_where(tmp_path: Path) -> None:
    watched = long_session(tmp_path, "seq 1 50000; exit 1")
    await watched.session.run("go")
    [(text, is_error)] = last_results(watched.session)
    block = watched.session.messages[-2].tool_results[0].whole
    assert block is not None
    assert is_error
    assert watched.session.store.read(block) == "".join(f"{number}\n" for number in range(1, 50_001)).encode()
    assert text.startswith("1\n2\n3\n")
    assert "\n[258,894 of 288,894 bytes left out here.]\n" in text
    assert text.endswith(f"49999\n50000\nExit code 1.\n[The whole is stored as attachment:{block.sha256}]")
    watched.check()


async def test_the_copy_of_a_long_output_is_removed_by_the_next_call(shelling_here: Shelling) -> None:
    result = await shelling_here.run("seq 1 50000")
    assert result.whole is not None
    assert list(shelling_here.workspace.temporary.iterdir()) == [result.whole.source]
    await shelling_here.run("true")
    assert list(shelling_here.workspace.temporary.iterdir()) == []


async def test_of_a_huge_output_the_beginning_is_stored_and_that_is_said(shelling_here: Shelling) -> None:
    result = await shelling_here.run(f"head -c {MAX_BYTES + 1} /dev/zero | tr '\\0' x")
    assert result.whole is not None
    assert result.whole.source.stat().st_size == MAX_BYTES  # type: ignore[union-attr]
    assert result.text.endswith("Only the first 20.0 MiB are stored.")
    assert f"of {MAX_BYTES + 1:,} bytes left out here" in result.text


async def test_no_file_is_left_by_output_that_fits(shelling: Shelling) -> None:
    assert (await shelling.run("echo fits")).whole is None
    assert list(shelling.workspace.temporary.iterdir()) == []


async def test_the_temporary_folder_ends_with_the_workspace(tmp_path: Path) -> None:
    shelling = Shelling(tmp_path)
    await shelling.run("echo one")
    folder = shelling.workspace.temporary
    assert folder.stat().st_mode & 0o777 == 0o700
    shelling.workspace.close()
    assert not folder.exists()
    assert (await shelling.run("echo again")).text == "again"
    folder = shelling.workspace.temporary
    del shelling
    await until(lambda: not folder.exists())


# In the background


async def test_a_background_command_goes_on_after_its_call_and_writes_to_a_file(shelling: Shelling) -> None:
    nap, gate = new_nap(), shelling.workspace.folder / "gate"
    result = await shelling.run(
        f"echo started; until [ -e gate ]; do sleep 0.02; done; echo done; : {nap}", run_in_background=True
    )
    assert not result.is_error
    pid = result.details["background"]
    assert result.details["exit_code"] is None
    path = Path(result.text.partition("Its output goes to ")[2].partition(";")[0])
    assert path.parent == shelling.workspace.temporary
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert (await shelling.run("echo meanwhile")).text == "meanwhile"
    os.kill(pid, 0)
    gate.touch()
    await until(lambda: path.read_text() == "started\ndone\n\n[The command has ended. Exit code 0.]\n")
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_background_command_that_cannot_begin_says_so_at_once(shelling: Shelling) -> None:
    result = await shelling.run("no_such_server --port 80", run_in_background=True)
    assert result.is_error
    assert "no_such_server: command not found" in result.text
    assert "Exit code 127." in result.text
    assert "has ended already" in result.text


async def test_background_commands_end_with_the_workspace(shelling: Shelling) -> None:
    nap = new_nap()
    await shelling.run(f"trap '' TERM; sleep {nap} & setsid sleep {nap} & wait", run_in_background=True)
    await shelling.run(f"(sleep {nap}; true) & setsid bash -c '(sleep {nap}; true) &' &", run_in_background=True)
    await until(lambda: len(sleepers(nap)) >= 4)
    shelling.workspace.close()
    assert sleepers(nap) == []


async def test_a_background_command_does_not_change_the_folder(shelling: Shelling) -> None:
    (shelling.workspace.folder / "a").mkdir()
    await shelling.run("cd a", run_in_background=True)
    assert shelling.workspace.shell_cwd == shelling.workspace.folder


async def test_the_file_of_a_background_command_keeps_the_newest_output(
    shelling: Shelling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outrider.coding.toolbox.shell.background.KEPT", 100_000)
    await shelling.run("seq 1 200000", run_in_background=True)
    [command] = shelling.workspace.background
    await until(lambda: not command.running)
    first, *numbers, _, last = command.path.read_text().splitlines()
    assert command.path.stat().st_size < 2 * 100_000 + 100
    assert first.endswith("of older output are dropped.]")
    assert last == "[The command has ended. Exit code 0.]"
    assert numbers == [str(each) for each in range(200_001 - len(numbers), 200_001)]
    assert len(numbers) > 100_000 / 7 - 2
    assert os.stat(command.path).st_mode & 0o777 == 0o600


async def test_a_process_that_a_background_command_leaves_behind_can_still_print(shelling: Shelling) -> None:
    await shelling.run(
        "(until [ -e gate ]; do sleep 0.02; done; echo late) & echo early; exit 3", run_in_background=True
    )
    [command] = shelling.workspace.background
    await until(lambda: command.exit_code == 3)
    assert command.running
    (shelling.workspace.folder / "gate").touch()
    await until(lambda: not command.running)
    assert command.path.read_text() == "early\n\n[The command has ended. Exit code 3.]\nlate\n"


async def test_background_commands_are_listed_and_the_user_can_end_one(shelling: Shelling) -> None:
    nap = new_nap()
    await shelling.run(f"echo one; trap '' TERM; sleep {nap} & wait", run_in_background=True)
    await shelling.run("echo two", run_in_background=True)
    subagent = shelling.workspace.for_subagent()
    assert [each.number for each in subagent.background] == [1, 2]
    one = shelling.workspace.background.find(1)
    assert one is not None
    assert (one.running, one.exit_code, one.newest_output(2)) == (True, None, b"e\n")
    assert shelling.workspace.background.running == 1
    await asyncio.to_thread(one.end)
    await until(lambda: not one.running)
    assert sleepers(nap) == []
    assert one.path.read_text() == "one\n\n[The user has ended the command.]\n"
    assert shelling.workspace.background.running == 0
    shelling.workspace.close()
    assert list(shelling.workspace.background) == []


async def test_the_background_commands_of_a_subagent_are_listed_until_it_ends(shelling: Shelling) -> None:
    workspace = shelling.workspace.for_subagent()
    context = ToolContext(CallRef("call"), workspace.folder, Threads(), lambda content: None)
    await bash(Shell(workspace)).invoke({"command": f"sleep {new_nap()}", "run_in_background": True}, context)
    assert [each.running for each in shelling.workspace.background] == [True]
    workspace.close()
    assert list(shelling.workspace.background) == []


async def test_the_limit_of_the_session_holds_for_a_result_too(tmp_path: Path) -> None:
    watched = long_session(tmp_path, "seq 1 5000", limits=Limits(result_characters=1000))
    await watched.session.run("go")
    [(text, _)] = last_results(watched.session)
    assert len(text) < 1_300
