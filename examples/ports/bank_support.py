"""The bank support agent of pydantic-ai's examples: dependencies, instructions that need them, and a typed answer."""

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import Annotated, Any

from outrider import Agent, ToolContext, tool
from outrider.types import RunContext


@dataclass
class Bank:
    customer: int
    database: sqlite3.Connection

    def find(self, column: str) -> Any:
        """Return a column of the customer."""
        found = self.database.execute(f"SELECT {column} FROM customers WHERE id = ?", [self.customer]).fetchone()
        if found is None:
            raise ValueError("there is no such customer")
        return found[0]


@dataclass
class Advice:
    text: Annotated[str, "The advice that the customer reads"]
    block_card: Annotated[bool, "Whether the card must be blocked"]
    risk: Annotated[int, "How risky the request is"]


def instructions(context: RunContext[Bank]) -> str:
    name = context.deps.find("name")
    return (
        f"You are a support agent of our bank. Help the customer, {name}, by name, and judge how risky the request is."
    )


@tool(effect="read")
async def customer_balance(context: ToolContext[Bank]) -> str:
    """Return the balance of the customer's account."""
    return f"${context.deps.find('balance'):.2f}"


support = Agent("openai/balanced", system=instructions, tools=[customer_balance], deps_type=Bank)


def main(agent: Agent[Bank] = support) -> None:
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE customers(id, name, balance)")
        database.execute("INSERT INTO customers VALUES (123, 'John', 123.45)")
        for question in ("What is my balance?", "I just lost my card!"):
            print(asyncio.run(agent.ask(question, Advice, deps=Bank(123, database))))


if __name__ == "__main__":
    main()
