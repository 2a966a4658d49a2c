"""Whoever watches a session: each event goes to each of them, and none of them can harm it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from outrider.events import Delta, Event, SubagentEvent
from outrider.providers.debugging import logger

Observer: TypeAlias = Callable[[Event], None]


class Observers:
    """The observers of one session, in the order in which they came."""

    def __init__(self) -> None:
        self._all: list[Observer] = [_log] if logger.isEnabledFor(logging.DEBUG) else []
        self._failed: list[Observer] = []

    def add(self, observer: Observer) -> None:
        """Have each event from now on given to it."""
        self._all.append(observer)

    def remove(self, observer: Observer) -> None:
        """No longer."""
        self._all.remove(observer)

    def emit(self, event: Event) -> None:
        """Give the event to all of them."""
        for observer in self._all:
            try:
                observer(event)
            except Exception:  # noqa: BLE001 - whatever it is, it is logged, and the session goes on
                if observer not in self._failed:  # said once: a broken observer breaks on every event
                    self._failed.append(observer)
                    logger.exception("an observer failed on %s; the session goes on", type(event).__name__)


def _log(event: Event) -> None:
    if not isinstance(event.event if isinstance(event, SubagentEvent) else event, Delta):
        logger.debug("%s", msgspec.json.encode(event, enc_hook=repr).decode())
