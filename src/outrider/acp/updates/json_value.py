"""JSON values of a call, such as its arguments, that are compared by their encoding."""

from __future__ import annotations

from typing import Any

import msgspec

from outrider.text import clean_value

_IMMUTABLE = (str, int, float, bool)


class JsonValue:
    """A JSON value and its encoding. Equality compares encodings: 1 is not true, and a dict may change in place."""

    __slots__ = ("encoded", "value")

    def __init__(self, value: Any, encoded: bytes) -> None:
        self.value = value
        self.encoded = encoded

    @classmethod
    def of(cls, name: str, value: Any) -> JsonValue:
        """Encode a value, cleaned if necessary. Raises ValueError if it cannot be JSON; `name` is the field."""
        try:
            return cls(value, _encode(value))
        except (TypeError, ValueError, RecursionError):
            pass
        try:
            value = clean_value(value)
            return cls(value, _encode(value))
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"{name} cannot be JSON: {error}; use dicts, lists, strings and numbers") from None

    def is_unchanged(self, value: Any) -> bool:
        """Return whether the value is this same object, and immutable."""
        return value is self.value and isinstance(value, _IMMUTABLE)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JsonValue) and self.encoded == other.encoded

    __hash__ = None  # type: ignore[assignment]


def unwrap(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with each JsonValue replaced by its value."""
    if "raw_input" not in fields and "raw_output" not in fields:
        return fields
    return {name: value.value if isinstance(value, JsonValue) else value for name, value in fields.items()}


def _encode(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic")
