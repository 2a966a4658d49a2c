"""Time for the retries of a session: nobody really waits, and the clock goes on by what was waited."""

from __future__ import annotations

import asyncio

import pytest

from outrider.runtime import retry


class Waits(list[float]):
    """The seconds between attempts, for which it stands in, and for their clock."""

    now = 1000.0

    async def sleep(self, seconds: float) -> None:
        self.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    def monotonic(self) -> float:
        return self.now


def without_waiting(monkeypatch: pytest.MonkeyPatch) -> Waits:
    """Let no session wait between its attempts."""
    waits = Waits()
    monkeypatch.setattr(retry.Attempts, "wait", lambda _, seconds: waits.sleep(seconds))
    monkeypatch.setattr(retry, "monotonic", waits.monotonic)
    return waits
