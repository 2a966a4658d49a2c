"""The rates of past years. The reports need them, new orders do not."""

RATES = {
    2022: {"standard": 4.5, "express": 11.0, "pickup": 0.0},
    2023: {"standard": 4.9, "express": 12.5, "pickup": 0.0},
}
