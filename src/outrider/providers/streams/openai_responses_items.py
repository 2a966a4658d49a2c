"""The items of an OpenAI Responses reply: messages, reasoning, calls, and tools that the API runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from outrider.conversation.messages import Citation, ProviderState, ToolUseBlock
from outrider.providers.rendering.server_tools import SEARCH, source_lines, text_field
from outrider.providers.streams.stream import finished_call, lenient

FAILED = ("failed", "incomplete")
SEARCH_CALL, SEARCH_OUTPUT = "tool_search_call", "tool_search_output"
SERVER_ITEMS = ("web_search_call", "code_interpreter_call", SEARCH_CALL, SEARCH_OUTPUT)
CUSTOM_CALL = "custom_tool_call"
CALLS = ("function_call", CUSTOM_CALL)
PLAIN_ITEMS = ("message", "reasoning", *CALLS)  # items that a model writes without a tool of the API
_NOT_RUN = "this call was not run: its tool is not available"
_BLANK = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
    "AAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
_ANSWERS: dict[str, dict[str, Any]] = {
    "computer_call": {"output": {"type": "computer_screenshot", "image_url": _BLANK}},
    "local_shell_call": {"output": _NOT_RUN},
    "shell_call": {"output": [{"stdout": "", "stderr": _NOT_RUN, "outcome": {"type": "exit", "exit_code": 1}}]},
    "apply_patch_call": {"status": "failed", "output": _NOT_RUN},
}
"""How a call that only its API understands is answered. The API refuses a conversation with an open one."""


class ItemPart(msgspec.Struct, gc=False):
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
    namespace: str | None = None  # the group of a deferred tool
    arguments: str | None = None
    input: str | None = None  # the text that a custom tool is called with
    summary: list[ItemPart] | None = None
    content: list[ItemPart] | None = None
    result: str | None = None  # a picture in base64
    output_format: str | None = None
    raw: dict[str, Any] | None = None
    """The item as it came. None for one that was cut off."""

    @property
    def text(self) -> str:
        """The text, reasoning or arguments."""
        if self.type in CALLS:
            return (self.arguments if self.type == "function_call" else self.input) or ""
        parts = [part.text or part.refusal or "" for part in (*(self.summary or ()), *(self.content or ()))]
        return ("\n\n" if self.type == "reasoning" else "").join(filter(None, parts))

    @property
    def tool_use_id(self) -> str:
        """The id that the call's result refers to."""
        return self.call_id or self.id or ""


def decode_item(value: Any) -> Item:
    """Decode an item. Fields of another type than the documented one keep their defaults; `raw` has them all."""
    item: Item = lenient(Item, value)
    given = value if isinstance(value, dict) else {}
    item.raw = {name: field for name, field in given.items() if name != "created_by"}  # requests do not take it
    return item


def answer_of(item: dict[str, Any]) -> dict[str, Any] | None:
    """Return the answer to a call that we cannot run, or None if an item needs none."""
    kind = text_field(item, "type")
    if kind == "mcp_approval_request":
        return {"type": "mcp_approval_response", "approval_request_id": text_field(item, "id"), "approve": False}
    if kind not in _ANSWERS:
        return None
    name = "id" if kind == "local_shell_call" else "call_id"
    return {"type": f"{kind}_output", name: text_field(item, "call_id"), **_ANSWERS[kind]}


def picture_failure(item: Item) -> str:
    """Return what to say instead of a picture that the API did not make."""
    error = (item.raw or {}).get("error")
    said = text_field(error, "message") or (error if isinstance(error, str) else "")
    return f"[the picture was not made{f': {said}' if said else ''}]"


def server_call(raw: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the tool that an item is a call of, and its arguments."""
    if raw.get("type") == "code_interpreter_call":
        return "code_execution", {"code": text_field(raw, "code")}
    if raw.get("type") in (SEARCH_CALL, SEARCH_OUTPUT):
        searched = raw.get("arguments")
        return SEARCH, searched if isinstance(searched, dict) else {}
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
    if item.status == "incomplete":
        # The call is incomplete, so it must not run, even if its arguments look valid.
        return ToolUseBlock(item.tool_use_id, item.name or "", {}, invalid_input=item.text, state=state)
    if item.type == CUSTOM_CALL:
        return ToolUseBlock(item.tool_use_id, item.name or "", {"input": item.text}, state=state)
    return finished_call(item.tool_use_id, item.name or "", item.text, state)


def state_data(item: Item, follows: str, reasoned: bool) -> dict[str, Any]:
    """Return the state to send back with a text or a call: phase, group, and beside reasoning its id and position."""
    kept: dict[str, Any] = {"phase": item.phase, "namespace": item.namespace}
    if item.type == "function_call":
        known = Item.__struct_fields__
        kept["extra"] = {each: value for each, value in (item.raw or {}).items() if each not in known and value}
    if reasoned:
        kept |= {"id": item.id, "status": item.status, "follows": follows}
    return {name: value for name, value in kept.items() if value}


def is_replayable(reasoning: dict[str, Any]) -> bool:
    """Return whether a reasoning item is complete. The API stores nothing, so an id alone is not enough."""
    return bool(reasoning.get("id") and (reasoning.get("encrypted_content") or reasoning.get("content")))
