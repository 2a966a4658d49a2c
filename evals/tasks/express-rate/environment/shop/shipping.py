"""What shipping costs."""

from shop.tariff import base_price

HEAVY = 20.0  # kg
HEAVY_SURCHARGE = 12.5


def shipping_cost(method, weight):
    """Return the price of sending a parcel of this weight in kg."""
    cost = base_price(method)
    if weight > HEAVY and method != "pickup":
        cost += HEAVY_SURCHARGE
    return cost
