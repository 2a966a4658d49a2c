# mypy: disable-error-code="import-not-found, no-any-return"
"""LangGraph: the agent graph of `langchain.agents.create_agent`, which took the place of its own prebuilt one.

`ainvoke`, or `astream` with the messages as they come. Tracing is off unless the environment asks for it; it is told
so all the same. The limit of 25 steps is lifted by the configuration of a run.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import common

# This file has the name of the package, which has no __init__.py: it would be found instead, wherever it stands.
del sys.path[0]
os.environ["LANGSMITH_TRACING"] = "false"
IMPORTS = "from langchain.agents import create_agent; from langchain_openai import ChatOpenAI"


async def opened(options: common.Options) -> common.Run:
    """Runs of one graph; what is held is its last state."""
    from langchain.agents import create_agent

    async def answer(path: str) -> str:
        """Answer at once."""
        return await options.answer()

    agent: Any = create_agent(_model(options), tools=[answer])
    config = {"recursion_limit": 2 * options.turns + 10}

    async def whole() -> Any:
        return await agent.ainvoke(_begin(), config)

    async def streamed() -> Any:
        state = None
        async for mode, event in agent.astream(_begin(), config, stream_mode=["messages", "values"]):
            if mode == "values":
                state = event
        return state

    async def run() -> object:
        state = await (streamed() if options.stream else whole())
        said = state["messages"][-1].text
        if said != "done":
            raise RuntimeError(f"It ended with {said!r}.")
        return state

    return run


def _begin() -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "go"}]}


def _model(options: common.Options) -> Any:
    if options.api == "openai":
        from langchain_openai import ChatOpenAI

        return ChatOpenAI(model=options.model, base_url=f"{options.url}/v1", api_key="k")
    if options.api == "anthropic":
        from langchain_anthropic import ChatAnthropic

        return ChatAnthropic(model=options.model, base_url=options.url, api_key="k")
    raise SystemExit(f"The driver of langgraph does not speak {options.api}.")


if __name__ == "__main__":
    common.main("langgraph", "langgraph", IMPORTS, opened)
