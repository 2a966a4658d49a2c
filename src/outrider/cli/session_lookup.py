"""Find the session to resume: by an id prefix, or the last one of a folder."""

from __future__ import annotations

from pathlib import Path

from outrider.errors import UnknownSessionError
from outrider.log.log import Log
from outrider.log.session_filter import INTERACTIVE, SessionFilter
from outrider.log.session_id import shown_id

CONTINUED = (*INTERACTIVE, "print")
"""The origins of sessions that --continue goes on with. A task of a batch is not the user's last conversation."""
MAX_SEARCHED = 200
"""How many recent sessions are searched for one without a folder."""


class NoSessionHereError(UnknownSessionError):
    """No session was in this folder."""


def find_session(log: Log, named: str | None, *, latest: bool, folder: Path) -> str | None:
    """Return the session's id, or None for a new session. Raises UnknownSessionError."""
    if named:
        found = log.session(named)
        if found.parent:
            raise UnknownSessionError(
                f"{shown_id(found.id)} is the session of a sub-agent; resume its parent with outrider --resume "
                f"{shown_id(found.parent)}, or copy it with outrider sessions fork {shown_id(found.id)}"
            )
        return found.id
    return _last_used(log, folder) if latest else None


def _last_used(log: Log, folder: Path) -> str:
    """Return the session that was used last in the folder, or without one: an import has none yet."""
    here = log.sessions(1, where=SessionFilter(folder=str(folder.resolve()), origins=CONTINUED))
    recent = log.sessions(MAX_SEARCHED, where=SessionFilter(origins=CONTINUED))
    candidates = {each.id for each in here} | {each.id for each in recent if not each.folder}
    order = [each.id for each in (*recent, *here) if each.id in candidates]
    if order:
        return order[0]
    if not recent:
        raise UnknownSessionError("there is no session to continue yet")
    raise NoSessionHereError(
        "there is no session of this folder to continue; `outrider sessions` lists those of other folders, and "
        "--resume ID continues one"
    )
