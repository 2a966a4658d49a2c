"""A model that calls every tool that it is offered, with valid arguments, and then answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from itertools import takewhile
from typing import Any

import msgspec

from outrider.conversation.messages import Message, ToolUseBlock
from outrider.conversation.usage import Usage
from outrider.providers.base import Reply, Request, StopReason, ToolSpec
from outrider.providers.deltas import Delta, TextDelta, ToolCallDelta
from outrider.testing.schema_values import value_for

NO_ARGUMENTS: Mapping[str, Mapping[str, Any]] = {}


class TestModel:
    """Calls every tool that it is offered once, with arguments made from its JSON Schema, and then answers.

    A run with an `output` type gets valid data. `arguments` has those of tools for which others than made-up ones are
    needed, by the name of the tool. `text` is the answer of a run without a type.

    >>> from outrider import run
    >>> def double(number: int) -> int:
    ...     return 2 * number
    >>> [call.input for call in run("Go.", tools=[double], model=TestModel()).conversation[1].tool_calls]
    [{'number': 0}]
    """

    __test__ = False  # pytest would take it for a class of tests
    passes_assertions = True

    def __init__(
        self,
        *,
        arguments: Mapping[str, Mapping[str, Any]] = NO_ARGUMENTS,
        text: str = "Done.",
        usage: Usage | None = None,
    ) -> None:
        self.name = "test"
        self.requests: list[Request] = []
        """The requests, in order."""
        self._arguments = arguments
        self._text = text
        self._usage = usage or Usage()

    async def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
        """Call the tools that were not called since the last prompt, or else answer."""
        self.requests.append(request)
        calls = [self._call(request, tool) for tool in _next_tools(request)]
        if not calls:
            yield TextDelta(self._text)
        for call in calls:
            yield ToolCallDelta(call.id, call.name, msgspec.json.encode(call.input).decode())
        message = Message.assistant(*calls) if calls else Message.assistant(self._text)
        yield Reply(message, StopReason.TOOL_USE if calls else StopReason.END, self._usage)

    def _call(self, request: Request, tool: ToolSpec) -> ToolUseBlock:
        call_id = f"call_{len(request.messages)}_{tool.name}"
        if tool.name in self._arguments:
            return ToolUseBlock(call_id, tool.name, dict(self._arguments[tool.name]))
        try:
            return ToolUseBlock(call_id, tool.name, value_for(tool.parameters))
        except LookupError:
            raise AssertionError(
                f"no arguments were found that satisfy the schema of {tool.name}; "
                f"give them: TestModel(arguments={{{tool.name!r}: {{…}}}})"
            ) from None


def _next_tools(request: Request) -> list[ToolSpec]:
    """Return the tools that are to be called now; the one that takes the answer comes alone, in the end."""
    if request.settings.tool_choice == "none":
        return []
    newest = takewhile(lambda message: message.role == "assistant" or message.tool_results, reversed(request.messages))
    called = {call.name for message in newest for call in message.tool_calls}
    left = [tool for tool in request.tools if tool.name not in called]
    return [tool for tool in left if not tool.is_answer] or left
