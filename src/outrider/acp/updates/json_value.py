"""A JSON value of a call, as its arguments, that is compared by what it says."""

from __future__ import annotations

from typing import Any

import msgspec

from outrider.text import clean_value

_UNCHANGING = (str, int, float, bool)


class JsonValue:
    """A JSON value beside its encoding, by which it is compared: 1 is not true, and a dict may be changed in place."""

    __slots__ = ("encoded", "value")

    def __init__(self, value: Any, encoded: bytes) -> None:
        self.value = value
        self.encoded = encoded

    @classmethod
    def of(cls, name: str, value: Any) -> JsonValue:
        """The value, cleaned if need be. Raises ValueError for what cannot be written as JSON."""
        try:
            return cls(value, _encoded(value))
        except (TypeError, ValueError, RecursionError):
            pass
        try:
            value = clean_value(value)
            return cls(value, _encoded(value))
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"{name} cannot be JSON: {error}; give dicts, lists, strings, numbers") from None

    def holds(self, value: Any) -> bool:
        """Whether it is this very object, and one that cannot have changed meanwhile."""
        return value is self.value and isinstance(value, _UNCHANGING)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JsonValue) and self.encoded == other.encoded

    __hash__ = None  # type: ignore[assignment]


def unwrap(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields with each JSON value as itself."""
    if "raw_input" not in fields and "raw_output" not in fields:
        return fields
    return {name: value.value if isinstance(value, JsonValue) else value for name, value in fields.items()}


def _encoded(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic")
