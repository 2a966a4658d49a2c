"""The package is right for amounts and orders of calls that test_ledger.py does not have.

Wrong: only the rounding of the first failure is repaired (wrong-1); the tests pass, but amounts between -1 and 0 lose
their sign (wrong-2).
"""

import json
import subprocess
import sys

CODE = """
import json, sys
sys.path.insert(0, ".")
from ledger.amounts import to_cents, to_text
from ledger.entries import read
from ledger.report import report
texts = ("-19.99", "0.29", "1.15", "-0.05", "2150.00", "4.35", "1000000.07", "-7.10", "0.00")
print()
print(json.dumps([
    [to_cents(text) for text in texts],
    [to_text(to_cents(text)) for text in texts],
    [len(read(["2026-01-01;a;1.00"] * count)) for count in (2, 1, 3)],
    report(["2026-05-01;Food;-0.29", "# no", "2026-05-02;food;0.19", "2026-06-01;Rent;-8.20"]),
    report(["2026-05-01;gift;8.03"]),
]))
"""
ended = subprocess.run([sys.executable, "-I", "-S", "-B", "-c", CODE], capture_output=True, timeout=10, check=True)
found = json.loads(ended.stdout.splitlines()[-1])
assert found == [
    [-1999, 29, 115, -5, 215000, 435, 100000007, -710, 0],
    ["-19.99", "0.29", "1.15", "-0.05", "2150.00", "4.35", "1000000.07", "-7.10", "0.00"],
    [2, 1, 3],
    ["food: -0.10", "rent: -8.20", "2026-05: -0.10", "2026-06: -8.20"],
    ["gift: 8.03", "2026-05: 8.03"],
], found
