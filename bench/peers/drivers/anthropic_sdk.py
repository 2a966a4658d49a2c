# mypy: disable-error-code="import-not-found, no-any-return"
"""The Anthropic SDK and a tool loop by hand, as its documentation shows one."""

from __future__ import annotations

from typing import Any

import common

IMPORTS = "from anthropic import AsyncAnthropic"
TOOL: Any = {
    "name": "answer",
    "description": "Answer at once.",
    "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}


async def opened(options: common.Options) -> common.Run:
    """Conversations of one client."""
    from anthropic import AsyncAnthropic

    client: Any = AsyncAnthropic(base_url=options.url, api_key="k")

    async def answer(path: str) -> str:
        return await options.answer()

    async def ask(messages: list[Any]) -> Any:
        request: dict[str, Any] = {"model": options.model, "max_tokens": 1024, "tools": [TOOL], "messages": messages}
        if not options.stream:
            return await client.messages.create(**request)
        async with client.messages.stream(**request) as stream:
            async for _ in stream:
                pass
            return await stream.get_final_message()

    async def run() -> object:
        messages: list[Any] = [{"role": "user", "content": "go"}]
        while True:
            reply = await ask(messages)
            messages.append({"role": "assistant", "content": reply.content})
            uses = [block for block in reply.content if block.type == "tool_use"]
            if not uses:
                return messages
            answers = await common.together([answer(**use.input) for use in uses])
            results = [
                {"type": "tool_result", "tool_use_id": use.id, "content": result}
                for use, result in zip(uses, answers, strict=True)
            ]
            messages.append({"role": "user", "content": results})

    return run


if __name__ == "__main__":
    common.main("anthropic-sdk", "anthropic", IMPORTS, opened)
