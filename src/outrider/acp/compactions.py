"""Shows the compactions of a session: as updates of their own, or as notices to editors that do not take these."""

from __future__ import annotations

import os

from outrider.acp.update_sender import UpdateSender
from outrider.coding import sentences
from outrider.runtime.events import Compacted, CompactionStarted, ResultsCleared


class Compactions:
    """Sends the state of each compaction. At most one runs at a time."""

    def __init__(self, sender: UpdateSender) -> None:
        self._sender = sender
        self._running = ""
        """The id of the compaction that has started."""

    def handle(self, event: CompactionStarted | Compacted | ResultsCleared, *, is_replaying: bool = False) -> None:
        """Send the updates for one event. A replayed session shows its compactions, but no notices and no usage."""
        match event:
            case CompactionStarted(tokens=tokens):
                self._start(tokens)
            case Compacted():
                self._finish(event, is_replaying)
            case ResultsCleared():
                self._sender.send_notice(sentences.shortened(event), "info")

    def end(self, status: str) -> None:
        """End a compaction that has no summary: it failed, or was cancelled."""
        if self._running:
            self._sender.send_compaction(self._running, "cancelled" if status == "cancelled" else "failed")
            self._running = ""

    def _start(self, tokens: int) -> None:
        self.end("failed")
        if self._sender.takes_compactions:
            self._running = os.urandom(8).hex()  # unique in the session, also after a restart
            self._sender.send_compaction(self._running, "in_progress")
        else:
            self._sender.send_notice(sentences.compacting(tokens), "info")

    def _finish(self, event: Compacted, is_replaying: bool) -> None:
        if self._sender.takes_compactions:
            self._sender.send_compaction(self._running or os.urandom(8).hex(), "completed", event.summary)
            self._running = ""
        elif not is_replaying:
            self._sender.send_notice(sentences.shortened(event), "info")
        if not is_replaying:
            self._sender.send_usage(event.tokens_after)
