"""Labels of orders."""


def clean(text):
    return " ".join(text.split()).strip(".,;").lower()


def order_label(number, customer):
    """Return the label of a parcel."""
    return f"{number:05d} {clean(customer)}"
