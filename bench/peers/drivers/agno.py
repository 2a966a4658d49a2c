# mypy: disable-error-code="import-not-found, no-any-return"
"""Agno: one Agent for all conversations, as its documentation tells; `arun`, or `arun(stream=True)`.

Telemetry is off by its documented switch. There is no database, as by default: what is held is the output of a run,
which has the messages.
"""

from __future__ import annotations

import sys
from typing import Any

# This file has the name of the package: what is beside it must not be found first.
sys.path.append(sys.path.pop(0))

import common

IMPORTS = "from agno.agent import Agent; from agno.models.openai import OpenAIChat"


async def opened(options: common.Options) -> common.Run:
    """Runs of one agent, each in a session of its own."""
    from agno.agent import Agent
    from agno.run.agent import RunOutput

    async def answer(path: str) -> str:
        """Answer at once."""
        return await options.answer()

    agent: Any = Agent(model=_model(options), tools=[answer], telemetry=False)

    async def whole() -> Any:
        return await agent.arun("go")

    async def streamed() -> Any:
        output = None
        async for event in agent.arun("go", stream=True, yield_run_output=True):
            if isinstance(event, RunOutput):
                output = event
        return output

    async def run() -> object:
        output = await (streamed() if options.stream else whole())
        said = output.messages[-1].content
        if said != "done":
            raise RuntimeError(f"It ended with {said!r}.")
        return output

    return run


def _model(options: common.Options) -> Any:
    if options.api == "openai":
        from agno.models.openai import OpenAIChat

        return OpenAIChat(id=options.model, base_url=f"{options.url}/v1", api_key="k")
    if options.api == "anthropic":
        from agno.models.anthropic import Claude

        return Claude(id=options.model, api_key="k", client_params={"base_url": options.url})
    raise SystemExit(f"The driver of agno does not speak {options.api}.")


if __name__ == "__main__":
    common.main("agno", "agno", IMPORTS, opened)
