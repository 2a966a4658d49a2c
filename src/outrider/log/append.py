"""Entries on their way into a session, in the form that backends store."""

from __future__ import annotations

import time
from collections.abc import Sequence

from outrider.log.chain import Chain
from outrider.log.entries import Entry, SessionSettings
from outrider.log.entry_codec import encode
from outrider.log.summary_update import SummaryUpdate


class Append:
    """Entries to append to a held session, all or none."""

    __slots__ = ("bodies", "chain", "fence", "last", "number", "time", "update")

    def __init__(
        self, number: int, fence: int, entries: Sequence[Entry], settings: SessionSettings, chain: Chain
    ) -> None:
        self.number, self.fence, self.chain = number, fence, chain
        """The session, the fence that its holder was given, and what links its entries."""
        self.time = time.time()
        self.bodies = [encode(entry) for entry in entries]
        """The kind and the body of each entry."""
        self.last = 0
        """The seq of its last entry, once it is appended."""
        self.update = SummaryUpdate(settings)
        for entry, (_, body) in zip(entries, self.bodies, strict=True):
            self.update.add(entry, len(body))
