"""Prompts: what every verb takes first, and the messages that it becomes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import TypeAlias

from outrider.conversation.attachments import Attachment, not_a_part
from outrider.conversation.codec import MessageLike, read_conversation
from outrider.conversation.messages import AttachmentBlock, Message, TextBlock
from outrider.errors import ConversationError
from outrider.text import clean

Said: TypeAlias = str | Attachment | TextBlock | AttachmentBlock
Prompt: TypeAlias = Said | MessageLike | Iterable[Said | MessageLike]
"""A text, a file, a message, or a list of them: texts and files, or a conversation, which texts may follow."""

_EXPECTED = "a prompt is text, an Attachment, a Message, or a list of them"


def messages_of(prompt: Prompt) -> list[Message]:
    """Return the messages that a prompt adds; none for an empty text. Their files are not stored yet.

    Texts and files that follow each other are one message of the user. Raises TypeError for another value, and
    ConversationError for an empty list and an invalid message.

    >>> [message.text for message in messages_of([Message.user("2+2?"), Message.assistant("4"), "And", " 3+3?"])]
    ['2+2?', '4', 'And 3+3?']
    """
    given: object = prompt
    if isinstance(given, str | Attachment | TextBlock | AttachmentBlock | Message | Mapping):
        given = [given]
    elif isinstance(given, bytes | bytearray) or not isinstance(given, Iterable):
        raise not_a_part(_EXPECTED, given)
    messages: list[Message] = []
    is_empty = True
    for is_message, items in groupby(given, lambda item: isinstance(item, Message | Mapping)):
        is_empty = False
        if is_message:
            messages += read_conversation(items)
        elif content := [_part(item) for item in items if item != ""]:
            messages.append(Message.user(*content))
    if is_empty:
        raise ConversationError(
            "there is nothing to answer: the prompt is an empty list; give text, a file or messages"
        )
    return messages


def user_message(prompt: Prompt) -> Message:
    """Return a prompt as one message of the user. Raises ConversationError if it is none, or empty."""
    messages = messages_of(prompt)
    content = [block for message in messages for block in message.content]
    if not content:
        raise ConversationError("the message is empty; give text or a file")
    if any(message.role != "user" or message.tool_results for message in messages):
        raise ConversationError("only messages of the user can be sent to a run that goes on; give text or files")
    return Message.user(*content)


def _part(item: object) -> Said:
    match item:
        case str():
            return TextBlock(clean(item))
        case TextBlock(text=text, state=state):
            return item if clean(text) is text else TextBlock(clean(text), state)
        case Attachment() | AttachmentBlock():
            return item
    raise not_a_part(_EXPECTED, item)
