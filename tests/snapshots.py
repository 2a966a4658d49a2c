"""Requests as files that a person can read and compare: tests/snapshots/<api>/<history>.json, by model.

Set OUTRIDER_UPDATE_SNAPSHOTS=1 to write them anew; look at the difference before it is committed.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "snapshots"
UPDATE = "OUTRIDER_UPDATE_SNAPSHOTS"
IS_UPDATING = bool(os.environ.get(UPDATE))  # read here, because tests see none of the user's variables
LONGEST = 2000
"""Characters of a string that are shown."""

_DATA_URL = re.compile(r"data:([\w.+/-]+);base64,(.+)", re.DOTALL)
_BASE64 = re.compile(r"[A-Za-z0-9+/]{60,}={0,2}")


def compare(api: str, history: str, model: str, body: bytes) -> None:
    """Fail with the difference between a request and its snapshot."""
    path = FOLDER / api / f"{history}.json"
    found = readable(json.loads(body))
    known = json.loads(path.read_text("utf-8")) if path.exists() else {}
    if IS_UPDATING:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_pretty(dict(sorted((known | {model: found}).items()))) + "\n", "utf-8")
        return
    assert model in known, f"{path.name} has no snapshot for {model}; run the test with {UPDATE}=1 and look at it"
    difference = difflib.unified_diff(_pretty(known[model]).split("\n"), _pretty(found).split("\n"), lineterm="", n=2)
    assert found == known[model], f"{model} differs from {path.name}:\n" + "\n".join(difference)


def readable(value: Any, media_type: str = "") -> Any:
    """The request with its files abbreviated, and its very long texts."""
    if isinstance(value, dict):
        kind = value.get("media_type") or value.get("mimeType") or ""
        return {name: readable(each, kind) for name, each in value.items()}
    if isinstance(value, list):
        return [readable(each) for each in value]
    return _abbreviated(value, media_type) if isinstance(value, str) else value


def _abbreviated(text: str, media_type: str) -> str:
    if found := _DATA_URL.fullmatch(text):
        return f"<data URL: {_file(base64.b64decode(found[2]), found[1])}>"
    if _BASE64.fullmatch(text):
        try:
            return f"<{_file(base64.b64decode(text, validate=True), media_type)}>"
        except binascii.Error:
            pass
    if len(text) > LONGEST:
        return f"{text[:40]}… <{len(text):,} characters, sha256 {_digest(text.encode())}>"
    return text


def _file(data: bytes, media_type: str) -> str:
    return f"{media_type or 'file'}, {len(data):,} bytes, sha256 {_digest(data)}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:8]


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)
