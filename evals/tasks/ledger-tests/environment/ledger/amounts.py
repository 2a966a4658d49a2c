"""Amounts of money as whole cents."""


def to_cents(text):
    """Return an amount such as "-19.99" as whole cents, exactly."""
    return int(float(text) * 100)


def to_text(cents):
    """Return whole cents as an amount with two decimals: -1999 is "-19.99"."""
    return f"{cents // 100}.{cents % 100:02d}"
