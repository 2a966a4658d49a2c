# Works as before, but `clean` stays in orders.py.
python3 - <<'END'
import re
from pathlib import Path

for name in ("customers", "products", "tags"):
    path = Path("app", f"{name}.py")
    path.write_text(re.sub(r"def clean\(text\):\n(?:    .*\n)+", "from app.orders import clean\n", path.read_text()))
END
