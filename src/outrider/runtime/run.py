"""How far a run has come, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from outrider.conversation.items import ByItem
from outrider.conversation.messages import Message, ToolResultBlock, ToolUseBlock, Usage
from outrider.errors import OutriderError, RunError
from outrider.log.entries import CallResult
from outrider.providers.base import Reply, StopReason
from outrider.runtime.events import RunStatus
from outrider.runtime.limits import Limits
from outrider.runtime.repetition import WARNED_AT, Repetition

ENDINGS: Mapping[RunStatus, str] = {
    "max_turns": "The limit of turns is used up. Say “go on” to let it continue.",
    "max_tokens": "The limit of tokens is used up. Say “go on” to let it continue.",
    "max_cost": "The limit on the cost is used up. Say “go on” to let it continue.",
    "max_repeats": "It made the same calls again and again, and was stopped. Tell it what to do differently.",
    "max_seconds": "The time is used up. Say “go on” to let it continue.",
    "cancelled": "Interrupted. What was said and done so far is kept.",
}
"""What to say to a person when a run did not end by itself."""


class RunResult(ByItem, msgspec.Struct, frozen=True):
    """How a run ended. The conversation can be continued, whatever the status. Also readable as `result["status"]`."""

    status: RunStatus
    """`done`, or what stopped it: `max_turns`, `max_tokens`, `max_cost`, `max_seconds`, `max_repeats`, `cancelled`,
    `error`."""
    text: str
    """The model's last words, or those of the result that ended the run."""
    turns: int
    """How often the model was asked."""
    usage: Usage
    """What this run used, that of its sub-agents included."""
    conversation: list[Message]
    """All messages, those from before the run included."""
    error: str = ""
    """What went wrong, if the status is `error`."""
    stop_reason: StopReason = StopReason.END
    """Why the last reply ended: `max_tokens` if it was cut off, `refusal`, `content_filter` and so on."""
    structured_output: Any = None
    """The data of the report that ended the run, as decoded JSON; None if there was none."""
    has_structured_output: bool = False
    """Whether there was one: it tells the report null from no report."""

    def raise_for_status(self) -> RunResult:
        """Raise RunError unless the run is done; return the result otherwise."""
        if self.status == "done":
            return self
        sentence = f"the run ended without an answer ({self.status})"
        limit = self.status.removeprefix("max_")
        if limit != self.status:
            sentence += f"; allow more with Limits({limit}=…), or continue from the `result` of this error"
        elif self.error:
            sentence += f": {self.error}"
        raise RunError(sentence, self)


class Progress:
    """How far a run has come, against its limits."""

    def __init__(self, limits: Limits, within: Progress | None = None) -> None:
        self.turns = 0
        self.usage = Usage()
        self.text = ""
        self.stop_reason = StopReason.END
        self.structured_output: Any = None
        self.has_structured_output = False
        self._limits = limits
        self._within = within
        """The run of the session that sent this one out, whose budget this one uses up as well."""
        self._repetition = Repetition()
        self._sent_out = 0

    def begin_turn(self) -> None:
        """The model is about to be asked once more."""
        self.turns += 1

    def count(self, reply: Reply) -> None:
        """What the reply said and used."""
        self._use(reply.usage)
        self.text = reply.text
        self.stop_reason = reply.stop_reason

    def end_with(self, answer: CallResult) -> None:
        """The result that ends the run: its words, and the data that its details have as `structured_output`."""
        self.text = answer.result.text
        if isinstance(answer.details, Mapping) and "structured_output" in answer.details:
            self.structured_output, self.has_structured_output = answer.details["structured_output"], True

    def count_calls(self, calls: Sequence[ToolUseBlock], results: Sequence[ToolResultBlock]) -> None:
        """What the reply's calls came to."""
        self._repetition.take(calls, results)

    def send_out(self) -> None:
        """A sub-agent is about to be sent out. Raises OutriderError if there were enough of them."""
        most = self._limits.subagents
        if most is not None and self._sent_out >= most:
            raise OutriderError(f"this run has sent out {most} sub-agents, and may send out no more (limits.subagents)")
        self._sent_out += 1

    def _use(self, usage: Usage) -> None:
        self.usage += usage
        if self._within:
            self._within._use(usage)

    @property
    def on_last_turn(self) -> bool:
        """Whether the limit allows no turn after this one."""
        return self.turns == self._limits.turns

    @property
    def repeats(self) -> int:
        """How many turns in a row have brought nothing new."""
        return self._repetition.streak

    @property
    def is_repeating(self) -> bool:
        """Whether the model should be told that it gets nowhere, before it is stopped for it."""
        most = self._limits.repeats
        return most is not None and self.repeats >= max(1, min(WARNED_AT, most - 1))

    @property
    def cost_is_unknown(self) -> bool:
        """Whether there is a limit on the cost that cannot be kept, for nobody knows the price."""
        return self._has_cost_limit and self.turns == 1 and self.usage.cost is None

    @property
    def _has_cost_limit(self) -> bool:
        return self._limits.cost is not None or bool(self._within and self._within._has_cost_limit)

    def limit_reached(self) -> RunStatus | None:
        """The limit that allows no further turn, if there is one."""
        limits = self._limits
        if limits.turns is not None and self.turns >= limits.turns:
            return "max_turns"
        if limits.repeats is not None and self.repeats >= limits.repeats:
            return "max_repeats"
        return self._budget_reached()

    def _budget_reached(self) -> RunStatus | None:
        """The limit on tokens or cost that is used up: of this run, or of the one that it belongs to."""
        limits = self._limits
        if limits.tokens is not None and self.usage.total_tokens >= limits.tokens:
            return "max_tokens"
        if limits.cost is not None and (self.usage.cost or 0) >= limits.cost:
            return "max_cost"
        return self._within._budget_reached() if self._within else None
