"""Listening for changes of lists with `subscriptions/listen`, since 2026-07-28."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from outrider.errors import McpClosedError, McpError
from outrider.mcp.channel import Channel
from outrider.mcp.protocol import LISTEN, METHOD_NOT_FOUND, ListKind

_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 300.0


async def keep_listening(channel: Channel, meta: dict[str, Any], kinds: Sequence[ListKind]) -> None:
    """Listen until the channel closes. The notifications go to the channel's receiver.

    A stream that ends is opened again, after longer and longer pauses.
    """
    wanted = {f"{kind}ListChanged": True for kind in kinds}
    pause = _FIRST_PAUSE
    while True:
        try:
            await channel.request(LISTEN, {"notifications": wanted, "_meta": meta}, timeout=None)
        except McpClosedError:
            return
        except McpError as error:
            if error.code == METHOD_NOT_FOUND:
                return
        await asyncio.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)
