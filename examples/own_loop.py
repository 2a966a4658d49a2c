"""A script with a loop of its own: it asks the model, looks at the calls, runs them, and decides what comes next.

The model sees `place_order` only after it has looked at the stock, a person confirms orders, and the script ends the
conversation when it has used too many tokens. `think` asks once; `run_calls` runs the calls of a turn, as `run` would.

    python own_loop.py "We are out of salt."    # with the model of OUTRIDER_MODEL, or a balanced one
"""

import sys
from dataclasses import dataclass, field

from outrider import Allow, Deny, Tool, ToolContext, ToolUseBlock, think, tool
from outrider.providers import Provider
from outrider.testing import ScriptedModel, call

MOST_TOKENS = 50_000


@dataclass
class Store:
    stock: dict[str, int]
    orders: list[str] = field(default_factory=list[str])


@tool(effect="read")
def look_up(item: str, context: ToolContext[Store]) -> int:
    """Count an item in the store."""
    return context.deps.stock[item]


@tool
def place_order(item: str, count: int, context: ToolContext[Store]) -> str:
    """Order an item."""
    context.deps.orders.append(f"{count} × {item}")
    return "ordered"


def confirm(use: ToolUseBlock, wanted: Tool) -> Allow | Deny:
    """Let tools read. Ask the person at the terminal about the rest; without one, say no to large orders."""
    if wanted.effect == "read":
        return Allow()
    if sys.stdin.isatty():
        return Allow(by="you") if input(f"{use.name} {use.input}? ").startswith("y") else Deny("ask for less")
    return Allow() if use.input["count"] <= 20 else Deny("order at most 20 at once")


def work(prompt: str, store: Store, model: Provider | None = None) -> str:
    """Work on a prompt until the model is done, and return what it says."""
    tools: list[Tool] = [look_up]
    turn = think(prompt, conversation=[], tools=tools, model=model)
    used = turn.usage.total_tokens
    while turn.tool_calls:
        results = turn.run_calls(tools, deps=store, approve=confirm)
        for use, result in zip(turn.tool_calls, results, strict=True):
            print(f"{'✗' if result.is_error else '✓'} {use.name} {use.input} → {result.text}")
        if used > MOST_TOKENS:
            return "stopped: it takes too long"
        tools = [look_up, place_order]
        turn = think(conversation=turn.conversation, tool_results=results, tools=tools, model=model)
        used += turn.usage.total_tokens
    return turn.text


if __name__ == "__main__":
    store = Store({"salt": 0, "hay": 40})
    if len(sys.argv) > 1:
        print(work(sys.argv[1], store))
    else:
        too_many, enough = (call("place_order", item="salt", count=count) for count in (500, 20))
        script = ScriptedModel([call("look_up", item="salt"), too_many, enough, "20 bags of salt are on their way."])
        print(work("We are out of salt.", store, script))
    print(store.orders)
