# mypy: disable-error-code="import-not-found, no-any-return"
"""LiteLLM: `acompletion` and a tool loop by hand, as its guide for function calls shows one; it has no loop of its own.

A stream is put together by its `stream_chunk_builder`. Telemetry is off, and the table of prices is the one it ships:
by default the import asks the network for a newer one. The models of the server are entered there, since one that it
does not know costs it an exception and a printed hint each time.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

# This file has the name of the package: what is beside it must not be found first.
sys.path.append(sys.path.pop(0))

import common

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
IMPORTS = "from litellm import acompletion"


async def opened(options: common.Options) -> common.Run:
    """Conversations that share what the package shares."""
    import litellm

    litellm.telemetry = False
    litellm.suppress_debug_info = True
    price = {
        "max_tokens": 8192,
        "input_cost_per_token": 1e-6,
        "output_cost_per_token": 1e-6,
        "cache_creation_input_token_cost": 0.0,
        "cache_read_input_token_cost": 0.0,
        "litellm_provider": options.api,
        "mode": "chat",
    }
    litellm.register_model(dict.fromkeys(("turns", options.model, f"{options.api}/{options.model}"), price))
    ask = _ask(options)

    async def answer(path: str) -> str:
        return await options.answer()

    async def run() -> object:
        messages: list[Any] = [{"role": "user", "content": "go"}]
        while True:
            message = (await ask(messages)).choices[0].message
            messages.append(message)
            if not message.tool_calls:
                break
            results = await common.together(
                [answer(**json.loads(each.function.arguments)) for each in message.tool_calls]
            )
            for call, result in zip(message.tool_calls, results, strict=True):
                messages.append(
                    {"role": "tool", "tool_call_id": call.id, "name": call.function.name, "content": result}
                )
        if message.content != "done":
            raise RuntimeError(f"It ended with {message.content!r}.")
        return messages

    return run


def _ask(options: common.Options) -> Any:
    """One request, streamed or whole."""
    from litellm import acompletion, stream_chunk_builder

    if options.api not in ("openai", "anthropic"):
        raise SystemExit(f"The driver of litellm does not speak {options.api}.")
    base = f"{options.url}/v1" if options.api == "openai" else options.url
    settings = {
        "model": f"{options.api}/{options.model}",
        "api_base": base,
        "api_key": "k",
        "tools": [common.OPENAI_TOOL],
    }

    async def whole(messages: list[Any]) -> Any:
        return await acompletion(messages=messages, **settings)

    async def streamed(messages: list[Any]) -> Any:
        stream = await acompletion(messages=messages, stream=True, **settings)
        return stream_chunk_builder([chunk async for chunk in stream], messages=messages)

    return streamed if options.stream else whole


if __name__ == "__main__":
    common.main("litellm", "litellm", IMPORTS, opened)
