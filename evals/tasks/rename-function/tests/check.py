"""The name get_user is gone, load_user is there, and the program prints what it did.

Wrong: names that begin with get_user are changed, too (wrong-1); users.py keeps the old name beside the new one, and
the other files use the old one (wrong-2).
"""

import re
import subprocess
import sys
from pathlib import Path

PRINTED = """
Dear Ada, you use Firefox.
Dear Linus, you use curl.
Dear Grace, you use Safari.
Order 503: guest
Buyers: Grace, Linus, guest
Users: 1, 2 of 3
"""
texts = {name: Path(name).read_text(encoding="utf-8") for name in ("users.py", "orders.py", "mail.py")}
for name, text in texts.items():
    assert not re.search(r"\bget_user\b", text), name
    assert re.search(r"\bload_user\b", text), name
for function in ("load_user", "get_user_agent", "get_users"):
    assert re.search(rf"^def {function}\(", texts["users.py"], re.M), function
CODE = "import runpy, sys; sys.path.insert(0, '.'); runpy.run_path('mail.py', run_name='__main__')"
ended = subprocess.run([sys.executable, "-I", "-S", "-B", "-c", CODE], capture_output=True, text=True, timeout=10)
assert ended.stdout.split() == PRINTED.split(), ended
