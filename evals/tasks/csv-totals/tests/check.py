"""totals.json has the sum of the paid orders of each customer.

Wrong: lines are split at commas, which names and items have, too (wrong-1); every status counts (wrong-2).
"""

import json
from pathlib import Path

TOTALS = {
    "Duarte, Ines": 357.14,
    "Fell & Sons": 314.95,
    "Harbour Books": 488.16,
    "Lindqvist, Maja": 196.12,
    "Okafor, Ben": 64.98,
    "Tanaka, Yui": 869.76,
    'The "Old Mill" Inn': 393.16,
}
found = json.loads(Path("totals.json").read_text(encoding="utf-8"))
assert set(found) == set(TOTALS), found
for customer, total in TOTALS.items():
    assert abs(float(found[customer]) - total) < 0.006, (customer, found[customer])
