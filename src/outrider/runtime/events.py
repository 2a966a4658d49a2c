"""The events of a session, for observers.

The order is guaranteed: `MessageAdded` follows when the message is in the history; a call starts after the reply that
requests it was added, and finishes before the message with its result is; nothing of a run follows `RunFinished`.
Events of a sub-agent come while the call that started it runs; of one in the background until `SubagentFinished`, also
between runs. `ReplyDiscarded` and `Retrying` come before a reply is
added, so no call of a discarded reply has started.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from outrider.conversation.messages import Message, ToolResultBlock
from outrider.conversation.usage import Usage
from outrider.providers.deltas import Delta as Delta
from outrider.providers.deltas import Notice as Notice
from outrider.providers.deltas import ServerToolFinished as ServerToolFinished
from outrider.providers.deltas import ServerToolStarted as ServerToolStarted
from outrider.providers.deltas import TextDelta as TextDelta
from outrider.providers.deltas import ThinkingDelta as ThinkingDelta
from outrider.providers.deltas import ToolCallDelta as ToolCallDelta
from outrider.text import clean_value

RunStatus: TypeAlias = Literal[
    "done",
    "waiting",
    "max_turns",
    "max_total_tokens",
    "max_cost",
    "max_seconds",
    "max_repeats",
    "max_checks",
    "budget",
    "cancelled",
    "suspended",
    "error",
]
CompactionReason: TypeAlias = Literal["threshold", "too_long", "manual"]
"""Why a conversation is compacted: the window is nearly full, the API refused the request, or someone asked for it."""


class TurnStarted(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="turn_started"):
    """A request to the model is about to be sent."""

    turn: int
    last: bool = False
    """Whether this is the last turn that the limit allows."""


class ReplyDiscarded(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", tag="reply_discarded"):
    """A reply broke off, and its deltas so far are void. `Retrying`, `ModelSwitched` or the end of the run follows."""

    reason: str
    usage: Usage | None = None
    """What the API has counted for it, if it said so."""


class Retrying(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="retrying"):
    """A request failed and is sent again after a delay. A cancel ends the delay at once."""

    attempt: int
    """The number of the attempt that follows: 2 for the first retry."""
    delay: float
    """Seconds until it starts."""
    reason: str
    """Why the last attempt failed."""

    @property
    def text(self) -> str:
        """The event in one line."""
        return f"{self.reason}; retrying in {self.delay:.{0 if self.delay >= 10 else 1}f} s (attempt {self.attempt})"


class ModelSwitched(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="model_switched"):
    """A model could not answer, and the next model of the agent goes on. What the first one had begun is discarded."""

    former: str
    model: str
    """The model that goes on."""
    reason: str
    """Why the former one could not answer."""

    @property
    def text(self) -> str:
        """The event in one line."""
        return f"{self.former} cannot answer; {self.model} goes on. {self.reason}"


class HandedOff(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="handed_off"):
    """An agent has handed the conversation over to another one, which goes on."""

    former: str
    agent: str
    """The name of the agent that goes on."""

    @property
    def text(self) -> str:
        """The event in one line."""
        return f"{self.former} hands over to {self.agent}"


class PartialOutput(msgspec.Struct, frozen=True, tag_field="type", tag="partial_output"):
    """A run with `output` has more of its answer. It is not validated; `RunFinished` has the whole.

    It follows the delta that adds to it. A reply that is discarded or corrected begins anew.
    """

    data: Any
    """All of the answer so far, as decoded JSON: the last string may go on, and the last numbers, items and fields may
    be missing."""


class MessageAdded(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="type", tag="message_added"):
    """A message was added to the history."""

    message: Message
    usage: Usage | None = None
    """The usage of the reply, if the message is one."""
    steering: str = ""
    """The id of the queued message that was delivered, if it is one."""
    entry: int | None = None
    """The number of its entry in the log, `Record.seq`: a reader of the session can go on after it."""


class SteeringQueued(msgspec.Struct, frozen=True, tag_field="type", tag="steering_queued"):
    """A message was queued while the session works. `MessageAdded` follows when it is delivered."""

    id: str
    message: Message


class SteeringWithdrawn(msgspec.Struct, frozen=True, tag_field="type", tag="steering_withdrawn"):
    """A queued message was taken back before it was delivered."""

    id: str


class ToolStarted(msgspec.Struct, frozen=True, tag_field="type", tag="tool_started"):
    """A call has started."""

    call_id: str
    name: str
    input: dict[str, Any]
    effect: str


class ToolProgress(msgspec.Struct, frozen=True, tag_field="type", tag="tool_progress"):
    """A running tool shows progress: text or any JSON value."""

    call_id: str
    content: Any


class ToolFinished(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", tag="tool_finished"):
    """A call has its result."""

    call_id: str
    name: str
    result: ToolResultBlock
    details: Any = None
    """Details for people; the model does not see them."""
    entry: int | None = None
    """The number of its entry in the log."""


class CompactionStarted(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="compaction_started"):
    """The conversation is being summarised to make room in the context window. `Compacted` or an error follows."""

    reason: CompactionReason
    tokens: int
    """The estimated tokens of the next request without the compaction."""


class Compacted(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", tag="compacted"):
    """The conversation was compacted: a summary and the newest messages are sent instead of all. The log keeps all."""

    reason: CompactionReason
    tokens_before: int
    """The estimated tokens of the next request, before and after the compaction."""
    tokens_after: int
    summary: str
    """The text that the model reads instead of the messages."""
    usage: Usage | None = None
    """The usage of the request for the summary."""
    entry: int | None = None
    """Its number in the log, if there is one."""


class ResultsCleared(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="results_cleared"):
    """Old results are sent as one line each from now on, to save room. The log keeps them."""

    count: int
    tokens: int
    """The estimated tokens that it saves in each request."""


class GoalCheckStarted(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="goal_check_started"):
    """The model has answered, and the goal of the run is checked. `GoalChecked` follows."""

    goal: str
    """The command, or the name of a function."""
    check: int
    """The number of the check in the run, from 1."""


class GoalChecked(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="type", tag="goal_checked"):
    """The goal was checked. The run is done if it is reached; if not, the model reads the output and works on."""

    goal: str
    passed: bool
    check: int
    """The number of the check in the run, from 1."""
    last_line: str = ""
    """The last line of the output."""
    entry: int | None = None
    """The number of its entry in the log."""

    @property
    def text(self) -> str:
        """The event in one line."""
        found = self.goal if self.passed or not self.last_line else f"{self.last_line} — {self.goal}"
        return f"Goal {'reached' if self.passed else 'not reached'} (check {self.check}): {found}"


class QuestionAsked(msgspec.Struct, frozen=True, tag_field="type", tag="question_asked"):
    """A person is asked whether a call may run, or what an MCP server wants to know."""

    id: str
    call_id: str
    """The call that it is about; empty for a question of a server."""
    question: dict[str, Any]
    """The question as data, with everything that the person sees."""


class QuestionAnswered(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="question_answered"):
    """A question has its answer, or was withdrawn."""

    id: str
    allowed: bool
    answer: str
    """The id of the option that was chosen; `withdrawn` if none was."""
    by: str
    """Where it was answered, as in `on the web page`."""


class TitleMade(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="title_made"):
    """The session has a title that was made from its first exchange. It comes some time after the first run."""

    title: str


class RunFinished(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", tag="run_finished"):
    """The run is over. The history can be continued, whatever the status."""

    status: RunStatus
    turns: int
    usage: Usage
    text: str = ""
    error: str = ""
    stop_reason: str = "end"
    """Why the last reply ended; see `providers.base.StopReason`."""
    structured_output: Any = None
    """The data of the report that ended the run, as decoded JSON; None if there was none."""
    has_structured_output: bool = False
    """Whether there was a report. It distinguishes a report of null from no report."""
    entry: int | None = None
    """The number of its end in the log, if there is one."""


class SubagentStarted(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", tag="subagent_started"):
    """A call has started a sub-agent in a session of its own, or continues one that was interrupted."""

    call_id: str
    session: str
    name: str
    """The name of the sub-agent."""
    title: str
    """Its task in a few words."""
    model: str = ""
    """The name of its model."""
    background: bool = False
    """Whether the call does not wait for it."""


class SubagentFinished(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="subagent_finished"):
    """A sub-agent in the background has ended. The model is told at the next boundary of a run."""

    call_id: str
    session: str
    name: str
    title: str
    status: str
    """How its run ended, as in `RunFinished`; `interrupted` if its process ended before it did."""
    note: str = ""
    """What became of its worktree, if it had one."""
    structured_output: Any = None
    """The data of its answer, as decoded JSON; None if there were none."""
    has_structured_output: bool = False
    """Whether there were data. It distinguishes null from none."""


OwnEvent: TypeAlias = (
    TurnStarted
    | Delta
    | ReplyDiscarded
    | Retrying
    | ModelSwitched
    | HandedOff
    | PartialOutput
    | MessageAdded
    | SteeringQueued
    | SteeringWithdrawn
    | ToolStarted
    | ToolProgress
    | ToolFinished
    | Notice
    | CompactionStarted
    | Compacted
    | ResultsCleared
    | GoalCheckStarted
    | GoalChecked
    | QuestionAsked
    | QuestionAnswered
    | TitleMade
    | RunFinished
    | SubagentFinished
)
"""The events of the session itself."""


class SubagentEvent(msgspec.Struct, frozen=True, tag_field="type", tag="subagent_event"):
    """An event of a sub-agent's session."""

    call_id: str
    """The call that started the sub-agent."""
    session: str
    event: OwnEvent


Event: TypeAlias = OwnEvent | SubagentStarted | SubagentEvent


def encode_json(value: Any) -> bytes:
    """Encode an event or an object as JSON, whatever values a tool has put into it."""
    try:
        return msgspec.json.encode(value, enc_hook=str)
    except (TypeError, ValueError, OverflowError, RecursionError):
        import json

    try:  # the standard library handles large numbers and unusual keys
        plain = clean_value(msgspec.to_builtins(value, enc_hook=str))
        return json.dumps(plain, default=str, skipkeys=True, separators=(",", ":")).encode()
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        return msgspec.json.encode({"type": "notice", "text": f"an event cannot be shown as JSON: {error}"})
