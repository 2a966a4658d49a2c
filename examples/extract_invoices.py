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

from outrider import Agent, BatchLimits, BudgetError, Limits, Log, Task, Usage, batch
from outrider.providers.base import Request
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


async def extract(agent: Agent, folder: Path, log: Log, budget: float) -> bool:
    """Print each invoice as it comes. Return whether the budget was enough."""
    tasks = [Task(path.read_text(), id=path.name) for path in sorted(folder.glob("*.txt"))]
    limits = BatchLimits(budget=budget)
    try:
        # The name makes it one batch: another call with it goes on, and does not pay for an invoice twice.
        async for result in batch(agent, tasks, log=log, output=Invoice, name="invoices", workers=1, limits=limits):
            if not result.is_done:
                print(f"✗ {result.id}: {result.error} (session {result.session})")
            elif wrong := complaint(result.output):
                print(f"? {result.id}: {wrong}")
            else:
                print(f"✓ {result.id}: {result.output.number} of {result.output.issued:%d %B %Y}, {result.output.total}")
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
    with tempfile.TemporaryDirectory() as place, Log(f"{place}/log") as log:
        for number, total in ((1, "30.00"), (2, "31.00"), (3, "30.00")):
            text = f"Invoice 2027-{number}\nDate: 2027-01-0{number}\n- Hay: 18.50\n- Salt: 11.50\nTotal: {total}\n"
            Path(place, f"{number}.txt").write_text(text)
        agent = Agent(ScriptedModel(read, usage=Usage(900, 120, cost=0.004)), system=SYSTEM)
        for budget in (0.008, 1.00):
            await extract(agent, Path(place), log, budget)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        asyncio.run(show())
    else:
        clerk = Agent("balanced", system=SYSTEM, limits=Limits(max_turns=5))
        folder, budget = Path(sys.argv[1]), float(sys.argv[2])
        sys.exit(not asyncio.run(extract(clerk, folder, Log(folder / "log"), budget)))
