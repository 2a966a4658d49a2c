"""Print the events of a session: text as it streams, progress of tools, and the end of the run."""

import asyncio
from collections.abc import Iterator

from outrider import Agent, Session, ToolResult, tool
from outrider.events import RunFinished, TextDelta, ToolFinished, ToolProgress
from outrider.testing import ScriptedModel, call


@tool(effect="read")
def count_lines(path: str) -> Iterator[str | ToolResult]:
    """Count the lines of a file."""
    total = 0
    with open(path) as file:
        for total, _ in enumerate(file, 1):
            if total % 10 == 0:
                yield f"{total} lines so far"
    yield ToolResult(f"{path} has {total} lines.")


async def main() -> None:
    # A scripted model, so that the example runs anywhere. Use the name of a real model instead.
    model = ScriptedModel([["Let me count.", call("count_lines", path=__file__)], "I have counted them."])
    session = Session(Agent(model=model, tools=[count_lines]))
    async for event in session.stream("How long is this example?"):
        match event:
            case TextDelta(text=text):
                print(text)
            case ToolProgress(content=content):
                print(f"  … {content}")
            case ToolFinished(result=result):
                print(f"  → {result.text}")
            case RunFinished(status=status, turns=turns):
                print(f"{status} after {turns} turns")


asyncio.run(main())
