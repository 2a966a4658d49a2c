"""One reply from a provider, however many attempts it takes, checked against the contract of `Provider.stream`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from operator import attrgetter
from time import monotonic
from typing import Any

import msgspec

from outrider.conversation.json_text import too_deep
from outrider.conversation.messages import (
    Block,
    Message,
    RawBlock,
    ServerToolResultBlock,
    ServerToolUseBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from outrider.conversation.usage import Usage
from outrider.errors import IncompleteStreamError, ProviderError
from outrider.log.entries import AttemptFailed
from outrider.providers.base import Provider, Reply, Request
from outrider.runtime.events import (
    Event,
    Notice,
    ReplyDiscarded,
    Retrying,
    ServerToolFinished,
    ServerToolStarted,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from outrider.runtime.retry import Attempts, Retry

DEEPEST_ARGUMENTS = 180
"""The deepest nesting of a call's arguments; the log adds a few levels around them."""
_NESTED = frozenset({ToolUseBlock, ServerToolUseBlock, ServerToolResultBlock, RawBlock, ThinkingBlock})
_COUNTS = tuple(name for name in Usage.__struct_fields__ if name not in ("cost", "context_tokens"))
_counts_of = attrgetter(*_COUNTS)
_INTEGERS = {int}
SHOWN = (ThinkingDelta, ToolCallDelta, ServerToolStarted, ServerToolFinished, Notice)


class Receiver:
    """Receives one reply, emits its deltas, and keeps the text in case the reply is interrupted.

    A transient failure is retried: what was shown is discarded, and the next attempt follows. `record` stores each
    failure, and what a cancelled reply has used, unless the caller `keeps_words` of it with the usage.
    """

    def __init__(
        self,
        provider: Provider,
        emit: Callable[[Event], None],
        retry: Retry,
        record: Callable[[AttemptFailed], Awaitable[None]],
        *,
        keeps_words: bool = False,
    ) -> None:
        self._provider = provider
        self._emit = emit
        self._retry = retry
        self._record = record
        self._keeps_words = keeps_words
        self._words: list[str] = []
        self.cancelled_usage: Usage | None = None
        """What the reply has used, if it was cancelled and the API has said so."""
        self._has_shown = False
        """Whether observers have seen a delta of the current attempt."""
        self.first_token: float | None = None
        """Seconds from the last attempt to its first delta; None before it."""

    @property
    def words(self) -> str:
        """The text so far."""
        return "".join(self._words)

    async def receive(self, request: Request) -> Reply:
        """Return the complete reply. Raises ProviderError, and CancelledError only if the caller is being cancelled."""
        attempts: Attempts | None = None
        request = msgspec.structs.replace(request, on_cancel=partial(setattr, self, "cancelled_usage"))
        while True:
            try:
                return await self._receive(self._provider.stream(request))
            except ProviderError as error:
                failure = error
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    if (used := self.cancelled_usage) and not self._keeps_words:
                        await self._record(self._failure("cancelled", attempts.number if attempts else 1, None, used))
                    raise
                failure = self._failed(error)
            except (Exception, SystemExit) as error:
                if isinstance(error, AssertionError) and getattr(self._provider, "passes_assertions", False):
                    raise
                failure = self._failed(error)
            attempts = attempts or Attempts(self._retry)
            await self._retry_after(failure, attempts)

    async def _retry_after(self, error: ProviderError, attempts: Attempts) -> None:
        """Discard what was shown, and wait for the next attempt. Raise the error if there is none."""
        failed, reason = attempts.number, str(error)
        delay = attempts.delay_after(error, shown=self._has_shown)
        if self._has_shown or error.usage:
            self._emit(ReplyDiscarded(reason, error.usage))
        self._words.clear()
        self._has_shown = False
        if delay is not None or error.usage:
            await self._record(self._failure(reason, failed, delay, error.usage))
        if delay is None:
            raise attempts.give_up(error)
        self._emit(Retrying(attempts.number, delay, reason))
        await attempts.wait(delay)

    def _failure(self, reason: str, attempt: int, delay: float | None, usage: Usage | None) -> AttemptFailed:
        return AttemptFailed(reason, attempt, delay, usage, self._provider.name if usage else "")

    async def _receive(self, stream: AsyncIterator[Any]) -> Reply:
        reply: Reply | None = None
        self.first_token = None
        began: float | None = monotonic()
        try:
            async for item in stream:
                if began is not None:
                    self.first_token, began = monotonic() - began, None
                if reply is not None:
                    raise ProviderError(f"{self._provider.name} sent more after its reply: {type(item).__name__}")
                if type(item) is TextDelta:  # the most frequent by far
                    self._words.append(item.text)
                    self._has_shown = True
                    self._emit(item)
                elif isinstance(item, Reply):
                    reply = self._checked(item)
                else:
                    self._show(item)
        finally:
            if close := getattr(stream, "aclose", None):  # release the connection at once
                await close()
        if reply is None:
            raise IncompleteStreamError(
                f"the reply of {self._provider.name} ended before it was complete", retryable=True
            )
        return reply

    def _show(self, item: Any) -> None:
        if not isinstance(item, SHOWN):
            raise ProviderError(f"{self._provider.name} sent neither a delta nor a reply: {type(item).__name__}")
        self._has_shown = self._has_shown or not isinstance(item, Notice)
        self._emit(item)

    def _checked(self, reply: Reply) -> Reply:
        if not isinstance(reply.message, Message) or not isinstance(reply.usage, Usage):
            raise ProviderError(f"{self._provider.name} sent a reply without a Message or without a Usage")
        usage, message = _whole_numbers(reply.usage), _shallow(reply.message)
        if usage is reply.usage and message is reply.message:
            return reply
        return msgspec.structs.replace(reply, usage=usage, message=message)

    def _failed(self, error: BaseException) -> ProviderError:
        failure = ProviderError(f"{self._provider.name} failed: {type(error).__name__}: {error}")
        failure.__cause__ = error
        return failure


def _shallow(message: Message) -> Message:
    """Replace arguments that are nested too deeply to be stored, and leave out such state. Such a call does not run."""
    for block in message.content:
        if type(block) in _NESTED and _is_deep(block):
            kept = filter(None, map(_shallow_block, message.content))
            return msgspec.structs.replace(message, content=tuple(kept))
    return message


def _shallow_block(block: Block) -> Block | None:
    if type(block) not in _NESTED or not _is_deep(block):
        return block
    if isinstance(block, RawBlock):
        return None
    if isinstance(block, ServerToolUseBlock | ServerToolResultBlock | ThinkingBlock):
        # Without its state, a server tool is sent back as text.
        fields: dict[str, Any] = {"input": {}} if isinstance(block, ServerToolUseBlock) else {}
        return msgspec.structs.replace(block, state=None, **fields)
    text = "(nested too deeply to be shown)"
    return msgspec.structs.replace(block, input={}, invalid_input=text, state=None)


def _is_deep(block: Any) -> bool:
    state = block.state and block.state.data
    found = getattr(block, "input", None)
    return bool(found or state) and too_deep([found, state], DEEPEST_ARGUMENTS + 1)


def _whole_numbers(usage: Usage) -> Usage:
    """Return the usage with integer token counts, whatever the provider sent."""
    if {*map(type, _counts_of(usage))} == _INTEGERS:
        return usage
    return msgspec.structs.replace(usage, **{each: int(getattr(usage, each)) for each in _COUNTS})
