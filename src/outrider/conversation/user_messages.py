"""The messages that the user wrote: the points to which a conversation can be rewound."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.conversation.messages import Message, TextBlock, ToolResultBlock
from outrider.prompts import prompt


def is_from_user(message: Message) -> bool:
    """Return whether the user said something in a message: it has more than results and the mark of an interruption."""
    if message.role != "user" or message.text == prompt("interrupted"):
        return False
    said = (block for block in message.content if not isinstance(block, ToolResultBlock))
    return any(not isinstance(block, TextBlock) or block.text.strip() for block in said)


def user_messages(messages: Sequence[Message]) -> list[int]:
    """Return the indexes of the messages of the user."""
    return [index for index, message in enumerate(messages) if is_from_user(message)]


def messages_before(messages: Sequence[Message], index: int) -> list[Message]:
    """Return the messages before one of the user, as a new list.

    The results in that message stay: without them, the calls of the reply before it would be open again, and would run.
    """
    kept = list(messages[:index])
    if index < len(messages) and (results := messages[index].tool_results):
        kept.append(Message.user(*results))
    return kept
