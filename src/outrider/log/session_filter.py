"""Which sessions a list shows: by folder, model, time, cost, owner and metadata, and whether they are unfinished."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from outrider.log.entries import RunStarted, RunStopped
from outrider.log.session_labels import check_key, check_value
from outrider.text import clean

_NEWEST_RUN = (
    "(SELECT kind FROM event WHERE event.session = session.number "
    f"AND kind IN ('{RunStarted.kind}', '{RunStopped.kind}') ORDER BY seq DESC LIMIT 1) ="
)
"""Read backwards, so that only the newest run of a session is looked at."""


class SessionFilter(msgspec.Struct, frozen=True):
    """Conditions on sessions. Empty ones hold for all."""

    folder: str = ""
    """Its name may have bytes that are not UTF-8; the log stores it without them."""
    model: str = ""
    since: float | None = None
    """The session was used at this time or later."""
    until: float | None = None
    """The session was created before this time."""
    min_cost: float | None = None
    """US dollars, without those of its sub-agents."""

    owner: str = ""
    metadata: Mapping[str, str] = {}
    """Pairs that the session has, all of them."""
    unfinished: bool = False
    """Only sessions whose newest run has no end: it was killed or suspended, or it goes on now (`Summary.holder`)."""

    def conditions(self, setting: Callable[..., str]) -> list[tuple[str, str | float]]:
        """Return conditions in SQL on the session table, each without its value, and the values.

        `setting` returns the SQL of one of a session's settings, by its path. Raises ValueError for a wrong key.
        """
        parts: list[tuple[str, str | float]] = []
        if self.folder:
            parts.append((f"{setting('cwd')} =", clean(self.folder)))
        if self.owner:
            check_value("owner", self.owner)
            parts.append((f"{setting('owner')} =", clean(self.owner)))
        for key, value in self.metadata.items():
            check_key(key)
            check_value(f"metadata[{key!r}]", value)
            parts.append((f"{setting('metadata', key)} =", clean(value)))
        if self.unfinished:
            parts.append((_NEWEST_RUN, RunStarted.kind))
        if self.model:
            parts.append(("model =", self.model))
        if self.since is not None:
            parts.append(("updated >=", self.since))
        if self.until is not None:
            parts.append(("created <", self.until))
        if self.min_cost is not None:
            parts.append(("cost >=", self.min_cost))
        return parts
