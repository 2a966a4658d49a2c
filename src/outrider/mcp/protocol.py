"""The messages of the Model Context Protocol in both eras.

Since 2026-07-28 a request carries the protocol version and the client's capabilities itself ("stateless"). Up to
2025-11-25 a connection begins with `initialize`. Servers are not trusted: fields that a server omits have defaults, and
the parts of a list are decoded one by one, so that one invalid tool does not hide the others.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

MODERN_VERSIONS: Final = ("2026-07-28",)  # stateless versions, newest first
HANDSHAKE_VERSIONS: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Versions that begin with `initialize`, newest first."""

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_INFO_KEY: Final = "io.modelcontextprotocol/clientInfo"
CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
SERVER_INFO_KEY: Final = "io.modelcontextprotocol/serverInfo"
RELATED_TASK_KEY: Final = "io.modelcontextprotocol/related-task"

TASKS_EXTENSION: Final = "io.modelcontextprotocol/tasks"

DISCOVER: Final = "server/discover"
LISTEN: Final = "subscriptions/listen"
INITIALIZE: Final = "initialize"
INITIALIZED: Final = "notifications/initialized"
CANCELLED: Final = "notifications/cancelled"
PROGRESS: Final = "notifications/progress"
PING: Final = "ping"
ELICIT: Final = "elicitation/create"
LIST_TOOLS: Final = "tools/list"
CALL_TOOL: Final = "tools/call"
LIST_RESOURCES: Final = "resources/list"
LIST_TEMPLATES: Final = "resources/templates/list"
READ_RESOURCE: Final = "resources/read"
LIST_PROMPTS: Final = "prompts/list"
GET_PROMPT: Final = "prompts/get"
COMPLETE: Final = "completion/complete"
GET_TASK: Final = "tasks/get"
UPDATE_TASK: Final = "tasks/update"
TASK_RESULT: Final = "tasks/result"
CANCEL_TASK: Final = "tasks/cancel"
TASK_STATUS: Final = "notifications/tasks/status"

ListKind = Literal["tools", "resources", "prompts"]
CHANGES: Final[dict[str, ListKind]] = {
    "notifications/tools/list_changed": "tools",
    "notifications/resources/list_changed": "resources",
    "notifications/prompts/list_changed": "prompts",
}
"""What a notification says has changed."""

METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
UNSUPPORTED_VERSION: Final = -32022
URL_ELICITATION_REQUIRED: Final = -32042


class _Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A message or a part of one, with the field names of the protocol."""


class Implementation(_Wire, frozen=True):
    name: str = ""
    version: str = ""
    title: str | None = None


class ServerCapabilities(_Wire, frozen=True):
    """What a server offers; None for what it does not."""

    tools: dict[str, Any] | None = None
    resources: dict[str, Any] | None = None
    prompts: dict[str, Any] | None = None
    completions: dict[str, Any] | None = None
    extensions: dict[str, Any] | None = None
    tasks: Any = None  # up to 2025-11-25; since then tasks are an extension

    def announces(self, kind: ListKind) -> bool:
        """Return whether the server notifies of changes of a list."""
        offered: dict[str, Any] | None = getattr(self, kind)
        return bool(offered and offered.get("listChanged"))

    @property
    def runs_tasks(self) -> bool:
        """Whether a tool call may ask for a task (2025-11-25)."""
        return self._has_task_feature("requests", "tools", "call")

    @property
    def cancels_tasks(self) -> bool:
        return self._has_task_feature("cancel")

    def _has_task_feature(self, *path: str) -> bool:
        found = self.tasks
        for key in path:
            found = found.get(key) if isinstance(found, dict) else None
        return found is not None and found is not False


class DiscoverResult(_Wire, frozen=True):
    supported_versions: list[str]
    capabilities: ServerCapabilities = ServerCapabilities()
    instructions: str | None = None
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")


class InitializeResult(_Wire, frozen=True):
    protocol_version: str
    capabilities: ServerCapabilities = ServerCapabilities()
    server_info: Implementation = Implementation()
    instructions: str | None = None


class ToolAnnotations(_Wire, frozen=True):
    """Hints of a server about a tool. They may be wrong."""

    title: str | None = None
    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None


class ToolSpec(_Wire, frozen=True):
    name: str
    input_schema: dict[str, Any] = {}
    title: str | None = None
    description: str | None = None
    output_schema: dict[str, Any] | None = None
    annotations: ToolAnnotations | None = None
    execution: Any = None

    @property
    def runs_as_task(self) -> bool:
        """Whether a call may, or must, ask for a task (2025-11-25)."""
        support = self.execution.get("taskSupport") if isinstance(self.execution, dict) else None
        return support in ("required", "optional")


class Resource(_Wire, frozen=True):
    uri: str
    name: str = ""
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None


class ResourceTemplate(_Wire, frozen=True):
    """A family of resources: `uri_template` has placeholders (RFC 6570)."""

    uri_template: str
    name: str = ""
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None


class PromptArgument(_Wire, frozen=True):
    name: str
    title: str | None = None
    description: str | None = None
    required: bool | None = None


class Prompt(_Wire, frozen=True):
    name: str
    title: str | None = None
    description: str | None = None
    arguments: list[PromptArgument] | None = None


class ResourceContents(_Wire, frozen=True):
    """The content of a resource: text, or a blob in base64."""

    uri: str = ""
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None


class ContentBlock(_Wire, frozen=True):
    """One block of a result or a prompt: text, image, audio, resource, resource_link."""

    type: str
    text: str = ""
    data: str = ""
    mime_type: str | None = None
    resource: ResourceContents | None = None
    uri: str = ""
    name: str = ""
    title: str | None = None
    description: str | None = None
    size: int | None = None


class Outcome(_Wire, frozen=True):
    """A result that may be incomplete: it then asks for input first (since 2026-07-28)."""

    result_type: str = "complete"
    input_requests: dict[str, InputRequest] | None = None
    request_state: str | None = None


class InputRequest(_Wire, frozen=True):
    method: str
    params: msgspec.Raw = msgspec.Raw(b"{}")


class CallToolResult(Outcome, frozen=True):
    """The result of a tool call. Its blocks are decoded one by one."""

    content: list[msgspec.Raw] = []
    structured_content: msgspec.Raw = msgspec.Raw()
    is_error: bool | None = None


class Task(_Wire, frozen=True):
    """The state of a call that goes on after its first answer, in the form of either era."""

    task_id: str
    status: str
    status_message: str | None = None
    last_updated_at: str | None = None
    ttl: float | None = None  # milliseconds from its creation for which the server keeps the task (2025-11-25)
    ttl_ms: float | None = None  # the same since 2026-07-28
    poll_interval: float | None = None  # milliseconds between two polls (2025-11-25)
    poll_interval_ms: float | None = None  # the same since 2026-07-28
    input_requests: dict[str, InputRequest] | None = None
    """What the server needs while the task waits for input (since 2026-07-28)."""
    result: msgspec.Raw = msgspec.Raw()  # the result of a completed task (since 2026-07-28)
    error: msgspec.Raw = msgspec.Raw()  # the JSON-RPC error of a failed task (since 2026-07-28)


class CreateTaskResult(_Wire, frozen=True):
    """The answer to a call that asked for a task (2025-11-25); None if the server answered with the result."""

    task: Task | None = None


class ReadResourceResult(Outcome, frozen=True):
    contents: list[ResourceContents] = []


class PromptMessage(_Wire, frozen=True):
    role: Literal["user", "assistant"]
    content: ContentBlock


class GetPromptResult(Outcome, frozen=True):
    messages: list[PromptMessage] = []
    description: str | None = None


class Completion(_Wire, frozen=True):
    values: list[str] = []
    total: int | None = None
    has_more: bool | None = None


class CompleteResult(_Wire, frozen=True):
    completion: Completion = Completion()


class Page(_Wire, frozen=True):
    """One page of any list; the field named after the list has the items."""

    tools: list[msgspec.Raw] = []
    resources: list[msgspec.Raw] = []
    resource_templates: list[msgspec.Raw] = []
    prompts: list[msgspec.Raw] = []
    next_cursor: str | None = None
    ttl_ms: float | None = None  # milliseconds for which the list may be used without asking again (since 2026-07-28)


class ElicitParams(_Wire, frozen=True):
    """A question of the server to the person: a form, or a page to open in the browser."""

    message: str = ""
    mode: str = "form"
    requested_schema: dict[str, Any] | None = None
    url: str | None = None
    elicitation_id: str | None = None
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")


class CancelledParams(_Wire, frozen=True):
    request_id: msgspec.Raw


class ProgressParams(_Wire, frozen=True):
    progress_token: int | str
    progress: float = 0.0
    total: float | None = None
    message: str | None = None
