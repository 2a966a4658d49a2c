"""API keys: in the environment, else those that the user has entered.

Entered keys are in the system's keyring, or in a file for the owner alone. The file names each key, also those in the
keyring, so that programs without stored keys never load the keyring.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from outrider.environment import data_folder
from outrider.errors import OutriderError
from outrider.filesystem import replace_private
from outrider.struct_types import described

FILE = "keys.json"
SERVICE = "outrider"
KEY_VARIABLES = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
}
"""The variables of the providers that have tiers."""


class _Stored(msgspec.Struct, frozen=True, omit_defaults=True):
    key: str = ""  # empty if the keyring has it

    def __repr__(self) -> str:
        return "_Stored(…)"


def found_key(variables: Iterable[str]) -> str:
    """Return the key of the first of these variables that has one. Empty if there is none."""
    names = tuple(variables)
    found = next(filter(None, map(os.environ.get, names)), "") or stored_key(names)
    return found.strip()  # a key that was read from a file ends with a newline


def has_key(provider: str) -> bool:
    return bool(found_key(KEY_VARIABLES[provider]))


def key_fault(name: str) -> str:
    """Return what is visibly wrong with the key in a variable, or ""."""
    value = os.environ.get(name, "")
    if value != value.strip():
        return "it starts or ends with white space"
    if not value.isascii() or not value.isprintable() or " " in value:
        return "it has invalid characters"
    return "it is in quotes" if value[:1] in ("'", '"') else ""


def stored_key(variables: tuple[str, ...]) -> str:
    """Return the stored key for the first of these variables that has one, or ""."""
    found = _values()
    return next((found[name] for name in variables if found.get(name)), "")


def stored_values() -> list[str]:
    """Return all stored keys, to mask them."""
    return [value for value in _values().values() if value]


def stored_names() -> list[str]:
    return list(_read())


def was_asked() -> bool:
    return (data_folder() / FILE).exists()


def remember_asking() -> None:
    _write(_read())


def store_key(variable: str, key: str) -> str:
    """Store a key in place of that of a variable. Return where it is. Raises OutriderError."""
    ring = _keyring()
    in_ring = ring is not None and _set(ring, variable, key)
    _write({**_read(), variable: _Stored("" if in_ring else key)})
    return "the system's keyring" if in_ring else str(data_folder() / FILE)


def remove_key(variable: str) -> bool:
    """Remove a stored key. Return whether there was one. Raises OutriderError."""
    stored = _read()
    if variable not in stored:
        return False
    if not stored[variable].key and (ring := _keyring()):
        with suppress(Exception):  # each backend has its own errors; the key is gone, or was never there
            ring.delete_password(SERVICE, variable)
    _write({name: each for name, each in stored.items() if name != variable})
    return True


def _values() -> dict[str, str]:
    try:
        changed = (data_folder() / FILE).stat().st_mtime_ns
    except (OSError, RuntimeError):
        return {}
    return _cached_values(data_folder() / FILE, changed)


@lru_cache(maxsize=1)  # a key is needed for each request, and the keyring may take a while
def _cached_values(file: Path, changed: int) -> dict[str, str]:
    try:
        stored = _read()
    except OutriderError:
        return {}  # `outrider login` reports it
    ring = _keyring() if any(not each.key for each in stored.values()) else None
    return {name: each.key or _get(ring, name) for name, each in stored.items()}


def _read() -> dict[str, _Stored]:
    file = data_folder() / FILE
    try:
        return msgspec.json.decode(file.read_bytes(), type=described(dict[str, _Stored]))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is damaged"
        raise OutriderError(f"the keys in {file} cannot be read: {reason}; remove the file and log in again") from None


def _write(stored: dict[str, _Stored]) -> None:
    file = data_folder() / FILE
    try:
        replace_private(file, msgspec.json.encode(stored))
    except OSError as error:
        raise OutriderError(
            f"the key cannot be kept in {file}: {error.strerror}; set OUTRIDER_HOME to a folder that you may write to"
        ) from None
    _cached_values.cache_clear()


def _keyring() -> Any:
    """Return the keyring package if it is installed and has a place for keys, else None."""
    try:
        import keyring  # type: ignore[import-not-found,unused-ignore]

        return keyring if getattr(keyring.get_keyring(), "priority", 0) >= 1 else None
    except Exception:  # noqa: BLE001 - not installed, or its backend does not work here
        return None


def _set(ring: Any, variable: str, key: str) -> bool:
    try:
        ring.set_password(SERVICE, variable, key)
        return bool(ring.get_password(SERVICE, variable) == key)
    except Exception:  # noqa: BLE001 - a locked or missing keyring: the file has the key instead
        return False


def _get(ring: Any, variable: str) -> str:
    try:
        return (ring.get_password(SERVICE, variable) or "") if ring else ""
    except Exception:  # noqa: BLE001 - a locked keyring has no key for us
        return ""
