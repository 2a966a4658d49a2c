"""Ferry times."""

DEPARTURES = [540, 600, 660]
