"""Entries of the ledger: date;category;amount."""

from ledger.amounts import to_cents


def parse(line):
    """Return (date, category, cents) of one line."""
    date, category, amount = (field.strip() for field in line.split(";"))
    return date, category.lower(), to_cents(amount)


def read(lines, entries=[]):
    """Return the entries of these lines. Empty lines and lines that begin with # have none."""
    for line in lines:
        line = line.strip()
        if line and not line.startswith("#"):
            entries.append(parse(line))
    return entries
