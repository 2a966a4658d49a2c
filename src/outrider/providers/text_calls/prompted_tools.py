"""Tools for models without native calls: described in the prompt, called with JSON, answered in text."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from outrider.conversation.json_text import partial_object
from outrider.conversation.messages import Block, Message, ProviderState, TextBlock, ToolUseBlock
from outrider.prompts import prompt
from outrider.providers.base import Reply, ToolSpec
from outrider.providers.deltas import Delta, Notice, TextDelta, ToolCallDelta
from outrider.providers.rendering.message_parts import Part, Result
from outrider.providers.streams.stream import finished_call
from outrider.providers.text_calls.written_calls import Parameters, json_at, unfenced, with_calls, written_calls
from outrider.text import clean
from outrider.tools.schema.raw_schemas import inline_references, map_subschemas

SAID = "said"  # the field of a block's state with the text of the whole reply
NEWEST_CALLS = 3
"""Calls of which a repeated one leaves its tool out of the next reply."""
LONGEST_STRING = 1_900
"""Characters in a string of the arguments: small models may not stop. llama.cpp refuses 2,000 and more."""


def system_prompt(system: str, tools: Iterable[ToolSpec]) -> str:
    tools = list(tools)
    answer = next((tool for tool in tools if tool.is_answer), None)
    ending = prompt("prompted_report").replace("{tool}", answer.name) if answer else prompt("prompted_final")
    instructions = prompt("prompted_tools").replace("{ending}", ending)
    instructions = instructions.replace("{longest_string}", f"{LONGEST_STRING:,}")
    return "\n\n".join(filter(None, (system, instructions, *map(_describe, tools))))


def _describe(tool: ToolSpec) -> str:
    schema = msgspec.json.encode(tool.parameters).decode()
    return f"## {tool.name}\n\n{tool.description}\n\nJSON Schema of the arguments: {schema}"


def response_format(
    tools: Sequence[ToolSpec], *, required: bool = False, messages: Sequence[Message] = ()
) -> dict[str, Any]:
    """Return the format that the server enforces: a call, or the final answer where no call has to be made.

    A tool whose newest calls only repeated what is known is left out: small models go round in circles.
    """
    left_out = _repeated(messages)
    tools = [tool for tool in tools if tool.name not in left_out] or tools
    final = [] if required or any(tool.is_answer for tool in tools) else [_object({"final": {"type": "string"}})]
    schema = {"oneOf": [*map(_branch, tools), *final]}
    return {"type": "json_schema", "json_schema": {"name": "reply", "strict": True, "schema": schema}}


def _repeated(messages: Sequence[Message]) -> set[str]:
    """Return the tools of those of the newest calls that had been made before, with the same result."""
    results = {result.tool_use_id: result.text for message in messages for result in message.tool_results}
    outcomes = [
        (call.name, msgspec.json.encode(call.input, order="sorted"), results.get(call.id))
        for message in messages
        for call in message.tool_calls
    ]
    newest = range(max(0, len(outcomes) - NEWEST_CALLS), len(outcomes))
    return {outcomes[number][0] for number in newest if outcomes[number] in outcomes[:number]}


def _branch(tool: ToolSpec) -> dict[str, Any]:
    name = {"tool": {"const": tool.name}}
    # References would point to the root of this schema, and not every server's grammar has an empty object.
    arguments = inline_references(tool.parameters)
    return _object(name | {"arguments": _capped(arguments)} if arguments.get("properties") else name)


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def _capped(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    capped = map_subschemas(schema, _capped)
    kinds = schema.get("type")
    if kinds == "string" or (isinstance(kinds, list) and "string" in kinds):
        capped["maxLength"] = min(schema.get("maxLength", LONGEST_STRING), LONGEST_STRING)
    return capped


def assistant_text(message: Message, is_own: Callable[[ProviderState | None], bool]) -> str:
    """Return a message as this model wrote it, so that the server's cache holds, or as it would have written it."""
    lines = []
    for block in message.content:
        state = block.state if isinstance(block, TextBlock | ToolUseBlock) else None
        said = state.data.get(SAID) if state and is_own(state) and isinstance(state.data, dict) else None
        if isinstance(said, str):
            return said
    for block in message.content:
        if isinstance(block, TextBlock):
            lines.append(block.text)
        elif isinstance(block, ToolUseBlock):
            call = {"tool": block.name} | ({"arguments": block.input} if block.input else {})
            lines.append(msgspec.json.encode(call).decode())
    return "\n".join(lines)


def result_parts(results: Iterable[Result]) -> Iterator[Part]:
    """Yield the parts of results, each result after a line with its tool."""
    for result in results:
        yield f"Result of {result.tool} (call {result.call_id}):"
        yield from result.flagged_parts


async def extract_calls(
    items: AsyncIterator[Delta | Notice | Reply], tools: Sequence[ToolSpec], origin: ProviderState
) -> AsyncGenerator[Delta | Notice | Reply, None]:
    """Yield the items of a stream, with calls or the answer for their JSON, which the first block keeps."""
    reply = _JsonReply({tool.name: tool.parameters for tool in tools}, origin)
    async with aclosing(items):  # type: ignore[type-var]
        async for item in items:
            if isinstance(item, TextDelta):
                if more := reply.take(item.text):
                    yield TextDelta(more)
            elif isinstance(item, Reply) and not item.message.tool_calls:
                for each in reply.finish(item):
                    yield each
            else:
                yield item


class _JsonReply:
    """A reply in JSON that is being received. Text that is not JSON counts as the final answer."""

    def __init__(self, tools: Parameters, origin: ProviderState) -> None:
        self._tools = tools
        self._origin = origin
        self._text = ""
        self._shown = ""

    def take(self, piece: str) -> str:
        """Return the new text of the final answer after this piece."""
        self._text += piece
        start = self._text.lstrip()
        if not start:
            return ""
        return self._show(_final_in(start) if start[0] in "{`" else self._text)

    def _show(self, text: str) -> str:
        more = text[len(self._shown) :] if text.startswith(self._shown) else ""
        self._shown += more
        return more

    def finish(self, reply: Reply) -> Iterator[Delta | Reply]:
        values = list(_objects(self._text))
        calls = list(filter(None, map(self._call, values)))
        if not calls and not any("final" in value for value in values):  # calls in another form: the format was ignored
            calls = list(written_calls(self._text, self._tools)[1])
        calls = calls or self._broken_call(values)
        said = msgspec.structs.replace(self._origin, data={SAID: reply.message.text})
        if calls:
            calls[0] = msgspec.structs.replace(calls[0], state=said)
            for call in calls:
                arguments = msgspec.json.encode(call.input).decode()
                yield ToolCallDelta("", call.name, arguments if call.invalid_input is None else call.invalid_input)
            yield with_calls(reply, calls)
            return
        text = self._final(values)
        if more := self._show(text):
            yield TextDelta(more)
        block = TextBlock(text, said) if text != reply.message.text else TextBlock(text)
        others: list[Block] = [each for each in reply.message.content if not isinstance(each, TextBlock)]
        content = (*others, block) if text else tuple(others)
        yield Reply(Message("assistant", content), reply.stop_reason, reply.usage)

    def _call(self, value: dict[str, Any]) -> ToolUseBlock | None:
        name, arguments = value.get("tool"), value.get("arguments")
        # An unknown name counts as a call if the object clearly is one; the model then gets an error result.
        if not isinstance(name, str) or (name not in self._tools and value.keys() != {"tool", "arguments"}):
            return None
        if arguments is None or isinstance(arguments, dict):
            return ToolUseBlock("", name, arguments or {})
        text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
        return finished_call("", name, text)

    def _broken_call(self, values: Sequence[dict[str, Any]]) -> list[ToolUseBlock]:
        """Return a call that was cut off, marked invalid. As a final answer it would be useless."""
        name = None if values else partial_object(unfenced(self._text)).get("tool")
        is_tool = isinstance(name, str) and name in self._tools
        return [ToolUseBlock("", str(name), {}, invalid_input=self._text)] if is_tool else []

    def _final(self, values: Sequence[dict[str, Any]]) -> str:
        finals = (value["final"] for value in values if isinstance(value.get("final"), str))
        return next(finals, self._shown if not values and self._shown else self._text)


def _final_in(text: str) -> str:
    final = partial_object(text).get("final")
    return clean(final) if isinstance(final, str) else ""


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects at the start of a text. Ignore what follows them."""
    rest = unfenced(text)
    while rest.startswith("{"):
        value, end = json_at(rest, 0)
        if value is None:
            return
        yield value
        rest = rest[end:].lstrip()
