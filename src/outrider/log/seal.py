"""Which settings of a session count: those that the user's key has signed.

The settings of a session choose the model's server, the folder, the prompt, the limits, the effort and the command of
the goal of a resumed session. A log can come from anywhere: an import, a folder that someone handed over, a database
that others write to. So these values are signed with the user's key when they are stored, and one gate, `Seal.own`,
leaves them out of a session whose signature is missing or wrong. Such a session continues with what the user chooses,
and is signed then.
"""

from __future__ import annotations

from typing import Any

import msgspec

from outrider.log.entries import SessionSettings
from outrider.log.key import LogKey
from outrider.text import clean_value

SEALED = ("model", "system", "limits", "cwd", "effort", "elsewhere", "agent", "goal")
"""The settings that can widen what a session does. The others name or narrow something."""
_LATER = ("agent", "goal")
"""Those of them that earlier versions did not sign."""
_UNCHOSEN = SessionSettings(model="", system="", limits={}, cwd="", effort="", agent="", goal="")
"""Replaces what another wrote in every field, also where the user's own value is the default."""


class Seal:
    """Signs the settings of sessions, and tells the user's own from those of others."""

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
        f"The session {session[:8]} was imported, or written by another machine or an older version. {ignored}: it "
        "continues with your model, in your folder, with your limits. To choose others: --model, --cwd"
    )
