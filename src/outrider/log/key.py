"""The key of a user's logs. It signs what only the user may say: the settings of sessions, answers, messages.

It is not in the log: who can write to the log, such as a command that reaches its database, cannot sign. It is a file
in the data folder, which commands in the sandbox cannot read, or `OUTRIDER_LOG_KEY`, for machines that share a log.
"""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from outrider.environment import LOG_KEY_VARIABLE, data_folder, log_key
from outrider.errors import ConfigError
from outrider.filesystem import make_private

FILE = "log.key"
SHORTEST = 32
"""Characters of a key."""


class LogKey:
    """Signs values. The key is read, or made, on first use."""

    def __repr__(self) -> str:
        return "LogKey(…)"

    def sign(self, *values: Any) -> str:
        """Return the signature of values that JSON can hold. The first names their purpose."""
        import hmac  # few programs sign anything before they have a session

        return hmac.digest(self._key, msgspec.json.encode(values, order="sorted"), "sha256").hex()

    def verifies(self, signature: str, *values: Any) -> bool:
        """Return whether the signature is that of the values."""
        import hmac

        return hmac.compare_digest(self.sign(*values).encode(), signature.encode(errors="replace"))

    @cached_property
    def _key(self) -> bytes:
        if given := log_key():
            if len(given) < SHORTEST:
                raise ConfigError(
                    f"{LOG_KEY_VARIABLE} has {len(given)} characters; use at least {SHORTEST} random ones, such as "
                    "those of `openssl rand -hex 32`"
                )
            return given.encode()
        try:
            return _stored_key()
        except OSError:  # a read-only home: what this process signs is not known to others
            return os.urandom(32)


def _stored_key() -> bytes:
    """Return the key of the data folder. If several processes make one at once, the first counts."""
    path = data_folder() / FILE
    if not (key := _read(path)):
        make_private(path.parent)
        temporary = path.parent / f"incoming-{os.urandom(8).hex()}"
        try:
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(os.urandom(32).hex().encode())
                file.flush()
                os.fsync(file.fileno())
            _publish(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        key = _read(path)
    if len(key) < SHORTEST:
        raise ConfigError(f"{path} is damaged: delete it, and a new key is made; sessions before it count as foreign")
    return key


def _publish(temporary: Path, path: Path) -> None:
    """Give the new file its name, unless another process was first."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return
    except OSError:  # a file system without hard links
        if not path.exists():
            os.replace(temporary, path)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes().strip()
    except FileNotFoundError:
        return b""
