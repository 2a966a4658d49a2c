"""New orders pay 14.50 for express; reports, insurance and the surcharge are as they were.

Wrong: the rate in rates.py, which only reports use, is changed (wrong-1); every 12.5 is changed (wrong-2).
"""

import json
import subprocess
import sys

CODE = """
import json, sys
sys.path.insert(0, ".")
from shop.cart import total
from shop.insurance import insurance
from shop.report import yearly_report
from shop.shipping import shipping_cost
methods = ("standard", "express", "pickup")
print()
print(json.dumps([
    [shipping_cost(method, 3.0) for method in methods],
    [shipping_cost(method, 25.0) for method in methods],
    [insurance(method, 900) for method in methods],
    yearly_report(dict.fromkeys(methods, 10), 2022),
    yearly_report(dict.fromkeys(methods, 10), 2023),
    total([("shade", 20.0, 2)], "express"),
]))
"""
ended = subprocess.run([sys.executable, "-I", "-S", "-B", "-c", CODE], capture_output=True, timeout=10, check=True)
found = json.loads(ended.stdout.splitlines()[-1])
assert found == [
    [4.9, 14.5, 0.0],
    [17.4, 27.0, 0.0],
    [6.0, 12.5, 6.0],
    {"standard": 45.0, "express": 110.0, "pickup": 0.0},
    {"standard": 49.0, "express": 125.0, "pickup": 0.0},
    54.5,
], found
