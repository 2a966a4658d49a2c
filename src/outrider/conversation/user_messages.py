"""The messages that the user wrote: the points to which a conversation can be rewound."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.conversation.messages import Message, TextBlock, ToolResultBlock
from outrider.prompts import prompt

REPORT = "[Sub-agent "
"""How the message begins that tells the model of a sub-agent in the background."""


def is_from_user(message: Message) -> bool:
    """Return whether the user said something in a message.

    Results, the mark of an interruption, failed checks and reports of sub-agents in the background are not the user's.
    """
    if message.role != "user" or message.text == prompt("interrupted"):
        return False
    if is_failed_check(message) or message.text.startswith(REPORT):
        return False
    said = (block for block in message.content if not isinstance(block, ToolResultBlock))
    return any(not isinstance(block, TextBlock) or block.text.strip() for block in said)


def first_text(message: Message) -> str:
    """Return the first text of a message that has words. Others, such as the output of `!command`, come after it."""
    texts = (block.text for block in message.content if isinstance(block, TextBlock))
    return next((text for text in texts if text.strip()), "")


def is_failed_check(message: Message) -> bool:
    """Return whether a message tells the model that its goal is not reached."""
    return message.role == "user" and message.text.startswith(prompt("goal_failed").partition("{")[0])


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
