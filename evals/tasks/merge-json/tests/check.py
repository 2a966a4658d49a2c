"""merged.json has both files, merged at every level.

Wrong: only the first level is merged, and null stays (wrong-1); lists are joined instead of replaced (wrong-2).
"""

import json
from pathlib import Path

MERGED = {
    "name": "gallery",
    "server": {
        "host": "0.0.0.0",
        "port": 8000,
        "tls": {"enabled": True, "certificate": "certs/local.pem", "ciphers": ["chacha20"]},
    },
    "thumbnails": {"sizes": [200], "format": "jpeg", "quality": {"jpeg": 80, "webp": 60, "avif": 50}},
    "storage": {"kind": "disk", "path": "data/pictures", "quota": None},
    "features": {"comments": True, "ratings": True, "upload": {"max_mb": 0, "types": ["jpeg", "png"]}},
    "region": {"name": "eu", "zones": ["a", "b"]},
}
found = json.loads(Path("merged.json").read_text(encoding="utf-8"))
assert found == MERGED, found
assert found["server"]["tls"]["enabled"] is True
assert found["features"]["ratings"] is True
