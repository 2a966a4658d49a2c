# mypy: disable-error-code="import-not-found, no-any-return"
"""The OpenAI SDK and a tool loop by hand, as its documentation shows one."""

from __future__ import annotations

import json
from typing import Any

import common

IMPORTS = "from openai import AsyncOpenAI"


async def opened(options: common.Options) -> common.Run:
    """Conversations of one client."""
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=f"{options.url}/v1", api_key="k")
    ask = _streamed if options.stream else _whole

    async def answer(path: str) -> str:
        return await options.answer()

    async def run() -> object:
        messages: list[Any] = [{"role": "user", "content": "go"}]
        while True:
            message = await ask(client, options.model, messages)
            messages.append(message)
            calls = message.get("tool_calls")
            if not calls:
                return messages
            results = await common.together([answer(**json.loads(call["function"]["arguments"])) for call in calls])
            for call, result in zip(calls, results, strict=True):
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})

    return run


async def _whole(client: Any, model: str, messages: list[Any]) -> dict[str, Any]:
    reply = await client.chat.completions.create(model=model, messages=messages, tools=[common.OPENAI_TOOL])
    message: dict[str, Any] = reply.choices[0].message.model_dump(exclude_none=True)
    return message


async def _streamed(client: Any, model: str, messages: list[Any]) -> dict[str, Any]:
    text = ""
    calls: dict[int, Any] = {}
    stream = await client.chat.completions.create(
        model=model, messages=messages, tools=[common.OPENAI_TOOL], stream=True
    )
    async for chunk in stream:
        delta = chunk.choices[0].delta
        text += delta.content or ""
        for part in delta.tool_calls or ():
            if part.index not in calls:
                function = {"name": part.function.name, "arguments": ""}
                calls[part.index] = {"id": part.id, "type": "function", "function": function}
            calls[part.index]["function"]["arguments"] += part.function.arguments or ""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    return message | ({"tool_calls": list(calls.values())} if calls else {})


if __name__ == "__main__":
    common.main("openai-sdk", "openai", IMPORTS, opened)
