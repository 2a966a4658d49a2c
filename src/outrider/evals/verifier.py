"""The tests of a task, run on a copy of what an agent left: in the sandbox, and out of the agent's reach."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import stat
from collections.abc import Sequence
from math import inf
from pathlib import Path

import msgspec

from outrider.coding.config.access_settings import PermissionSettings
from outrider.coding.config.settings import Settings
from outrider.coding.workbench import Workbench
from outrider.evals.task_folder import TaskFolder
from outrider.temporary_folder import TemporaryFolder
from outrider.testing.contexts import tool_context
from outrider.text.visible import one_line, safe_line
from outrider.tools.result import ToolResult

LOGS = "OUTRIDER_LOGS"
"""The variable with the folder that stands for Harbor's `/logs`."""
SHOWN = 2_000
"""Characters of the end of what the tests print."""
LONGEST_ERROR = 300
MOST_NAMED = 60
"""Characters of a wrong reward that are named."""
MOST_SECONDS = 600.0


class Verdict(msgspec.Struct, frozen=True):
    """What the tests say."""

    reward: float
    """1 for a solved task, 0 for one that is not; tests may give anything between."""
    output: str = ""
    """The end of what they printed, or why there is no reward: then it is 0."""
    error: str = ""
    """Why they could not judge: they wrote a reward that is none, or the folder or the container was not to be had."""

    @property
    def is_solved(self) -> bool:
        """Whether the task is solved."""
        return self.reward >= 1


async def verify(task: TaskFolder, work: Path, script: Path | None = None) -> Verdict:
    """Run the tests on a copy of a folder. A script, such as the solution, runs there before.

    Tests run code that a model wrote, so they have what a command at `write` has: the copy, and no network.
    """
    folder = TemporaryFolder()
    try:
        try:
            await asyncio.to_thread(_fill, folder.path, task, work, script)
        except OSError as error:
            return Verdict(0.0, error=one_line(f"the folder of the trial cannot be copied: {error}", LONGEST_ERROR))
        bench = Workbench(Settings(tools=("Bash",), permissions=PermissionSettings(mode="all")), folder.path)
        try:
            if script:
                await _run(bench, shlex.join(["bash", f"../solution/{script.name}"]), task.agent_seconds)
            ended = await _run(bench, "bash ../tests/test.sh", task.test_seconds)
        finally:
            await asyncio.to_thread(bench.close)
        logs = folder.path / "logs" / "verifier"
        files = [each for name in ("reward.txt", "reward.json") if (each := logs / name).is_file()]
        return verdict(files[0].read_text(errors="replace") if files else "", ended.text[-SHOWN:])
    finally:
        await asyncio.to_thread(folder.remove)


def _fill(folder: Path, task: TaskFolder, work: Path, script: Path | None) -> None:
    if work != task.environment or work.is_dir():
        shutil.copytree(work, folder / "app", symlinks=True, ignore=_uncopied)
    else:
        (folder / "app").mkdir()
    shutil.copytree(task.tests, folder / "tests", symlinks=True)
    if script:
        shutil.copytree(script.parent, folder / "solution", symlinks=True)
    (folder / "logs" / "verifier").mkdir(parents=True)


def _uncopied(folder: str, names: Sequence[str]) -> set[str]:
    """Return what no copy can have: sockets and pipes that programs of the agent left, and what cannot be read."""

    def is_copied(path: str) -> bool:
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            return True
        needed = os.R_OK | os.X_OK if stat.S_ISDIR(mode) else os.R_OK
        return (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) and os.access(path, needed)

    return {name for name in names if not is_copied(os.path.join(folder, name))}


async def _run(bench: Workbench, command: str, seconds: float) -> ToolResult:
    """Run a command in the folder of the agent, as the tool Bash does it."""
    bash = next(tool for tool in bench.tools if tool.name == "Bash")
    app, logs = (shlex.quote(str(bench.folder / name)) for name in ("app", "logs"))
    line = f"export {LOGS}={logs}; cd {app} && {command}"
    given = {"command": line, "access": "write", "timeout": min(seconds, MOST_SECONDS) * 1000}
    return await bash.invoke(given, tool_context(cwd=bench.folder))


def verdict(wrote: str, said: str) -> Verdict:
    """Return the verdict of tests that wrote a reward, or nothing, and printed something."""
    reward = reward_of(wrote)
    if reward is None:
        return Verdict(0.0, f"{said}\nThe tests wrote no reward.".strip())
    if not 0 <= reward <= 1:  # also nan
        shown = safe_line(wrote.strip())[:MOST_NAMED]
        return Verdict(0.0, said, f"the tests wrote the reward {shown}; it must be a number from 0 to 1")
    return Verdict(reward, said)


def reward_of(text: str) -> float | None:
    """Return the number that tests wrote, alone or as the field `reward` of JSON; None if there is none.

    >>> reward_of("0.5"), reward_of('{"reward": 1}'), reward_of("1e400"), reward_of("much")
    (0.5, 1.0, inf, None)
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = text  # Python takes more for a number than JSON does
    try:
        return float(data["reward"] if isinstance(data, dict) else data)
    except OverflowError:
        return inf
    except (ValueError, TypeError, KeyError):
        return None
