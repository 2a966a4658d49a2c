# mypy: disable-error-code="import-not-found, no-any-return, untyped-decorator"
"""Pydantic AI: one Agent for all conversations, as its documentation tells; `run`, or `run_stream_events`.

Instrumentation is off unless it is asked for. The limit of 50 requests a run is lifted by its own UsageLimits.
"""

from __future__ import annotations

import sys
from typing import Any

# This file has the name of the package: what is beside it must not be found first.
sys.path.append(sys.path.pop(0))

import common

IMPORTS = """
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
"""


async def opened(options: common.Options) -> common.Run:
    """Runs of one agent; what is held is the list of messages that a next run would be given."""
    from pydantic_ai import Agent, AgentRunResultEvent, UsageLimits

    agent = Agent(_model(options))
    limits = UsageLimits(request_limit=None)

    @agent.tool_plain
    async def answer(path: str) -> str:
        """Answer at once."""
        return await options.answer()

    async def whole() -> Any:
        return await agent.run("go", usage_limits=limits)

    async def streamed() -> Any:
        async with agent.run_stream_events("go", usage_limits=limits) as events:
            async for event in events:
                if isinstance(event, AgentRunResultEvent):
                    return event.result
        raise RuntimeError("There was no result.")

    async def run() -> object:
        result = await (streamed() if options.stream else whole())
        if result.output != "done":
            raise RuntimeError(f"It ended with {result.output!r}.")
        return result.all_messages()

    return run


def _model(options: common.Options) -> Any:
    if options.api == "openai":
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        return OpenAIChatModel(options.model, provider=OpenAIProvider(base_url=f"{options.url}/v1", api_key="k"))
    if options.api == "anthropic":
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        return AnthropicModel(options.model, provider=AnthropicProvider(base_url=options.url, api_key="k"))
    raise SystemExit(f"The driver of pydantic-ai does not speak {options.api}.")


if __name__ == "__main__":
    common.main("pydantic-ai", "pydantic-ai-slim", IMPORTS, opened)
