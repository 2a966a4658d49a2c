"""A task to be solved, in a folder of Harbor's format: an instruction, an environment, tests and a solution."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from outrider.errors import OutriderError
from outrider.struct_types import described

AGENT_SECONDS, TEST_SECONDS = 900.0, 300.0
"""How long an agent, and the tests, may take where the task does not say."""
CONTAINER_FOLDER = "/app"
"""Where the files are in a container of `--image`, as in most tasks of Harbor."""
COMPOSED = ("docker-compose.yaml", "docker-compose.yml")
_HARMLESS = re.compile(r"\s*(#.*|FROM\s.*|WORKDIR\s.*|COPY\s+\.\s+\S+|)$", re.IGNORECASE)
"""Lines of a Dockerfile that a copy of the environment's files stands for."""


class TaskFolderError(OutriderError, ValueError):
    """A folder is not a task; the message says why."""


class _Timed(msgspec.Struct):
    timeout_sec: float | None = None


class _TaskFile(msgspec.Struct):
    agent: _Timed = msgspec.field(default_factory=_Timed)
    verifier: _Timed = msgspec.field(default_factory=_Timed)
    environment: dict[str, Any] = {}
    metadata: dict[str, Any] = {}


class TaskFolder(msgspec.Struct, frozen=True):
    """A task."""

    name: str
    """The name of its folder."""
    path: Path
    instruction: str
    agent_seconds: float = AGENT_SECONDS
    test_seconds: float = TEST_SECONDS
    difficulty: str = ""
    container: str = ""
    """Why it needs a container; empty if a copy of its files is enough."""
    image: str = ""
    """The image of its container; empty if the Dockerfile of its environment describes it."""
    container_options: tuple[str, ...] = ()
    """What the container is made with: its share of the machine, and whether it has a network."""
    is_composed: bool = False
    """Whether it needs several containers, which Outrider does not make."""
    copied_to: str = ""
    """Where the files of the environment are copied in the container; empty if its image has them."""

    @property
    def environment(self) -> Path:
        """The folder with the files that the agent finds."""
        return self.path / "environment"

    def slowed(self, times: float) -> TaskFolder:
        """Return the task with that many times as many seconds for the agent."""
        return msgspec.structs.replace(self, agent_seconds=self.agent_seconds * times)

    @property
    def tests(self) -> Path:
        """The folder with `test.sh`, which the agent does not see."""
        nested = self.path / "tests"
        return nested if nested.is_dir() else self.path

    @property
    def solution(self) -> Path | None:
        """The script that solves it, if there is one."""
        found = self.path / "solution" / "solve.sh"
        return found if found.is_file() else None

    def in_image(self, image: str) -> TaskFolder:
        """Return the task in a container of this image, unless it has one of its own."""
        if self.container:
            return self
        why = f"--image {image}"
        return msgspec.structs.replace(self, container=why, image=image, copied_to=CONTAINER_FOLDER)


def find_tasks(places: Iterable[Path]) -> list[TaskFolder]:
    """Return the tasks in these folders, each of which is one or has some, by name. Raises TaskFolderError."""
    found: dict[str, TaskFolder] = {}
    for place in places:
        for folder in _folders_in(place):
            task = read_task(folder)
            if task.name in found and found[task.name].path != task.path:
                raise TaskFolderError(f"two tasks have the name {task.name!r}: {found[task.name].path} and {folder}")
            found[task.name] = task
    return list(found.values())


def _folders_in(place: Path) -> list[Path]:
    """Return the folder, if it is a task, or else the tasks in it. Raises TaskFolderError."""
    if (place / "task.toml").exists():
        return [place]
    instructed = sorted(each.parent for each in place.glob("*/instruction.md"))
    if missing := [each for each in instructed if not (each / "task.toml").exists()]:
        names = ", ".join(map(str, missing))
        raise TaskFolderError(f"{names}: there is an instruction.md, but no task.toml; a task has both")
    folders = sorted(each.parent for each in place.glob("*/task.toml"))
    if not folders:
        raise TaskFolderError(f"{place} has no tasks; a task is a folder with task.toml and instruction.md")
    return folders


def read_task(folder: Path) -> TaskFolder:
    """Read a task. Raises TaskFolderError."""
    file = folder / "task.toml"
    try:
        read = msgspec.convert(tomllib.loads(file.read_text()), described(_TaskFile))
        instruction = (folder / "instruction.md").read_text().strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise TaskFolderError(f"{folder} is not a task: {reason or 'it cannot be read'}") from None
    if not instruction:
        raise TaskFolderError(f"{folder}/instruction.md is empty")
    task = TaskFolder(
        folder.resolve().name,
        folder.resolve(),
        instruction,
        _seconds(file, "agent", read.agent, AGENT_SECONDS),
        _seconds(file, "verifier", read.verifier, TEST_SECONDS),
        str(read.metadata.get("difficulty", "")),
        _needed_container(folder / "environment", read.environment),
        str(read.environment.get("docker_image") or ""),
        tuple(_container_options(read.environment)),
        any((folder / "environment" / name).exists() for name in COMPOSED),
    )
    if not (task.tests / "test.sh").is_file():
        raise TaskFolderError(f"{folder} is not a task: it has no tests/test.sh")
    return task


def _seconds(file: Path, section: str, timed: _Timed, usual: float) -> float:
    if timed.timeout_sec is None:
        return usual
    if not 0 < timed.timeout_sec < 7 * 86_400:
        raise TaskFolderError(f"{file}: {section}.timeout_sec must be over 0, and less than a week")
    return timed.timeout_sec


def _needed_container(environment: Path, said: dict[str, Any]) -> str:
    """Return why a copy of the files is not the environment, or an empty text."""
    if said.get("docker_image"):
        return f"it starts from the image {said['docker_image']}"
    for name in COMPOSED:
        if (environment / name).exists():
            return f"its environment is described by {name}"
    dockerfile = environment / "Dockerfile"
    lines = dockerfile.read_text(errors="replace").splitlines() if dockerfile.exists() else ()
    other = next((line.strip() for line in lines if not _HARMLESS.match(line)), "")
    return f"its Dockerfile says {other[:60]!r}" if other else ""


def _container_options(said: dict[str, Any]) -> Iterator[str]:
    if isinstance(cpus := said.get("cpus"), int | float) and not isinstance(cpus, bool):
        yield from ("--cpus", f"{cpus:g}")
    if isinstance(memory := said.get("memory_mb"), int) and not isinstance(memory, bool):
        yield from ("--memory", f"{memory}m")
    if said.get("allow_internet") is False:
        yield from ("--network", "none")
