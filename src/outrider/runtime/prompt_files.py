"""Storing the files of a prompt and of results, so that messages can refer to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from outrider.conversation.attachments import Attachment
from outrider.conversation.codec import read_tool_results
from outrider.conversation.messages import AttachmentBlock, Message, ToolResultBlock, unstored_in, with_stored

if TYPE_CHECKING:
    from outrider.runtime.call_environment import CallEnvironment


async def stored_prompt(messages: Sequence[Message], environment: CallEnvironment) -> list[Message]:
    """Return messages whose files are all stored; those on the web are fetched before. Raises AttachmentError."""
    return [
        with_stored(message, [await _stored(file, environment) for file in files])
        if (files := unstored_in(message))
        else message
        for message in messages
    ]


async def stored_results(
    values: Iterable[ToolResultBlock | Mapping[str, Any]], environment: CallEnvironment
) -> dict[str, ToolResultBlock]:
    """Return results by call id. Files in their content are stored. Raises AttachmentError and ConversationError."""
    if isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping):
        values = [await _with_stored_files(value, environment) for value in values]
    return read_tool_results(values)


async def _with_stored_files(value: Any, environment: CallEnvironment) -> Any:
    content = value.get("content") if isinstance(value, Mapping) else getattr(value, "content", None)
    parts = [content] if isinstance(content, Attachment) else content
    if not isinstance(parts, list | tuple) or not any(isinstance(part, Attachment) for part in parts):
        return value
    stored = tuple([await _stored(part, environment) if isinstance(part, Attachment) else part for part in parts])
    if isinstance(value, Mapping):
        return {**value, "content": stored}
    return msgspec.structs.replace(value, content=stored)


async def _stored(file: Attachment, environment: CallEnvironment) -> AttachmentBlock:
    if file.is_remote:
        from outrider.providers.transport.fetching import fetched  # few files are on the web

        file = await fetched(file)
    file = file.within(environment.cwd)
    return await environment.threads.run(environment.store.put, file, environment.limits.attachment_bytes)
