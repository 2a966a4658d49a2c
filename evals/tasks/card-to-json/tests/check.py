"""contact.json has the person's name, address and mobile number.

Wrong: the number of the office (wrong-1); a Python dict instead of JSON (wrong-2).
"""

import json
import re
from pathlib import Path

contact = json.loads(Path("contact.json").read_text(encoding="utf-8"))
assert set(contact) == {"name", "email", "mobile"}, contact
assert contact["name"].strip().removeprefix("Dr.").strip() == "Marta Quill", contact
assert contact["email"].strip().lower() == "marta.quill@holloway-brandt.example", contact
assert re.sub(r"\D", "", contact["mobile"]) == "447700900461", contact
