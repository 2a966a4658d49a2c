# mypy: disable-error-code="import-not-found, no-any-return, untyped-decorator"
"""The OpenAI Agents SDK: one Agent for all conversations; `Runner.run`, or `Runner.run_streamed` and its events.

Tracing is off by its documented switch, and the limit of 10 turns a run is lifted. It has no model for Anthropic of
its own.
"""

from __future__ import annotations

from typing import Any

import common

IMPORTS = "from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool; from openai import AsyncOpenAI"


async def opened(options: common.Options) -> common.Run:
    """Runs of one agent; what is held is the list of items that a next run would be given."""
    from agents import Agent, Runner, function_tool, set_tracing_disabled

    set_tracing_disabled(True)

    @function_tool
    async def answer(path: str) -> str:
        """Answer at once."""
        return await options.answer()

    agent: Any = Agent(name="bench", model=_model(options), tools=[answer])

    async def whole() -> Any:
        return await Runner.run(agent, "go", max_turns=None)

    async def streamed() -> Any:
        result = Runner.run_streamed(agent, "go", max_turns=None)
        async for _ in result.stream_events():
            pass
        return result

    async def run() -> object:
        result = await (streamed() if options.stream else whole())
        if result.final_output != "done":
            raise RuntimeError(f"It ended with {result.final_output!r}.")
        return result.to_input_list()

    return run


def _model(options: common.Options) -> Any:
    from agents import OpenAIChatCompletionsModel, OpenAIResponsesModel
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=f"{options.url}/v1", api_key="k")
    if options.api == "openai":
        return OpenAIChatCompletionsModel(options.model, client)
    if options.api == "responses":
        return OpenAIResponsesModel(options.model, client)
    raise SystemExit(f"The driver of openai-agents does not speak {options.api}.")


if __name__ == "__main__":
    common.main("openai-agents", "openai-agents", IMPORTS, opened)
