"""`Task`, one line of a batch, and `TaskResult`, what became of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Generic, cast

import msgspec
from msgspec import UNSET

from outrider.conversation.usage import Usage
from outrider.errors import RunError
from outrider.log.questions import Question
from outrider.providers.base import EFFORTS
from outrider.runtime.limits import Limits
from outrider.runtime.run import OutputT
from outrider.struct_types import described
from outrider.text import clean_value

LONGEST_ID = 200
"""Characters of a task's id."""
ANSWERED = ("done",)
_IMAGE = re.compile(r"[A-Za-z0-9][\w./:@-]*")


class Task(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One task of a batch. All that a worker needs travels with it, except for the files of its tools.

    >>> Task("Review a.py", id="a").id
    'a'
    """

    prompt: str
    """What the agent is asked."""
    id: str = ""
    """The name of the task, once in a batch. Empty for its position, counted from 1."""
    model: str = ""
    """The model that answers; empty for the default of the batch or of the agent."""
    effort: str = ""
    """How much the model thinks; empty for the default."""
    cwd: str = ""
    """The working folder, which the worker must have; empty for the folder that the worker started in."""
    repository: str = ""
    """A git repository, instead of `cwd`: the worker checks it out into a workspace of the task's own."""
    revision: str = ""
    """The branch, tag or commit of the repository; empty for its default branch."""
    image: str = ""
    """An image, for tasks of the coding agent: the worker makes a container of it, in which the tools work, in the
    folder `cwd` or that of the image, and removes it afterwards."""
    schema: dict[str, Any] | bool | None = None
    """The JSON Schema of the answer; None for text."""
    limits: dict[str, Any] = {}
    """Limits of the run by the names of `Limits`; others have their defaults."""
    permissions: str = ""
    """Which calls run: ask, edits, all or plan; for tasks of the coding agent."""
    allow: tuple[str, ...] = ()
    """Rules for calls that run without approval; for tasks of the coding agent."""
    ask_later: bool = False
    """Whether calls that need approval wait for an answer, instead of being denied; for tasks of the coding agent."""
    tools: tuple[str, ...] | None = None
    """The names of the built-in tools to offer; None for all. For tasks of the coding agent."""
    system_prompt: str | None = None
    """Replaces the system prompt of the coding agent."""
    settings: dict[str, Any] = {}
    """More settings of the coding agent by their keys, as in {"lean": "on"}."""
    metadata: Any = None
    """Any JSON. It comes back with the result."""
    isolation: str = ""
    """`worktree`: the task works in a git worktree of its `cwd`, whose changes are merged when it is done, or kept in a
    branch that is named for its session; for tasks of the coding agent."""

    def checked(self) -> Task:
        """Return the task with clean text. Raises ValueError or SchemaError, which say what is wrong."""
        if not self.prompt.strip():
            raise ValueError("the prompt is empty")
        if len(self.id) > LONGEST_ID:
            raise ValueError(f"the id has {len(self.id)} characters; at most {LONGEST_ID} are possible")
        if self.effort not in ("", *EFFORTS):
            raise ValueError(f"effort is {self.effort!r}; it must be one of {', '.join(EFFORTS)}")
        if self.isolation not in ("", "worktree"):
            raise ValueError(f"isolation is {self.isolation!r}; it must be worktree")
        if self.isolation and self.repository:
            raise ValueError("a task with a repository has a checkout of its own: leave isolation out")
        if self.cwd and self.repository:
            raise ValueError("a task has a cwd or a repository, not both")
        if self.image and (self.repository or not _IMAGE.fullmatch(self.image)):
            reason = "has an image or a repository, not both" if self.repository else f"has no image {self.image!r}"
            raise ValueError(f"a task {reason}: an image is named as in python:3.12 or host/name@sha256:…")
        if self.repository or self.revision:
            from outrider.batches.workspaces import check_repository  # few tasks have one

            check_repository(self.repository, self.revision)
        self.run_limits(Limits())
        if self.schema is not None:
            from outrider.runtime.structured_output import Report  # few programs have tasks with a schema

            Report(self.schema)
        fields = msgspec.structs.asdict(self)
        cleaned = clean_value(fields)
        return self if cleaned is fields else msgspec.convert(cleaned, described(Task))

    def run_limits(self, usual: Limits) -> Limits:
        """Return the limits of the task's run. Raises ValueError."""
        unknown = [name for name in self.limits if name not in Limits.__struct_fields__]
        if unknown:
            known = ", ".join(Limits.__struct_fields__)
            raise ValueError(f"there is no limit {unknown[0]!r}; there are {known}")
        try:
            return msgspec.convert({**msgspec.to_builtins(usual), **self.limits}, described(Limits))
        except msgspec.ValidationError as error:
            raise ValueError(f"limits: {error}") from None


class UnknownCall(msgspec.Struct, frozen=True):
    """A call whose outcome is unknown: its worker died or was stopped while it ran. It was not run again."""

    id: str
    tool: str


class TaskResult(msgspec.Struct, Generic[OutputT], frozen=True, omit_defaults=False):
    """The result of a task. Failures set `status` and `error`.

    `TaskResult[T]` is a result of `batch(output=T)`: its `output` is a T. Without `output=` it is the text.
    """

    id: str
    """The id of the task."""
    status: str
    """`done`, `waiting` for an answer, the limit that stopped the run, `cancelled`, or `error`."""
    text: str = ""
    """The answer; with a schema, the data as JSON."""
    structured_output: Any = None
    """The data that satisfies the schema of the task, as decoded JSON."""
    error: str = ""
    """Why there is no answer."""
    session: str = ""
    """The id of the task's session in the log."""
    model: str = ""
    """The model that answered."""
    turns: int = 0
    """Replies of the model."""
    usage: Usage = Usage()
    """The usage of all attempts, sub-agents included."""
    seconds: float = 0.0
    """Wall time of the attempt that finished the task."""
    attempts: int = 1
    """How often a worker took the task. Each attempt continues the session of the one before."""
    unknown_calls: tuple[UnknownCall, ...] = ()
    """Calls whose outcome is unknown because a worker died in them."""
    metadata: Any = None
    """The metadata of the task."""
    questions: tuple[Question, ...] = ()
    """What the task waits for, if the status is `waiting`. Once `log.answer` has answered, a worker goes on with it."""
    value: Any = UNSET
    """What `output` returns, if the batch has a type for it. It is not stored."""

    @property
    def output(self) -> OutputT:
        """The answer: a value of the type that `batch(output=…)` named, or else the text.

        Raises RunError if the task has none; its `result` is this one.
        """
        if not self.is_done:
            raise RunError(f"task {self.id} has no answer ({self.status}): {self.error}", self)
        return cast("OutputT", self.text if self.value is UNSET else self.value)

    @property
    def is_done(self) -> bool:
        """Whether there is an answer."""
        return self.status in ANSWERED

    @property
    def awaited(self) -> tuple[list[str], float | None]:
        """The ids of the questions, and the first of their deadlines."""
        deadlines = [each.deadline for each in self.questions if each.deadline is not None]
        return [each.id for each in self.questions], min(deadlines, default=None)


def make_task(given: Task | Mapping[str, Any] | str, number: int) -> Task:
    """Return the task with an id, its number if it has none. Raises ValueError or SchemaError."""
    if isinstance(given, str):
        given = Task(given)
    elif isinstance(given, Mapping):
        given = _converted(given)
    elif not isinstance(given, Task):
        raise ValueError(f"a task is text, a Task or a mapping, not {type(given).__name__}")
    task = given.checked()
    return task if task.id else msgspec.structs.replace(task, id=str(number))


def _converted(fields: Mapping[str, Any]) -> Task:
    fields = dict(fields)
    unknown = [name for name in fields if name not in Task.__struct_fields__]
    if unknown:
        raise ValueError(f"there is no field {unknown[0]!r}; a task has {', '.join(Task.__struct_fields__)}")
    if "prompt" not in fields:
        raise ValueError("the prompt is missing")
    if isinstance(fields.get("id"), int) and not isinstance(fields["id"], bool):
        fields["id"] = str(fields["id"])  # data sets count their rows
    try:
        return msgspec.convert(fields, described(Task))
    except msgspec.ValidationError as error:
        raise ValueError(str(error).replace("`$.", "`").replace(" - at ", ", at ")) from None


def session_of(batch: str, task: str) -> str:
    """Return the id of a task's session. It is the same for every attempt, so that a retaken task resumes it."""
    from hashlib import sha256  # loads OpenSSL, which is slow

    return sha256(f"{batch}\0{task}".encode()).hexdigest()[:32]
