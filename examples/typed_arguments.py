"""Tools receive arguments as their annotated types. Invalid arguments are returned to the model, each named."""

from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated

from outrider import run, tool
from outrider.testing import ScriptedModel, call


class Priority(Enum):
    LOW = "low"
    HIGH = "high"


@dataclass
class Order:
    item: str
    count: int = 1


@tool(effect="idempotent")
def place_orders(
    orders: list[Order], due: date, priority: Annotated[Priority, "How urgent it is"] = Priority.LOW
) -> str:
    """Place orders.

    Args:
        orders: What to order.
        due: The day by which it must arrive.
    """
    items = ", ".join(f"{order.count} × {order.item}" for order in orders)
    return f"{items}; due {due:%d %B}; {priority.name}"


model = ScriptedModel(
    [
        call("place_orders", orders=[{"item": "hay", "count": "many"}], due="soon"),
        call(
            "place_orders", orders=[{"item": "hay", "count": 12}, {"item": "salt"}], due="2027-01-31", priority="high"
        ),
        "Ordered.",
    ]
)
result = run(
    "Order twelve bales of hay and some salt by the end of January, it is urgent.", [place_orders], model=model
)
for message in result.conversation:
    for block in message.tool_results:
        print("ERROR" if block.is_error else "OK", block.text)
