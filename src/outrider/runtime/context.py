"""How much of the context window a session's next request takes. Counting needs no network."""

from __future__ import annotations

import msgspec

from outrider.conversation.history import History
from outrider.conversation.messages import Message, Usage, files_in
from outrider.providers.base import ToolSpec
from outrider.providers.windows import estimated_tokens, file_tokens, message_tokens

HIGHEST_SCALE = 2.5
"""How many times more tokens than estimated a text may have. More is a count of something else."""


class ContextUsage(msgspec.Struct, frozen=True):
    """The tokens of a session's next request, by what takes them."""

    window: int | None
    """The context window of the model; None if it is unknown."""
    used: int
    """All tokens of the request: the usage of the newest reply, and an estimate of what came after it."""
    system: int
    """The system prompt, estimated."""
    tools: int
    """The descriptions of the tools, estimated."""
    files: int
    """Files of the messages, estimated."""
    conversation: int
    """The rest of the messages."""

    @property
    def free(self) -> int | None:
        """Tokens that are left; None if the window is unknown."""
        return None if self.window is None else max(0, self.window - self.used)


class ContextMeter:
    """Counts the tokens of a session's next request: those of the newest reply, and what was added since."""

    def __init__(self) -> None:
        self._reply: Message | None = None
        """The newest reply whose usage is known."""
        self._tokens = 0
        """The tokens of the conversation up to it."""
        self._scale = 1.0
        """How many times more tokens than estimated this model counts."""
        self._is_scaled = False

    @property
    def is_new(self) -> bool:
        """Whether no usage is known yet."""
        return not self._is_scaled

    def measure(self, reply: Message, usage: Usage, history: History | None = None, fixed: int = 0) -> None:
        """Take the usage of a reply that was just added. The first one of a history shows how well we estimate."""
        if usage.input_tokens <= 0:
            return
        self._reply, self._tokens = reply, usage.total_tokens
        if history is not None and not self._is_scaled:
            estimate = fixed + sum(map(message_tokens, history.shown()[:-1]))
            self._scale = min(max(1.0, usage.input_tokens / max(1, estimate)), HIGHEST_SCALE)
            self._is_scaled = True

    def forget(self) -> None:
        """Forget the newest reply, because what is sent has changed."""
        self._reply = None

    def tokens(self, history: History, fixed: int) -> int:
        """Return the tokens of the next request. `fixed` is the estimate for system prompt and tools."""
        if self._reply is not None:
            added = 0
            for message in history.newest_first():
                if message is self._reply:
                    return self._tokens + self.scaled(added)
                added += message_tokens(message)
        return self.scaled(fixed + sum(map(message_tokens, history.shown())))

    def scaled(self, estimate: int) -> int:
        """Return an estimate in the tokens of this model."""
        return round(estimate * self._scale)


def tool_tokens(tools: tuple[ToolSpec, ...]) -> int:
    """Return about how many tokens the descriptions of tools have."""
    return estimated_tokens(msgspec.json.encode(tools)) if tools else 0


def usage_of(history: History, used: int, window: int | None, system: int, tools: int) -> ContextUsage:
    """Return how the tokens of the next request are divided."""
    files = sum(file_tokens(file) for message in history.shown() for file in files_in(message))
    files = min(files, max(0, used - system - tools))
    return ContextUsage(window, used, system, tools, files, max(0, used - system - tools - files))
