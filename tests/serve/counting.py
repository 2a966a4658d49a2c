"""A model whose replies depend only on the conversation, so that a run goes on after a kill: it counts with a tool."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from outrider import Agent, Limits, Message, ToolUseBlock, Usage, tool
from outrider.events import Delta, TextDelta, ToolCallDelta
from outrider.providers import Reply, Request, StopReason

WORDS = ("The ", "number ", "that ", "follows ", "is ", "next. ")


class CountingModel:
    """Calls `count` once for each word of the prompt's number, in pieces, and then says how far it came."""

    name = "test/counting"
    window = 100_000

    def __init__(self, pause: float = 0.0) -> None:
        self._pause = pause

    async def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
        start = max(i for i, each in enumerate(request.messages) if each.role == "user" and each.text)
        wanted = int("".join(filter(str.isdigit, request.messages[start].text)) or 0)
        done = sum(each.role == "assistant" for each in request.messages[start:])
        for word in WORDS:
            await asyncio.sleep(self._pause)
            yield TextDelta(word)
        text = "".join(WORDS)
        if done < wanted:
            use = ToolUseBlock(f"call_{len(request.messages)}", "count", {"number": done})
            yield ToolCallDelta(use.id, use.name, '{"number": ' + str(done) + "}")
            yield Reply(Message.assistant(text, use), StopReason.TOOL_USE, Usage(10, 5))
        else:
            yield TextDelta(f"Counted to {wanted}.")
            yield Reply(Message.assistant(f"{text}Counted to {wanted}."), StopReason.END, Usage(10, 5))


@tool(effect="read")
def count(number: int) -> str:
    """Count."""
    return f"counted {number}"


@tool(approval="later")
def refund(order: int) -> str:
    """Refund an order."""
    return f"refunded {order}"


def counting(pause: float = 0.0) -> Agent:
    return Agent(CountingModel(pause), tools=[count], limits=Limits(max_turns=10_000))
