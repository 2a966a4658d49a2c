"""Names of people, as the address book shows them."""


def full_name(first, last):
    """Return "First Last" without spaces at the ends."""
    return f"{first.strip()} {last.strip()}".strip()


def sort_key(name):
    """Return the key by which the address book sorts: the last word first."""
    words = name.split()
    return (words[-1].lower(), name.lower()) if words else ("", "")


def shortened(name, width):
    """Return the name, cut to the width with an ellipsis at its end."""
    return name if len(name) <= width else name[: width - 1] + "…"
