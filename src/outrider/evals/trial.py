"""A trial: one attempt of one model at one task, in a folder of its own, as a task of a batch; and those of a log."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from outrider.batches.task import Task, TaskResult
from outrider.errors import SessionHeldError, UnknownSessionError
from outrider.evals.task_folder import TaskFolder
from outrider.evals.verifier import Verdict
from outrider.filesystem import make_private
from outrider.log.log import Log
from outrider.log.reader import LogReader
from outrider.log.session_filter import SessionFilter
from outrider.struct_types import described
from outrider.text.visible import safe_line

LONGEST_NAME = 80
"""Characters of a folder's name."""
LONGEST_ERROR = 200
"""Characters of an error that are kept with a session."""
ERROR = "error"
"""The status of a trial that says nothing of the model. Limits, such as `max_turns`, do."""
EVAL = "eval"
"""The key of metadata whose value is the eval's name."""
MOST_SESSIONS = 20_000
"""Sessions of batches that are looked at, the newest first."""


class Trial(msgspec.Struct, frozen=True):
    """What is tried."""

    task: TaskFolder
    model: str
    repeat: int
    """Counted from 1."""
    folder: Path
    """Where the agent works."""
    start: int = 1
    """Counted from 1: a trial that ended with an error is started again."""

    @property
    def id(self) -> str:
        """The name of the trial, once in an eval; each start has its own."""
        again = f" · start {self.start}" if self.start > 1 else ""
        return f"{self.task.name} · {self.model} · {self.repeat}{again}"

    def started_after(self, errors: int) -> Trial:
        """Return the trial in a folder of its own, if so many starts have ended with an error."""
        if not errors:
            return self
        folder = self.folder.with_name(f"start-{errors + 1}-{self.folder.name}")
        return msgspec.structs.replace(self, folder=folder, start=errors + 1)

    def prepare(self) -> None:
        """Copy the environment into the folder, unless an earlier process has. A killed copy does not count."""
        if self.folder.exists() or self.task.container:
            return
        make_private(self.folder.parent)
        partial = self.folder.with_name(f"{self.folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        if self.task.environment.is_dir():
            shutil.copytree(self.task.environment, partial, symlinks=True)
            (partial / "Dockerfile").unlink(missing_ok=True)
        else:
            partial.mkdir()
        partial.rename(self.folder)

    def batch_task(self, settings: Mapping[str, Any], limits: Mapping[str, Any]) -> Task:
        """Return the task of a batch. The settings are those of the agent that is measured."""
        limits = {"max_seconds": self.task.agent_seconds, **limits}
        metadata = {"task": self.task.name, "model": self.model, "repeat": self.repeat}
        return Task(
            self.task.instruction,
            id=self.id,
            model=self.model,
            cwd="" if self.task.container else str(self.folder),
            image=(self.task.image or "Dockerfile") if self.task.container else "",
            permissions="all",
            limits=dict(limits),
            settings=dict(settings),
            metadata=metadata,
        )


class Outcome(msgspec.Struct, frozen=True):
    """How a trial ended."""

    task: str
    model: str
    repeat: int
    reward: float
    status: str
    turns: int
    tokens: int
    cost: float | None
    seconds: float
    session: str
    error: str = ""
    """Why there is no result, if it ended with an error."""

    @property
    def is_solved(self) -> bool:
        """Whether the task was solved."""
        return self.reward >= 1

    @property
    def is_error(self) -> bool:
        """Whether it says nothing of the model: the API failed, or the tests could not judge."""
        return self.status == ERROR

    @property
    def trial(self) -> tuple[str, str, int]:
        """Which trial it was. One that ended with an error may have several outcomes."""
        return self.task, self.model, self.repeat


def standing(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Return the outcomes without the errors of trials that were started again."""
    found = list(outcomes)
    ended = {each.trial for each in found if not each.is_error}
    newest = {each.trial: each for each in found if each.is_error}
    return [each for each in found if not each.is_error or (each.trial not in ended and newest[each.trial] is each)]


def trials_of(tasks: Iterable[TaskFolder], models: Sequence[str], repeats: int, folder: Path) -> list[Trial]:
    """Return the trials: the first of every task and model before the second."""
    found = list(tasks)
    return [
        Trial(task, model, repeat, folder / _folder_name(task.name, model, repeat))
        for repeat in range(1, repeats + 1)
        for task in found
        for model in models
    ]


def _folder_name(task: str, model: str, repeat: int) -> str:
    """Return a name that any file system takes, and that no other trial has."""
    plain = re.sub(r"[^A-Za-z0-9.-]+", "-", f"{task}-{model}")[:LONGEST_NAME].strip("-.")
    digest = sha256("\0".join((task, model)).encode()).hexdigest()
    return f"{plain}-{digest[:6]}-{repeat}"


def judged(result: TaskResult, verdict: Verdict) -> TaskResult:
    """Return the result of a trial with what the tests say."""
    known = result.metadata if isinstance(result.metadata, dict) else {}
    result = msgspec.structs.replace(result, metadata={**known, "reward": verdict.reward, "tests": verdict.output})
    if not verdict.error or result.status == ERROR:
        return result
    return msgspec.structs.replace(result, status=ERROR, error=verdict.error)


def outcome_of(result: TaskResult) -> Outcome | None:
    """Return how a trial ended, or None if this is not the result of a trial."""
    known = result.metadata if isinstance(result.metadata, dict) else {}
    try:
        return Outcome(
            str(known["task"]),
            str(known["model"]),
            int(known["repeat"]),
            float(known["reward"]),
            result.status,
            result.turns,
            result.usage.total_tokens,
            result.usage.cost,
            result.seconds,
            result.session,
            result.error if result.status == ERROR else "",
        )
    except (KeyError, TypeError, ValueError):
        return None


class StoredEval(msgspec.Struct, frozen=True):
    """An eval, with the trials that have ended."""

    name: str
    updated: float
    outcomes: list[Outcome]

    @property
    def title(self) -> str:
        """The name of its results file."""
        return self.name.rpartition("-")[0]


def store(log: Log, name: str, outcome: Outcome) -> None:
    """Keep how a trial ended with its session. Again is as good as once."""
    fields = {**msgspec.structs.asdict(outcome), "error": safe_line(outcome.error)[:LONGEST_ERROR] or None}
    told = {key: str(value) for key, value in fields.items() if value is not None}
    with suppress(UnknownSessionError, SessionHeldError):  # it never began, or someone looks at it: the file has it
        log.annotate(outcome.session, metadata={**told, EVAL: name})


def stored_evals(log: LogReader, name: str = "") -> list[StoredEval]:
    """Return the evals of a log, the newest first, or the one with this name."""
    wanted = SessionFilter(origins=("batch",), metadata={EVAL: name} if name else {})
    found: dict[str, StoredEval] = {}
    for summary in log.sessions(MOST_SESSIONS, where=wanted):
        told = {"cost": None, **summary.metadata, "session": summary.id}
        with suppress(msgspec.MsgspecError, KeyError):  # other batches have none, and an import may say anything
            outcome = msgspec.convert(told, described(Outcome), strict=False)
            stored = StoredEval(summary.metadata[EVAL], summary.updated, [])
            found.setdefault(stored.name, stored).outcomes.append(outcome)
    return [msgspec.structs.replace(each, outcomes=standing(each.outcomes[::-1])) for each in found.values()]
