# mypy: disable-error-code="import-not-found, no-any-return, untyped-decorator"
"""smolagents: a ToolCallingAgent for each conversation, since the agent is what keeps the history.

It has no async interface: the agent runs in a thread, by the call its guide for async applications shows (which has
40 threads at most), and the tool is a plain function. What it prints is switched off by the level of its logger and by
a console that is quiet, since streaming draws on the console at any level.

Its loop ends when the model calls `final_answer`, or after `max_steps` with a question for a last text: here it is the
latter. It sends results as messages of the user; its `custom_role_conversions` makes them `tool`, which the server
counts.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

# This file has the name of the package: what is beside it must not be found first.
sys.path.append(sys.path.pop(0))

import common

IMPORTS = "from smolagents import OpenAIModel, ToolCallingAgent, tool"


async def opened(options: common.Options) -> common.Run:
    """Agents of one model; what is held is the agent with its memory."""
    from anyio import to_thread
    from rich.console import Console
    from smolagents import AgentLogger, LogLevel, OpenAIModel, ToolCallingAgent, tool

    if options.api != "openai":
        raise SystemExit(f"The driver of smolagents does not speak {options.api}.")

    loop = asyncio.get_running_loop()

    @tool
    def answer(path: str) -> str:
        """Answer at once.

        Args:
            path: The path of a file.
        """
        if options.child:
            return asyncio.run_coroutine_threadsafe(options.answer(), loop).result()
        return options.result()

    model = OpenAIModel(
        options.model,
        api_base=f"{options.url}/v1",
        api_key="k",
        custom_role_conversions={"tool-call": "assistant", "tool-response": "tool"},
    )

    def converse() -> Any:
        agent = ToolCallingAgent(
            tools=[answer],
            model=model,
            max_steps=1 if options.child else options.turns,
            stream_outputs=options.stream,
            logger=AgentLogger(LogLevel.OFF, Console(quiet=True)),
        )
        said = _streamed(agent) if options.stream else agent.run("go")
        if said != "done":
            raise RuntimeError(f"It ended with {said!r}.")
        return agent

    async def run() -> object:
        return await to_thread.run_sync(converse)

    return run


def _streamed(agent: Any) -> Any:
    """All events, and what the last one says."""
    from smolagents import FinalAnswerStep

    said = None
    for event in agent.run("go", stream=True):
        if isinstance(event, FinalAnswerStep):
            said = event.output
    return said


if __name__ == "__main__":
    common.main("smolagents", "smolagents", IMPORTS, opened)
