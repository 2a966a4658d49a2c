"""A support desk: tools with dependencies, a typed resolution, and large refunds that a person approves, perhaps later.

Each case is a session in a log. While a refund waits for its approval, no process has to run.
"""

import asyncio
import tempfile
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Literal

from outrider import Agent, Allow, Defer, Limits, Log, Session, Tool, ToolContext, ToolUseBlock, tool
from outrider.testing import ScriptedModel, call
from outrider.types import RunContext, SessionOpening


@dataclass
class Order:
    number: str
    total: Decimal


@dataclass
class Shop:
    """What the tools work on: in your own program, a database and the customer of the request."""

    customer: str
    orders: dict[str, Order]
    refunds: dict[str, Decimal] = field(default_factory=dict)


@dataclass
class Resolution:
    """What the desk returns for each case."""

    outcome: Literal["refunded", "refused"]
    amount: Decimal
    reply: Annotated[str, "What the customer reads"]


@tool(effect="read")
def find_order(number: str, context: ToolContext[Shop]) -> Order | str:
    """Find an order by its number, such as A-17."""
    return context.deps.orders.get(number) or f"there is no order {number}"


@tool(effect="idempotent")
def refund(number: str, amount: Decimal, reason: str, context: ToolContext[Shop]) -> str:
    """Refund a part of an order, or all of it.

    Args:
        number: The number of the order.
        amount: How much, in the currency of the order.
        reason: Why, in one sentence.
    """
    total = context.deps.orders[number].total
    if amount > total:
        return f"not refunded: the order was {total} only"
    context.deps.refunds[context.key] = amount  # a call that is repeated after a crash has the same key
    return f"refunded {amount} of {total}"


def instructions(context: RunContext[Shop]) -> str:
    return f"You help {context.deps.customer}, a customer of our shop. Look an order up before you promise anything."


desk = Agent(
    "anthropic/balanced",
    system=instructions,
    tools=[find_order, refund],
    deps_type=Shop,
    limits=Limits(max_turns=10, max_cost=0.50),
)


def approve(use: ToolUseBlock, wanted: Tool) -> Allow:
    """Allow small refunds by a rule. A person decides about the others: in a terminal, on a page, in a program."""
    if wanted.name != "refund" or Decimal(str(use.input["amount"])) <= 50:
        return Allow(by="the rule for small refunds")
    raise Defer(f"Refund {use.input['amount']} for {use.input['number']}: {use.input['reason']}")


def open_case(log: Log, case: str, agent: Agent[Shop], shop: Shop) -> SessionOpening[Session[Shop]]:
    """Open a case: a new one, or one that was stopped."""
    return Session.open(
        log,
        case,
        agent,
        deps=shop,
        approve=approve,
        create=True,
        owner=shop.customer,
        metadata={"kind": "refund"},
    )


async def main() -> None:
    shop = Shop("Ada", {"B-3": Order("B-3", Decimal(900))})
    large = call("refund", number="B-3", amount="900", reason="The box was empty.")
    report = call("report_back", outcome="refunded", amount="450", reply="You get half of it back today.")
    agent = desk.replace(model=ScriptedModel([call("find_order", number="B-3"), large, report]))  # leave this line out
    with Log(tempfile.mkdtemp()) as log:  # use a permanent folder in your own program
        async with open_case(log, "case-17", agent, shop) as session:
            result = await session.run("The box of B-3 was empty!", output=Resolution)
        print(f"case-17: {result.status}, {len(shop.refunds)} refunds")  # the desk closes for the night
        (question,) = log.questions()
        half = {"number": "B-3", "amount": "450", "reason": "The box was empty."}
        log.answer(question.id, Allow(input=half), by="Grace")  # the next morning, a person allows half of it
        async with open_case(log, "case-17", agent, shop) as session:
            result = await session.run(output=Resolution)  # without a prompt: go on
        print(f"case-17: {result.output.outcome} {result.output.amount}: {result.output.reply}")
        print(*map(str, shop.refunds.values()))


if __name__ == "__main__":
    asyncio.run(main())
