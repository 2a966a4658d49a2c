"""Lists of a server: read page by page within limits, kept as long as the server allows, and watched for changes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from outrider.errors import McpClosedError, McpError
from outrider.mcp.channel import Channel
from outrider.mcp.protocol import LISTEN, METHOD_NOT_FOUND, ListKind, Page, Prompt
from outrider.mcp.server_limits import Bounds
from outrider.struct_types import described
from outrider.text import human_size
from outrider.text.visible import plain_text

T = TypeVar("T")

_ReadPage: TypeAlias = Callable[[str, dict[str, Any], type[Page]], Awaitable[Page]]
_LONGEST_SECONDS = 24 * 3600.0
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 300.0
_MOST_REASONS = 20
_IDENTIFIERS = ("name", "uri", "uri_template")
_TEXTS = ("title", "description")
_LONGEST_TEXT = 4_000


class FullList(msgspec.Struct, Generic[T]):
    """All items of a list, and why others were left out."""

    items: tuple[T, ...]
    skipped: list[str]
    seconds: float | None  # how long the list may be kept; None if the server did not say


async def read_list(read: _ReadPage, method: str, field: str, type: type[T], bounds: Bounds) -> FullList[T]:
    """Read all pages of a list. Invalid items and those over the limits are left out, with a reason."""
    items: list[T] = []
    skipped: list[str] = []
    seconds: float | None = None
    seen: set[str] = set()
    cursor: str | None = None
    size = 0
    for _ in range(bounds.pages):
        page = await read(method, {} if cursor is None else {"cursor": cursor}, Page)
        for raw in getattr(page, field)[: bounds.items - len(items) + 1]:
            size += len(raw)
            if size > bounds.list_bytes:
                break
            _decode_item(raw, type, items, skipped)
        if page.ttl_ms is not None:
            seconds = min(page.ttl_ms / 1000, _LONGEST_SECONDS if seconds is None else seconds)
        cursor = page.next_cursor
        if len(items) > bounds.items or size > bounds.list_bytes:
            break
        if cursor is None or cursor in seen:
            return FullList(tuple(items), skipped, seconds)
        seen.add(cursor)
    most = f"{bounds.items:,} items, {bounds.pages:,} pages or {human_size(bounds.list_bytes)}"
    skipped.append(f"the list is longer than {most}; the rest is left out")
    return FullList(tuple(items[: bounds.items]), skipped, seconds)


def _decode_item(raw: msgspec.Raw, type: type[T], items: list[T], skipped: list[str]) -> None:
    try:
        items.append(_harmless(msgspec.json.decode(raw, type=described(type))))
    except (msgspec.DecodeError, RecursionError) as error:
        if len(skipped) < _MOST_REASONS:
            skipped.append(f"an item is not valid: {error}")


def _harmless(item: T) -> T:
    """Return the item with texts that can be shown. Raises ValidationError for a name, which must stay as it is."""
    for field in _IDENTIFIERS:
        if not getattr(item, field, "").isprintable():
            raise msgspec.ValidationError(f"its {field} has characters that cannot be shown")
    changes: dict[str, Any] = {
        field: plain_text(text, _LONGEST_TEXT)
        for field in _TEXTS
        if isinstance(text := getattr(item, field, None), str)
    }
    if isinstance(item, Prompt) and item.arguments:
        changes["arguments"] = [_harmless(argument) for argument in item.arguments]
    return msgspec.structs.replace(item, **changes)  # type: ignore[type-var]


class ListCache:
    """The lists of a server, until they expire or the server says that they changed."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[ListKind, tuple[Any, ...], float]] = {}
        self._versions: dict[str, int] = {}

    def get(self, method: str) -> tuple[Any, ...] | None:
        kept = self._kept.get(method)
        return kept[1] if kept and time.monotonic() < kept[2] else None

    def version(self, kind: ListKind) -> int:
        return self._versions.get(kind, 0)

    def put(self, method: str, kind: ListKind, items: tuple[Any, ...], seconds: float | None, version: int) -> None:
        """Keep a list, unless it has changed while it was read."""
        if seconds and version == self.version(kind):
            self._kept[method] = kind, items, time.monotonic() + seconds

    def forget(self, kind: ListKind) -> None:
        self._versions[kind] = self.version(kind) + 1
        self._kept = {method: kept for method, kept in self._kept.items() if kept[0] != kind}


async def keep_listening(channel: Channel, meta: dict[str, Any], kinds: Sequence[ListKind]) -> None:
    """Listen until the channel closes. A stream that ends is opened again, after longer and longer pauses."""
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
