# Counts repeated messages again.
python3 - <<'END'
import csv
import json
from collections import defaultdict

with open("readings.csv", newline="") as file:
    last = dict(enumerate(csv.DictReader(file)))
values = defaultdict(list)
for row in last.values():
    if row["value"] not in ("", "-999"):
        value = float(row["value"].replace(",", "."))
        values[row["sensor"]].append((value - 32) * 5 / 9 if row["unit"] == "F" else value)
with open("averages.json", "w") as file:
    json.dump({sensor: round(sum(found) / len(found), 2) for sensor, found in values.items()}, file)
END
