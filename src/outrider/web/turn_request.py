"""The exact request of a turn, as it was sent or would be sent to another model."""

from __future__ import annotations

from outrider.coding.stored_request import end_of_request, pretty, sending_provider
from outrider.errors import LogError, MissingKeyError, UnknownModelError
from outrider.log.entries import MessageEntry
from outrider.log.log import Log
from outrider.providers.transport.network import without_password
from outrider.text.visible import safe_lines
from outrider.web.api_types import TurnRequest

EXAMPLE_MODEL = "anthropic/balanced"
"""For sessions of models that run in the process and send no request."""


def turn_request(log: Log, id: str, seq: int, wanted: str = "", before: int | None = None) -> TurnRequest:
    """Return the request whose reply is entry `seq`: for its model, or for another.

    A long request is shown in pages, each with some of its messages. The first page has the newest; `earlier` is the
    `before` of the next one, or None.
    """
    records = log.after(id, seq - 1, 1)
    if not records or not isinstance(entry := records[0].entry, MessageEntry) or entry.message.role != "assistant":
        raise LogError(f"entry {seq} is not a reply")
    model, provider = wanted, None
    for name in [wanted] if wanted else [entry.model, log.session(id).model, EXAMPLE_MODEL]:
        try:
            model, provider = name, sending_provider(name)
            break
        except (UnknownModelError, MissingKeyError):
            if name in (wanted, EXAMPLE_MODEL):
                raise
    assert provider
    request, earlier = end_of_request(log, id, model, reply=seq, before=before)
    url = without_password(provider.url())
    return TurnRequest(
        model=safe_lines(model),
        address=f"POST {url}" if "://" in url else url,
        body=visible_json(provider.render(request)),
        earlier=earlier + 1 if earlier else None,
        lost=next((safe_lines(str(loss)) for loss in log.cache_losses(id) if loss.seq == seq), ""),
    )


def visible_json(body: bytes) -> str:
    """Return a request body for people: indented, files shortened."""
    return safe_lines(pretty(body).decode())
