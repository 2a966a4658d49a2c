"""The session to go on with: by the beginning of its id, or the last one, of this folder if it has one."""

from __future__ import annotations

from pathlib import Path

from outrider.errors import UnknownSessionError
from outrider.log.log import Log

LOOKED_AT = 200
"""Sessions that are looked at for one of this folder."""


def find_session(log: Log, named: str | None, *, latest: bool, folder: Path) -> str | None:
    """Its id; None if none is wanted. Raises UnknownSessionError."""
    if named:
        found = log.session(named)
        if found.parent:
            raise UnknownSessionError(
                f"{found.id[:8]} is the session of a sub-agent, which its sender goes on with: outrider --resume "
                f"{found.parent[:8]}; or take a copy: outrider sessions fork {found.id[:8]}"
            )
        return found.id
    if not latest:
        return None
    newest = log.sessions(limit=LOOKED_AT)
    if not newest:
        raise UnknownSessionError("there is no session to continue yet")
    here = str(folder.resolve())
    of_this_folder = (each for each in newest if log.settings(each.id).cwd == here)
    return next(of_this_folder, newest[0]).id
