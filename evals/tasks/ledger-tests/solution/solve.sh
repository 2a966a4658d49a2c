#!/bin/bash
python3 - <<'END'
from pathlib import Path


def replace(name, old, new):
    path = Path("ledger", name)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


replace("amounts.py", "int(float(text) * 100)", "round(float(text) * 100)")
replace("amounts.py", 'f"{cents // 100}.{cents % 100:02d}"', 'f"{cents / 100:.2f}"')
replace("entries.py", "entries=[]):", "entries=None):")
replace("entries.py", "    for line in lines:", "    entries = [] if entries is None else entries\n    for line in lines:")
END
