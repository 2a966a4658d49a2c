"""Requests that the client sends, and the responses to them."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from outrider.acp.schema.content import ContentBlock, Meta, Wire


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
