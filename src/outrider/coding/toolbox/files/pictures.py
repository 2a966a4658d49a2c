"""A picture in a file, as the model gets to see it."""

from __future__ import annotations

from outrider.coding.toolbox.refusals import RefusalError, shown
from outrider.conversation.attachments import Attachment
from outrider.errors import AttachmentError
from outrider.text import human_size
from outrider.tools.result import ToolResult

PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def picture(name: str, mime_type: str, size: int, data: bytes | None, attachment: Attachment) -> ToolResult:
    """The picture with a caption. One that is too large to be looked at goes on its way: the limit is set elsewhere."""
    if data is None:
        return ToolResult(f"{shown(name)}: {mime_type}, {human_size(size)}", [attachment])
    from outrider.providers.documents import image_size  # the judge of what can be sent

    try:
        width, height = image_size(data)
    except AttachmentError:
        width = height = 0
    if not width or not height:
        raise RefusalError(
            f"{shown(name)} begins like a picture ({mime_type}, {human_size(size)}) but is damaged or not whole. "
            "With original: true it is attached as it is."
        )
    return ToolResult(f"{shown(name)}: {mime_type}, {width} × {height} pixels, {human_size(size)}", [attachment])
