"""Pictures as Read shows them."""

from __future__ import annotations

from outrider.coding.toolbox.tool_errors import ToolCallError, printable
from outrider.conversation.attachments import Attachment
from outrider.errors import AttachmentError
from outrider.text import human_size
from outrider.tools.result import ToolResult

PICTURES = frozenset(
    {
        "image/png",
        "image/jpeg",
        "image/gif",
        "image/webp",
        "image/bmp",
        "image/tiff",
        "image/vnd.microsoft.icon",
    }
)


def picture_result(name: str, mime_type: str, size: int, data: bytes | None, attachment: Attachment) -> ToolResult:
    """Return the picture with a caption. A file too large to inspect is attached unchecked."""
    if data is None:
        return ToolResult(f"{printable(name)}: {mime_type}, {human_size(size)}", [attachment])
    from outrider.providers.documents import image_size  # the same check as before sending

    try:
        width, height = image_size(data)
    except AttachmentError:
        width = height = 0
    if not width or not height:
        raise ToolCallError(
            f"{printable(name)} begins like a picture ({mime_type}, {human_size(size)}) but is damaged or incomplete. "
            "With original: true it is attached as it is."
        )
    return ToolResult(f"{printable(name)}: {mime_type}, {width} × {height} pixels, {human_size(size)}", [attachment])
