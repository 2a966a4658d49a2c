"""`RunResult`, and the progress of a run against its limits. The loop itself is in `agent_loop.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from outrider.conversation.items import ByItem
from outrider.conversation.messages import Citation, Message, Usage
from outrider.conversation.store import AttachmentStore
from outrider.errors import OutriderError, RunError
from outrider.log.entries import CallResult
from outrider.providers.base import Reply, StopReason
from outrider.runtime.events import RunStatus
from outrider.runtime.limits import Limits
from outrider.runtime.repetition import WARNED_AT, Repetition

ENDINGS: Mapping[RunStatus, str] = {
    "max_turns": "The turn limit is reached. Say “go on” to continue.",
    "max_total_tokens": "The token limit is reached. Say “go on” to continue.",
    "max_cost": "The cost limit is reached. Say “go on” to continue.",
    "max_repeats": "The model repeated the same calls and was stopped. Tell it what to do differently.",
    "max_seconds": "The time limit is reached. Say “go on” to continue.",
    "cancelled": "Interrupted. The conversation so far is kept.",
}
"""Sentences for the user, by the status of a stopped run."""


class RunResult(ByItem, msgspec.Struct, frozen=True):
    """The result of a run. The conversation can be continued, whatever the status.

    Items are plain data: `result["conversation"]` is a list of dicts, which json.dumps() takes.
    """

    status: RunStatus
    """`done`, or what stopped it: `max_turns`, `max_total_tokens`, `max_cost`, `max_seconds`, `max_repeats`,
    `cancelled`, `error`."""
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

    @property
    def conversation(self) -> list[Message]:
        """All messages as a list, which is read from the log on first use if need be."""
        from outrider.conversation.late import as_list

        return self.messages if isinstance(self.messages, list) else as_list(self.messages)

    def keys(self) -> tuple[str, ...]:
        """Return the names that `dict(…)` uses."""
        names = (name for name in self.__struct_fields__ if name != "store")
        return tuple("conversation" if name == "messages" else name for name in names)

    def _repr_html_(self) -> str:
        """Return the result as a notebook shows it."""
        from outrider.runtime.html import result_html  # only notebooks need it

        return result_html(self)

    def raise_for_status(self) -> RunResult:
        """Raise RunError unless the run is done; return the result otherwise."""
        if self.status == "done":
            return self
        sentence = f"the run ended without an answer ({self.status})"
        if self.status.startswith("max_"):
            sentence += f"; allow more with Limits({self.status}=…), or continue from the `result` of this error"
        if self.error:
            sentence += f": {self.error}"
        raise RunError(sentence, self)


class BudgetSpentError(Exception):
    """A limit on tokens or cost is reached between two requests of one turn. It ends the run."""

    def __init__(self, status: RunStatus) -> None:
        super().__init__(status)
        self.status: RunStatus = status


class EarlierTurns(msgspec.Struct, frozen=True):
    """What a run did before it was interrupted, if it continues from there."""

    turns: int = 0
    usage: Usage = Usage()
    text: str = ""


NO_EARLIER_TURNS = EarlierTurns()


class Progress:
    """Counts turns, usage and repetition of a run against its limits."""

    def __init__(
        self, limits: Limits, within: Progress | None = None, earlier: EarlierTurns = NO_EARLIER_TURNS
    ) -> None:
        self.turns = earlier.turns
        self.usage = earlier.usage
        self._text: str | None = earlier.text
        self._reply: Message | None = None
        """The newest reply, from which the text is taken when it is wanted."""
        self.stop_reason = StopReason.END
        self.structured_output: Any = None
        self.has_structured_output = False
        self._limits = limits
        self._within = within
        """The run of the parent session, whose budget this one uses as well."""
        self.continued = 0
        """How often hooks have kept the run going."""
        self._repetition = Repetition()
        self._subagents = 0

    def begin_turn(self) -> None:
        """Count a turn."""
        self.turns += 1

    def count(self, reply: Reply) -> None:
        """Count a reply: its usage, text and stop reason."""
        self.use(reply.usage)
        self._reply, self._text = reply.message, None
        self.stop_reason = reply.stop_reason

    @property
    def text(self) -> str:
        """The text of the newest reply, or what the run ends with."""
        if self._text is None:
            self._text = self._reply.text if self._reply else ""
        return self._text

    @text.setter
    def text(self, text: str) -> None:
        self._text = text

    @property
    def citations(self) -> tuple[Citation, ...]:
        """The sources of the text."""
        return self._reply.citations if self._reply else ()

    def end_with(self, answer: CallResult) -> None:
        """Take the result that ends the run: its text, and the data in `details["structured_output"]`."""
        self._text, self._reply = answer.result.text, None
        if isinstance(answer.details, Mapping) and "structured_output" in answer.details:
            self.structured_output, self.has_structured_output = answer.details["structured_output"], True

    def count_calls(self, reply: Message, results: Message) -> None:
        """Count the calls of a reply and their results, if repetition is limited."""
        if self._limits.max_repeats is not None:
            self._repetition.take(reply.tool_calls, results.tool_results)

    def count_subagent(self) -> None:
        """Count a sub-agent. Raises OutriderError if the limit is reached."""
        most = self._limits.max_subagents
        if most is not None and self._subagents >= most:
            raise OutriderError(f"this run has started {most} sub-agents, which is its limit (limits.max_subagents)")
        self._subagents += 1

    def use(self, usage: Usage) -> None:
        """Count the usage of a request, also for the parent's run."""
        self.usage += usage
        if self._within:
            self._within.use(usage)

    @property
    def on_last_turn(self) -> bool:
        """Whether this is the last turn that the limit allows."""
        return self.turns == self._limits.max_turns

    @property
    def repeats(self) -> int:
        """The number of turns in a row that brought nothing new."""
        return self._repetition.streak

    @property
    def is_repeating(self) -> bool:
        """Whether the model should be warned that it repeats itself, before it is stopped."""
        most = self._limits.max_repeats
        return most is not None and self.repeats >= max(1, min(WARNED_AT, most - 1))

    @property
    def cost_is_unknown(self) -> bool:
        """Whether there is a cost limit that cannot be kept because the price is unknown."""
        return self.turns == 1 and self._has_cost_limit and self.usage.cost is None

    @property
    def _has_cost_limit(self) -> bool:
        return self._limits.max_cost is not None or bool(self._within and self._within._has_cost_limit)

    def limit_reached(self) -> RunStatus | None:
        """Return the limit that is reached, if any."""
        limits = self._limits
        if limits.max_turns is not None and self.turns >= limits.max_turns:
            return "max_turns"
        if limits.max_repeats is not None and self.repeats >= limits.max_repeats:
            return "max_repeats"
        return self._budget_reached()

    def check_budget(self) -> None:
        """Raise BudgetSpentError if a limit on tokens or cost is reached."""
        if reached := self._budget_reached():
            raise BudgetSpentError(reached)

    def _budget_reached(self) -> RunStatus | None:
        """Return the limit on tokens or cost that is used up: of this run or of its parent."""
        limits = self._limits
        if limits.max_total_tokens is not None and self.usage.total_tokens >= limits.max_total_tokens:
            return "max_total_tokens"
        if limits.max_cost is not None and (self.usage.cost or 0) >= limits.max_cost:
            return "max_cost"
        return self._within._budget_reached() if self._within else None
