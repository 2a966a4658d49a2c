"""Two judges of every request: the vendors' own types, and the rules that no type can see.

The vendors' SDKs say which fields a request may have. Who answers whom, in which order, and whether a file got lost is
checked here, on the JSON that would be sent (see readback.py).
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import Any, TypeAlias

import msgspec

from outrider.conversation.messages import AttachmentBlock, Message, ToolResultBlock
from outrider.conversation.store import AttachmentStore
from outrider.errors import AttachmentError
from outrider.providers.base import Request
from outrider.providers.rendering.message_parts import family_of
from outrider.providers.rendering.render import MOVED
from tests.adapters import Case
from tests.readback import Item, items_of, rules_broken

Json: TypeAlias = dict[str, Any]


def check(case: Case, body: bytes, request: Request) -> None:
    """Fail with every objection that one of the judges has to the request."""
    value = msgspec.json.decode(body)
    found = [*type_errors(case.api, value), *problems(case, value, request.messages, request.store)]
    assert not found, "\n".join(found)


# The vendors' types


def type_errors(api: str, body: Json) -> list[str]:
    """What the vendor's SDK would find wrong with the fields of a request; unknown fields are wrong, too."""
    from pydantic import ValidationError

    try:
        _validator(api)(body)
    except ValidationError as error:
        # A union complains about each of its members: the one that got furthest is the one that was meant.
        furthest = sorted(error.errors(include_url=False), key=lambda each: -len(each["loc"]))
        return [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in furthest[:5]]
    return []


def load() -> None:
    """Load the vendors' types, which take three seconds: the workers of a whole run share them."""
    for api in ("anthropic", "openai", "openai-chat", "gemini"):
        _validator(api)
    import_module("tests.sdk_definitions")


@cache
def _validator(api: str) -> Callable[[Json], object]:
    if api == "anthropic":
        from anthropic.types.message_create_params import MessageCreateParamsStreaming

        return _deep(MessageCreateParamsStreaming)
    if api == "openai":
        from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

        return _deep(ResponseCreateParamsStreaming)
    if api in ("openai-chat", "litellm"):
        from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

        chat = _deep(CompletionCreateParamsStreaming)
        adapt = _with_files_outside_of_results if api == "litellm" else _without_vendor_fields
        return lambda body: chat(adapt(body))
    return _gemini_validator()


def _deep(kind: Any) -> Callable[[Json], object]:
    """A validator that refuses unknown keys, and that looks into `Iterable` fields at once instead of when consumed."""
    from pydantic import ConfigDict, TypeAdapter
    from pydantic_core import SchemaValidator

    lazy = TypeAdapter(list[kind], config=ConfigDict(extra="forbid")).core_schema
    validator = SchemaValidator(_with_lists(lazy))
    return lambda body: validator.validate_python([body])


def _with_lists(schema: Any) -> Any:
    if isinstance(schema, dict):
        changed = {name: _with_lists(value) for name, value in schema.items()}
        return changed | {"type": "list"} if schema.get("type") == "generator" else changed
    if isinstance(schema, list | tuple):
        return type(schema)(map(_with_lists, schema))
    return schema


def _without_vendor_fields(body: Json) -> Json:
    """Leave out the fields for reasoning and the tools that only some servers of this API have."""
    plain = body | {"messages": list(map(_without_reasoning, body["messages"]))}
    if "tools" in body:
        plain["tools"] = [tool for tool in body["tools"] if not tool["type"].startswith("openrouter:")]
    return plain


def _without_reasoning(message: Json) -> Json:
    if message["role"] != "assistant":
        return message
    extra = ("reasoning_content", "reasoning", "reasoning_details", "extra_content", "images")
    plain = {name: value for name, value in message.items() if name not in extra}
    if isinstance(plain["content"], list):
        plain["content"] = [part for part in plain["content"] if part["type"] != "thinking"] or None
    if "tool_calls" in plain:
        calls = [{name: value for name, value in each.items() if name not in extra} for each in plain["tool_calls"]]
        plain["tool_calls"] = calls
    return plain


def _with_files_outside_of_results(body: Json) -> Json:
    """LiteLLM takes in a result what OpenAI takes in a user message, so that it is checked as one."""
    messages = []
    for message in _without_vendor_fields(body)["messages"]:
        if message["role"] == "tool" and not isinstance(message["content"], str):
            messages.append({"role": "user", "content": message["content"]})
            message = message | {"content": "checked above"}
        messages.append(message)
    return body | {"messages": messages}


def _gemini_validator() -> Callable[[Json], object]:
    from google.genai import types
    from pydantic import ConfigDict, create_model

    fields: dict[str, Any] = {
        "contents": (list[types.Content], ...),
        "systemInstruction": (types.Content | None, None),
        "tools": (list[types.Tool] | None, None),
        "toolConfig": (types.ToolConfig | None, None),
        "generationConfig": (types.GenerationConfig | None, None),
        "safetySettings": (list[types.SafetySetting] | None, None),
        "cachedContent": (str | None, None),
    }
    model = create_model("GenerateContentRequest", __config__=ConfigDict(extra="forbid"), **fields)
    # From JSON, because bytes are base64 only there.
    return lambda body: model.model_validate_json(msgspec.json.encode(body))


# The rules


def problems(case: Case, body: Json, messages: Sequence[Message], store: AttachmentStore) -> list[str]:
    """What the API, or the model behind it, would stumble over."""
    items = items_of(case.api, body)
    return [
        *_pairing(items, together=case.api in ("anthropic", "gemini")),
        *_outcomes(items, [result for message in messages for result in message.tool_results]),
        *_lost(items, messages, store),
        *_labels(items, messages),
        *(f"an empty {item.kind} in message {item.place}" for item in items if _is_empty(item)),
        *rules_broken(case.api, body, case.model),
    ]


def _is_empty(item: Item) -> bool:
    if item.kind == "result":
        return not item.text and not item.data
    return item.kind in ("user", "assistant") and not item.text.strip()


def _pairing(items: Sequence[Item], together: bool) -> Iterator[str]:
    """Each call answered exactly once, in call order, with nothing but the rest of the reply in between."""
    waiting: list[Item] = []
    answering = False
    seen: Counter[str] = Counter()
    for item in items:
        if item.kind == "call":
            if answering and waiting:
                yield f"the call {item.id!r} stands among results"
            seen[item.id or f"{item.place} {item.name}"] += bool(item.id)
            waiting, answering = [*waiting, item], False
        elif item.kind == "result":
            answering = True
            asked = waiting.pop(0) if waiting else None
            if asked is None or (asked.id, asked.name) != (item.id, item.name or asked.name):
                yield f"the result {item.id!r} does not answer {asked.id if asked else 'any call'!r}"
            elif together and item.place != asked.place + 1:
                yield f"the result {item.id!r} does not stand in the message after its call"
        elif waiting and (answering or item.kind == "user") and item.within != "result":
            yield f"{item.kind} in message {item.place} stands between calls and the end of their results"
    yield from (f"the call {each.id!r} is not answered" for each in waiting)
    yield from (f"the call id {name!r} is used {count} times" for name, count in seen.items() if count > 1)


def _outcomes(items: Sequence[Item], expected: Sequence[ToolResultBlock]) -> Iterator[str]:
    """The results say what the history says, and whether the calls failed."""
    results = [item for item in items if item.kind == "result"]
    if len(results) != len(expected):
        yield f"{len(results)} results were rendered of {len(expected)}"
    for item, block in zip(results, expected, strict=False):
        if item.failed != block.is_error:
            yield f"the result {item.id!r} does not say whether the call failed"
        if block.text.strip() and block.text.strip() not in item.text:
            yield f"the result {item.id!r} does not have its text"


def _lost(items: Sequence[Item], messages: Sequence[Message], store: AttachmentStore) -> Iterator[str]:
    """Each attachment is there natively, moved, as text, or as a note that names it, and as often as in the history."""
    shown = Counter(item.data for item in items if item.kind == "file" and item.data)
    words = "\n".join(item.text for item in items)
    noted = Counter(re.findall(r"\[(.+?) \([^()]+\) cannot be shown: ", words))
    for block in attachments_of(messages):
        data = _read(block, store)
        encoded = base64.b64encode(data).decode()
        if data and shown[encoded]:
            shown[encoded] -= 1
        elif block.url and shown[block.url]:
            shown[block.url] -= 1
        elif noted[block.label]:
            noted[block.label] -= 1
        elif not _in_words(block, data, words):
            yield f"{block.label} is lost"
    yield from (f"{count} files too many: {data[:20]}" for data, count in shown.items() if count > 0)


def attachments_of(messages: Sequence[Message]) -> Iterator[AttachmentBlock]:
    """The files that a model is to see."""
    for message in messages:
        for block in message.content:
            if isinstance(block, AttachmentBlock):
                yield block
            elif isinstance(block, ToolResultBlock):
                yield from block.attachments


def _read(block: AttachmentBlock, store: AttachmentStore) -> bytes:
    try:
        return store.read(block)
    except AttachmentError:
        return b""


def _in_words(block: AttachmentBlock, data: bytes, words: str) -> bool:
    if family_of(block.mime_type) == "text":
        return bool(data) and data.decode(errors="replace").strip() in words
    return family_of(block.mime_type) == "pdf" and f"Text of {block.label}:\n[page 1]" in words


def _labels(items: Sequence[Item], messages: Sequence[Message]) -> Iterator[str]:
    """A file that moved out of its result stands behind a line that names the file, the tool and the call."""
    calls = {(call.name, call.id) for message in messages for call in message.tool_calls}
    moving, before = -1, ""
    for item in items:
        if item.kind == "user" and item.text.startswith(MOVED):
            moving = item.place
        elif item.kind == "file" and item.place == moving:
            label = re.fullmatch(r"(?s).+, from (\S+) \(call (.+)\):", before)
            if not label or (label[1], label[2]) not in calls:
                yield f"a moved file in message {item.place} has no label"
        before = item.text if item.kind == "user" else before
