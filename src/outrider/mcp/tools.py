"""Tools of servers as tools of an agent, under names that no other tool has."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, TypeAlias

from outrider.conversation.attachments import sha256
from outrider.errors import McpError
from outrider.mcp.channel import CallProgress
from outrider.mcp.protocol import CallToolResult, ToolAnnotations, ToolSpec
from outrider.mcp.results import tool_result
from outrider.mcp.schemas import accepted_schema
from outrider.mcp.servers import tool_prefix
from outrider.text.visible import one_line, plain_text
from outrider.tools.context import ToolContext
from outrider.tools.result import ToolResult
from outrider.tools.schema import Signature
from outrider.tools.tool import Effect, Tool

LONGEST_NAME = 64
LONGEST_DESCRIPTION = 4_000
_CONTEXT = "outrider_context"
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]+")
_HASH_LENGTH = 8
_PROGRESS_BURST, _PROGRESS_RATE = 20, 10

CallServer: TypeAlias = Callable[[str, Mapping[str, Any], Callable[[CallProgress], None]], Awaitable[CallToolResult]]
"""Calls a tool of one server by the server's own name of it. Raises McpError."""


def server_tools(
    server: str, specs: Iterable[ToolSpec], call: CallServer, *, trusted: bool = False
) -> tuple[list[Tool], list[str]]:
    """Return the tools of a server, and a sentence for each that was left out."""
    tools: dict[str, Tool] = {}
    skipped: list[str] = []
    for spec in specs:
        try:
            tool = _tool(server, spec, call, trusted, tools)
        except McpError as error:
            skipped.append(f"The tool {one_line(spec.name, 80)!r} of the MCP server {server} was left out: {error}.")
        else:
            tools[tool.name] = tool
    return list(tools.values()), skipped


def tool_name(server: str, tool: str, taken: Collection[str] = ()) -> str:
    """Return the name of a server's tool in an agent. A long or ambiguous name ends with a hash.

    >>> tool_name("git", "git_log"), tool_name("git", "a b", taken=["mcp__git__a_b"])
    ('mcp__git__git_log', 'mcp__git__a_b_c8687a08')
    """
    name = f"{tool_prefix(server)}{_NOT_IN_NAMES.sub('_', tool) or '_'}"
    if len(name) <= LONGEST_NAME and name not in taken:
        return name
    mark = sha256(tool.encode(errors="surrogatepass"))[:_HASH_LENGTH]
    return f"{name[: LONGEST_NAME - _HASH_LENGTH - 1]}_{mark}"


def _tool(server: str, spec: ToolSpec, call: CallServer, trusted: bool, taken: Collection[str]) -> Tool:
    name = tool_name(server, spec.name, taken)
    if name in taken:
        raise McpError("the server has two tools of this name")
    schema = accepted_schema(spec.input_schema)
    description = plain_text(spec.description or spec.title or spec.name, LONGEST_DESCRIPTION)
    short = name.removeprefix(tool_prefix(server))

    async def run(**arguments: Any) -> ToolResult:
        context: ToolContext[Any] = arguments.pop(_CONTEXT)
        try:
            result = await call(spec.name, arguments, _ProgressSender(context))
        except McpError as error:
            return ToolResult(plain_text(str(error), LONGEST_DESCRIPTION), is_error=True)
        return tool_result(result, short)

    run.__name__ = name
    signature = Signature(name, description, schema, _CONTEXT, (), frozenset(), frozenset({_CONTEXT}))
    return Tool(run, name, description, signature, _effect(spec.annotations, trusted), asynchronous=True)


def _effect(hints: ToolAnnotations | None, trusted: bool) -> Effect:
    """Return what a call may change. The hints of a server count only if the user trusts it."""
    if not trusted or hints is None:
        return "write"
    return "read" if hints.read_only_hint else "idempotent" if hints.idempotent_hint else "write"


class _ProgressSender:
    """Sends the progress of a call to observers: a burst, then some a second. The rest is dropped."""

    def __init__(self, context: ToolContext[Any]) -> None:
        self._context = context
        self._left = float(_PROGRESS_BURST)
        self._at = time.monotonic()

    def __call__(self, progress: CallProgress) -> None:
        now = time.monotonic()
        self._left = min(self._left + (now - self._at) * _PROGRESS_RATE, _PROGRESS_BURST)
        self._at = now
        if self._left >= 1:
            self._left -= 1
            self._context.progress(progress_text(progress))


def progress_text(progress: CallProgress) -> str:
    """Return progress as a line for people.

    >>> progress_text(CallProgress(3, 10, "reading")), progress_text(CallProgress(0.5))
    ('reading (3/10)', '0.5')
    """
    message = one_line(progress.message, 200)
    if progress.progress is None:
        return message
    count = f"{progress.progress:g}" if progress.total is None else f"{progress.progress:g}/{progress.total:g}"
    return f"{message} ({count})" if message else count
