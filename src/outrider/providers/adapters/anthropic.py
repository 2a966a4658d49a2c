"""Anthropic Messages API: Claude."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

import msgspec

from outrider.conversation.messages import (
    Message,
    RawBlock,
    ServerToolResultBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from outrider.conversation.store import AttachmentStore
from outrider.errors import ProviderError
from outrider.providers.api import ApiProvider
from outrider.providers.base import CacheLifetime, ModelSettings, Request, ToolSpec
from outrider.providers.credentials.keys import KEY_VARIABLES
from outrider.providers.rendering import tool_schemas
from outrider.providers.rendering.message_parts import Family, File, Part, Result, Title, UserMessage, reminder_text
from outrider.providers.rendering.output_schemas import ANTHROPIC
from outrider.providers.rendering.server_tools import described
from outrider.providers.rendering.transcript import Transcript
from outrider.providers.rendering.wire_names import safe_id, safe_name
from outrider.providers.streams.anthropic_server_tools import tools_found
from outrider.providers.streams.anthropic_stream import IncomingReply
from outrider.providers.streams.stream import Incoming
from outrider.providers.transport.http import Body

VERSION = "2023-06-01"
EPHEMERAL = {"type": "ephemeral"}
ONE_HOUR = EPHEMERAL | {"ttl": "1h"}

_DOMAINS = ("allowed_domains", "blocked_domains", "max_uses")
_SERVER_TOOLS: dict[str, tuple[str, str, dict[str, Any], tuple[str, ...]]] = {
    "web_search": ("web_search_20250305", "web_search_20260318", {}, _DOMAINS),
    "web_fetch": ("web_fetch_20250910", "web_fetch_20260318", {"citations": {"enabled": True}}, _DOMAINS),
    "code_execution": ("code_execution_20250825", "code_execution_20260521", {}, ()),
}
"""The first and the newest version of each tool, its fields, and the options that it takes.

Every model that has the tools takes the first versions, and none of them needs another tool beside it. The newest web
tools may run code that filters what they find.
"""
_NEWEST = "|".join(newest for _, newest, *_ in _SERVER_TOOLS.values())
_NO_NEWEST = re.compile(rf"{_NEWEST}|programmatic tool calling|tool types?\b", re.IGNORECASE)
"""What a refusal of the newest versions says."""
_SEARCH = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
_SEARCH_RESULT = b'"tool_search_tool_result"'
_CODE_RESULT = b'code_execution_tool_result"'
_GONE = "This tool is not available at the moment."
_LEAST_BUDGET = 1024  # the smallest budget for thinking that the API takes


class Anthropic(ApiProvider):
    """Claude through the Messages API."""

    prefix = "anthropic"
    label = "Anthropic"
    key_variables: ClassVar[tuple[str, ...]] = KEY_VARIABLES["anthropic"]
    base_variable = "ANTHROPIC_BASE_URL"
    default_base = "https://api.anthropic.com"
    endpoint = "/v1/messages"
    titles: ClassVar[Mapping[Family, Title]] = {"pdf": "caption", "text": "caption"}
    dialect = ANTHROPIC
    errors_hold_files = False

    def headers(self, key: str) -> dict[str, str]:
        return {"x-api-key": key, "anthropic-version": VERSION, "content-type": "application/json"}

    def body(self, request: Request, transcript: Transcript) -> Body:
        """Return the request. Cache marks are outside of the messages, so that these stay as they were rendered."""
        head = self._head()
        head["cache_control"] = mark = ONE_HOUR if request.settings.cache == "1h" else EPHEMERAL
        if request.system:
            head["system"] = [{"type": "text", "text": request.system, "cache_control": mark}]
        gone = self._tools_gone(request, transcript)
        if request.tools or request.server_tools or gone:
            newest = self._has_newest_tools
            depends: tuple[str | bool, ...] = (*gone, newest, mark is ONE_HOUR)
            head["tools"] = self.tools_once(request, lambda request: _tools(request, newest, gone, mark), depends)
        if container := self._container(request, transcript):
            head["container"] = container
        head |= self._settings(request.settings) | self._options | request.settings.options
        if schema := self.output_schema(request):
            # From the first turn on: changing it invalidates the prompt cache. Calls and thinking are not held to it.
            given = {"format": {"type": "json_schema", "schema": schema}}
            head["output_config"] = given | head.get("output_config", {})
        # Consecutive user messages count as one, so the reminder can be a message of its own.
        reminder = {"role": "user", "content": [_part(reminder_text(request.reminder))]}
        return transcript.request(head, "messages", [reminder] if request.reminder else ())

    @property
    def _has_newest_tools(self) -> bool:
        """Whether server tools have their newest versions. Servers that only resemble the API get the first ones."""
        return self.capabilities.newest_server_tools and self.is_vendor("newest_server_tools")

    def cache_seconds(self, cache: CacheLifetime | None) -> float | None:
        return 3600.0 if cache == "1h" else 300.0

    def older_server_tools(self, error: ProviderError, request: Request) -> bool:
        """Declare the first versions of server tools from now on if the API refused the newest ones for this model."""
        is_refused = error.status in (400, 422) and bool(_NO_NEWEST.search(str(error)))
        if not (is_refused and request.server_tools and self._has_newest_tools):
            return False
        self.capabilities = msgspec.structs.replace(self.capabilities, newest_server_tools=False)
        return True

    def _tools_gone(self, request: Request, transcript: Transcript) -> tuple[str, ...]:
        """Return the tools that searches found and the request does not have. The API refuses it without them."""
        if not transcript.contains(_SEARCH_RESULT):
            return ()
        found = tools_found(request.messages, self.is_own)
        return tuple(sorted(found - {safe_name(spec.name) for spec in request.tools}))

    def _container(self, request: Request, transcript: Transcript) -> str:
        """Return the container in which the code of this conversation ran last: its files are there. Empty if none."""
        runs_code = self._has_newest_tools or any(tool.name == "code_execution" for tool in request.server_tools)
        if not (runs_code and request.server_tools and transcript.contains(_CODE_RESULT)):
            return ""
        blocks = (block for message in reversed(request.messages) for block in reversed(message.content))
        states = (block.state for block in blocks if isinstance(block, ServerToolUseBlock | ServerToolResultBlock))
        kept = (self.own_data(state).get("container") for state in states)
        return next((each["id"] for each in kept if isinstance(each, dict) and not _has_expired(each)), "")

    def _head(self) -> dict[str, Any]:
        return {"model": self.model, "max_tokens": self.reply_tokens, "stream": True}

    def _settings(self, settings: ModelSettings) -> dict[str, Any]:
        fields = self.setting_fields(settings, "max_tokens")
        if choice := settings.tool_choice:
            kinds = {"auto": "auto", "required": "any", "none": "none"}
            fields["tool_choice"] = {"type": kinds[choice]} if choice in kinds else {"type": "tool", "name": choice}
            if choice not in ("auto", "none"):
                fields.pop("thinking", None)  # the API refuses to think before a call that it must make
        thinking = fields.get("thinking", {})
        if thinking.get("budget_tokens", 0) >= (longest := settings.max_tokens or self.reply_tokens):
            fields["thinking"] = thinking | {"budget_tokens": max(_LEAST_BUDGET, longest // 2)}
        return fields

    def user_items(self, message: UserMessage) -> Iterable[Any]:
        content = [*map(_result, message.results), *map(_part, message.moved), *map(_part, message.content)]
        return [{"role": "user", "content": content}] if content else ()

    def assistant_items(self, message: Message, files: Mapping[str, File], prefix_changed: bool) -> Iterable[Any]:
        content = list(self._assistant_content(message, prefix_changed))
        return [{"role": "assistant", "content": content}] if content else ()

    def _assistant_content(self, message: Message, prefix_changed: bool) -> Iterator[dict[str, Any]]:
        for block in message.content:
            match block:
                case TextBlock(text=text, state=state):
                    cited = self.own_data(state).get("citations")
                    yield {"type": "text", "text": text} | ({"citations": cited} if cited else {})
                case ServerToolUseBlock(state=state) | ServerToolResultBlock(state=state) | RawBlock(state=state):
                    if item := self.own_data(state).get("block"):
                        yield item
                case ToolUseBlock(state=state):
                    extra = self.own_data(state).get("extra") or {}
                    named = {"id": safe_id(block.id), "name": safe_name(block.name)}
                    yield {"type": "tool_use", **named, "input": block.input, **extra}
                case ThinkingBlock(thinking=thinking, state=state) if not prefix_changed:
                    # The signature covers all that comes before: it is invalid once that was changed.
                    if item := _thinking(thinking, self.own_data(state)):
                        yield item

    def incoming(self, tools: Collection[str] = (), store: AttachmentStore | None = None) -> Incoming:
        return IncomingReply(self.origin)


def _has_expired(container: dict[str, Any]) -> bool:
    """Return whether the API has deleted a container. It refuses a request that names one."""
    try:
        return datetime.fromisoformat(container["expires_at"]) <= datetime.now(UTC)
    except (KeyError, TypeError, ValueError):
        return True


def _thinking(thinking: str, data: dict[str, Any]) -> dict[str, Any] | None:
    if redacted := data.get("redacted"):
        return {"type": "redacted_thinking", "data": redacted}
    signature = data.get("signature")
    return {"type": "thinking", "thinking": thinking, "signature": signature} if signature else None


def _tools(
    request: Request, newest: bool, gone: Sequence[str] = (), mark: Mapping[str, str] = EPHEMERAL
) -> Iterator[dict[str, Any]]:
    """Yield the tools, those last that the API searches: they are no part of the cached prefix."""
    served = {
        name: ({"type": versions[newest], "name": name, **fields}, taken)
        for name, (*versions, fields, taken) in _SERVER_TOOLS.items()
    }
    tools = described(request.server_tools, "Anthropic", served)
    tools += [_function(spec) for spec in request.tools if not spec.deferred]
    later = [_function(spec) for spec in request.tools if spec.deferred]
    later += [{"name": name, "description": _GONE, "input_schema": {"type": "object"}} for name in gone]
    if later:
        tools.append(_SEARCH)
    yield from tools[:-1]
    yield tools[-1] | {"cache_control": mark}
    yield from (tool | {"defer_loading": True} for tool in later)


def _function(spec: ToolSpec) -> dict[str, Any]:
    spec = tool_schemas.accepted(spec, tool_schemas.ANTHROPIC)
    return {"name": spec.name, "description": spec.description, "input_schema": spec.parameters}


def _result(result: Result) -> dict[str, Any]:
    content = [_part(part) for part in result.parts]
    rendered = {"type": "tool_result", "tool_use_id": safe_id(result.call_id), "content": content}
    return rendered | {"is_error": True} if result.is_error else rendered


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if part.family == "image":
        if part.url:
            return {"type": "image", "source": {"type": "url", "url": part.url}}
        return {"type": "image", "source": {"type": "base64", "media_type": part.mime_type, "data": part.base64}}
    context = {"context": part.caption.description} if part.caption.description else {}
    return {"type": "document", "title": part.name, **context, "source": _document(part)}


def _document(file: File) -> dict[str, Any]:
    if file.family == "text":
        return {"type": "text", "media_type": "text/plain", "data": file.text}
    if file.url:
        return {"type": "url", "url": file.url}
    return {"type": "base64", "media_type": file.mime_type, "data": file.base64}
