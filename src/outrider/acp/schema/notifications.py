"""The `session/update` notification and its variants."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from outrider.acp.schema.content import ContentBlock, Meta, Wire
from outrider.acp.schema.requests import ConfigOption


class ContentChunk(Wire, frozen=True):
    content: ContentBlock


class UserMessageChunk(ContentChunk, frozen=True, tag_field="sessionUpdate", tag="user_message_chunk"):
    pass


class AgentMessageChunk(ContentChunk, frozen=True, tag_field="sessionUpdate", tag="agent_message_chunk"):
    pass


class AgentThoughtChunk(ContentChunk, frozen=True, tag_field="sessionUpdate", tag="agent_thought_chunk"):
    pass


class ContentItem(Wire, frozen=True, tag_field="type", tag="content"):
    content: ContentBlock


class DiffItem(Wire, frozen=True, tag_field="type", tag="diff"):
    path: str
    new_text: str
    old_text: str | UnsetType = UNSET
    meta: Meta | UnsetType = msgspec.field(default=UNSET, name="_meta")


class TerminalItem(Wire, frozen=True, tag_field="type", tag="terminal"):
    terminal_id: str


ToolCallContent: TypeAlias = ContentItem | DiffItem | TerminalItem


class ToolCallLocation(Wire, frozen=True):
    path: str
    line: int | UnsetType = UNSET


class ToolCallFields(Wire, frozen=True, kw_only=True):
    tool_call_id: str
    title: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    kind: str | UnsetType = UNSET
    status: str | UnsetType = UNSET
    content: list[ToolCallContent] | UnsetType = UNSET
    locations: list[ToolCallLocation] | UnsetType = UNSET
    raw_input: Any = UNSET
    raw_output: Any = UNSET
    meta: Meta | UnsetType = msgspec.field(default=UNSET, name="_meta")


class ToolCall(ToolCallFields, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="tool_call"):
    pass


class ToolCallUpdate(ToolCallFields, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="tool_call_update"):
    pass


class PlanEntry(Wire, frozen=True):
    content: str
    status: str
    priority: str


class Plan(Wire, frozen=True, tag_field="sessionUpdate", tag="plan"):
    entries: list[PlanEntry]


class AvailableCommandInput(Wire, frozen=True):
    hint: str


class AvailableCommand(Wire, frozen=True):
    name: str
    description: str
    input: AvailableCommandInput | UnsetType = UNSET


class AvailableCommandsUpdate(Wire, frozen=True, tag_field="sessionUpdate", tag="available_commands_update"):
    available_commands: list[AvailableCommand]


class CurrentModeUpdate(Wire, frozen=True, tag_field="sessionUpdate", tag="current_mode_update"):
    current_mode_id: str


class ConfigOptionUpdate(Wire, frozen=True, tag_field="sessionUpdate", tag="config_option_update"):
    config_options: list[ConfigOption]


class SessionInfoUpdate(Wire, frozen=True, tag_field="sessionUpdate", tag="session_info_update"):
    title: str


class Cost(Wire, frozen=True):
    amount: float
    currency: str


class UsageUpdate(Wire, frozen=True, tag_field="sessionUpdate", tag="usage_update"):
    used: int
    size: int
    cost: Cost | UnsetType = UNSET


class CompactionUpdate(Wire, frozen=True, tag_field="sessionUpdate", tag="compaction_update"):
    compaction_id: str
    status: str
    summary: list[ContentBlock] | UnsetType = UNSET


class NoticeUpdate(Wire, frozen=True, tag_field="sessionUpdate", tag="notice"):
    severity: str
    title: str


SessionUpdate: TypeAlias = (
    UserMessageChunk
    | AgentMessageChunk
    | AgentThoughtChunk
    | ToolCall
    | ToolCallUpdate
    | Plan
    | AvailableCommandsUpdate
    | CurrentModeUpdate
    | ConfigOptionUpdate
    | SessionInfoUpdate
    | UsageUpdate
    | CompactionUpdate
    | NoticeUpdate
)


class SessionNotification(Wire, frozen=True):
    session_id: str
    update: SessionUpdate
