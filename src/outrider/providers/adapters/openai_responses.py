"""OpenAI Responses API: GPT and the o-series."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any, ClassVar

import msgspec

from outrider.conversation.messages import (
    AttachmentBlock,
    Block,
    Message,
    RawBlock,
    ServerToolResultBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from outrider.conversation.store import AttachmentStore
from outrider.providers.api import ApiProvider
from outrider.providers.base import Request, ToolSpec
from outrider.providers.rendering import tool_schemas
from outrider.providers.rendering.message_parts import Family, File, Part, Result, Title, UserMessage, reminder_text
from outrider.providers.rendering.output_schemas import OPENAI, OUTPUT_NAME, expressed
from outrider.providers.rendering.server_tools import as_text, check_options, text_field
from outrider.providers.rendering.transcript import Transcript
from outrider.providers.rendering.wire_names import safe_id, safe_name
from outrider.providers.streams.openai_responses_items import CUSTOM_CALL, answer_of, is_replayable
from outrider.providers.streams.openai_responses_stream import IncomingReply
from outrider.providers.streams.stream import Incoming
from outrider.providers.transport.http import Body
from outrider.tools.server_tool import ServerTool

_ITEMS = TextBlock | ToolUseBlock | ServerToolUseBlock | RawBlock  # blocks that are items of their own
_INCLUDED = {"web_search": "web_search_call.action.sources", "code_execution": "code_interpreter_call.outputs"}
"""What the API leaves out of the items of its tools unless it is asked for."""
_GROUP_NAMES = 400  # characters of the names of tools in the description of their group


class OpenAIResponses(ApiProvider):
    """GPT and the o-series through the Responses API. The API stores nothing: each request has the whole history."""

    prefix = "openai"
    label = "OpenAI"
    key_variables = ("OPENAI_API_KEY",)
    base_variable = "OPENAI_BASE_URL"
    default_base = "https://api.openai.com/v1"
    endpoint = "/responses"
    titles: ClassVar[Mapping[Family, Title]] = {"pdf": "name"}
    dialect = OPENAI

    def headers(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}", "content-type": "application/json"}

    def body(self, request: Request, transcript: Transcript) -> Body:
        head: dict[str, Any] = {"model": self.model, "stream": True, "store": False}
        included = ["reasoning.encrypted_content"] if self.capabilities.reasoning else []
        if included := [*included, *(_INCLUDED[tool.name] for tool in request.server_tools)]:
            head["include"] = included
        if request.settings.cache == "1h" and self.capabilities.long_cache and self.is_vendor("long_cache"):
            head["prompt_cache_retention"] = "24h"  # the only longer time that the API has
        if request.system:
            head["instructions"] = request.system
        if request.tools or request.server_tools:
            head["tools"] = self.tools_once(request, _tools)
        head |= self.setting_fields(request.settings, "max_output_tokens")
        if choice := request.settings.tool_choice:
            is_mode = choice in ("auto", "required", "none")
            head["tool_choice"] = choice if is_mode else {"type": "function", "name": choice}
        head |= self._options | request.settings.options
        if schema := self.output_schema(request):
            given = {"format": {"type": "json_schema", "name": OUTPUT_NAME, "strict": True, "schema": schema}}
            head["text"] = given | head.get("text", {})
        reminder = _user([reminder_text(request.reminder)])
        return transcript.request(head, "input", [reminder] if request.reminder else ())

    def user_items(self, message: UserMessage) -> Iterable[Any]:
        """Yield the outputs of calls, and then one message with the moved files and the user's content."""
        yield from (_output(result, self._own_state(result.call)) for result in message.results)
        if message.moved or message.content:
            yield _user([*message.moved, *message.content])

    def replays(self, block: AttachmentBlock) -> bool:
        return bool(self._own_state(block).get("id"))

    def assistant_items(self, message: Message, files: Mapping[str, File], prefix_changed: bool) -> Iterable[Any]:
        """Yield the text, calls, pictures and reasoning of a message, each as an item."""
        # The API refuses a reasoning item without the item that followed it, and an item with an id without its
        # reasoning. So reasoning waits for the item after it, and ids are sent only together with reasoning.
        waiting: list[dict[str, Any]] = []
        reasoned = False
        told: set[str] = set()
        answered = _answered(self._own_state(block) for block in message.content)
        for block in message.content:
            own = self._own_state(block)
            if isinstance(block, ThinkingBlock):
                waiting += [own] if is_replayable(own) else []
            elif isinstance(block, _ITEMS) or getattr(block, "sha256", "") in files:
                if waiting or "follows" in own:
                    reasoned = bool(waiting) and own.get("follows") == waiting[-1]["id"]
                if reasoned:
                    yield from ({name: value for name, value in item.items() if value is not None} for item in waiting)
                waiting = []
                if isinstance(block, RawBlock):
                    yield from _raw(own, reasoned, answered)
                    continue
                yield _item(block, own, reasoned, files)
                if isinstance(block, ServerToolUseBlock) and not _is_replayable(own, reasoned):
                    told.add(block.id)
            elif isinstance(block, ServerToolResultBlock) and block.tool_use_id in told:
                yield {"type": "message", "role": "assistant", "content": as_text(block, {})}
            elif isinstance(block, ServerToolResultBlock) and isinstance(own.get("item"), dict):
                yield own["item"]

    def call_groups(self, request: Request) -> Mapping[str, str]:
        """Return the groups of deferred tools. The API refuses a call of one that does not name its group."""
        return {safe_name(spec.name): spec.deferred for spec in request.tools if spec.deferred}

    def grouped(self, message: Message, groups: Mapping[str, str]) -> Message:
        """Return the message with the group in the state of each call that has none."""
        if not groups or not message.tool_calls:
            return message
        return Message(message.role, tuple(self._in_group(block, groups) for block in message.content))

    def _in_group(self, block: Block, groups: Mapping[str, str]) -> Block:
        if not isinstance(block, ToolUseBlock) or not (group := groups.get(safe_name(block.name))):
            return block
        state = msgspec.structs.replace(self.origin, data={"namespace": group} | self._own_state(block))
        return msgspec.structs.replace(block, state=state)

    def _own_state(self, block: Block | None) -> dict[str, Any]:
        return self.own_data(getattr(block, "state", None))

    def incoming(self, tools: Collection[str] = (), store: AttachmentStore | None = None) -> Incoming:
        return IncomingReply(self.origin, store)


def _server_tool(tool: ServerTool) -> dict[str, Any]:
    check_options(tool, ("allowed_domains",) if tool.name == "web_search" else (), "OpenAI")
    fields: dict[str, Any] = {"type": "code_interpreter", "container": {"type": "auto"}}
    if tool.name == "web_search":
        filters = {"filters": {"allowed_domains": list(tool.allowed_domains)}} if tool.allowed_domains else {}
        fields = {"type": "web_search", **filters}
    return {**fields, **tool.options}


def _tools(request: Request) -> Iterator[dict[str, Any]]:
    """Yield the tools, those last that the API searches. Of these the model sees the groups first."""
    yield from map(_server_tool, request.server_tools)
    yield from (_function(spec) for spec in request.tools if not spec.deferred)
    groups: dict[str, list[ToolSpec]] = {}
    for spec in request.tools:
        if spec.deferred:
            groups.setdefault(spec.deferred, []).append(spec)
    if groups:
        yield {"type": "tool_search"}
    for name, specs in groups.items():
        deferred = [_function(spec) | {"defer_loading": True} for spec in specs]
        yield {"type": "namespace", "name": name, "description": _group_description(name, specs), "tools": deferred}


def _group_description(group: str, tools: Iterable[ToolSpec]) -> str:
    """Return what the model sees of a group before it searches: the names of its tools, as many as fit.

    >>> _group_description("mcp__time", [ToolSpec("mcp__time__now", "", {}), ToolSpec("mcp__time__zones", "", {})])
    '2 tools: now, zones'
    """
    names = [tool.name.removeprefix(group).strip("_") for tool in tools]
    shown = sum(length <= _GROUP_NAMES for length in accumulate(len(name) + 2 for name in names))
    more = [f"{len(names) - shown} more"] if shown < len(names) else []
    return f"{len(names)} tools: {', '.join([*names[:shown], *more])}"


def _function(spec: ToolSpec) -> dict[str, Any]:
    spec = tool_schemas.accepted(spec, tool_schemas.OPENAI)
    return {
        "type": "function",
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.parameters,
        # Only a schema that is strict as it is: a rewritten one would give tools nulls that they do not expect.
        "strict": expressed(spec.parameters, OPENAI) == spec.parameters,
    }


def _item(block: Block, own: dict[str, Any], reasoned: bool, files: Mapping[str, File]) -> dict[str, Any]:
    match block:
        case AttachmentBlock(sha256=name):
            picture = files[name].base64
            return {"type": "image_generation_call", "id": own["id"], "status": "completed", "result": picture}
        case TextBlock():
            return _text(block, own, reasoned)
        case ToolUseBlock():
            return _call(block, own, reasoned)
        case ServerToolUseBlock() if _is_replayable(own, reasoned):
            item: dict[str, Any] = own["item"]
            return item
        case ServerToolUseBlock():  # the API would miss the reasoning before the item
            return {"type": "message", "role": "assistant", "content": as_text(block, {})}
    raise TypeError(f"{block.type} is not an item of its own")


def _text(block: TextBlock, own: dict[str, Any], reasoned: bool) -> dict[str, Any]:
    item: dict[str, Any] = {"type": "message", "role": "assistant"}
    if own.get("phase"):
        item["phase"] = own["phase"]
    if not (reasoned and own.get("id")):
        # An output message must have an id. A message without an id has its text as a plain string.
        return item | {"content": block.text}
    content = [{"type": "output_text", "text": block.text, "annotations": own.get("annotations", [])}]
    return item | {"id": own["id"], "status": own.get("status", "completed"), "content": content}


def _answered(states: Iterable[dict[str, Any]]) -> set[str]:
    """Return the ids of the calls in a message that have their output there."""
    items = (state["item"] for state in states if isinstance(state.get("item"), dict))
    outputs = [item for item in items if text_field(item, "type").endswith(("_output", "_response"))]
    names = ("call_id", "approval_request_id", "id")
    return {text_field(item, name) for item in outputs for name in names}


def _raw(own: dict[str, Any], reasoned: bool, answered: Collection[str]) -> Iterator[dict[str, Any]]:
    """Yield an item as it came, and an answer if it is a call that nobody has run."""
    if _is_replayable(own, reasoned):
        item: dict[str, Any] = own["item"]
        yield item
        asked = text_field(item, "call_id") or text_field(item, "id")
        if asked not in answered and (answer := answer_of(item)):
            yield answer


def _call(block: ToolUseBlock, own: dict[str, Any], reasoned: bool) -> dict[str, Any]:
    if isinstance(own.get("item"), dict):
        return {name: value for name, value in own["item"].items() if reasoned or name != "id"}
    item: dict[str, Any] = {
        "type": "function_call",
        "call_id": safe_id(block.id),
        "name": safe_name(block.name),
        # Arguments that were not JSON are not sent: servers that parse them refuse every later request.
        # The result tells the model what it had written.
        "arguments": msgspec.json.encode(block.input).decode(),
    }
    if isinstance(own.get("extra"), dict):
        item |= own["extra"]
    if own.get("namespace"):
        item["namespace"] = own["namespace"]
    if reasoned and own.get("id"):
        item |= {"id": own["id"], "status": own.get("status", "completed")}
    return item


def _is_replayable(own: dict[str, Any], reasoned: bool) -> bool:
    return isinstance(own.get("item"), dict) and (reasoned or not own.get("reasoned"))


def _output(result: Result, own: dict[str, Any]) -> dict[str, Any]:
    """Return the output of a call. `own` is the state of the call."""
    output = list(map(_part, result.flagged_parts)) if result.files else result.flagged_text
    raw = own.get("item") if isinstance(own.get("item"), dict) else own.get("extra")
    caller = raw.get("caller") if isinstance(raw, dict) else None
    kind = CUSTOM_CALL if isinstance(own.get("item"), dict) else "function_call"
    call_id = safe_id(result.call_id)
    return {"type": f"{kind}_output", "call_id": call_id, "output": output} | ({"caller": caller} if caller else {})


def _user(parts: Iterable[Part]) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [_part(part) for part in parts]}


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "input_text", "text": part}
    if part.family == "image":
        return {"type": "input_image", "detail": "auto", "image_url": part.url or part.data_url}
    if part.family == "text":
        return {"type": "input_text", "text": part.text}
    if part.url:
        return {"type": "input_file", "file_url": part.url}  # the API refuses a file name beside it
    return {"type": "input_file", "filename": part.filename, "file_data": part.data_url}
