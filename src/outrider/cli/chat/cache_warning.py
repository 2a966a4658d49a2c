"""One line in the chat before the provider drops the cache of a long conversation, because the user pauses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from outrider.providers.catalogue.prices import rates_of
from outrider.text import dollars, thousands

if TYPE_CHECKING:
    from outrider.providers.base import CacheLifetime
    from outrider.runtime.session import Session

LEAST_TOKENS = 50_000
"""The smallest conversation for which the user is warned: to send a shorter one anew costs a few cents."""
LEAD_SECONDS = 60.0
"""How long before the end of the cache."""


class CacheWarning:
    """Waits while the user pauses, and warns once."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._replied: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def reply_came(self) -> None:
        """Note that the model has replied: its provider keeps the cache from now on."""
        self._replied = asyncio.get_running_loop().time()

    def start(self, session: Session | None) -> None:
        """Begin to wait: the turn has ended."""
        self.stop()
        seconds = lifetime(session) if session else None
        if not session or seconds is None or self._replied is None:
            return
        loop, used = asyncio.get_running_loop(), session.context.used
        moment = self._replied + seconds - LEAD_SECONDS
        if used >= LEAST_TOKENS and moment > loop.time():
            text = warning(session.provider.name, used, is_longest=session.agent.cache == "1h")
            self._timer = loop.call_at(moment, self._tell, text)

    def stop(self) -> None:
        """Stop waiting: another turn begins."""
        if self._timer:
            self._timer.cancel()
            self._timer = None


def lifetime(session: Session) -> float | None:
    """Return for how many seconds the provider keeps the cache of a session; None if it does not promise a time."""
    seconds: Callable[[CacheLifetime | None], float | None] | None = getattr(session.provider, "cache_seconds", None)
    return seconds(session.agent.cache) if seconds else None


def warning(model: str, tokens: int, *, is_longest: bool = False) -> str:
    """Return what is lost with the cache.

    >>> warning("ollama/qwen3", 120_000)
    'In a minute the cache of these 120k tokens ends. To keep it longer: outrider config set cache 1h'
    """
    prefix, _, name = model.partition("/")
    rates = next((each for each in rates_of(prefix, name) if tokens > each.above), None)
    cost = dollars(tokens * (rates.written - rates.cached)) if rates else ""
    more = f"; the next message then costs about {cost} more" if cost else ""
    how = "" if is_longest else " To keep it longer: outrider config set cache 1h"
    return f"In a minute the cache of these {thousands(tokens)} tokens ends{more}.{how}"
