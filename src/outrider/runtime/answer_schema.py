"""The schema of an answer that the API enforces, and how the answer is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from outrider.conversation.messages import Message, TextBlock
from outrider.errors import ValidationError
from outrider.prompts import prompt as prompt_text

MOST_CORRECTIONS = 2
"""How often the model is told what is wrong with its answer. APIs enforce the form, but not every limit of a value."""


class Answer(msgspec.Struct, frozen=True):
    """The data of an answer."""

    data: Any
    text: str
    """The data as JSON in one line."""


class AnswerSchema(msgspec.Struct, frozen=True):
    """The schema of an agent's answers."""

    schema: Mapping[str, Any]
    """The JSON Schema for requests. Its root is an object."""
    parse: Callable[[str], Answer]
    """Reads the text of an answer. Raises ValidationError if it does not satisfy the schema."""

    def read(self, message: Message) -> Answer:
        """Read a model's message: all of its text, or the last block, if text before it is a comment."""
        try:
            return self.parse(message.text)
        except ValidationError:
            blocks = [block.text for block in message.content if isinstance(block, TextBlock)]
            if len(blocks) < 2:
                raise
            return self.parse(blocks[-1])

    def correction(self, messages: Sequence[Message]) -> str:
        """Return what to say to a model about the answer at the end, or "" if it is right or was corrected before."""
        try:
            self.read(messages[-1])
        except ValidationError as error:
            if _corrections(messages) < MOST_CORRECTIONS:
                violations = "\n".join(f"- {violation}" for violation in error.violations)
                return prompt_text("output_correction").replace("{violations}", violations)
        return ""


def _corrections(messages: Sequence[Message]) -> int:
    """Return how many corrections the newest task has had, perhaps in a process that ended since."""
    count, first_line = 0, prompt_text("output_correction").partition("\n")[0]
    for message in reversed(messages):
        if message.role == "user" and not message.tool_results:
            if not message.text.startswith(first_line):
                break
            count += 1
    return count
