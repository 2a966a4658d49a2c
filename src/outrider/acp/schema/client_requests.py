"""Requests that the agent sends to the client: permission, files and terminals."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from outrider.acp.schema.content import Wire
from outrider.acp.schema.notifications import ToolCallFields


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
