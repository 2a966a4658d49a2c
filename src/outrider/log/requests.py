"""What the requests of a session had beside their messages: written when it changes, and read back.

Together with the messages, it makes the exact request of any turn: with own tools, options and reminders.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from outrider.conversation.messages import Message
from outrider.conversation.store import AttachmentStore
from outrider.log.entries import Requested
from outrider.providers.base import ModelSettings, Request
from outrider.providers.credentials.secrets import without_secrets
from outrider.struct_types import described
from outrider.tools.server_tool import ServerTool


class RequestLedger:
    """Knows what the next request adds to what the log says about the requests of a session."""

    def __init__(self) -> None:
        self._last: tuple[Any, ...] = ()
        """The parts of a request of which the log knows everything, to see quickly that nothing has changed."""
        self._known: Requested | None = None

    def new_in(self, request: Request, known: Requested | None) -> Requested | None:
        """Return the entry for a request, or None if the log knows all of it."""
        parts = _parts(request)
        if known is self._known and parts == self._last:
            return None
        before = known or Requested()
        new = {name: value for name, value in _fields(told(request)) if value != getattr(before, name)}
        if new:
            return Requested(**new)
        self._known, self._last = known, parts
        return None


def restored(requested: Requested, messages: Sequence[Message], store: AttachmentStore) -> Request | None:
    """Return the request with these messages. None if the log does not say all of it, or not in a form that counts."""
    if UNSET in (requested.system, requested.tools, requested.settings):
        return None
    told = {name: value for name, value in _fields(requested) if name not in ("settings", "server_tools")}
    served = () if isinstance(requested.server_tools, msgspec.UnsetType) else requested.server_tools
    try:
        settings = msgspec.convert(requested.settings, described(ModelSettings))
        server_tools = tuple(msgspec.convert(each, described(ServerTool)) for each in served)
    except Exception:  # noqa: BLE001 - an imported log can say anything
        return None
    return Request(messages, store, settings=settings, server_tools=server_tools, **told)


def _parts(request: Request) -> tuple[Any, ...]:
    return (
        *(request.system, request.tools, request.server_tools),
        *(request.settings, request.output_schema, request.reminder, request.situation),
    )


def told(request: Request) -> Requested:
    """Return what the log keeps of a request beside its messages."""
    schema = request.output_schema
    return Requested(
        request.system,
        request.tools,
        tuple(without_secrets(_given(each)) for each in request.server_tools),
        without_secrets(_given(request.settings)),
        None if schema is None else dict(schema),
        request.reminder,
        request.situation,
    )


def _given(value: msgspec.Struct) -> dict[str, Any]:
    """Return the fields that are set, as JSON has them."""
    plain: dict[str, Any] = msgspec.to_builtins(value, enc_hook=repr)
    return {name: field for name, field in plain.items() if field not in (None, [], (), {})}


def _fields(entry: Requested) -> Iterable[tuple[str, Any]]:
    return ((name, value) for name in entry.__struct_fields__ if (value := getattr(entry, name)) is not UNSET)
