"""What a user writes: every line must type-check under strict rules."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from outrider import (
    Agent,
    Allow,
    Attachment,
    Deny,
    Limits,
    Log,
    RunResult,
    Session,
    Tool,
    ToolContext,
    ToolResult,
    ToolUseBlock,
    ask,
    run,
    think,
    tool,
)
from outrider.events import RunFinished, TextDelta


@dataclass
class Database:
    """A dependency of the tools."""

    url: str

    def rows(self, table: str) -> int:
        """Count rows."""
        return len(table)


@dataclass
class Forecast:
    """A typed answer."""

    degrees: int


@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="read")
async def count(table: str, context: ToolContext[Database]) -> str:
    """Count the rows of a table."""
    context.progress("counting")
    return str(context.deps.rows(table))


@tool(effect="read")
def chart(context: ToolContext) -> ToolResult:
    """Draw a chart."""
    return ToolResult("A chart.", attachments=[Attachment(b"...", "image/png", name="chart.png")])


def plain(city: str) -> str:
    """A plain function is a tool as well."""
    return city


def approve(call: ToolUseBlock, used: Tool) -> Allow | Deny:
    """Let tools read."""
    return Allow() if used.effect == "read" else Deny(f"{call.name} may not write")


async def decide(call: ToolUseBlock, used: Tool) -> bool:
    """Decide with a bool."""
    return used.effect == "read"


three: int = add(1, b=2)
agent = Agent(
    "demo",
    tools=[add, count, chart, plain],
    deps=Database("sqlite://"),
    limits=Limits(max_turns=5),
    effort="low",
    temperature=0.2,
    max_tokens=500,
    tool_choice="auto",
    options={"seed": 1},
)
description: str = agent.tools[0].description
brief: Agent = agent.replace(system="Be brief.")


async def main() -> None:
    """Use each verb."""
    result: RunResult = await agent.run("Hello", approve=approve)
    text: str = result.raise_for_status().text
    forecast: Forecast = await agent.ask("How warm?", Forecast, approve=decide)
    words: str = await agent.ask("Hello")
    print(text, forecast.degrees, words)
    async for event in agent.stream("Hello"):
        match event:
            case TextDelta(text=piece):
                print(piece.upper())
            case RunFinished(status=status):
                print(status)
            case _:
                pass
    session = agent.session(approve=approve)
    session.agent = brief
    async with Session.open(Log("log"), agent=agent) as durable:
        await durable.run("Hello")
    with Session.open(Log("log"), durable.id) as again:
        print(again.messages[0]["role"])


answer: str = think("Hello")
turn = think("Hello", conversation=[])
again: str = turn.text
turns: int = run("Hello", [plain], 3).turns
degrees: int = ask("How warm?", Forecast).degrees

if __name__ == "__main__":
    asyncio.run(main())
