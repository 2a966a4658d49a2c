"""Customers by name."""


def clean(text):
    words = text.split()
    joined = " ".join(words)
    joined = joined.strip(".,;")
    return joined.lower()


def same_customer(one, other):
    """Return whether two names are those of one customer."""
    return clean(one) == clean(other)


def customer_key(name):
    """Return the key of a customer in the register."""
    return clean(name).replace(" ", "-")
