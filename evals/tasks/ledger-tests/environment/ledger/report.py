"""The report of a ledger."""

from ledger.amounts import to_text
from ledger.entries import read
from ledger.totals import by_category, by_month


def report(lines):
    """Return one line for each category, then one for each month, each sorted by name."""
    entries = read(lines)
    sums = [*sorted(by_category(entries).items()), *sorted(by_month(entries).items())]
    return [f"{name}: {to_text(cents)}" for name, cents in sums]
