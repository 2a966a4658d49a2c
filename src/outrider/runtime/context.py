"""How much of the context window a session's next request takes. Counting needs no network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from outrider.conversation.messages import Message, files_in
from outrider.conversation.usage import Usage
from outrider.providers.base import ToolSpec
from outrider.providers.catalogue.windows import file_tokens, json_tokens, message_tokens, tells_context

if TYPE_CHECKING:
    from outrider.conversation.history import History

HIGHEST_SCALE = 2.5
"""How many times more tokens than estimated a text may have. More is a count of something else."""
LEAST_TRUSTED = 0.6
"""The share of an estimate below which a server's count is not believed."""


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
    """Counts the tokens of a session's next request: the usage of the newest reply, and an estimate of what followed.

    If a server counts far less than we estimate, it leaves out something, such as what it had cached or cut off. Then
    the estimate counts.
    """

    def __init__(self) -> None:
        self._reply: Message | None = None
        """The newest reply whose usage is known."""
        self._used = 0
        """The tokens of the conversation up to it."""
        self._scale: float | None = None
        """How many times more tokens than estimated this model counts, once it is known."""
        self._newest: Message | None = None
        """The newest message that is part of the estimate."""
        self._estimate = 0

    @property
    def is_new(self) -> bool:
        """Whether no usage was measured yet."""
        return self._scale is None

    def measure(self, reply: Message, usage: Usage) -> None:
        """Take the usage of a reply, if it says how long the conversation is."""
        if tells_context(reply, usage):
            self._reply, self._used = reply, usage.context

    def calibrate(self, reply: Message, usage: Usage, history: History, fixed: int) -> None:
        """Compare the first usage with the estimate. `reply` is the newest message."""
        estimate = fixed + self._estimated(history) - message_tokens(reply)
        sent = usage.context - usage.output_tokens
        self._scale = min(max(1.0, sent / max(1, estimate)), HIGHEST_SCALE)

    def forget(self) -> None:
        """Forget what was counted, because what is sent has changed."""
        self._reply = self._newest = None

    def tokens(self, history: History, fixed: int) -> int:
        """Return the tokens of the next request. `fixed` is the estimate for system prompt and tools."""
        used = self._since_reply(history)
        if used is not None and not history.is_ready:
            return used
        whole = self.scaled(fixed + self._estimated(history))
        return whole if used is None else max(used, int(whole * LEAST_TRUSTED))

    def scaled(self, estimate: int) -> int:
        """Return an estimate in the tokens of this model."""
        return round(estimate * (self._scale or 1.0))

    def _since_reply(self, history: History) -> int | None:
        added = 0
        for message in history.newest_first() if self._reply is not None else ():
            if message is self._reply:
                return self._used + self.scaled(added)
            added += message_tokens(message)
        return None

    def _estimated(self, history: History) -> int:
        """Return the estimate for all messages that are sent. Only new ones are counted."""
        added = 0
        for message in history.newest_first() if self._newest is not None else ():
            if message is self._newest:
                self._estimate += added
                break
            added += message_tokens(message)
        else:
            self._estimate = sum(map(message_tokens, history.shown()))
        self._newest = history.last
        return self._estimate


def tool_tokens(tools: tuple[ToolSpec, ...]) -> int:
    """Return about how many tokens the descriptions of tools have. Those that the API searches take none."""
    return sum(json_tokens((tool.name, tool.description, tool.parameters)) for tool in tools if not tool.deferred)


def usage_of(history: History, used: int, window: int | None, system: int, tools: int) -> ContextUsage:
    """Return how the tokens of the next request are divided."""
    files = sum(file_tokens(file) for message in history.shown() for file in files_in(message))
    estimated = system + tools + files
    if estimated > used:  # the server counts less than we estimate: divide what it counts
        system, tools, files = (part * used // estimated for part in (system, tools, files))
    return ContextUsage(window, used, system, tools, files, used - system - tools - files)
