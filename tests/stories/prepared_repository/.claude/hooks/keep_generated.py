"""Refuse to write files that a script makes."""

import json
import sys

event = json.load(sys.stdin)
if event["tool_input"].get("file_path", "").startswith("generated/"):
    print("generated/ is made by a script; change the script instead", file=sys.stderr)
    sys.exit(2)
