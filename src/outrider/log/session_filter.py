"""Which sessions a list shows: by folder, model, time and cost."""

from __future__ import annotations

import msgspec

from outrider.text import clean


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

    def conditions(self, folder: str) -> list[tuple[str, str | float]]:
        """Return conditions in SQL on the session table, each without its value, and the values.

        `folder` is the SQL of a session's folder, which is in its settings.
        """
        parts: list[tuple[str, str | float]] = []
        if self.folder:
            parts.append((f"{folder} =", clean(self.folder)))
        if self.model:
            parts.append(("model =", self.model))
        if self.since is not None:
            parts.append(("updated >=", self.since))
        if self.until is not None:
            parts.append(("created <", self.until))
        if self.min_cost is not None:
            parts.append(("cost >=", self.min_cost))
        return parts
