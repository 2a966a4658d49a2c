"""How hands are started: the seam to `ssh`, containers and other command lines."""

from __future__ import annotations

import asyncio
from typing import Protocol


class Streams(Protocol):
    """The standard streams of the hands."""

    @property
    def reader(self) -> asyncio.StreamReader:
        """What they say."""

    @property
    def writer(self) -> asyncio.StreamWriter:
        """What is said to them."""

    def said(self) -> str:
        """Return the end of their standard error, for an error message."""

    async def close(self) -> None:
        """End them."""


class Starter(Protocol):
    """Starts hands in one place."""

    def describe(self) -> str:
        """Return where the hands are, for people and as the name under which their rules are kept."""

    async def start(self) -> Streams:
        """Start the hands. Called again after a lost connection. Raises HandsError or OSError."""
