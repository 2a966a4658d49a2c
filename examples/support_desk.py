"""A support desk: typed tools with dependencies, and a person who approves large refunds."""

import asyncio
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from outrider import Agent, Allow, Deny, Limits, Tool, ToolContext, ToolUseBlock, tool
from outrider.testing import ScriptedModel, call


@dataclass
class Order:
    number: str
    total: Decimal
    state: Literal["paid", "shipped", "refunded"]


@dataclass
class Shop:
    """What the tools work on. In your own program it has a database."""

    orders: dict[str, Order] = field(default_factory=dict)


@tool(effect="read")
def find_order(context: ToolContext[Shop], number: str) -> Order | str:
    """Find an order by its number, such as A-17."""
    return context.deps.orders.get(number) or f"there is no order {number}"


@tool(effect="idempotent")
def refund(context: ToolContext[Shop], number: str, amount: Decimal, reason: str) -> str:
    """Refund a part of an order, or all of it.

    Args:
        number: The number of the order.
        amount: How much, in the currency of the order.
        reason: Why, in one sentence.
    """
    order = context.deps.orders[number]
    if amount > order.total:
        return f"not refunded: the order was {order.total} only"
    order.state = "refunded"
    return f"refunded {amount} of {order.total}"


async def approve(use: ToolUseBlock, wanted: Tool) -> Allow | Deny:
    """Let small refunds through; ask a person about others. Here the person says no."""
    if wanted.name != "refund" or Decimal(str(use.input["amount"])) <= 50:
        return Allow()
    return Deny("a person must look at refunds over 50 first; tell the customer that it takes a day")


def scripted() -> ScriptedModel:
    """A model for this example. Use the name of a real one instead, such as "anthropic/fast"."""
    small = call("refund", number="A-17", amount="20.00", reason="The box was damaged.")
    large = call("refund", number="B-3", amount="900", reason="The customer is angry.")
    return ScriptedModel([call("find_order", number="A-17"), [small, large], "A-17 is refunded; B-3 takes a day."])


async def main() -> None:
    shop = Shop({"A-17": Order("A-17", Decimal("80.00"), "shipped"), "B-3": Order("B-3", Decimal(900), "paid")})
    agent = Agent(
        scripted(),
        system="You work at the support desk of a shop. Look an order up before you promise anything.",
        tools=[find_order, refund],
        deps_type=Shop,
        limits=Limits(max_turns=10, max_cost=0.50),
    )
    result = await agent.run("A-17 came damaged, and I want my money back for B-3!", deps=shop, approve=approve)
    for message in result.messages:
        for answer in message.tool_results:
            print("✗" if answer.is_error else "✓", answer.text)
    print(result.text, {number: order.state for number, order in shop.orders.items()})


asyncio.run(main())
