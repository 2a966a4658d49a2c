"""Sums of entries."""


def by_category(entries):
    """Return the sum of each category in cents."""
    sums = {}
    for _, category, cents in entries:
        sums[category] = sums.get(category, 0) + cents
    return sums


def by_month(entries):
    """Return the sum of each month in cents, such as {"2026-03": -1999}."""
    sums = {}
    for date, _, cents in entries:
        sums[date[:7]] = sums.get(date[:7], 0) + cents
    return sums
