"""What observers of a session see, as it happens.

The order is a promise: a message is announced when it stands in the history; a call starts after the reply that asks
for it was announced and finishes before the message with its result is; nothing comes after `RunFinished`. What a
sub-agent does comes while the call that sent it out runs.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from outrider.conversation.messages import Message, ToolResultBlock, Usage
from outrider.providers.deltas import Delta as Delta
from outrider.providers.deltas import Notice as Notice
from outrider.providers.deltas import TextDelta as TextDelta
from outrider.providers.deltas import ThinkingDelta as ThinkingDelta
from outrider.providers.deltas import ToolCallDelta as ToolCallDelta

RunStatus: TypeAlias = Literal[
    "done", "max_turns", "max_tokens", "max_cost", "max_seconds", "max_repeats", "cancelled", "error"
]


class TurnStarted(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="turn_started"):
    """The model is about to be asked."""

    turn: int
    last: bool = False
    """Whether the limit allows no turn after this one."""


class ReplyDiscarded(msgspec.Struct, frozen=True, tag_field="type", tag="reply_discarded"):
    """What was shown of the reply so far does not count: forget it."""

    reason: str


class MessageAdded(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="type", tag="message_added"):
    """A message stands in the history."""

    message: Message
    usage: Usage | None = None
    """What the reply used, if it is one."""


class ToolStarted(msgspec.Struct, frozen=True, tag_field="type", tag="tool_started"):
    """A call is being carried out."""

    call_id: str
    name: str
    input: dict[str, Any]
    effect: str


class ToolProgress(msgspec.Struct, frozen=True, tag_field="type", tag="tool_progress"):
    """A running tool has something to show: text or any JSON value."""

    call_id: str
    content: Any


class ToolFinished(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", tag="tool_finished"):
    """A call has its one answer."""

    call_id: str
    name: str
    result: ToolResultBlock
    details: Any = None
    """What the tool has for people to see; the model is not told."""


class RunFinished(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", tag="run_finished"):
    """The run is over; the history can be sent and continued, whatever the status."""

    status: RunStatus
    turns: int
    usage: Usage
    text: str = ""
    error: str = ""
    stop_reason: str = "end"
    """Why the last reply ended; see `provider.StopReason`."""
    structured_output: Any = None
    """The data of the report that ended the run, as decoded JSON; None if there was none."""
    has_structured_output: bool = False
    """Whether there was one: it tells the report null from no report."""


class SubagentStarted(msgspec.Struct, frozen=True, tag_field="type", tag="subagent_started"):
    """A call has sent a sub-agent out, in a session of its own; or takes up one that was cut off."""

    call_id: str
    session: str
    name: str
    """Who it is."""
    title: str
    """What it is to do, in a few words."""


OwnEvent: TypeAlias = (
    TurnStarted
    | Delta
    | ReplyDiscarded
    | MessageAdded
    | ToolStarted
    | ToolProgress
    | ToolFinished
    | Notice
    | RunFinished
)
"""What a session itself does."""


class SubagentEvent(msgspec.Struct, frozen=True, tag_field="type", tag="subagent_event"):
    """Something happened in the session of a sub-agent."""

    call_id: str
    """The call that sent it out."""
    session: str
    event: OwnEvent


Event: TypeAlias = OwnEvent | SubagentStarted | SubagentEvent
