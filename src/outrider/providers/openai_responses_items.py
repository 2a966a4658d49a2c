"""The items of an OpenAI Responses reply: messages, reasoning, calls, and tools that the API runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from outrider.conversation.messages import Citation, ProviderState, ToolUseBlock
from outrider.errors import IncompleteStreamError
from outrider.providers.server_tools import source_lines, text_field
from outrider.providers.stream import finished_call
from outrider.providers.tool_search import SHOWN_NAME

FAILED = ("failed", "incomplete")
SEARCH_CALL, SEARCH_OUTPUT = "tool_search_call", "tool_search_output"
SERVER_ITEMS = ("web_search_call", "code_interpreter_call", SEARCH_CALL, SEARCH_OUTPUT)
_SHOWN_ITEMS = ("message", "reasoning", "function_call", "image_generation_call")


class ItemPart(msgspec.Struct, gc=False):
    """A part of a message or of reasoning."""

    type: str = ""
    text: str | None = None
    refusal: str | None = None
    annotations: Any = None


class Item(msgspec.Struct, gc=False):
    """The fields of messages, calls and reasoning in one struct."""

    type: str = ""
    id: str | None = None
    status: str | None = None
    phase: str | None = None
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    """The group of a deferred tool."""
    arguments: str | None = None
    summary: list[ItemPart] | None = None
    content: list[ItemPart] | None = None
    result: str | None = None
    """A picture in base64."""
    output_format: str | None = None
    raw: dict[str, Any] | None = None
    """A reasoning item, or one of a tool that the API runs, as it came."""

    @property
    def text(self) -> str:
        """The text, reasoning or arguments."""
        if self.type == "function_call":
            return self.arguments or ""
        parts = [part.text or part.refusal or "" for part in (*(self.summary or ()), *(self.content or ()))]
        return ("\n\n" if self.type == "reasoning" else "").join(filter(None, parts))

    @property
    def tool_use_id(self) -> str:
        """The id that the call's result refers to."""
        return self.call_id or self.id or ""


class _Kind(msgspec.Struct, gc=False):
    type: str = ""


_T = TypeVar("_T")
_KIND = msgspec.json.Decoder(_Kind)
_ITEM = msgspec.json.Decoder(Item)
_RAW = msgspec.json.Decoder(dict[str, Any])


def decoded(data: bytes | msgspec.Raw, decoder: msgspec.json.Decoder[_T]) -> _T:
    """Decode an event, or a part of one. Raises IncompleteStreamError."""
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise IncompleteStreamError(f"OpenAI sent an event that cannot be decoded: {error}", retryable=True) from None


def decode_item(raw: msgspec.Raw) -> Item:
    """Decode an item. Of an unknown kind, return only the kind."""
    kind = decoded(raw, _KIND).type
    if kind in SERVER_ITEMS:
        found = decoded(raw, _RAW)
        found.pop("created_by", None)  # a field of replies that requests do not take
        return Item(kind, text_field(found, "id"), text_field(found, "status"), raw=found)
    if kind not in _SHOWN_ITEMS:
        return Item(kind)
    item = decoded(raw, _ITEM)
    item.raw = decoded(raw, _RAW) if kind == "reasoning" else None
    return item


def server_call(raw: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the tool that an item is a call of, and its arguments."""
    if raw.get("type") == "code_interpreter_call":
        return "code_execution", {"code": text_field(raw, "code")}
    if raw.get("type") in (SEARCH_CALL, SEARCH_OUTPUT):
        searched = raw.get("arguments")
        return SHOWN_NAME, searched if isinstance(searched, dict) else {}
    action = raw.get("action")
    names = ("query", "queries", "url", "pattern")
    given = {name: action[name] for name in names if action.get(name)} if isinstance(action, dict) else {}
    if "query" in given:
        given.pop("queries", None)
    return "web_search" if text_field(action, "type") in ("", "search") else "web_fetch", given


def server_result(raw: dict[str, Any]) -> tuple[str, list[str]]:
    """Return the text of a result, and the addresses of the pictures."""
    if raw.get("type") == SEARCH_OUTPUT:
        return "\n".join(f"- {name}" for name in _loaded(raw.get("tools"))), []
    outputs = raw.get("outputs")
    printed = [each for each in outputs if isinstance(each, dict)] if isinstance(outputs, list) else []
    action = raw.get("action")
    sources = action.get("sources") if isinstance(action, dict) else None
    found = [Citation(text_field(each, "url")) for each in sources] if isinstance(sources, list) else []
    text = "\n".join([*(text_field(each, "logs") for each in printed), source_lines(found)])
    return text.strip("\n"), [url for each in printed if (url := text_field(each, "url"))]


def _loaded(tools: Any) -> Iterator[str]:
    """Yield the names of the tools that a search has found, also of those in groups."""
    for tool in tools if isinstance(tools, list) else ():
        if text_field(tool, "type") == "namespace":
            yield from _loaded(tool.get("tools"))
        elif name := text_field(tool, "name"):
            yield name


def citation(raw: dict[str, Any], before: int) -> Citation | None:
    """Return the source of an annotation. A file in a container has no address: its ids are in the title."""
    start, end = raw.get("start_index"), raw.get("end_index")
    place = (start + before, end + before) if isinstance(start, int) and isinstance(end, int) else (None, None)
    if raw.get("type") == "url_citation":
        return Citation(text_field(raw, "url"), text_field(raw, "title"), "", *place)
    if file := text_field(raw, "file_id"):
        where = "/".join(filter(None, (text_field(raw, "container_id"), file)))
        return Citation("", f"{text_field(raw, 'filename') or 'file'} ({where})", "", *place)
    return None


def finished_call_of(item: Item, state: ProviderState | None) -> ToolUseBlock:
    """Return the call of an item."""
    if item.status == "incomplete":
        # The call is incomplete, so it must not run, even if its arguments look valid.
        return ToolUseBlock(item.tool_use_id, item.name or "", {}, invalid_input=item.text, state=state)
    return finished_call(item.tool_use_id, item.name or "", item.text, state)


def state_data(item: Item, follows: str, reasoned: bool) -> dict[str, Any]:
    """Return the state to send back with a text or a call: phase, group, and beside reasoning its id and position."""
    kept = {"phase": item.phase, "namespace": item.namespace}
    if reasoned:
        kept |= {"id": item.id, "status": item.status, "follows": follows}
    return {name: value for name, value in kept.items() if value}


def is_replayable(reasoning: dict[str, Any]) -> bool:
    """Return whether a reasoning item is complete. The API stores nothing, so an id alone is not enough."""
    return bool(reasoning.get("id") and (reasoning.get("encrypted_content") or reasoning.get("content")))
