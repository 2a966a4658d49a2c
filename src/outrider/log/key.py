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
from outrider.log.entries import SessionSettings
from outrider.log.session_id import shown_id
from outrider.text import clean_value

FILE = "log.key"
SHORTEST = 32
"""Characters of a key."""
SEALED = ("model", "system", "limits", "cwd", "effort", "elsewhere", "agent", "goal")
"""The settings that can widen what a session does. The others name or narrow something."""
_LATER = ("agent", "goal")
"""Those of them that earlier versions did not sign."""
_UNCHOSEN = SessionSettings(model="", system="", limits={}, cwd="", effort="", agent="", goal="")
"""Replaces what another wrote in every field, also where the user's own value is the default."""


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


class Seal:
    """Signs the settings of sessions, and tells the user's own from those of others.

    The settings choose the model's server, the folder, the prompt, the limits, the effort and the command of the goal
    of a resumed session. A log can come from anywhere: an import, a folder that someone handed over, a database that
    others write to. So these values are signed when they are stored, and one gate, `own`, leaves them out of a session
    whose signature is missing or wrong. Such a session continues with what the user chooses, and is signed then.
    """

    def __init__(self, key: LogKey) -> None:
        self._key = key

    def is_own(self, session: str, settings: SessionSettings) -> bool:
        """Return whether the user's key has signed the settings, for this session."""
        return bool(settings.seal) and self._key.verifies(settings.seal or "", *_signed(session, settings))

    def own(self, session: str, settings: SessionSettings, last: int) -> SessionSettings:
        """Return the settings that may be used. Without a valid signature, all entries up to `last` are another's."""
        if self.is_own(session, settings):
            return settings
        return msgspec.structs.replace(settings, **(dict.fromkeys((*SEALED, "seal")) | {"elsewhere": last}))

    def entry(self, session: str, before: SessionSettings, new: SessionSettings) -> SessionSettings:
        """Return an entry that changes settings, signed if it must be. `before` are the settings that may be used."""
        if all(getattr(new, name) is None for name in SEALED):
            return new
        if not before.seal and before.elsewhere:
            new = msgspec.structs.replace(_UNCHOSEN.merged(new), elsewhere=before.elsewhere)
        return self.signed(session, new, before.merged(new))

    def signed(self, session: str, entry: SessionSettings, settings: SessionSettings) -> SessionSettings:
        """Return the entry with the signature of the settings that hold after it."""
        return msgspec.structs.replace(entry, seal=self._key.sign(*_signed(session, settings)))


def _signed(session: str, settings: SessionSettings) -> tuple[Any, ...]:
    values = [getattr(settings, name) for name in SEALED if name not in _LATER]
    if settings.agent is not None:
        values.append(settings.agent)
    if settings.goal is not None:
        values.append({"goal": settings.goal})  # not the same as an agent of this name
    return "settings", session, clean_value(msgspec.to_builtins(values, enc_hook=repr))


def foreign_note(session: str, claimed: SessionSettings) -> str:
    """Return a sentence for the user about a session that another wrote, with what it names and what is not used."""
    named = ", ".join(f"{name} {value}" for name, value in (("model", claimed.model), ("folder", claimed.cwd)) if value)
    ignored = f"What it names is not used ({named})" if named else "It has no settings of yours"
    return (
        f"The session {shown_id(session)} was imported, or written by another machine or an older version. {ignored}: "
        "it continues with your model, in your folder, with your limits. To choose others: --model, --cwd"
    )
