"""Mistakes of a user: each line that ends with `# wrong` must be an error to the type checker, and no other line."""

from __future__ import annotations

from dataclasses import dataclass

from outrider import Agent, Allow, Log, RunResult, Session, Tool, ToolContext, ToolUseBlock, run, think, tool
from outrider.batches import batch
from outrider.testing import tool_context
from outrider.types import RunContext


@dataclass
class Forecast:
    """A typed answer."""

    degrees: int


@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool
def rows(table: str, context: ToolContext[list[str]]) -> int:
    """Count rows."""
    return context.deps.count(table) + context.deps.size  # wrong


def approve(call: ToolUseBlock, used: Tool) -> str:
    """An approver that returns a string."""
    return call.name + used.name


agent = Agent("demo", tools=[add])
add("1")  # wrong
add(1, c=2)  # wrong
total: str = add(1)  # wrong
Agent("demo", tool=[add])  # wrong
Agent("demo", effort="enormous")  # wrong
Agent("demo", temperature="hot")  # wrong
Agent()  # wrong
print(agent.tools[0].descripton)  # wrong
agent.tools = ()  # wrong
Session(agent, approve=approve)  # wrong
Session(agent, approve=Allow())  # wrong
stringly = Agent("demo", tools=[rows], deps_type=list[str])
Agent("demo", deps=["a"])  # wrong
stringly.session(deps=[1])  # wrong
Session(stringly, deps="not a list")  # wrong
Session.open(Log("log"), agent=stringly, deps={"a": 1})  # wrong
plain: Agent = stringly  # wrong
Agent("demo", system=3)  # wrong
Agent("demo", system=lambda: "Be brief.")  # wrong
agent.session().agent = stringly  # wrong
number: int = think("Hello")  # wrong
scripted: int = run("Hello", output=Forecast).output  # wrong
listed: RunResult[str] = run("Hello", output=Forecast)  # wrong
rows("cities", tool_context("not a list"))  # wrong


def prompt(context: RunContext[str]) -> str:
    """A system prompt from other deps."""
    return context.deps


Agent("demo", system=prompt, deps_type=list[str])  # wrong


async def main() -> None:
    """Use the result of a run wrongly."""
    result: RunResult = await agent.run("Hello")
    result.text.length()  # wrong
    result.status = "done"  # wrong
    length: int = result.output  # wrong
    typed = await agent.run("Hello", output=Forecast)
    print(typed.output.degres)  # wrong
    again: RunResult[int] = await agent.session().run("Hello", output=Forecast)  # wrong
    asked: str = await agent.ask("Hello", Forecast)  # wrong
    await agent.run("Hello", outputs=Forecast)  # wrong
    await stringly.run("Hello", deps="not a list")  # wrong
    await stringly.session(deps=["a"]).run("Hello", deps=1)  # wrong
    await stringly.ask("Hello", Forecast, deps=3)  # wrong
    turn = await stringly.think("Hello", deps=3)  # wrong
    await stringly.act(turn, deps="not a list")  # wrong
    turn.run_calls("rows")  # wrong
    await agent.run("Hello", deps=["a"])  # wrong
    async for done in batch(agent, ["Hello"], log=Log("log"), output=Forecast):
        print(done.output.degres)  # wrong
    batch(stringly, ["Hello"], log=Log("log"), deps=3)  # wrong
    print(length, again, asked)
