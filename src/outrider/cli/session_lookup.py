"""Find the session to resume: by an id prefix, or the last one of a folder."""

from __future__ import annotations

from pathlib import Path

from outrider.errors import UnknownSessionError
from outrider.log.log import Log
from outrider.text import clean

MAX_SEARCHED = 200
"""How many recent sessions are searched for one of this folder."""


class NoSessionHereError(UnknownSessionError):
    """No session was in this folder."""


def find_session(log: Log, named: str | None, *, latest: bool, folder: Path) -> str | None:
    """Return the session's id, or None for a new session. Raises UnknownSessionError."""
    if named:
        found = log.session(named)
        if found.parent:
            raise UnknownSessionError(
                f"{found.id[:8]} is the session of a sub-agent; resume its parent with outrider --resume "
                f"{found.parent[:8]}, or copy it with outrider sessions fork {found.id[:8]}"
            )
        return found.id
    if not latest:
        return None
    here = clean(str(folder.resolve()))  # as it is stored
    newest = log.sessions(limit=MAX_SEARCHED)
    if not newest:
        raise UnknownSessionError("there is no session to continue yet")
    found_here = next((each.id for each in newest if each.folder in (here, "")), None)
    if found_here is None:
        raise NoSessionHereError(
            "there is no session of this folder to continue; `outrider sessions` lists those of other folders, and "
            "--resume ID continues one"
        )
    return found_here
