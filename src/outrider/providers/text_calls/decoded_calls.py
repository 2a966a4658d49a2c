"""A call that the server decodes by the schema of its arguments, so that it is valid by construction.

Small models forget to call a tool, or write its arguments wrong. Local servers hold a reply to a JSON Schema. If a
request leaves only one call to make, it has that schema instead of the tools, and the reply becomes the call.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any

import msgspec

from outrider.prompts import prompt
from outrider.providers.base import Reply, Request, ToolSpec
from outrider.providers.deltas import Delta, Notice, TextDelta, ToolCallDelta
from outrider.providers.streams.stream import finished_call
from outrider.providers.text_calls.written_calls import unfenced, with_calls, written_calls
from outrider.tools.schema.raw_schemas import inline_references


def only_call(request: Request) -> ToolSpec | None:
    """Return the tool that the reply has to call: the chosen one, or the report if there is no other tool."""
    choice = request.settings.tool_choice
    if len(request.tools) == 1 and request.tools[0].is_answer and choice != "none":
        return request.tools[0]
    if choice is None:
        return None
    return next((tool for tool in request.tools if tool.name == choice), None)


def response_format(tool: ToolSpec) -> dict[str, Any]:
    """Return the format that the server enforces: the arguments of the tool."""
    schema = inline_references(tool.parameters)
    return {"type": "json_schema", "json_schema": {"name": tool.name, "strict": True, "schema": schema}}


def instruction(tool: ToolSpec) -> str:
    """Return what the model is told about the format, which it does not see."""
    schema = msgspec.json.encode(tool.parameters).decode()
    named = "your answer" if tool.is_answer else f"the arguments of {tool.name}"
    return prompt("decoded_call").replace("{named}", named).replace("{schema}", schema)


async def as_call(
    items: AsyncIterator[Delta | Notice | Reply], tool: ToolSpec
) -> AsyncGenerator[Delta | Notice | Reply, None]:
    """Yield the items of a stream, with the call in place of the text."""
    async with aclosing(items):  # type: ignore[type-var]
        async for item in items:
            if isinstance(item, TextDelta):
                yield ToolCallDelta("", tool.name, item.text)
            elif isinstance(item, Reply) and not item.message.tool_calls and item.text.strip():
                for each in _with_call(item, tool):
                    yield each
            else:
                yield item


def _with_call(reply: Reply, tool: ToolSpec) -> Iterator[Delta | Reply]:
    """Yield the reply with its call. A server that ignores the format may have sent a written call, or an answer."""
    written = written_calls(reply.text, {tool.name: tool.parameters})[1]
    call = written[0] if written else finished_call("", tool.name, unfenced(reply.text))
    if call.invalid_input is not None and not reply.text.lstrip().startswith(("{", "```")):
        yield TextDelta(reply.text)
        yield reply
        return
    yield with_calls(reply, [msgspec.structs.replace(call, name=tool.name)])
