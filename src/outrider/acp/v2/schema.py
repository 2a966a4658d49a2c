"""The messages of version 2 that are not those of version 1.

A field that is left out is unchanged for whoever reads it, and null clears it.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import UNSET, UnsetType

from outrider.acp.schema.base import Meta, Wire
from outrider.acp.schema.client_requests import Option
from outrider.acp.schema.content import ContentBlock
from outrider.acp.schema.notifications import (
    ContentItem,
    InfoChanged,
    NoticeTold,
    Place,
    PlanEntry,
    SessionUpdate,
    TerminalItem,
    UsageChanged,
)
from outrider.acp.schema.requests import Choice, Implementation, Initialize, LoadSession

DRAFT = 2


# What a client asks, and what it is answered


class Introduction(Initialize, frozen=True):
    """How a client of either version introduces itself."""

    info: Implementation | None = None


class Introduced(Wire, frozen=True):
    protocol_version: int
    info: Implementation
    capabilities: Meta


class Cursor(Wire, frozen=True):
    """Where a replay begins."""

    type: str


class Resume(LoadSession, frozen=True):
    replay_from: Cursor | None = None


class SetOption(Wire, frozen=True):
    session_id: str
    config_id: str
    type: str
    value: Any


class OfCall(Wire, frozen=True):
    session_id: str
    tool_call_id: str


class Accepted(Wire, frozen=True):
    """What a person said stands in the conversation."""

    message_id: str


class TextInput(Wire, frozen=True, tag_field="type", tag="text"):
    hint: str


class Command(Wire, frozen=True, tag_field="type", tag="command"):
    name: str
    description: str
    input: TextInput | UnsetType = UNSET


class ConfigOption(Wire, frozen=True, tag_field="type", tag="select"):
    config_id: str
    name: str
    current_value: str
    options: list[Choice]
    category: str | None = None
    description: str | None = None


class Opened(Wire, frozen=True):
    config_options: list[ConfigOption]
    available_commands: list[Command]
    session_id: str | UnsetType = UNSET


class ConfigOptions(Wire, frozen=True):
    config_options: list[ConfigOption]


# What a client is told


class UserMessage(Wire, frozen=True, tag_field="sessionUpdate", tag="user_message"):
    message_id: str
    content: list[ContentBlock]


class AgentChunk(Wire, frozen=True, tag_field="sessionUpdate", tag="agent_message_chunk"):
    message_id: str
    content: ContentBlock


class ThoughtChunk(Wire, frozen=True, tag_field="sessionUpdate", tag="agent_thought_chunk"):
    message_id: str
    content: ContentBlock


class AgentMessage(Wire, frozen=True, tag_field="sessionUpdate", tag="agent_message"):
    message_id: str
    content: list[ContentBlock] | None


class AgentThought(Wire, frozen=True, tag_field="sessionUpdate", tag="agent_thought"):
    message_id: str
    content: list[ContentBlock] | None


class Failure(Wire, frozen=True):
    code: int
    message: str


class State(Wire, frozen=True, tag_field="sessionUpdate", tag="state_update"):
    state: str
    stop_reason: str | UnsetType = UNSET
    error: Failure | UnsetType = UNSET


class FileChange(Wire, frozen=True):
    operation: str
    path: str
    file_type: str


class Patch(Wire, frozen=True):
    format: str
    text: str


class DiffItem(Wire, frozen=True, tag_field="type", tag="diff"):
    changes: list[FileChange]
    patch: Patch | UnsetType = UNSET


Item: TypeAlias = ContentItem | DiffItem | TerminalItem


class CallFields(Wire, frozen=True, kw_only=True):
    tool_call_id: str
    title: str | UnsetType | None = UNSET
    name: str | UnsetType | None = UNSET
    kind: str | UnsetType = UNSET
    status: str | UnsetType = UNSET
    content: list[Item] | UnsetType | None = UNSET
    locations: list[Place] | UnsetType | None = UNSET
    raw_input: Any = UNSET
    raw_output: Any = UNSET


class CallUpdate(CallFields, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="tool_call_update"):
    pass


class ContentChunk(Wire, frozen=True, tag_field="sessionUpdate", tag="tool_call_content_chunk"):
    tool_call_id: str
    content: Item


class ExitStatus(Wire, frozen=True):
    exit_code: int | UnsetType = UNSET
    signal: str | UnsetType = UNSET


class TerminalOutput(Wire, frozen=True):
    data: bytes


class TerminalUpdate(Wire, frozen=True, tag_field="sessionUpdate", tag="terminal_update"):
    terminal_id: str
    command: str | UnsetType = UNSET
    cwd: str | UnsetType = UNSET
    output: TerminalOutput | UnsetType = UNSET
    exit_status: ExitStatus | UnsetType = UNSET


class OutputChunk(Wire, frozen=True, tag_field="sessionUpdate", tag="terminal_output_chunk"):
    terminal_id: str
    data: bytes


class PlanItems(Wire, frozen=True, tag_field="type", tag="items"):
    plan_id: str
    entries: list[PlanEntry]


class PlanUpdate(Wire, frozen=True, tag_field="sessionUpdate", tag="plan_update"):
    plan: PlanItems


class Commands(Wire, frozen=True, tag_field="sessionUpdate", tag="available_commands_update"):
    available_commands: list[Command]


class ConfigChanged(Wire, frozen=True, tag_field="sessionUpdate", tag="config_option_update"):
    config_options: list[ConfigOption]


DraftUpdate: TypeAlias = (
    UserMessage
    | AgentChunk
    | ThoughtChunk
    | AgentMessage
    | AgentThought
    | State
    | CallUpdate
    | ContentChunk
    | TerminalUpdate
    | OutputChunk
    | PlanUpdate
    | Commands
    | ConfigChanged
    | InfoChanged
    | UsageChanged
    | NoticeTold
)
AnyUpdate: TypeAlias = SessionUpdate | DraftUpdate


class Notification(Wire, frozen=True):
    session_id: str
    update: DraftUpdate


# What a client is asked


class CallSubject(Wire, frozen=True, tag_field="type", tag="tool_call"):
    tool_call: CallFields


class CommandSubject(Wire, frozen=True, tag_field="type", tag="command"):
    command: str
    cwd: str
    tool_call_id: str


class RequestPermission(Wire, frozen=True):
    session_id: str
    title: str
    description: str
    subject: CallSubject | CommandSubject
    options: list[Option]
