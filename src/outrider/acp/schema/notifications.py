"""What a client is told, as it happens."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from outrider.acp.schema.base import Meta, Wire
from outrider.acp.schema.content import ContentBlock
from outrider.acp.schema.requests import Selector


class Chunk(Wire, frozen=True):
    content: ContentBlock


class UserChunk(Chunk, frozen=True, tag_field="sessionUpdate", tag="user_message_chunk"):
    pass


class AgentChunk(Chunk, frozen=True, tag_field="sessionUpdate", tag="agent_message_chunk"):
    pass


class ThoughtChunk(Chunk, frozen=True, tag_field="sessionUpdate", tag="agent_thought_chunk"):
    pass


class ContentItem(Wire, frozen=True, tag_field="type", tag="content"):
    content: ContentBlock


class DiffItem(Wire, frozen=True, tag_field="type", tag="diff"):
    path: str
    new_text: str
    old_text: str | UnsetType = UNSET


class TerminalItem(Wire, frozen=True, tag_field="type", tag="terminal"):
    terminal_id: str


Item: TypeAlias = ContentItem | DiffItem | TerminalItem


class Place(Wire, frozen=True):
    path: str
    line: int | UnsetType = UNSET


class CallFields(Wire, frozen=True, kw_only=True):
    tool_call_id: str
    title: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    kind: str | UnsetType = UNSET
    status: str | UnsetType = UNSET
    content: list[Item] | UnsetType = UNSET
    locations: list[Place] | UnsetType = UNSET
    raw_input: Any = UNSET
    raw_output: Any = UNSET
    meta: Meta | UnsetType = msgspec.field(default=UNSET, name="_meta")


class Call(CallFields, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="tool_call"):
    pass


class CallUpdate(CallFields, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="tool_call_update"):
    pass


class PlanEntry(Wire, frozen=True):
    content: str
    status: str
    priority: str


class Plan(Wire, frozen=True, tag_field="sessionUpdate", tag="plan"):
    entries: list[PlanEntry]


class CommandInput(Wire, frozen=True):
    hint: str


class Command(Wire, frozen=True):
    name: str
    description: str
    input: CommandInput | UnsetType = UNSET


class Commands(Wire, frozen=True, tag_field="sessionUpdate", tag="available_commands_update"):
    available_commands: list[Command]


class CurrentMode(Wire, frozen=True, tag_field="sessionUpdate", tag="current_mode_update"):
    current_mode_id: str


class ConfigChanged(Wire, frozen=True, tag_field="sessionUpdate", tag="config_option_update"):
    config_options: list[Selector]


class InfoChanged(Wire, frozen=True, tag_field="sessionUpdate", tag="session_info_update"):
    title: str


class Cost(Wire, frozen=True):
    amount: float
    currency: str


class UsageChanged(Wire, frozen=True, tag_field="sessionUpdate", tag="usage_update"):
    used: int
    size: int
    cost: Cost | UnsetType = UNSET


class NoticeTold(Wire, frozen=True, tag_field="sessionUpdate", tag="notice"):
    severity: str
    title: str


SessionUpdate: TypeAlias = (
    UserChunk
    | AgentChunk
    | ThoughtChunk
    | Call
    | CallUpdate
    | Plan
    | Commands
    | CurrentMode
    | ConfigChanged
    | InfoChanged
    | UsageChanged
    | NoticeTold
)


class Notification(Wire, frozen=True):
    session_id: str
    update: SessionUpdate
