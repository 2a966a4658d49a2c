"""Pictures that a model makes: they become attachments of its message."""

from __future__ import annotations

import base64
import binascii

from outrider.conversation.attachments import Attachment, sha256
from outrider.conversation.messages import AttachmentBlock, Block, ProviderState, TextBlock
from outrider.conversation.mime_types import sniff
from outrider.conversation.store import AttachmentStore
from outrider.errors import AttachmentError
from outrider.providers.rendering.message_parts import LONGEST_NAME
from outrider.text.visible import one_line

_ENDINGS = {"image/jpeg": "jpg", "image/svg+xml": "svg"}


def picture(
    data: str, mime_type: str, store: AttachmentStore | None, state: ProviderState | None = None
) -> AttachmentBlock | TextBlock:
    """Store a picture that came as base64. Return its block, or a note if it cannot be stored."""
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return _note("its data is not base64")
    if store is None or not content:
        return _note("there is no place to store it" if content else "it is empty")
    kind = sniff(content) or mime_type  # APIs call every picture a PNG
    name = f"image-{sha256(content)[:8]}.{_ENDINGS.get(kind) or kind.rpartition('/')[2]}"
    try:
        stored = store.put(Attachment(content, kind, name))
    except Exception as error:  # noqa: BLE001 - a user's store may break the contract, and the reply stays
        return _note(str(error) if isinstance(error, AttachmentError) else f"{type(error).__name__}: {error}")
    return AttachmentBlock(stored.sha256, stored.mime_type, stored.size, stored.name, state=state)


def picture_at(url: str, store: AttachmentStore | None, state: ProviderState | None = None) -> Block:
    """Store a picture that came as a data URL. Return a note with the address of any other URL: it is not fetched."""
    head, comma, data = url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        return picture(data, head.removeprefix("data:").removesuffix(";base64"), store, state)
    return TextBlock(f"[The model made a picture: {one_line(url, 4 * LONGEST_NAME)}]")


def _note(reason: str) -> TextBlock:
    return TextBlock(f"[The model made a picture that cannot be kept: {one_line(reason, LONGEST_NAME)}]")
