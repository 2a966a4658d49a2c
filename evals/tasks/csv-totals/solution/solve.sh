#!/bin/bash
python3 - <<'END'
import csv
import json
from collections import defaultdict
from decimal import Decimal

totals = defaultdict(Decimal)
with open("orders.csv", newline="") as file:
    for row in csv.DictReader(file):
        if row["status"] == "paid":
            totals[row["customer"]] += Decimal(row["amount"])
with open("totals.json", "w") as file:
    json.dump({customer: float(total) for customer, total in totals.items()}, file)
END
