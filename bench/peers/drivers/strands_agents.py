# mypy: disable-error-code="import-not-found, no-any-return, untyped-decorator"
"""Strands Agents: an Agent for each conversation, since the agent is what keeps the history.

`invoke_async` with a model that does not stream, or `stream_async`. What it prints is switched off by
`callback_handler=None`, as its guide for async iterators shows; traces go nowhere unless an exporter is set up. The
agents share one client: without one, each request would open its own. The window of 40 messages, to which a history is
cut at the end of a run, is replaced by the manager that cuts nothing. Each turn is a call inside the one before: with
Python's own limit of recursion a run of 380 turns fails, so it is raised here.
"""

from __future__ import annotations

import sys
from typing import Any

import common

IMPORTS = """
from openai import AsyncOpenAI
from strands import Agent, tool
from strands.models.openai import OpenAIModel
"""


async def opened(options: common.Options) -> common.Run:
    """Agents of one model; what is held is the agent with its messages."""
    from strands import Agent, tool
    from strands.agent.conversation_manager import NullConversationManager

    @tool
    async def answer(path: str) -> str:
        """Answer at once.

        Args:
            path: The path of a file.
        """
        return await options.answer()

    model = _model(options)
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 50 * options.turns))

    async def run() -> object:
        agent: Any = Agent(
            model=model, tools=[answer], callback_handler=None, conversation_manager=NullConversationManager()
        )
        result = await (_streamed(agent) if options.stream else agent.invoke_async("go"))
        if str(result).strip() != "done":
            raise RuntimeError(f"It ended with {str(result)!r}.")
        return agent

    return run


async def _streamed(agent: Any) -> Any:
    """All events, and the result that the last one carries."""
    result = None
    async for event in agent.stream_async("go"):
        result = event.get("result", result)
    return result


def _model(options: common.Options) -> Any:
    if options.api == "openai":
        from openai import AsyncOpenAI
        from strands.models.openai import OpenAIModel

        client = AsyncOpenAI(base_url=f"{options.url}/v1", api_key="k")
        return OpenAIModel(client=client, model_id=options.model, stream=options.stream)
    if options.api == "anthropic":
        from strands.models.anthropic import AnthropicModel

        # This one always streams on the wire.
        args = {"base_url": options.url, "api_key": "k"}
        return AnthropicModel(client_args=args, model_id=options.model, max_tokens=1024)
    raise SystemExit(f"The driver of strands-agents does not speak {options.api}.")


if __name__ == "__main__":
    common.main("strands-agents", "strands-agents", IMPORTS, opened)
