"""Commands with a terminal: the model types into them, with every sandbox and without; and commands that the user
moves to the background."""

from __future__ import annotations

import asyncio
import os
import pty
import shutil
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from outrider.coding.sandbox.available import _bundled
from outrider.coding.sandbox.bubblewrap import Bubblewrap
from outrider.coding.sandbox.landlock import Landlock
from outrider.coding.sandbox.sandbox import Host, Sandbox
from outrider.coding.sandbox.seccomp import seccomp_filter
from outrider.coding.toolbox.shell.background import MOST
from tests.coding.sandbox.world import mechanisms
from tests.coding.toolbox.shelling import Shelling, new_nap, sleepers, until

VI = "vi -u NONE -i NONE -n -N"


@pytest.fixture(params=["none", *mechanisms()])
async def shelling(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shelling]:
    """A shell without a sandbox, and one with each."""
    folder = tmp_path / "work"
    folder.mkdir()
    shelling = Shelling(folder, made(request.param))
    yield shelling
    await asyncio.to_thread(shelling.workspace.close)


def made(mechanism: str) -> Sandbox | None:
    host = Host.of(os.environ)
    if mechanism == "bubblewrap":
        return Bubblewrap(shutil.which("bwrap") or _bundled() or "", host, seccomp_filter(os.uname().machine) or b"")
    return Landlock(host) if mechanism == "Landlock" else None


async def typed(shelling: Shelling, session: int, keys: str, wanted: str = "", timeout: int = 1000) -> str:
    """Type, and look again until a text has come: a busy machine may need more than one look."""
    text = (await shelling.run(keys, session=session, timeout=timeout)).text
    deadline = time.monotonic() + 20
    while wanted not in text and time.monotonic() < deadline:
        text += (await shelling.run("", session=session, timeout=500)).text
    assert wanted in text
    return text


async def test_a_prompt_an_interrupt_and_an_end(shelling: Shelling) -> None:
    started = await shelling.run("python3 -q -i -c 'x = 20'", terminal=True)
    assert ">>>" in started.text
    assert "Session 1. It waits for input." in started.text
    assert "C-c" in started.text
    await typed(shelling, 1, "x + 22\n", "42\n>>>")
    await typed(shelling, 1, "while True: pass\n\n", "still runs", timeout=200)
    await typed(shelling, 1, "C-c", "KeyboardInterrupt")
    await typed(shelling, 1, "import os; print(os.get_terminal_size()[:], os.ttyname(0) != '', 'end')\n", "(80, 24)")
    ended = await typed(shelling, 1, "exit(3)\n", "The command has ended. Exit code 3.")
    assert "exit(3)" in ended
    assert [each.exit_code for each in shelling.workspace.background] == [3]


async def test_an_editor_and_a_password_prompt(shelling: Shelling) -> None:
    (shelling.workspace.folder / "notes.txt").write_text("milk\n")
    vi = await shelling.run(f"{VI} notes.txt", terminal=True, access="write")
    assert vi.text.startswith("milk\n~\n~")
    await typed(shelling, 1, "obutter\x1b", "milk\nbutter\n~")
    await typed(shelling, 1, ":wq\n", "The command has ended.")
    assert (shelling.workspace.folder / "notes.txt").read_text() == "milk\nbutter\n"
    # sudo, ssh and git ask on /dev/tty, whatever their input is.
    asks = await shelling.run(
        "read -sp 'Password: ' x </dev/tty 2>/dev/tty; echo; echo ${#x} </dev/null", terminal=True
    )
    assert "Password:" in asks.text
    assert "waits for input" in asks.text
    assert "hunter2" not in await typed(shelling, 2, "hunter2\n", "7")


async def test_its_terminal_is_its_own_and_no_other(shelling: Shelling) -> None:
    other, users = pty.openpty()
    try:
        name = os.ttyname(users)
        script = f"cat < {name} & echo stolen > {name}; tty < /dev/tty; wait; echo $?"
        access = "full" if shelling.tool.function.__self__._shell.sandbox is None else "read"  # type: ignore[attr-defined]
        text = (await shelling.run(script, terminal=True, access=access, timeout=1500)).text
        os.set_blocking(other, False)
        if access == "read":
            assert "No such file" in text or "Permission denied" in text
            with pytest.raises(BlockingIOError):
                os.read(other, 10)
        else:
            assert b"stolen" in os.read(other, 100)
    finally:
        os.close(other)
        os.close(users)


async def test_sessions_are_limited_listed_killed_and_end_with_the_workspace(tmp_path: Path) -> None:
    shelling, nap = Shelling(tmp_path), new_nap()
    for _ in range(MOST):
        await shelling.run(f"sleep {nap}", terminal=True, timeout=1)
    refused = await shelling.run("cat", terminal=True)
    assert refused.is_error
    assert f"{MOST} terminals are open" in refused.text
    assert "session 1 runs sleep" in refused.text
    killed = await shelling.run("Kill", session=1)
    assert "The command has ended." in killed.text
    assert "SIG" in killed.text
    gone = await shelling.run("x", session=99)
    assert gone.is_error
    assert "There is no session 99" in gone.text
    assert "session 2 runs sleep" in gone.text
    await until(lambda: len(sleepers(nap)) == MOST - 1)
    await asyncio.to_thread(shelling.workspace.close)
    assert not sleepers(nap)


async def test_a_cancelled_start_ends_the_command_and_a_cancelled_look_does_not(tmp_path: Path) -> None:
    shelling, nap = Shelling(tmp_path), new_nap()
    work = asyncio.ensure_future(shelling.run(f"sleep {nap}", terminal=True))
    await until(lambda: sleepers(nap))
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert not sleepers(nap)
    await shelling.run(f"sleep {nap}", terminal=True, timeout=1)
    await until(lambda: sleepers(nap))
    look = asyncio.ensure_future(shelling.run("", session=2))
    await asyncio.sleep(0)
    look.cancel()
    with pytest.raises(asyncio.CancelledError):
        await look
    assert sleepers(nap)
    await asyncio.to_thread(shelling.workspace.close)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """One with three commits."""
    commits = "for i in 1 2 3; do echo $i > f; git add f; git commit -qm c$i; done"
    identity = "git init -q; git config user.email a@b; git config user.name a; git config commit.gpgsign false"
    subprocess.run(f"{identity}; {commits}", shell=True, cwd=tmp_path, check=True)
    return tmp_path


async def test_a_rebase_in_an_editor(repository: Path) -> None:
    shelling = Shelling(repository)
    started = await shelling.run(f"GIT_EDITOR='{VI}' git rebase -i HEAD~2", terminal=True, access="full")
    assert started.text.startswith("pick ")
    await typed(shelling, 1, "jcwdrop\x1b", "\ndrop ")
    await typed(shelling, 1, ":wq\n", "Successfully rebased")
    assert (repository / "f").read_text() == "2\n"
    await asyncio.to_thread(shelling.workspace.close)


async def test_a_plain_command_that_wants_a_terminal_ends(shelling: Shelling) -> None:
    result = await shelling.run("read -p 'Name? ' x; cat </dev/tty; echo ended", timeout=20_000)
    assert "ended" in result.text
    assert result.details["exit_code"] == 0


# Moving a running command to the background


async def test_no_output_of_a_moved_command_is_lost(shelling: Shelling) -> None:
    command = "seq 1 50000; touch half 2>/dev/null; until [ -e go ]; do sleep 0.01; done; seq 50001 100000"
    work = asyncio.ensure_future(shelling.run(command))
    await shelling.until_shown("50000\n")
    assert shelling.workspace.background.move_running() == 1
    result = await work
    assert "The user has moved the command, with its output so far, to the background" in result.text
    assert not result.is_error
    assert result.details["task"] == 1
    assert shelling.workspace.background.move_running() == 0
    (shelling.workspace.folder / "go").touch()
    (moved,) = shelling.workspace.background
    await until(lambda: not moved.running)
    printed, _, ending = moved.path.read_text().rpartition("\n\n")
    assert printed.split("\n") == [str(number) for number in range(1, 100_001)]
    assert ending == "[The command has ended. Exit code 0.]\n"


async def test_a_moved_command_ends_with_the_workspace(shelling: Shelling) -> None:
    nap = new_nap()
    work = asyncio.ensure_future(shelling.run(f"echo up; sleep {nap}"))
    await shelling.until_shown("up")
    shelling.workspace.background.move_running()
    await work
    await until(lambda: sleepers(nap))
    await asyncio.sleep(1.5)  # an idle thread ends after a second, and bwrap with the thread that started it
    assert sleepers(nap)
    await asyncio.to_thread(shelling.workspace.close)
    assert not sleepers(nap)


async def test_a_command_that_a_flood_has_preceded_keeps_the_newest(tmp_path: Path) -> None:
    shelling = Shelling(tmp_path)
    work = asyncio.ensure_future(shelling.run("yes | head -c 25000000; echo last; sleep 100"))
    await shelling.until_shown("last")
    shelling.workspace.background.move_running()
    await work
    (moved,) = shelling.workspace.background
    text = moved.path.read_text()
    assert text.startswith("[")
    assert "bytes of older output are dropped.]\n" in text[:80]
    assert text.endswith("y\nlast\n")
    await asyncio.to_thread(shelling.workspace.close)
