"""What a client is asked: permission, files and terminals."""

from __future__ import annotations

from outrider.acp.schema.base import Wire
from outrider.acp.schema.notifications import CallFields


class Option(Wire, frozen=True):
    option_id: str
    name: str
    kind: str


class RequestPermission(Wire, frozen=True):
    session_id: str
    tool_call: CallFields
    options: list[Option]


class Outcome(Wire, frozen=True):
    outcome: str
    option_id: str = ""


class Permission(Wire, frozen=True):
    outcome: Outcome


class ReadTextFile(Wire, frozen=True):
    session_id: str
    path: str


class FileText(Wire, frozen=True):
    content: str


class WriteTextFile(Wire, frozen=True):
    session_id: str
    path: str
    content: str


class Variable(Wire, frozen=True):
    name: str
    value: str


class CreateTerminal(Wire, frozen=True):
    session_id: str
    command: str
    args: list[str]
    env: list[Variable]
    cwd: str
    output_byte_limit: int


class TerminalCreated(Wire, frozen=True):
    terminal_id: str


class OfTerminal(Wire, frozen=True):
    session_id: str
    terminal_id: str


class ExitStatus(Wire, frozen=True):
    exit_code: int | None = None
    signal: str | None = None


class TerminalOutput(Wire, frozen=True):
    output: str
    truncated: bool = False
    exit_status: ExitStatus | None = None
