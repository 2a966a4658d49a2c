"""names.py has `initials`, and its other functions do what they did.

Wrong: the file has only the new function (wrong-1); only the first and the last word count (wrong-2).
"""

import json
import subprocess
import sys

CODE = """
import json, sys
sys.path.insert(0, ".")
from names import full_name, initials, shortened, sort_key
print()
print(json.dumps([
    [initials(name) for name in ("ada king lovelace", "Grace Brewster Murray Hopper", "plato", "Linus Torvalds")],
    full_name(" Ada ", "Lovelace"), sort_key("Ada Lovelace"), shortened("Ada Lovelace", 5),
]))
"""
ended = subprocess.run([sys.executable, "-I", "-S", "-B", "-c", CODE], capture_output=True, timeout=10, check=True)
found = json.loads(ended.stdout.splitlines()[-1])
assert found == [
    ["AKL", "GBMH", "P", "LT"],
    "Ada Lovelace",
    ["lovelace", "ada lovelace"],
    "Ada …",
], found
