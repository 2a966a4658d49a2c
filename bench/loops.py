"""The loops that are compared: ours, hand-written ones on the same transport, and the vendors' SDKs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from outrider import Agent, Limits, Session, tool
from outrider.providers.adapters.anthropic import Anthropic
from outrider.providers.adapters.openai_chat import OpenAIChat

RESULT = "x" * 2000
TOOL = {
    "name": "answer",
    "description": "Answer at once.",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}
Turn = Callable[[], Awaitable[bool]]
"""One more turn; False when the model has given its last answer."""


async def answer(path: str) -> str:
    """Answer at once."""
    return RESULT


ANSWER = tool(effect="read")(answer)


def adapter(url: str, api: str, model: str) -> Anthropic | OpenAIChat:
    """One of our adapters. Conversations share it, as they share the client of an SDK."""
    if api == "anthropic":
        return Anthropic(model, base_url=url, api_key="k")
    return OpenAIChat(model, base_url=f"{url}/v1", api_key="k")


def ours(model: Anthropic | OpenAIChat, turns: int = 1) -> Turn:
    """A session on one of our adapters, so many turns in one run."""
    session = Session(Agent(model=model, tools=[ANSWER], limits=Limits(max_turns=turns, max_repeats=None)))

    async def turn() -> bool:
        result = await session.run("" if session.history else "go")
        if result.status == "error":
            raise RuntimeError(result.error)
        return result.status == "max_turns"

    return turn


def by_hand(url: str, client: Any, model: str) -> Turn:
    """The shortest loop that does the job for OpenAI Chat: each message is kept as bytes, and nothing is checked."""
    spec = msgspec.json.encode([{"type": "function", "function": TOOL}])
    head = b'{"model":"%b","stream":true,"tools":%b,"messages":[{"role":"user","content":"go"}'
    body = bytearray(head % (model.encode(), spec))

    async def turn() -> bool:
        text = ""
        calls: dict[int, dict[str, Any]] = {}
        async with client.post(f"{url}/v1/chat/completions", data=bytes(body) + b"]}") as response:
            async for delta in _deltas(response):
                text += delta.get("content") or ""
                for part in delta.get("tool_calls", ()):
                    call = calls.setdefault(part["index"], {"id": part.get("id"), "name": "", "arguments": ""})
                    call["name"] += part["function"].get("name") or ""
                    call["arguments"] += part["function"].get("arguments") or ""
        body.extend(b"," + msgspec.json.encode(_assistant(text, calls)))
        for call in calls.values():
            result = await answer(**msgspec.json.decode(call["arguments"]))
            body.extend(b"," + msgspec.json.encode({"role": "tool", "tool_call_id": call["id"], "content": result}))
        return bool(calls)

    return turn


async def _deltas(response: Any) -> Any:
    rest = b""
    async for chunk in response.content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line.startswith(b"data: {"):
                for choice in msgspec.json.decode(line[6:])["choices"]:
                    yield choice["delta"]


def _assistant(text: str, calls: dict[int, dict[str, str]]) -> dict[str, Any]:
    made = [
        {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
        for call in calls.values()
    ]
    return {"role": "assistant", "content": text} | ({"tool_calls": made} if made else {})


def openai_sdk(client: Any, model: str) -> Turn:
    """The bare loop of the OpenAI SDK."""
    messages: list[Any] = [{"role": "user", "content": "go"}]

    async def turn() -> bool:
        text = ""
        calls: dict[int, dict[str, Any]] = {}
        tools: Any = [{"type": "function", "function": TOOL}]
        stream = await client.chat.completions.create(model=model, messages=messages, tools=tools, stream=True)
        async for chunk in stream:
            for choice in chunk.choices:
                text += choice.delta.content or ""
                for part in choice.delta.tool_calls or ():
                    call = calls.setdefault(part.index, {"id": part.id, "name": "", "arguments": ""})
                    call["name"] += (part.function and part.function.name) or ""
                    call["arguments"] += (part.function and part.function.arguments) or ""
        messages.append(_assistant(text, calls))
        for call in calls.values():
            result = await answer(**msgspec.json.decode(call["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
        return bool(calls)

    return turn


def anthropic_sdk(client: Any, model: str) -> Turn:
    """The bare loop of the Anthropic SDK."""
    messages: list[Any] = [{"role": "user", "content": "go"}]
    tool: Any = {"name": TOOL["name"], "description": TOOL["description"], "input_schema": TOOL["parameters"]}

    async def turn() -> bool:
        async with client.messages.stream(model=model, max_tokens=99, messages=messages, tools=[tool]) as stream:
            async for _ in stream:
                pass
            reply = await stream.get_final_message()
        messages.append({"role": "assistant", "content": [block.to_dict() for block in reply.content]})
        uses = [block for block in reply.content if block.type == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": use.id, "content": await answer(**use.input)} for use in uses]
        messages.append({"role": "user", "content": results or "thanks"})
        return bool(uses)

    return turn


async def play(turn: Turn, turns: int) -> None:
    """So many turns, or fewer if the model is done."""
    for _ in range(turns):
        if not await turn():
            return


async def play_all(make: Callable[[], Turn], conversations: int, turns: int) -> None:
    """So many conversations at once."""
    await asyncio.gather(*(play(make(), turns) for _ in range(conversations)))
