"""Trials in containers: for tasks whose environment is an image or a Dockerfile, as in Harbor."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from outrider.coding.hands.containers import Containers
from outrider.errors import HandsError
from outrider.evals.task_folder import TaskFolder
from outrider.evals.trial import Trial
from outrider.evals.verifier import SHOWN, Verdict, verdict

CLEAN = "rm -rf /tests /solution /logs/verifier && mkdir -p /logs/verifier"
"""What the agent may have left where the tests and their result will be is removed."""
REWARD = "cat /logs/verifier/reward.txt 2>/dev/null || cat /logs/verifier/reward.json"


class TrialContainers:
    """The containers of an eval: one for each trial, in which the agent works and the tests run."""

    def __init__(self, containers: Containers) -> None:
        self._containers = containers
        self._images: dict[Path, str] = {}
        self.names: dict[str, str] = {}
        """The container of each trial by its id."""

    async def prepare(self, trials: Iterable[Trial]) -> None:
        """Build or name the images, and make a container for each trial. Raises HandsError."""
        for trial in trials:
            self.names[trial.id] = await self._create(trial.task, str(trial.folder))

    def settings(self, trial: Trial) -> dict[str, str]:
        """Return the settings that let the agent's tools work in the container of a trial."""
        place = f"container:{self.names[trial.id]}{trial.task.copied_to}"
        return {"workspace": place, "container_program": self._containers.engine.program}

    async def verify(self, trial: Trial) -> Verdict:
        """Run the tests in the container of a trial, and remove it."""
        return await self._judge(trial.task, self.names.pop(trial.id))

    async def try_solution(self, task: TaskFolder, script: Path | None) -> Verdict:
        """Run the tests in a new container, after a script if there is one."""
        return await self._judge(task, await self._create(task, f"{task.path} {os.getpid()}"), script)

    async def close(self) -> None:
        """Remove what is left."""
        await self._containers.close()

    async def _create(self, task: TaskFolder, key: str) -> str:
        if task.path not in self._images:
            self._images[task.path] = task.image or await self._containers.build(task.environment)
        name = await self._containers.create(self._images[task.path], key, task.container_options)
        if task.copied_to and task.environment.is_dir():
            await self._containers.engine.run("cp", f"{task.environment}/.", f"{name}:{task.copied_to}")
        return name

    async def _judge(self, task: TaskFolder, name: str, script: Path | None = None) -> Verdict:
        run = self._containers.engine.run
        try:
            await run("restart", "--time", "0", name)  # nothing that the agent started runs on
            await run("exec", name, "sh", "-c", CLEAN)
            if script:
                await run("cp", str(script.parent), f"{name}:/solution")
                solve = _in_folder(task, f"bash {shlex.quote(f'/solution/{script.name}')}")
                await run("exec", name, "sh", "-c", solve, seconds=task.agent_seconds)
            await run("cp", str(task.tests), f"{name}:/tests")
            return verdict(*await self._tested(task, name))
        except HandsError as error:
            return Verdict(0.0, str(error), await self._fault(name))
        finally:
            await self._containers.remove(name)

    async def _fault(self, name: str) -> str:
        """Return why the engine could not judge, or "" if it has the container: then what the agent did is wrong."""
        try:
            await self._containers.engine.run("inspect", "--type", "container", "--format", "{{.Name}}", name)
        except HandsError as error:
            return f"the container of the trial is gone: {error}"
        return ""

    async def _tested(self, task: TaskFolder, name: str) -> tuple[str, str]:
        """Return what the tests wrote as the reward, and the end of what they print. Their exit code does not count."""
        run = self._containers.engine.run
        script = _in_folder(task, "bash /tests/test.sh 2>&1; true")
        said = await run("exec", name, "sh", "-c", script, seconds=task.test_seconds)
        wrote = ""
        with suppress(HandsError):
            wrote = await run("exec", name, "sh", "-c", REWARD)
        return wrote, said[-SHOWN:]


def _in_folder(task: TaskFolder, command: str) -> str:
    """Return the command in the working folder of a task, where that is not the container's own."""
    return f"cd {task.copied_to} && {command}" if task.copied_to else command
