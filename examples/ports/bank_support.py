"""The bank support agent of pydantic-ai's examples: dependencies, a system prompt that needs them, and a typed answer."""

import asyncio
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from outrider import Agent, ToolContext, tool
from outrider.types import RunContext


class Database:
    """A database with one customer."""

    async def name(self, customer: int) -> str | None:
        return "John" if customer == 123 else None

    async def balance(self, customer: int, *, pending: bool) -> float:
        if customer != 123:
            raise ValueError("there is no such customer")
        return 123.45 if pending else 100.00


@dataclass
class Bank:
    customer: int
    database: Database


@dataclass
class Advice:
    text: Annotated[str, Meta(description="The advice that the customer reads")]
    block_card: Annotated[bool, Meta(description="Whether the card must be blocked")]
    risk: Annotated[int, Meta(ge=0, le=10, description="How risky the request is")]


async def instructions(context: RunContext[Bank]) -> str:
    name = await context.deps.database.name(context.deps.customer)
    return f"You are a support agent of our bank. Help the customer, {name}, by name, and judge how risky the request is."


@tool(effect="read")
async def customer_balance(include_pending: bool, context: ToolContext[Bank]) -> str:
    """Return the balance of the customer's account."""
    return f"${await context.deps.database.balance(context.deps.customer, pending=include_pending):.2f}"


support = Agent("openai/balanced", system=instructions, tools=[customer_balance], deps_type=Bank)


def main(agent: Agent[Bank] = support) -> None:
    bank = Bank(123, Database())
    for question in ("What is my balance?", "I just lost my card!"):
        print(asyncio.run(agent.ask(question, Advice, deps=bank)))


if __name__ == "__main__":
    main()
