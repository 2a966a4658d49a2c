# Merges the first level only.
python3 -c '
import json
base, override = (json.load(open(name)) for name in ("base.json", "override.json"))
json.dump({**base, **override}, open("merged.json", "w"))
'
