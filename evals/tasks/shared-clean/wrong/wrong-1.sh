# Takes the five copies for the same: titles of notes lose their capitals.
python3 - <<'END'
import re
from pathlib import Path

Path("app/text.py").write_text('''def clean(text):
    return " ".join(text.split()).strip(".,;").lower()
''')
for name in ("orders", "customers", "products", "notes", "tags"):
    path = Path("app", f"{name}.py")
    path.write_text(re.sub(r"def clean\(text\):\n(?:    .*\n)+", "from app.text import clean\n", path.read_text()))
END
