"""Prompts: text and files that become a user message."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from outrider.conversation.attachments import Attachment
from outrider.conversation.messages import AttachmentBlock, Message, TextBlock
from outrider.text import clean

Part: TypeAlias = TextBlock | AttachmentBlock | Attachment
Prompt: TypeAlias = str | Attachment | Sequence[str | Attachment | TextBlock | AttachmentBlock]
"""Text, a file, or a list of both."""


def parts_of(prompt: Prompt) -> list[Part]:
    """Return the parts of a prompt with clean text, without empty text. Files are not stored yet."""
    if isinstance(prompt, str | Attachment):
        prompt = [prompt]
    elif isinstance(prompt, Mapping | Message | bytes | bytearray) or not isinstance(prompt, Iterable):
        raise _not_a_prompt(prompt)
    return [_part(part) for part in prompt if part != ""]


def _part(part: object) -> Part:
    match part:
        case str():
            return TextBlock(clean(part))
        case TextBlock(text=text, state=state):
            return part if clean(text) is text else TextBlock(clean(text), state)
        case Attachment() | AttachmentBlock():
            return part
    raise _not_a_prompt(part)


def _not_a_prompt(value: object) -> TypeError:
    kind, advice = type(value).__name__, "write str(…) to send it as text"
    if isinstance(value, Message | Mapping):
        advice = "to go on with messages, use agent.session(messages), think(…, conversation=messages) or run(messages)"
    elif isinstance(value, os.PathLike | bytes | bytearray):
        source = "Attachment.from_path(…)" if isinstance(value, os.PathLike) else "Attachment(…)"
        advice = f"write {source} to send a file"
    elif value is None:
        advice = "leave it out to go on without one"
    return TypeError(f"a prompt is text, an Attachment, or a list of them, not {kind}; {advice}")
