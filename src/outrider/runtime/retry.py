"""Requests that fail for the moment: the policy, and the attempts of one request."""

from __future__ import annotations

import math
from time import monotonic

import msgspec

from outrider.errors import IncompleteStreamError, ProviderError


class Retry(msgspec.Struct, frozen=True):
    """How long a request is retried that an overloaded or failing API did not answer.

    >>> Retry(seconds=0).seconds
    0
    """

    seconds: float = 300.0
    """Seconds from a failure to the last attempt; 0 for no retry. A part of a reply starts them anew."""
    idle_seconds: float = 600.0
    """Seconds without anything new, keep-alives aside, after which a stream counts as broken."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            is_number = isinstance(value, int | float) and math.isfinite(value)
            if not is_number or value < 0 or (value == 0 and name != "seconds"):
                raise ValueError(f"retry.{name} is {value!r}; it must be a number of seconds")


FIRST_DELAY, MAX_DELAY = 0.5, 30.0
"""Seconds before the second attempt, and the most that the growing delay reaches. A server may ask for more."""
MAX_BROKEN = 5
"""Streams of one request that may break off. Each of them may be billed."""
HEEDED = 4
"""Attempts after which a delay that the server asks for is prolonged to our own, so that a server is not flooded."""


class Attempts:
    """The attempts of one request. It decides whether and when the next one starts."""

    def __init__(self, policy: Retry) -> None:
        self.number = 1
        """The number of the current attempt."""
        self._policy = policy
        self._broken = 0
        self._since: float | None = None
        """When the trouble began: the first failure, or the last one after a part of a reply."""

    def delay_after(self, error: ProviderError, *, shown: bool) -> float | None:
        """Return the seconds before the next attempt, or None if there is none. `shown`: a part of a reply came."""
        now = monotonic()
        if shown or self._since is None:
            self._since = now
        self._broken += shown or isinstance(error, IncompleteStreamError)
        if not error.retryable or self._broken > MAX_BROKEN:
            return None
        allowed = min(self._policy.seconds, math.inf if error.retry_seconds is None else error.retry_seconds)
        left = self._since + allowed - now
        if left <= 0 or (error.retry_after or 0.0) > left:
            return None
        delay = self._delay(error.retry_after)
        self.number += 1
        return min(delay, left)

    def _delay(self, asked: float | None) -> float:
        """Return the delay that the server asks for, or one that grows with each attempt."""
        from random import uniform  # needed only after a failure

        if asked is not None and self.number <= HEEDED:
            return asked
        own = min(MAX_DELAY, FIRST_DELAY * 2.0 ** min(self.number - 1, 10)) * uniform(0.75, 1.25)
        return max(own, asked or 0.0)

    async def wait(self, seconds: float) -> None:
        """Wait for the next attempt. A cancel ends the wait at once."""
        import asyncio  # settings need the policy alone

        await asyncio.sleep(seconds)

    def give_up(self, error: ProviderError) -> ProviderError:
        """Return the error of the last attempt, with what the user can do."""
        if error.retryable:
            tried = f"tried {self.number} times, " if self.number > 1 else ""
            wait = f"in {error.retry_after:.0f} s" if error.retry_after else "later"
            error.args = (f"{error}; {tried}try again {wait}",)
        return error
