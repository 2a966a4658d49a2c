"""Storing the files of a prompt, so that its message can refer to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from outrider.conversation.attachments import Attachment
from outrider.conversation.messages import AttachmentBlock, Message, TextBlock
from outrider.conversation.prompt import Part

if TYPE_CHECKING:
    from outrider.runtime.call_environment import CallEnvironment


async def stored_message(parts: Sequence[Part], environment: CallEnvironment) -> Message:
    """Return a user message of these parts. Files are stored, and fetched before if need be.

    Raises AttachmentError.
    """
    return Message.user(*[await _stored(part, environment) for part in parts])


async def _stored(part: Part, environment: CallEnvironment) -> TextBlock | AttachmentBlock:
    if not isinstance(part, Attachment):
        return part
    if part.is_remote:
        from outrider.providers.fetching import fetched  # few files are on the web

        part = await fetched(part)
    file = part.within(environment.cwd)
    return await environment.threads.run(environment.store.put, file, environment.limits.attachment_bytes)
