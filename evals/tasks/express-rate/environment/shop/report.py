"""The report of a past year."""

from shop.rates import RATES


def yearly_report(parcels, year=2023):
    """Return what the parcels of each method brought in that year."""
    return {method: round(RATES[year][method] * count, 2) for method, count in parcels.items()}
