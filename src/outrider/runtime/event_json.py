"""Events as JSON, one object each, as `outrider -p` prints them and watchers of a session read them."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from outrider.text import clean_value


def encode_json(value: Any) -> bytes:
    """Encode an event or an object as JSON, whatever values a tool has put into it."""
    try:
        return msgspec.json.encode(value, enc_hook=str)
    except (TypeError, ValueError, OverflowError, RecursionError):
        pass
    try:  # the standard library handles large numbers and unusual keys
        plain = clean_value(msgspec.to_builtins(value, enc_hook=str))
        return json.dumps(plain, default=str, skipkeys=True, separators=(",", ":")).encode()
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        return msgspec.json.encode({"type": "notice", "text": f"an event cannot be shown as JSON: {error}"})
