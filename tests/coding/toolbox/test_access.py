"""The access level of a command: it reaches the sandbox, and a result says when it was too low."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from outrider.coding.access import ACCESS_LEVELS, Access
from outrider.coding.sandbox.sandbox import Confinement
from outrider.coding.toolbox import standard_tools
from outrider.coding.toolbox.shell.outcomes import missing_access
from outrider.coding.toolbox.shell.shell import Shell
from outrider.coding.toolbox.titles import title
from outrider.coding.toolbox.workspace import Workspace
from tests.coding.toolbox.calling import call


class RecordingSandbox:
    """A sandbox that confines nothing and records how it was asked."""

    name = "recording"

    def __init__(self) -> None:
        self.asked: list[tuple[Access, Confinement]] = []

    def doubts(self, access: Access, places: Confinement) -> tuple[str, ...]:
        return ()

    def wrap(self, argv: Sequence[str], access: Access, places: Confinement) -> list[str]:
        self.asked.append((access, places))
        return list(argv)


async def run(folder: Path, sandbox: RecordingSandbox, **arguments: Any) -> str:
    workspace = Workspace(folder)
    try:
        more = (folder / "more",)
        places = Confinement(folder=folder, cwd=folder, temporary=folder, writable=more, secrets=("*.pem",))
        shell = Shell(workspace, sandbox, places=lambda _: places)
        [tool] = standard_tools(workspace, ["Bash"], shell=shell)
        return (await call(tool, **arguments)).text
    finally:
        workspace.close()


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("access", [None, *ACCESS_LEVELS])
async def test_the_level_reaches_the_sandbox(tmp_path: Path, access: Access | None, background: bool) -> None:
    sandbox = RecordingSandbox()
    given = {} if access is None else {"access": access}
    await run(tmp_path, sandbox, command="true", run_in_background=background, **given)
    [(level, places)] = sandbox.asked
    assert level == (access or "read")
    assert (places.folder, places.writable, places.secrets) == (tmp_path, (tmp_path / "more",), ("*.pem",))


async def test_a_result_names_the_missing_level(tmp_path: Path) -> None:
    text = await run(
        tmp_path, RecordingSandbox(), command="echo \"touch: cannot touch 'x': Read-only file system\"; exit 1"
    )
    assert "It seems to need access write (changes files in the folder, no network)" in text
    assert "access write" not in await run(tmp_path, RecordingSandbox(), command="echo x: Read-only file system")


@pytest.mark.parametrize(
    ("access", "output", "needed"),
    [
        ("read", "touch: cannot touch 'x': Read-only file system", "write"),
        ("read", "bash: line 1: out.txt: Read-only file system", "write"),
        ("read", "OSError: [Errno 30] Read-only file system: '{folder}/cache'", "write"),
        ("read", "mkdir: cannot create directory ‘build’: Permission denied", "write"),
        ("read", "fatal: Unable to create '{folder}/.git/index.lock': Read-only file system", "full"),
        ("write", "fatal: Unable to create '{folder}/.git/index.lock': Read-only file system", "full"),
        ("write", "touch: cannot touch '{folder}/.vscode/x': Read-only file system", "full"),
        ("write", "touch: cannot touch '{folder}/.vscode/x': Permission denied", "full"),
        ("read", "touch: cannot touch '{outside}/x': Read-only file system", "full"),
        ("network", "touch: cannot touch '{outside}/x': Read-only file system", "full"),
        ("read", "curl: (6) Could not resolve host: example.com", "network"),
        ("write", "npm error request to https://x failed, reason: getaddrinfo EAI_AGAIN x", "network"),
        ("write", "ping: connect: Network is unreachable", "network"),
        ("read", "ssh: Could not resolve hostname x: Temporary failure in name resolution", "network"),
        ("network", "curl: (6) Could not resolve host: example.com", ""),
        ("full", "touch: cannot touch 'x': Read-only file system", ""),
        ("read", "FAILED tests/test_x.py::test_y - AssertionError: assert 1 == 2", ""),
        ("read", "./run.sh: Permission denied", ""),
        ("read", "cat: notes.txt: Permission denied", ""),
        ("read", "ModuleNotFoundError: No module named 'x'", ""),
        ("read", "E   assert 'Permission denied' in text", ""),
        ("read", "touch: cannot touch 'x': Read-only file system" + "\nmore" * 20, ""),
        ("read", "", ""),
    ],
)
def test_the_level_is_found_from_the_end_of_the_output(
    tmp_path: Path, access: Access, output: str, needed: str
) -> None:
    folder, outside = tmp_path / "work", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    for name in ("run.sh", "notes.txt"):
        (folder / name).write_text("x")
    text = output.format(folder=folder, outside=outside) if "{" in output else output
    note = missing_access(access, 1, text, folder, [folder])
    assert (f"It seems to need access {needed} " in note) if needed else note == ""
    assert missing_access(access, 0, text, folder, [folder]) == ""


def test_the_title_of_a_call_shows_the_level() -> None:
    assert title("Bash", {"command": "npm ci", "access": "network"}) == "Bash(npm ci) with access network"
    assert title("Bash", {"command": "ls", "access": "read"}) == "Bash(ls)"
