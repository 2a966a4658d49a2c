"""Commands that fork, flood, hang, hide or will not die: the call ends, and nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider.coding.toolbox.shell.bash import bash
from outrider.coding.toolbox.shell.output import NEW_TEXT_BYTES
from outrider.coding.toolbox.shell.shell import Shell
from outrider.coding.toolbox.workspace import Workspace
from outrider.runtime.calls import CANCELLED, CHECK
from outrider.runtime.events import ToolProgress
from outrider.testing import call
from tests.coding.toolbox.shelling import Shelling, new_nap, sleepers, until
from tests.watching import Watched, last_results

# A daemon as it should be: a session of its own, no parent, no file of the shell open.
DAEMON = textwrap.dedent("""
    import os, sys, time
    if os.fork(): os._exit(0)
    os.setsid()
    if os.fork(): os._exit(0)
    os.chdir("/")
    os.closerange(0, 1000)
    os.execvp("sleep", ["sleep", sys.argv[1]])
""")


@pytest.fixture
def shelling(tmp_path: Path) -> Iterator[Shelling]:
    shelling = Shelling(tmp_path)
    (shelling.workspace.folder / "daemon.py").write_text(DAEMON)
    yield shelling
    shelling.workspace.close()


def all_kinds_of_children(nap: str) -> str:
    """Starts children, each of which goes away in another manner; four of them."""
    return (
        f"sleep {nap} & setsid sleep {nap} & nohup sleep {nap} >/dev/null 2>&1 & "
        f"{sys.executable} daemon.py {nap}; until [ -e gate ]; do sleep 0.01; done; "
    )


# Time-outs


async def test_a_command_that_takes_too_long_is_stopped_and_what_it_said_is_kept(shelling: Shelling) -> None:
    nap = new_nap()
    result = await shelling.run(f"echo so far; sleep {nap}", timeout=1_000)
    assert result.text == "so far\nThe command did not finish within 1 second and was stopped."
    assert result.is_error
    assert result.details["exit_code"] is None
    assert sleepers(nap) == []


async def test_a_command_that_ignores_sigterm_is_killed_with_its_children(shelling: Shelling) -> None:
    nap = new_nap()
    began = time.monotonic()
    result = await shelling.run(f"trap '' TERM INT HUP; sleep {nap} & sleep {nap}; sleep {nap}", timeout=200)
    assert time.monotonic() - began < 60
    assert "did not finish within 0.2 seconds" in result.text
    assert sleepers(nap) == []


async def test_a_command_may_clean_up_when_it_is_asked_to_end(shelling: Shelling) -> None:
    command = "trap 'echo cleaned; exit' TERM; echo ready; while :; do sleep 0.01; done"
    result = await shelling.run(command, timeout=1_000)
    assert result.text.startswith("ready\n")
    assert "cleaned\nThe command did not finish" in result.text


async def test_a_stopped_process_is_killed_too(shelling: Shelling) -> None:
    nap = new_nap()
    await shelling.run(f"bash -c 'kill -STOP $$; sleep {nap}' x {nap}", timeout=300)
    assert sleepers(nap) == []


async def test_a_time_out_reaches_children_that_made_themselves_independent(shelling: Shelling) -> None:
    nap = new_nap()
    running = asyncio.ensure_future(shelling.run(f"{all_kinds_of_children(nap)} sleep {nap}", timeout=4_000))
    await until(lambda: len(sleepers(nap)) == 4)
    (shelling.workspace.folder / "gate").touch()
    result = await running
    assert "did not finish" in result.text
    assert sleepers(nap) == []


async def test_a_time_out_reaches_a_child_without_environment(shelling: Shelling) -> None:
    nap = new_nap()
    running = asyncio.ensure_future(shelling.run(f"env -i setsid -w sleep {nap}", timeout=2_500))
    await until(lambda: sleepers(nap))
    await running
    assert sleepers(nap) == []


async def test_twenty_children_that_start_others_all_the_time_are_ended(shelling: Shelling) -> None:
    nap = new_nap()
    brood = f"for i in {{1..20}}; do (trap '' TERM; while :; do sleep 0.01; : {nap}; done) & done; sleep {nap}"
    result = await shelling.run(brood, timeout=1_000)
    assert "did not finish" in result.text
    assert "could not be ended" not in result.text
    assert sleepers(nap) == []
    assert marked(shelling) == []


def marked(shelling: Shelling) -> list[int]:
    """Processes that still carry the mark of a command of this workspace."""
    mark = f"OUTRIDER_CALL={shelling.workspace.processes._mark}".encode()
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if mark in Path("/proc", name, "environ").read_bytes():
                found.append(int(name))
        except OSError:
            continue
    return found


# What a command leaves behind


async def test_a_background_child_does_not_hold_the_call_and_is_stopped(shelling: Shelling) -> None:
    nap = new_nap()
    result = await shelling.run(f"sleep {nap} & echo started")
    assert result.text == (
        "started\n1 process was left running in the background and stopped; "
        "use run_in_background for processes that should go on."
    )
    assert not result.is_error
    assert sleepers(nap) == []


async def test_all_kinds_of_children_are_stopped_when_the_shell_has_ended(shelling: Shelling) -> None:
    nap = new_nap()
    running = asyncio.ensure_future(shelling.run(f"{all_kinds_of_children(nap)} echo through"))
    await until(lambda: len(sleepers(nap)) == 4)
    (shelling.workspace.folder / "gate").touch()
    result = await running
    assert "4 processes were left running" in result.text
    assert result.text.startswith("through\n")
    assert sleepers(nap) == []


async def test_a_child_that_floods_the_output_after_the_shell_ended_is_stopped(shelling: Shelling) -> None:
    result = await shelling.run("yes & echo; sleep 0.1")
    assert "1 process was left running" in result.text
    assert marked(shelling) == []


async def test_those_who_only_need_a_moment_to_finish_get_it(shelling: Shelling) -> None:
    result = await shelling.run("echo through tee > >(cat; echo end)")
    assert result.text == "through tee\nend"


async def test_nothing_is_open_and_nobody_is_left_after_many_calls(shelling: Shelling) -> None:
    await shelling.run("true")
    gc.collect()  # descriptors of earlier tests
    before = len(os.listdir("/proc/self/fd"))
    for command in ("echo hello", "exit 1", "sleep 5 &", "seq 1 40000", "if", "kill -9 $$") * 5:
        await shelling.run(command)
    # The process is not ours alone: pytest may have opened something, and threads of other tests may be about to.
    await until(lambda: len(os.listdir("/proc/self/fd")) < before + 5)
    assert marked(shelling) == []
    await until(lambda: zombies() == [])


def zombies() -> list[str]:
    """Children of this process that have ended and that nobody asked about."""
    stats = [file.read_text().rpartition(")")[2].split() for file in Path("/proc").glob("[0-9]*/stat")]
    return [" ".join(fields) for fields in stats if fields[:2] == ["Z", str(os.getpid())]]


# Floods, and output that is no text


FLOOD = textwrap.dedent("""
    import asyncio, sys
    from pathlib import Path
    from outrider import Agent, Session
    from outrider.testing import ScriptedModel
    from outrider.testing import call
    from outrider.conversation.store import FolderStore
    from outrider.coding.toolbox.shell.bash import bash
    from outrider.coding.toolbox.shell.shell import Shell
    from outrider.coding.toolbox.workspace import Workspace

    def peak():
        return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])

    async def run(command):
        workspace = Workspace(sys.argv[1])
        model = ScriptedModel([call("Bash", command=command), "ok"])
        agent = Agent(model=model, tools=[bash(Shell(workspace))])
        session = Session(agent, store=FolderStore(Path(sys.argv[1], "store")))
        await session.run("go")
        workspace.close()
        return session.messages[-2].tool_results[0]

    asyncio.run(run("echo small"))
    small = peak()
    result = asyncio.run(run("yes 0123456789abcdef | head -c 200000000"))
    print(small, peak(), "of 200,000,000 bytes left out here" in result.text, result.whole.size)
""")


@pytest.mark.long
def test_a_flood_of_200_megabytes_is_held_in_little_memory(tmp_path: Path) -> None:
    said = subprocess.run(
        [sys.executable, "-c", FLOOD, str(tmp_path)], capture_output=True, text=True, check=True, timeout=100
    )
    small, large, counted, stored = said.stdout.split()
    assert counted == "True"
    assert int(stored) == 20 * 1024 * 1024
    assert int(large) < 50 * 1024, "kilobytes, of the whole process"
    assert int(large) - int(small) < 15 * 1024


async def test_a_flood_can_be_stopped(shelling: Shelling) -> None:
    began = time.monotonic()
    result = await shelling.run("yes", timeout=500)
    assert time.monotonic() - began < 60
    assert "did not finish within 0.5 seconds" in result.text
    assert len(result.text) < 31_000
    assert max(map(len, shelling.shown)) < NEW_TEXT_BYTES + 100


async def test_a_line_without_end_is_cut_like_any_output(shelling: Shelling) -> None:
    result = await shelling.run("head -c 5000000 /dev/zero | tr '\\0' 'x'")
    assert result.details["bytes"] == 5_000_000
    assert len(result.text) < 31_000
    assert "[4,970,000 of 5,000,000 bytes left out here.]" in result.text


async def test_bytes_that_are_no_text_are_replaced(shelling: Shelling) -> None:
    result = await shelling.run("printf 'a\\0b\\xff\\xc3(\\xe6\\xbc'")
    assert result.text == "a\ufffdb\ufffd\ufffd(\ufffd"
    result.text.encode()


async def test_characters_in_pieces_are_put_together(shelling: Shelling) -> None:
    result = await shelling.run("printf '\\xe6'; sleep 0.15; printf '\\xbc'; sleep 0.15; printf '\\xa2\\n'")
    assert result.text == "漢"
    assert "".join(shelling.shown) == "漢\n"


async def test_a_command_that_closes_its_output_is_still_waited_for(shelling: Shelling) -> None:
    began = time.thread_time()
    result = await shelling.run("exec >&- 2>&-; sleep 0.6; exit 5")
    assert result.text == "There was no output.\nExit code 5."
    assert time.thread_time() - began < 0.3, "waiting costs nothing"


# Input, and commands that no shell takes


@pytest.mark.parametrize(
    "command", ["cat", 'read line; echo "[$line]"', "python3 -c 'import sys; print(sys.stdin.read())'"]
)
async def test_whoever_reads_gets_nothing_at_once(command: str, shelling: Shelling) -> None:
    result = await shelling.run(command, timeout=60_000)
    assert "did not finish" not in result.text


async def test_nobody_can_ask_on_the_terminal(shelling: Shelling) -> None:
    result = await shelling.run("read line </dev/tty", timeout=60_000)
    assert result.is_error
    assert "did not finish" not in result.text


async def test_a_command_of_a_megabyte_is_a_sentence(shelling: Shelling) -> None:
    result = await shelling.run(f"echo {'x' * 1_048_576}")
    assert result.is_error
    assert result.text == (
        "The command was not run: with 1,048,581 bytes it is too long for the system. "
        "Write it to a file with Write, and run that."
    )


async def test_a_nul_in_a_command_is_a_sentence(shelling: Shelling) -> None:
    result = await shelling.run("echo a\0b")
    assert result.is_error
    assert result.text == "The command was not run: it has a NUL character, which no shell accepts."


async def test_half_a_character_in_a_command_is_replaced(shelling: Shelling) -> None:
    assert (await shelling.run("echo a\ud800b")).text == "a\ufffdb"


# Cancelling


async def test_a_cancelled_session_keeps_what_was_printed_and_no_process(tmp_path: Path) -> None:
    nap, workspace = new_nap(), Workspace(tmp_path)
    (tmp_path / "daemon.py").write_text(DAEMON)
    command = f"{all_kinds_of_children(nap)} echo so far; trap '' TERM; sleep {nap}"
    watched = Watched([call("Bash", command=command), "never said"], [bash(Shell(workspace))])
    running = asyncio.ensure_future(watched.session.run("go"))
    await until(lambda: len(sleepers(nap)) == 4)
    (tmp_path / "gate").touch()
    await until(lambda: any("so far" in str(event.content) for event in watched.of(ToolProgress)))
    watched.session.cancel()
    assert (await running).status == "cancelled"
    [(text, is_error)] = last_results(watched.session)
    assert text == f"{CANCELLED} {CHECK}\nso far\nThe command was stopped."
    assert is_error
    assert sleepers(nap) == []
    watched.check()
    workspace.close()


async def test_a_second_cancel_does_not_keep_the_command_alive(shelling: Shelling) -> None:
    nap = new_nap()
    running = asyncio.ensure_future(shelling.run(f"trap '' TERM; sleep {nap} & sleep {nap}; sleep {nap}"))
    await until(lambda: len(sleepers(nap)) == 2)
    running.cancel()
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await until(lambda: not sleepers(nap))


async def test_a_cancel_before_anything_ran_leaves_nothing(shelling: Shelling) -> None:
    nap = new_nap()
    running = asyncio.ensure_future(shelling.run(f"sleep {nap}"))
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running])
    await until(lambda: not sleepers(nap))


async def test_a_cancelled_start_in_the_background_leaves_nothing(shelling: Shelling) -> None:
    nap = new_nap()
    running = asyncio.ensure_future(shelling.run(f"sleep {nap}", run_in_background=True))
    await until(lambda: sleepers(nap) or running.done())
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled() == (not sleepers(nap))


def test_a_loop_that_ends_takes_its_commands_along(tmp_path: Path) -> None:
    nap, shelling = new_nap(), Shelling(tmp_path)

    async def begin() -> None:
        task = asyncio.ensure_future(shelling.run(f"sleep {nap}"))
        await until(lambda: sleepers(nap))
        assert not task.done()

    asyncio.run(begin())
    deadline = time.monotonic() + 20
    while sleepers(nap):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    shelling.workspace.close()


# The end of Outrider itself


PROGRAM = textwrap.dedent("""
    import asyncio, os, sys
    from pathlib import Path
    from outrider.tools.threads import Threads
    from outrider.coding.toolbox.shell.bash import bash
    from outrider.coding.toolbox.shell.shell import Shell
    from outrider.coding.toolbox.workspace import Workspace
    from outrider.tools.context import CallRef, ToolContext

    async def main():
        folder, end, *commands = sys.argv[1:]
        tool = bash(Shell(Workspace(folder)))
        context = ToolContext(CallRef("call"), Path(folder), Threads(), lambda content: None)
        for command in commands[:-1]:
            await tool.invoke({"command": command, "run_in_background": True}, context)
        last = asyncio.ensure_future(tool.invoke({"command": commands[-1]}, context))
        if end == "exit":
            while not Path(folder, "gate").exists():
                await asyncio.sleep(0.01)
            sys.exit(3)
        await last

    asyncio.run(main())
""")


def begun(tmp_path: Path, end: str, nap: str) -> subprocess.Popen[bytes]:
    (tmp_path / "daemon.py").write_text(DAEMON)
    commands = (
        f"trap '' TERM; sleep {nap} & sleep {nap}",
        f"trap '' TERM; setsid sleep {nap} & {sys.executable} daemon.py {nap}; sleep {nap}; sleep {nap}",
    )
    return subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path), end, *commands])


async def test_commands_end_when_outrider_is_killed(tmp_path: Path) -> None:
    nap = new_nap()
    with begun(tmp_path, "wait", nap) as program:
        await until(lambda: len(sleepers(nap)) >= 5)
        program.send_signal(signal.SIGKILL)
    await until(lambda: not sleepers(nap))


async def test_commands_end_when_outrider_ends(tmp_path: Path) -> None:
    nap = new_nap()
    with begun(tmp_path, "exit", nap) as program:
        await until(lambda: len(sleepers(nap)) >= 5)
        (tmp_path / "gate").touch()
        await until(lambda: program.poll() is not None)
        assert program.returncode == 3
    await until(lambda: not sleepers(nap))


async def test_a_guard_that_somebody_killed_is_replaced(shelling: Shelling) -> None:
    await shelling.run("true")
    guard = shelling.workspace.processes._guard._process
    assert guard is not None
    guard.kill()
    guard.wait()
    assert (await shelling.run("echo on")).text == "on"
    assert (await shelling.run("echo and on")).text == "and on"
    successor = shelling.workspace.processes._guard._process
    assert successor is not None
    assert successor.poll() is None


FEW_FILES = """
import asyncio, resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]), int(sys.argv[2])))
from tests.coding.toolbox.shelling import Shelling
shelling = Shelling(Path(sys.argv[1]))
print(asyncio.run(shelling.run("cd inner; echo works")).text)
print(shelling.workspace.shell_cwd.name)
"""


@pytest.mark.parametrize("limit", [32, 87])
def test_commands_run_with_few_open_files(tmp_path: Path, limit: int) -> None:
    (tmp_path / "inner").mkdir()
    arguments = [sys.executable, "-c", FEW_FILES, str(tmp_path), str(limit)]
    ended = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
    assert ended.stdout.split() == ["works", "inner"], ended.stderr
