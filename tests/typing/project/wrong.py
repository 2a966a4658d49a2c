"""Mistakes of a user: each line that ends with `# wrong` must be an error to the type checker, and no other line."""

from __future__ import annotations

from outrider import Agent, Allow, RunResult, Session, Tool, ToolContext, ToolUseBlock, think, tool


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
number: int = think("Hello")  # wrong


async def main() -> None:
    """Use the result of a run wrongly."""
    result: RunResult = await agent.run("Hello")
    result.text.length()  # wrong
    result.status = "done"  # wrong
