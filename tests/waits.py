"""Time for the retries of a session: nobody really waits, and the clock goes on by what was waited."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from outrider.runtime import retry


class Waits(list[float]):
    """The seconds between attempts. Stands in for asyncio and for the clock in the module of the attempts."""

    now = 1000.0

    async def sleep(self, seconds: float) -> None:
        self.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    def monotonic(self) -> float:
        return self.now

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)


def without_waiting(monkeypatch: pytest.MonkeyPatch) -> Waits:
    """Let no session wait between its attempts."""
    waits = Waits()
    monkeypatch.setattr(retry, "asyncio", waits)
    monkeypatch.setattr(retry, "monotonic", waits.monotonic)
    return waits
