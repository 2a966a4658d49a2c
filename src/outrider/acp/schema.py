"""The types of the Agent Client Protocol, version 1: what the editor asks, what the agent tells it and asks."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

Meta: TypeAlias = dict[str, Any]
PROTOCOL_VERSION = 1


class Wire(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The base of all types: field names are camelCase in JSON."""


class TextContent(Wire, frozen=True, tag_field="type", tag="text"):
    text: str


class ImageContent(Wire, frozen=True, tag_field="type", tag="image"):
    data: str
    mime_type: str


class AudioContent(Wire, frozen=True, tag_field="type", tag="audio"):
    data: str
    mime_type: str


class ResourceLink(Wire, frozen=True, tag_field="type", tag="resource_link"):
    name: str
    uri: str


class Resource(Wire, frozen=True):
    uri: str
    text: str | None = None
    blob: str | None = None
    mime_type: str | None = None


class EmbeddedResource(Wire, frozen=True, tag_field="type", tag="resource"):
    resource: Resource


ContentBlock: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource


class Implementation(Wire, frozen=True):
    name: str = ""
    version: str = ""
    title: str | None = None


class FileSystemCapabilities(Wire, frozen=True):
    read_text_file: bool = False
    write_text_file: bool = False


class ClientSessionCapabilities(Wire, frozen=True):
    notices: Meta | None = None
    compaction: Meta | None = None


class ElicitationCapabilities(Wire, frozen=True):
    form: Meta | None = None
    url: Meta | None = None


class AuthCapabilities(Wire, frozen=True):
    terminal: bool = False


class ClientCapabilities(Wire, frozen=True):
    fs: FileSystemCapabilities = FileSystemCapabilities()
    terminal: bool = False
    auth: AuthCapabilities = AuthCapabilities()
    elicitation: ElicitationCapabilities | None = None
    session: ClientSessionCapabilities | None = None
    meta: Meta | None = msgspec.field(default=None, name="_meta")


class InitializeRequest(Wire, frozen=True):
    protocol_version: int
    client_capabilities: ClientCapabilities = ClientCapabilities()
    client_info: Implementation | None = None


class NewSessionRequest(Wire, frozen=True):
    cwd: str
    mcp_servers: tuple[Meta, ...] = ()
    additional_directories: tuple[str, ...] = ()
    meta: Meta | None = msgspec.field(default=None, name="_meta")


class LoadSessionRequest(NewSessionRequest, frozen=True, kw_only=True):
    """The request to load, resume or fork a session."""

    session_id: str


class ListSessionsRequest(Wire, frozen=True):
    cwd: str | None = None
    cursor: str | None = None


class SessionRequest(Wire, frozen=True):
    """A request or notification with no parameter but the session."""

    session_id: str


class SetSessionModeRequest(Wire, frozen=True):
    session_id: str
    mode_id: str


class SetConfigOptionRequest(Wire, frozen=True):
    session_id: str
    config_id: str
    value: str | bool


class PromptRequest(Wire, frozen=True):
    session_id: str
    prompt: list[ContentBlock]


class AuthenticateRequest(Wire, frozen=True):
    method_id: str


class Empty(Wire, frozen=True):
    """A request or response without fields."""


class PromptCapabilities(Wire, frozen=True):
    image: bool = False
    embedded_context: bool = False


class McpCapabilities(Wire, frozen=True):
    http: bool = False
    sse: bool = False


class AgentCapabilities(Wire, frozen=True):
    load_session: bool = False
    prompt_capabilities: PromptCapabilities = PromptCapabilities()
    mcp_capabilities: McpCapabilities = McpCapabilities()
    session_capabilities: Meta | UnsetType = UNSET


class AuthMethod(Wire, frozen=True):
    id: str
    name: str
    description: str
    meta: Meta | UnsetType = msgspec.field(default=UNSET, name="_meta")


class AuthMethodTerminal(Wire, frozen=True, tag_field="type", tag="terminal"):
    id: str
    name: str
    description: str
    args: list[str]


class InitializeResponse(Wire, frozen=True):
    protocol_version: int
    agent_capabilities: AgentCapabilities
    agent_info: Implementation
    auth_methods: list[AuthMethod | AuthMethodTerminal]


class SessionMode(Wire, frozen=True):
    id: str
    name: str
    description: str


class SessionModeState(Wire, frozen=True):
    current_mode_id: str
    available_modes: list[SessionMode]


class ConfigOptionValue(Wire, frozen=True):
    value: str
    name: str
    description: str | None = None


class ConfigOption(Wire, frozen=True, tag_field="type", tag="select"):
    """A session setting with a list of values."""

    id: str
    name: str
    current_value: str
    options: list[ConfigOptionValue]
    category: str | None = None
    description: str | None = None


class OpenSessionResponse(Wire, frozen=True):
    """The response to `session/new`, `load`, `resume` and `fork`. `load` and `resume` leave out the id."""

    modes: SessionModeState
    config_options: list[ConfigOption]
    session_id: str | UnsetType = UNSET


class SessionInfo(Wire, frozen=True):
    session_id: str
    cwd: str
    title: str | None = None
    updated_at: str | None = None


class ListSessionsResponse(Wire, frozen=True):
    sessions: list[SessionInfo]
    next_cursor: str | None = None


class SetConfigOptionResponse(Wire, frozen=True):
    config_options: list[ConfigOption]


StopReason: TypeAlias = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]


class PromptResponse(Wire, frozen=True):
    stop_reason: StopReason


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


class PermissionOption(Wire, frozen=True):
    option_id: str
    name: str
    kind: str


class RequestPermissionRequest(Wire, frozen=True):
    session_id: str
    tool_call: ToolCallFields
    options: list[PermissionOption]


class PermissionOutcome(Wire, frozen=True):
    outcome: str
    option_id: str = ""


class RequestPermissionResponse(Wire, frozen=True):
    outcome: PermissionOutcome


class CreateElicitationRequest(Wire, frozen=True):
    """A question to the user: a form (`mode` "form"), or a page to open (`mode` "url")."""

    session_id: str
    mode: str
    message: str
    requested_schema: dict[str, Any] | UnsetType = UNSET
    elicitation_id: str | UnsetType = UNSET
    url: str | UnsetType = UNSET


class CreateElicitationResponse(Wire, frozen=True):
    action: str
    content: dict[str, Any] | None = None


class ReadTextFileRequest(Wire, frozen=True):
    session_id: str
    path: str


class ReadTextFileResponse(Wire, frozen=True):
    content: str


class WriteTextFileRequest(Wire, frozen=True):
    session_id: str
    path: str
    content: str


class EnvVariable(Wire, frozen=True):
    name: str
    value: str


class CreateTerminalRequest(Wire, frozen=True):
    session_id: str
    command: str
    args: list[str]
    env: list[EnvVariable]
    cwd: str
    output_byte_limit: int


class CreateTerminalResponse(Wire, frozen=True):
    terminal_id: str


class TerminalRequest(Wire, frozen=True):
    session_id: str
    terminal_id: str


class TerminalExitStatus(Wire, frozen=True):
    exit_code: int | None = None


class TerminalOutputResponse(Wire, frozen=True):
    output: str
    truncated: bool = False
