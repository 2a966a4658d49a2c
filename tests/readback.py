"""A request of any API, read back into one plain list of items, and what each API insists on beside it."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import msgspec

from outrider.providers.rendering.message_parts import FAILED

Json: TypeAlias = dict[str, Any]


class Item(msgspec.Struct, frozen=True):
    """One thing in a request, whatever the API: words, a thought, a call, a result, or a file."""

    kind: Literal["user", "assistant", "thinking", "call", "result", "file"]
    place: int
    """The message that it stands in."""
    text: str = ""
    id: str = ""
    name: str = ""
    failed: bool = False
    data: str = ""
    """A file, in base64."""
    within: str = ""
    """For a file: `result` if it stands in a tool result."""


def items_of(api: str, body: Json) -> list[Item]:
    """What a request says, in order."""
    return list(_APIS[api][0](body))


def rules_broken(api: str, body: Json, model: str) -> Iterator[str]:
    """What this API would refuse although the fields are right."""
    return _APIS[api][1](body, model)


def _anthropic(body: Json) -> Iterator[Item]:
    for place, message in enumerate(body["messages"]):
        for block in message["content"]:
            match block["type"]:
                case "tool_use":
                    yield Item("call", place, id=block["id"], name=block["name"])
                case "tool_result":
                    inner = [_anthropic_part(part, place, "result") for part in block["content"]]
                    said = "\n".join(item.text for item in inner)
                    data = "".join(item.data for item in inner)
                    yield Item("result", place, said, block["tool_use_id"], "", block.get("is_error", False), data)
                    yield from (item for item in inner if item.kind == "file")
                case "thinking" | "redacted_thinking":
                    yield Item("thinking", place, block.get("thinking", ""))
                case kind if kind == "server_tool_use" or kind.endswith("_tool_result"):
                    pass  # the API's own
                case _:
                    yield _anthropic_part(block, place, message["role"])


def _anthropic_part(block: Json, place: int, within: Any) -> Item:
    if block["type"] == "text":
        return Item("user" if within == "result" else within, place, block["text"], within=within)
    source = block["source"]
    if source["type"] == "text":
        return Item("file", place, source["data"], name=block["title"], within=within)
    return Item("file", place, data=source.get("data") or source["url"], name=block.get("title", ""), within=within)


def _anthropic_rules(body: Json, _: str) -> Iterator[str]:
    messages = body["messages"]
    if messages[0]["role"] != "user" or messages[-1]["role"] != "user":
        yield "the user must have the first and the last word"
    if any(pair == ("assistant", "assistant") for pair in pairwise(each["role"] for each in messages)):
        yield "two messages of the assistant in a row"
    if str(body).count("'cache_control': {") > 4:
        yield "more than four marks for the cache"
    functions = [tool for tool in body.get("tools", ()) if "type" not in tool]
    if any(tool["input_schema"].get("type") != "object" for tool in functions):
        yield "a tool whose schema is not an object's"
    for item in _anthropic(body):
        if item.kind in ("call", "result") and not re.fullmatch(r"[a-zA-Z0-9_-]+", item.id):
            yield f"the id {item.id!r} is refused"
    for message in messages:
        kinds = [block["type"] for block in message["content"]]
        if not kinds:
            yield "a message without content"
        if "tool_result" in kinds[kinds.count("tool_result") :]:
            yield "results that do not come first"
        yield from ("a thought without a signature" for b in message["content"] if b.get("signature") == "")


def _responses(body: Json) -> Iterator[Item]:
    for place, item in enumerate(body["input"]):
        match item.get("type", "message"):
            case "function_call":
                yield Item("call", place, id=item["call_id"], name=item["name"])
            case "function_call_output":
                output = item["output"]
                parts = [{"type": "input_text", "text": output}] if isinstance(output, str) else output
                inner = [_response_part(part, place, "result") for part in parts]
                said = "\n".join(each.text for each in inner)
                data = "".join(each.data for each in inner)
                yield Item("result", place, said, item["call_id"], "", FAILED in said, data)
                yield from (each for each in inner if each.kind == "file")
            case "reasoning":
                yield Item("thinking", place)
            case "image_generation_call":
                yield Item("file", place, data=item["result"])
            case "web_search_call" | "code_interpreter_call" | "tool_search_call" | "tool_search_output":
                pass  # the API's own
            case _:
                content = item["content"]
                parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
                role = "assistant" if item["role"] == "assistant" else "user"
                yield from (_response_part(part, place, role) for part in parts)


def _response_part(part: Json, place: int, within: Any) -> Item:
    if "text" in part["type"]:
        return Item("user" if within == "result" else within, place, part["text"], within=within)
    url = part.get("image_url") or part.get("file_url") or part["file_data"]
    return Item("file", place, data=_from_data_url(url), name=part.get("filename", ""), within=within)


def _response_rules(body: Json, _: str) -> Iterator[str]:
    kinds = [item.get("role") or item["type"] for item in body["input"]]
    for kind, following in pairwise([*kinds, "the end"]):
        own = (
            "assistant",
            "function_call",
            "reasoning",
            "web_search_call",
            "code_interpreter_call",
            "tool_search_call",
        )
        if kind == "reasoning" and following not in own:
            yield f"a reasoning item without the item that follows it, but {following}"
    for item in body["input"]:
        if len(item.get("call_id") or "") > 64:
            yield f"the call id {item['call_id']!r} is too long"
        if item.get("type") == "reasoning" and not item.get("encrypted_content"):
            yield "a reasoning item without its encrypted content"
    if kinds[-1] in ("assistant", "reasoning", "function_call"):
        yield "the last item is the model's"


def _chat(body: Json) -> Iterator[Item]:
    for place, message in enumerate(body["messages"]):
        if message["role"] in ("system", "developer"):
            continue
        content = message.get("content")
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        parts = [part for part in parts if part["type"] != "thinking"]
        inner = [_chat_part(part, place, message["role"]) for part in parts]
        if message["role"] == "tool":
            said, data = "\n".join(item.text for item in inner), "".join(item.data for item in inner)
            yield Item("result", place, said, message["tool_call_id"], "", FAILED in said, data)
            yield from (msgspec.structs.replace(item, within="result") for item in inner if item.kind == "file")
            continue
        yield from inner
        for call in message.get("tool_calls", ()):
            yield Item("call", place, id=call["id"], name=call["function"]["name"])


def _chat_part(part: Json, place: int, role: Any) -> Item:
    match part["type"]:
        case "text":
            return Item("user" if role == "tool" else role, place, part["text"])
        case "image_url":
            return Item("file", place, data=_from_data_url(part["image_url"]["url"]))
        case "input_audio":
            return Item("file", place, data=part["input_audio"]["data"])
    return Item("file", place, data=_from_data_url(part["file"]["file_data"]), name=part["file"]["filename"])


def _chat_rules(body: Json, _: str) -> Iterator[str]:
    for message in body["messages"]:
        if not message.get("content") and not message.get("tool_calls"):
            yield f"a message of {message['role']} without content"
        if message.get("tool_calls") == []:
            yield "an empty list of calls"
        for call in message.get("tool_calls", ()):
            if not isinstance(msgspec.json.decode(call["function"]["arguments"]), dict):
                yield "arguments that are not a JSON object"
    if body["messages"][-1]["role"] not in ("user", "tool"):
        yield "the last message is the model's"
    if body["model"].startswith("mistral-"):
        yield from _mistral_rules(body)


def _mistral_rules(body: Json) -> Iterator[str]:
    if ("tool", "user") in pairwise(message["role"] for message in body["messages"]):
        yield "a user message right after a tool message"
    for item in _chat(body):
        if item.kind in ("call", "result") and not re.fullmatch(r"[a-zA-Z0-9]{9}", item.id):
            yield f"the id {item.id!r} does not have nine letters and digits"
    if "stream_options" in body:
        yield "stream_options"


def _plain_chat_rules(body: Json, model: str) -> Iterator[str]:
    yield from _chat_rules(body, model)
    if any(message["role"] == "tool" and not isinstance(message["content"], str) for message in body["messages"]):
        yield "a tool result that is not a string, which local servers do not take"


def _gemini(body: Json) -> Iterator[Item]:
    for place, content in enumerate(body["contents"]):
        role: Any = "assistant" if content["role"] == "model" else "user"
        for part in content["parts"]:
            if not part.keys() & {"executableCode", "codeExecutionResult", "toolCall", "toolResponse"}:  # the API's own
                yield from _gemini_part(part, place, role)


def _gemini_part(part: Json, place: int, role: Any) -> Iterator[Item]:
    if call := part.get("functionCall"):
        yield Item("call", place, id=call.get("id", ""), name=call["name"])
    elif response := part.get("functionResponse"):
        failed = "error" in response["response"]
        said = response["response"]["error" if failed else "output"]
        files = [each["inlineData"]["data"] for each in response.get("parts", ())]
        yield Item("result", place, said, response.get("id", ""), response["name"], failed, "".join(files))
        yield from (Item("file", place, _as_text(data), data=data, within="result") for data in files)
    elif part.get("thought") or ("thoughtSignature" in part and not part.get("text", " ")):
        yield Item("thinking", place, part.get("text", ""))
    elif "inlineData" in part:
        yield Item("file", place, _as_text(part["inlineData"]["data"]), data=part["inlineData"]["data"])
    else:
        yield Item(role, place, part["text"])


def _gemini_rules(body: Json, model: str) -> Iterator[str]:
    contents = body["contents"]
    if contents[0]["role"] != "user" or contents[-1]["role"] != "user":
        yield "the user must have the first and the last word"
    for content, following in pairwise([*contents, {"parts": []}]):
        calls = [part for part in content["parts"] if "functionCall" in part]
        answers = [part for part in following["parts"] if "functionResponse" in part]
        if len(calls) != len(answers):
            yield f"{len(calls)} calls and {len(answers)} responses in the content after them"
        if calls and not calls[0].get("thoughtSignature") and not model.startswith("gemini-2"):
            yield "the first call of a reply has no signature"
        if not content["parts"]:
            yield "a content without parts"
    if "fileUri" in str(contents):
        yield "a file by URI, which the model does not see in a response"
    for part in (part for content in contents for part in content["parts"] if "functionResponse" in part):
        if [type(value) for value in part["functionResponse"]["response"].values()] != [str]:
            yield "a response that is more than one string"


_APIS: dict[str, tuple[Callable[[Json], Iterator[Item]], Callable[[Json, str], Iterator[str]]]] = {
    "anthropic": (_anthropic, _anthropic_rules),
    "openai": (_responses, _response_rules),
    "openai-chat": (_chat, _plain_chat_rules),
    "litellm": (_chat, _chat_rules),
    "gemini": (_gemini, _gemini_rules),
}


def _from_data_url(url: str) -> str:
    if url.startswith("https://"):
        return url
    head, _, data = url.partition(",")
    assert re.fullmatch(r"data:[\w.+-]+/[\w.+-]+;base64", head), head
    return data


def _as_text(data: str) -> str:
    return base64.b64decode(data).decode("utf-8", "replace")
