# Joins lists.
python3 - <<'END'
import json


def merge(base, override):
    """Merge an object into another at every level."""
    for key, value in override.items():
        if value is None:
            base.pop(key, None)
        elif isinstance(value, dict):
            below = base.get(key)
            base[key] = merge(below if isinstance(below, dict) else {}, value)
        else:
            base[key] = base.get(key, []) + value if isinstance(value, list) else value
    return base


with open("base.json") as base, open("override.json") as override, open("merged.json", "w") as merged:
    json.dump(merge(json.load(base), json.load(override)), merged, indent=2)
END
