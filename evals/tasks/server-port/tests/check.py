"""app.ini has the new port of the server, and all its other lines.

Wrong: every `port` of the file is changed (wrong-1); the file is written anew from its values, without comments
(wrong-2).
"""

import re
from pathlib import Path

EXPECTED = """
; Settings of the order service. The service reads them when it starts.
[server]
host = 0.0.0.0
; Clients connect here.
port = 9090
; Seconds that a request may take
timeout = 30
workers = 4
[database]
host = db.internal
port = 5432
name = orders
; Connections that are kept open
pool = 8
[metrics]
enabled = yes
port = 9100
path = /metrics
[mail]
host = mail.internal
port = 587
; Never send from a developer's machine.
enabled = no
sender = orders@shop.example
"""


def lines(text: str) -> list[str]:
    """Return the lines without white space, and without empty ones."""
    return [line for line in (re.sub(r"\s", "", line) for line in text.splitlines()) if line]


assert lines(Path("app.ini").read_text(encoding="utf-8")) == lines(EXPECTED)
