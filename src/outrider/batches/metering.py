"""A provider that shares a budget and a pace with all workers of a batch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

from outrider.batches.queue import BatchSettings, Ledger, rate_of, retried
from outrider.errors import ProviderError, RateLimitedError
from outrider.providers.base import Provider, Reply, Request, SchemaProvider
from outrider.providers.deltas import Delta, Notice

LONGEST_BLOCK = 300.0
"""Seconds for which one worker's refused request stops all of them, at most."""
FRESH_SECONDS = 0.5
"""How long a worker relies on what it has read about a provider without a rate: another may have been refused since."""


class Meter:
    """Counts what the requests of one task cost, and lets them wait for their turn."""

    def __init__(
        self, ledger: Ledger, batch: str, settings: BatchSettings, looked: dict[str, float] | None = None
    ) -> None:
        """`looked` has when the worker last read about a provider; its meters share it."""
        self._ledger, self._batch, self._settings = ledger, batch, settings
        self._looked = {} if looked is None else looked
        self.is_spent = False
        """Whether a request was refused because the budget of the batch is used up."""
        self.has_failed = False
        """Whether the newest request failed."""

    def __call__(self, provider: Provider) -> Provider:
        """Return the provider with this meter before its requests."""
        if isinstance(provider, Metered):
            return provider
        return (MeteredWithSchemas if isinstance(provider, SchemaProvider) else Metered)(provider, self)

    async def admit(self, model: str) -> None:
        """Wait for the turn of a request. Raises ProviderError if the budget is used up."""
        name, interval = self._pace(model)
        if self._settings.budget is not None and await retried(self._ledger.is_spent, self._batch):
            self.is_spent = True
            raise ProviderError("the budget of the batch is used up")
        if not interval and time.monotonic() - self._looked.get(name, -FRESH_SECONDS) < FRESH_SECONDS:
            return
        if seconds := await retried(self._ledger.reserve, name, interval):
            await asyncio.sleep(seconds)
        elif not interval:
            self._looked[name] = time.monotonic()

    async def count(self, dollars: float | None) -> None:
        """Add the cost of a request, if it is known."""
        if dollars:
            await retried(self._ledger.spend, self._batch, dollars)

    async def refused(self, model: str, error: RateLimitedError) -> None:
        """Let the other workers wait as well, if the provider says how long."""
        if error.retryable and error.retry_after:
            seconds = min(error.retry_after, LONGEST_BLOCK)
            name = self._pace(model)[0]
            await retried(self._ledger.block, name, seconds)
            self._looked.pop(name, None)

    def _pace(self, model: str) -> tuple[str, float]:
        """Return the name under which requests to a model are paced, and the seconds between two."""
        if found := rate_of(self._settings.rates, model):
            return found[0], 60.0 / found[1]
        return model.partition("/")[0] or model, 0.0


class Metered:
    """A provider whose requests go through a meter. Everything else is the provider's own."""

    def __init__(self, provider: Provider, meter: Meter) -> None:
        self._provider, self._meter = provider, meter

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._provider.name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    async def stream(self, request: Request) -> AsyncIterator[Delta | Notice | Reply]:
        """Wait for the turn of the request, send it, and count its cost."""
        self._meter.has_failed = True
        await self._meter.admit(self.name)
        try:
            async for item in self._provider.stream(request):
                if isinstance(item, Reply):
                    await self._meter.count(item.usage.cost)
                    self._meter.has_failed = False
                yield item
        except ProviderError as error:
            if error.usage:
                await self._meter.count(error.usage.cost)
            if isinstance(error, RateLimitedError):
                await self._meter.refused(self.name, error)
            raise


class MeteredWithSchemas(Metered):
    """A metered provider whose API holds answers to a schema."""

    _provider: SchemaProvider

    def enforces(self, schema: Mapping[str, Any], *, with_tools: bool) -> bool:
        """Return whether an answer satisfies this schema if a request has it as `output_schema`."""
        return self._provider.enforces(schema, with_tools=with_tools)
