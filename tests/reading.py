"""A reply read from the chunks of an answer, as an adapter reads it."""

from __future__ import annotations

from collections.abc import AsyncIterator

from outrider.providers.api import ApiProvider
from outrider.providers.base import Reply
from outrider.providers.streams.stream import ReplyParser
from outrider.runtime.events import Delta


async def read_reply(provider: ApiProvider, chunks: AsyncIterator[bytes]) -> AsyncIterator[Delta | Reply]:
    parser = ReplyParser(provider.incoming(), provider.label)
    async for chunk in chunks:
        for item in parser.feed(chunk):
            yield item
        if parser.ended:
            return
    for item in parser.finish():
        yield item
