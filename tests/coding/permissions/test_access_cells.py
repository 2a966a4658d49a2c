"""Each mode with each access level, with real commands: what runs, what asks, what is refused.

A hostile program with a name of the short list is first on the PATH, inside the project. It never runs unasked.
"""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path

import pytest

from outrider.coding.access import ACCESS_LEVELS, Access
from outrider.coding.config.access_settings import PermissionSettings, SandboxSettings
from outrider.coding.config.settings import Settings
from outrider.coding.front_end import FrontEnd
from outrider.coding.permissions.question import MODES, Answer, Mode, Question
from outrider.coding.workbench import Workbench
from outrider.conversation.messages import ToolResultBlock, ToolUseBlock
from outrider.runtime.session import Session
from outrider.testing import ScriptedModel, call
from outrider.tools.approval import Allow, Deny
from outrider.tools.tool import Tool
from tests.coding.sandbox.world import mechanisms

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="shells of POSIX")

SANDBOXED = [False, *([True] if "bubblewrap" in mechanisms() else [])]
TABLE: dict[Mode, dict[Access, str]] = {
    "plan": {"read": "runs", "write": "refused", "network": "refused", "full": "refused"},
    "ask": {"read": "runs", "write": "asks", "network": "asks", "full": "asks"},
    "edits": {"read": "runs", "write": "runs", "network": "asks", "full": "asks"},
    "all": dict.fromkeys(ACCESS_LEVELS, "runs"),
}
EVIL = "#!/bin/sh\ntouch '{folder}/../ran-outside' 2>/dev/null\ntouch '{folder}/ran' 2>/dev/null\necho evil\n"


class Project:
    """A project with a hostile `nproc` first on the PATH, and a session that calls Bash once."""

    def __init__(self, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = base / "project"
        programs = self.folder / "node_modules" / ".bin"
        programs.mkdir(parents=True)
        for name in ("nproc", "bash", "sh", "env", "bwrap"):
            (programs / name).write_text(EVIL.format(folder=self.folder))
            (programs / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
        self.asked: list[Question] = []
        self.result = ToolResultBlock("", ())

    @property
    def evil_ran(self) -> bool:
        return (self.folder / "ran").exists() or self.escaped

    @property
    def escaped(self) -> bool:
        return (self.folder.parent / "ran-outside").exists()

    async def run(
        self, command: str, access: Access, mode: Mode, *, sandboxed: bool, allow: tuple[str, ...] = ()
    ) -> str:
        """Return "runs", "asks" or "refused", and keep the result. Questions are answered with no."""
        use = SandboxSettings(use="require" if sandboxed else "off")
        settings = Settings(permissions=PermissionSettings(mode=mode, allow=allow), sandbox=use)
        bench = Workbench(settings, self.folder, front_end=FrontEnd(self._ask))
        try:
            agent = bench.agent(model=ScriptedModel([[call("Bash", command=command, access=access)], "done"]))
            session = Session(agent, cwd=self.folder, approve=bench.permissions)
            await session.run("go")
            [self.result] = [each for message in session.history.tail for each in message.tool_results]
        finally:
            bench.close()
        return "asks" if self.asked else "refused" if "was not run" in self.result.text else "runs"

    async def _ask(self, question: Question) -> Answer:
        self.asked.append(question)
        return Answer("no")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("OUTRIDER_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("OUTRIDER_CONFIG", str(tmp_path / "config.toml"))
    return Project(tmp_path, monkeypatch)


CELLS = list(itertools.product(MODES, ACCESS_LEVELS, SANDBOXED))


@pytest.mark.sampled(13)
@pytest.mark.parametrize(("mode", "access", "sandboxed"), CELLS)
async def test_a_command_that_no_list_knows(project: Project, mode: Mode, access: Access, sandboxed: bool) -> None:
    expected = TABLE[mode][access]
    if not sandboxed and mode != "all":  # then every level is `full`, and nothing holds the command
        expected = "refused" if mode == "plan" else "asks"
    assert await project.run("printf %s 1 | wc -c; umask", access, mode, sandboxed=sandboxed) == expected


@pytest.mark.sampled(13)
@pytest.mark.parametrize(("mode", "access", "sandboxed"), CELLS)
async def test_a_name_of_the_short_list_is_the_systems_program_or_is_confined(
    project: Project, mode: Mode, access: Access, sandboxed: bool
) -> None:
    ended = await project.run("nproc", access, mode, sandboxed=sandboxed)
    if access == "full" or mode == "plan":
        assert ended == ("runs" if mode == "plan" and access == "read" else TABLE[mode][access])
    else:
        assert ended == "runs"
    agreed = mode == "all" or (sandboxed and mode == "edits" and access == "write")
    if ended == "runs" and not sandboxed and mode != "all":
        assert project.result.text.strip().isdecimal()
    if not agreed:
        assert not project.evil_ran
    if not (mode == "all" and (access == "full" or not sandboxed)):
        assert not project.escaped


@pytest.mark.parametrize("sandboxed", SANDBOXED)
async def test_a_line_that_a_rule_covers_in_part_does_not_run_the_projects_program(
    project: Project, sandboxed: bool
) -> None:
    ended = await project.run("true1 && nproc", "full", "ask", sandboxed=sandboxed, allow=("Bash(true1)",))
    assert ended == "asks"
    assert not project.evil_ran


async def test_without_a_sandbox_a_covered_line_asks_if_another_program_has_the_name(project: Project) -> None:
    for command, expected in (("hostname; nproc", "asks"), ("hostname; uname", "runs")):
        project.asked.clear()
        assert await project.run(command, "read", "ask", sandboxed=False, allow=("Bash(hostname)",)) == expected
    assert not project.evil_ran


async def test_a_link_that_is_swapped_after_the_check_is_not_read(project: Project) -> None:
    """Without a sandbox, a command that nobody was asked about is checked again when it starts."""
    (project.folder / "harmless").write_text("harmless\n")
    (project.folder / ".env").write_text("KEY=canary\n")
    (project.folder / "link").symlink_to("harmless")
    settings = Settings(sandbox=SandboxSettings(use="off"))
    bench = Workbench(settings, project.folder, front_end=FrontEnd(project._ask))

    async def approve_then_swap(use: ToolUseBlock, tool: Tool) -> Allow | Deny:
        approval = await bench.permissions(use, tool)
        (project.folder / "link").unlink()
        (project.folder / "link").symlink_to(".env")
        return approval

    try:
        agent = bench.agent(model=ScriptedModel([[call("Bash", command="cat link")], "done"]))
        session = Session(agent, cwd=project.folder, approve=approve_then_swap)
        await session.run("go")
        [result] = [each for message in session.history.tail for each in message.tool_results]
    finally:
        bench.close()
    assert "canary" not in result.text
    assert "a file that it names has changed since it was checked" in result.text
