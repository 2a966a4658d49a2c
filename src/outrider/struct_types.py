"""Struct types that several threads may decode.

msgspec describes a struct type when it decodes it, or makes its schema, for the first time. A second thread that
decodes the type at that moment reads a description that is not filled in yet, and the process crashes. So a type is
described under a lock.
"""

from __future__ import annotations

import threading
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")
_lock = threading.Lock()
_described: set[Any] = set()


@overload
def described(kind: type[T]) -> type[T]: ...
@overload
def described(kind: Any) -> Any: ...
def described(kind: Any) -> Any:
    """Return the type, which every thread can decode from now on."""
    if kind not in _described:
        with _lock:
            msgspec.json.Decoder(kind)
            _described.add(kind)
    return kind
