"""Insurance of parcels."""

EXPRESS_INSURANCE = 12.5  # for goods of more than 500 euros
STANDARD_INSURANCE = 6.0


def insurance(method, value):
    """Return the price of insuring goods of this value."""
    if value <= 500:
        return 0.0
    return EXPRESS_INSURANCE if method == "express" else STANDARD_INSURANCE
