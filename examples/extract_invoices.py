"""Extract data from many documents: typed, checked, within a budget, and continued where it stopped.

    python extract_invoices.py FOLDER 5.00    # the *.txt of a folder, for at most five dollars

Without arguments it shows itself on three invoices, with a script instead of a model and a budget that is too small.
"""

import asyncio
import re
import sys
import tempfile
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Annotated

from outrider import Agent, Limits, Log, Usage
from outrider.batches import BatchLimits, Task, batch
from outrider.errors import BudgetError
from outrider.providers import Request
from outrider.testing import ScriptedModel, Step, call

SYSTEM = "Extract the invoice that the user sends. Copy numbers as they are; do not compute any."


@dataclass
class Line:
    text: str
    amount: Decimal


@dataclass
class Invoice:
    number: str
    issued: Annotated[date, "The date of the invoice, not of the delivery"]
    lines: list[Line]
    total: Decimal


def complaint(invoice: Invoice) -> str:
    """Return what is wrong with data that has the right form, or nothing."""
    found = sum((line.amount for line in invoice.lines), Decimal(0))
    return "" if found == invoice.total else f"the lines are {found}, the total is {invoice.total}"


async def extract(agent: Agent, texts: dict[str, str], log: Log, budget: float) -> bool:
    """Print each invoice as it comes. Return whether the budget was enough."""
    tasks = [Task(text, id=name) for name, text in texts.items()]
    limits = BatchLimits(budget=budget)
    try:
        # The name makes it one batch: another call with it goes on, and does not pay for an invoice twice.
        async for result in batch(agent, tasks, log=log, output=Invoice, name="invoices", workers=1, limits=limits):
            if not result.is_done:
                print(f"✗ {result.id}: {result.error} (session {result.session})")
            elif wrong := complaint(result.output):
                print(f"? {result.id}: {wrong}")
            else:
                print(
                    f"✓ {result.id}: {result.output.number} of {result.output.issued:%d %B %Y}, {result.output.total}"
                )
    except BudgetError as error:
        print(f"stopped: {error}")
        return False
    return True


def read(request: Request) -> Step:
    """Stand in for a model in this example."""
    text = request.messages[0].text
    lines = [{"text": name, "amount": amount} for name, amount in re.findall(r"^- (.+): ([\d.]+)$", text, re.M)]
    number, issued, total = (re.findall(rf"{word}:? (\S+)", text)[0] for word in ("Invoice", "Date", "Total"))
    return call("report_back", number=number, issued=issued, lines=lines, total=total)


async def show() -> None:
    """Run on three invoices. The first budget is enough for two of them."""
    text = "Invoice 2027-{0}\nDate: 2027-01-0{0}\n- Hay: 18.50\n- Salt: 11.50\nTotal: {1}.00\n"
    texts = {f"{number}.txt": text.format(number, total) for number, total in ((1, 30), (2, 31), (3, 30))}
    agent = Agent(ScriptedModel(read, usage=Usage(900, 120, cost=0.004)), system=SYSTEM)
    with Log(tempfile.mkdtemp()) as log:
        for budget in (0.008, 1.00):
            await extract(agent, texts, log, budget)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        asyncio.run(show())
    else:
        clerk = Agent("balanced", system=SYSTEM, limits=Limits(max_turns=5))
        folder, budget = Path(sys.argv[1]), float(sys.argv[2])
        texts = {path.name: path.read_text() for path in sorted(folder.glob("*.txt"))}
        sys.exit(not asyncio.run(extract(clerk, texts, Log(folder / "log"), budget)))
