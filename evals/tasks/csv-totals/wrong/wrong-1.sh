# Splits at every comma.
python3 - <<'END'
import json
from collections import defaultdict

totals = defaultdict(float)
for line in open("orders.csv").read().splitlines()[1:]:
    fields = line.split(",")
    if fields[-1] == "paid":
        totals[fields[2].strip('"')] += float(fields[-2])
json.dump(totals, open("totals.json", "w"))
END
