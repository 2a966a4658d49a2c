"""What a client asks, and what it is answered."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from outrider.acp.schema.base import Meta, Wire
from outrider.acp.schema.content import ContentBlock


class Implementation(Wire, frozen=True):
    name: str = ""
    version: str = ""
    title: str | None = None


class FileSystem(Wire, frozen=True):
    read_text_file: bool = False
    write_text_file: bool = False


class ClientSession(Wire, frozen=True):
    notices: Meta | None = None


class ClientCapabilities(Wire, frozen=True):
    fs: FileSystem = FileSystem()
    terminal: bool = False
    session: ClientSession | None = None
    meta: Meta | None = msgspec.field(default=None, name="_meta")


class Initialize(Wire, frozen=True):
    protocol_version: int
    client_capabilities: ClientCapabilities = ClientCapabilities()
    client_info: Implementation | None = None


class NewSession(Wire, frozen=True):
    cwd: str
    mcp_servers: tuple[Meta, ...] = ()
    additional_directories: tuple[str, ...] = ()


class LoadSession(Wire, frozen=True):
    session_id: str
    cwd: str
    mcp_servers: tuple[Meta, ...] = ()
    additional_directories: tuple[str, ...] = ()


class ListSessions(Wire, frozen=True):
    cwd: str | None = None
    cursor: str | None = None


class OfSession(Wire, frozen=True):
    """A request that has nothing but the session it is about."""

    session_id: str


class SetMode(Wire, frozen=True):
    session_id: str
    mode_id: str


class SetConfigOption(Wire, frozen=True):
    session_id: str
    config_id: str
    value: str | bool


class Prompt(Wire, frozen=True):
    session_id: str
    prompt: list[ContentBlock]


class Authenticate(Wire, frozen=True):
    method_id: str


class Nothing(Wire, frozen=True):
    """A request, or an answer, without fields."""


class PromptCapabilities(Wire, frozen=True):
    image: bool = False
    embedded_context: bool = False


class AgentCapabilities(Wire, frozen=True):
    load_session: bool = False
    prompt_capabilities: PromptCapabilities = PromptCapabilities()
    session_capabilities: Meta | UnsetType = UNSET
    meta: Meta | UnsetType = msgspec.field(default=UNSET, name="_meta")


class Initialized(Wire, frozen=True):
    protocol_version: int
    agent_capabilities: AgentCapabilities
    agent_info: Implementation


class Mode(Wire, frozen=True):
    id: str
    name: str
    description: str


class Modes(Wire, frozen=True):
    current_mode_id: str
    available_modes: list[Mode]


class Choice(Wire, frozen=True):
    value: str
    name: str
    description: str | None = None


class Selector(Wire, frozen=True, tag_field="type", tag="select"):
    """A setting of a session with a list to choose from."""

    id: str
    name: str
    current_value: str
    options: list[Choice]
    category: str | None = None
    description: str | None = None


class Opened(Wire, frozen=True):
    """A session is ready. One that was loaded has no need to be told its id."""

    modes: Modes
    config_options: list[Selector]
    session_id: str | UnsetType = UNSET


class SessionInfo(Wire, frozen=True):
    session_id: str
    cwd: str
    title: str | None = None
    updated_at: str | None = None


class Sessions(Wire, frozen=True):
    sessions: list[SessionInfo]
    next_cursor: str | None = None


class ConfigOptions(Wire, frozen=True):
    config_options: list[Selector]


StopReason: TypeAlias = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]


class Prompted(Wire, frozen=True):
    stop_reason: StopReason
