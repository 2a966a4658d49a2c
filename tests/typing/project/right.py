"""What a user writes: every line must type-check under strict rules."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

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
from outrider.batches import batch
from outrider.events import RunFinished, TextDelta
from outrider.types import RunContext


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
    deps_type=Database,
    limits=Limits(max_turns=5),
    effort="low",
    temperature=0.2,
    max_tokens=500,
    tool_choice="auto",
    options={"seed": 1},
)
description: str = agent.tools[0].description
brief: Agent[Database] = agent.replace(system="Be brief.")


async def prompt(context: RunContext[Database]) -> str:
    """The system prompt of a run."""
    return f"The database is {context.deps.url}."


prompted = Agent("demo", system=prompt, tools=[count], deps_type=Database)
simple: Agent = Agent("demo", tools=[add])


def name_of(session: Session) -> str:
    """Sessions of any agent."""
    return session.agent.name


async def any_agent(agent: Agent[Any]) -> str:
    """Agents of any dependencies."""
    return (await agent.run("Hello")).output


async def main() -> None:
    """Use each verb."""
    database = Database("sqlite://")
    result: RunResult = await agent.run("Hello", approve=approve, deps=database)
    text: str = result.raise_for_status().text
    typed: RunResult[Forecast] = await agent.run("How warm?", output=Forecast, deps=database)
    warm: int = typed.raise_for_status().output.degrees
    said: str = result.output
    many: list[Forecast] = (await agent.session(deps=database).run("How warm?", output=list[Forecast])).output
    print(warm, said, many)
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
    session: Session[Database] = agent.session(approve=approve, deps=database)
    await session.run("Hello", deps=Database("postgres://"), limits=Limits(max_turns=2))
    await Session(agent, deps=database).run("Hello")
    await prompted.run("Hello", deps=database, effort="low")
    print(name_of(session), await simple.ask("Hello"), await any_agent(agent), await any_agent(simple))
    session.agent = brief
    async with Session.open(Log("log"), agent=agent, deps=database) as durable:
        await durable.run("Hello")
        print((await durable.run(output=Forecast)).output.degrees + 1)
    async for done in batch(agent, ["How warm?"], log=Log("log"), output=Forecast, deps=database, workers=1):
        print(done.output.degrees + 1)
    async for words_of in batch(simple, ["Hello"], log=Log("log")):
        print(words_of.output.upper())
    with Session.open(Log("log"), durable.id) as again:
        print(again.messages[0]["role"])


answer: str = think("Hello")
turn = think("Hello", conversation=[])
again: str = turn.text
turns: int = run("Hello", [plain], 3).turns
cold: int = run("How warm?", output=Forecast).output.degrees
degrees: int = ask("How warm?", Forecast).degrees

if __name__ == "__main__":
    asyncio.run(main())
