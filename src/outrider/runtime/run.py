"""`RunResult`: what a run returns. The loop itself is in `agent_loop.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, cast

import msgspec
from msgspec import UNSET

from outrider.conversation.items import ByItem
from outrider.conversation.messages import Citation, Message
from outrider.conversation.store import AttachmentStore
from outrider.conversation.usage import Usage
from outrider.errors import RunError
from outrider.log.questions import Question
from outrider.providers.base import StopReason
from outrider.runtime.events import RunStatus

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    OutputT = TypeVar("OutputT", default=str, covariant=True)
else:  # type variables have defaults only since Python 3.13
    from typing import TypeVar

    OutputT = TypeVar("OutputT", covariant=True)

ENDINGS: Mapping[RunStatus, str] = {
    "max_turns": "The limit of turns is reached (limits.max_turns). Say “go on” to continue.",
    "max_total_tokens": "The limit of tokens is reached (limits.max_total_tokens). Say “go on” to continue.",
    "max_cost": "The limit of the cost is reached (limits.max_cost). Say “go on” to continue.",
    "max_repeats": "The model repeated the same calls, or failed its goal in the same way, and was stopped "
    "(limits.max_repeats). Tell it what to do differently, or say “go on”.",
    "max_checks": "The goal is not reached, and was checked as often as it may be (limits.max_checks). Say “go on” to "
    "continue, or end it with /goal off.",
    "max_seconds": "The limit of time is reached (limits.max_seconds). Say “go on” to continue.",
    "budget": "Today's budget is used up (budget.day). Say “go on” tomorrow, or after raising it.",
    "cancelled": "Interrupted. The conversation so far is kept.",
    "waiting": "Waiting for an answer. It goes on from here once there is one.",
    "suspended": "Suspended. Open the session again to go on where it stopped.",
}
"""Sentences for the user, by the status of a stopped run."""


class RunResult(ByItem, msgspec.Struct, Generic[OutputT], frozen=True):
    """The result of a run. The conversation can be continued, whatever the status.

    `RunResult[T]` is the result of `run(output=T)`: its `output` is a T. The output of a run without `output=` is text:
    `RunResult[str]`. Items are plain data: `result["conversation"]` is a list of dicts, which json.dumps() takes.
    """

    status: RunStatus
    """`done`, `waiting` for an answer, or what stopped it: `max_turns`, `max_total_tokens`, `max_cost`, `max_seconds`,
    `max_repeats`, `max_checks`, `budget`, `cancelled`, `suspended`, `error`."""
    text: str
    """The text of the last reply, or of the result that ended the run."""
    turns: int
    """The number of requests to the model."""
    usage: Usage
    """The usage of the run, its sub-agents included."""
    messages: Sequence[Message]
    """All messages, including those from before the run. If a compacted session was resumed, those that it did not
    send are read from the log on first use."""
    error: str = ""
    """What went wrong, if the status is `error`. If a limit stopped a run that must report: why it has no report."""
    stop_reason: StopReason = StopReason.END
    """Why the last reply ended: `max_tokens` if it was cut off, `refusal`, `content_filter` and so on."""
    structured_output: Any = None
    """The data of the report that ended the run, as decoded JSON; None if there was none."""
    has_structured_output: bool = False
    """Whether there was a report. It distinguishes a report of null from no report."""
    citations: tuple[Citation, ...] = ()
    """The sources of the last reply, each once, if its API names them."""
    store: AttachmentStore | None = None
    """The store that holds the files of the conversation. It is not part of `dict(result)`."""
    usage_by_model: Mapping[str, Usage] = {}
    """The usage of the run for each model that answered in it, by name; of sub-agents as well."""
    agent: str = ""
    """The name of the agent that ended the run: another than the one that began it after a handoff."""
    questions: tuple[Question, ...] = ()
    """What the session waits for, if the status is `waiting`. Answer with `session.answer` or `log.answer`."""
    value: Any = UNSET
    """What `output` returns, if the run was asked for data and has it. It is not part of `dict(result)`."""

    @property
    def output(self) -> OutputT:
        """The answer: a value of the type that `run(output=…)` named, or else the text.

        Raises RunError if the run ended without an answer.
        """
        if self.value is not UNSET:
            return cast("OutputT", self.value)
        return cast("OutputT", self.raise_for_status().text)

    @property
    def conversation(self) -> list[Message]:
        """All messages as a list, which is read from the log on first use if need be."""
        from outrider.conversation.history import as_list

        return self.messages if isinstance(self.messages, list) else as_list(self.messages)

    def keys(self) -> tuple[str, ...]:
        """Return the names that `dict(…)` uses."""
        names = (name for name in self.__struct_fields__ if name not in ("store", "value"))
        return tuple("conversation" if name == "messages" else name for name in names)

    def __getitem__(self, name: str) -> Any:
        if name == "output" and self.output is self.value:
            name = "structured_output"  # items are plain data
        if name == "questions":
            return [msgspec.to_builtins(each) for each in self.questions]
        if name == "usage_by_model":
            return {model: dict(usage) for model, usage in self.usage_by_model.items()}
        return super().__getitem__(name)

    def _repr_html_(self) -> str:
        """Return the result as a notebook shows it."""
        from outrider.conversation import html

        head = f"<p>{html.MARKS.get(self.status, '⚠')} <b>{html.plain(self.status)}</b> after {self.turns} turns, "
        head += f"{html.usage_line(self.usage)}</p>"
        error = html.preformatted(self.error) if self.error else ""
        shown = html.folded("conversation", html.conversation_html(self.messages, self.store))
        return head + error + html.markdown(self.text) + shown

    def raise_for_status(self) -> RunResult[OutputT]:
        """Raise RunError unless the run is done; return the result otherwise."""
        if self.status == "done":
            return self
        sentence = f"the run ended without an answer ({self.status})"
        if self.status.startswith("max_"):
            sentence += f"; allow more with Limits({self.status}=…), or continue from the `result` of this error"
        if self.status == "waiting":
            sentence += f": it waits for an answer ({'; '.join(each.text for each in self.questions)[:200]})"
        if self.error:
            sentence += f": {self.error}"
        raise RunError(sentence, self)


class BudgetSpentError(Exception):
    """A limit on tokens or cost is reached between two requests of one turn. It ends the run."""

    def __init__(self, status: RunStatus) -> None:
        super().__init__(status)
        self.status: RunStatus = status
