"""Keeps the requests of a session within the context window of its model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from outrider.conversation.history import repair
from outrider.conversation.messages import Message, files_in
from outrider.conversation.usage import Usage
from outrider.conversation.view import cleared, cuts
from outrider.errors import ContextExceededError, ConversationError, RequestRefusedError
from outrider.log.entries import CompactionEntry, ResultsClearedEntry
from outrider.providers.base import ModelSettings, Reply
from outrider.providers.catalogue.windows import (
    estimated_tokens,
    message_tokens,
    reply_tokens_of,
    tells_context,
    window_of,
)
from outrider.runtime.compaction import Compaction
from outrider.runtime.context import ContextMeter, ContextUsage, tool_tokens, usage_of
from outrider.runtime.events import Compacted, CompactionReason, CompactionStarted, Notice
from outrider.runtime.hooks import BeforeCompaction, run_hooks
from outrider.runtime.model_client import ModelClient
from outrider.runtime.record import SessionRecord
from outrider.runtime.token_budget import WORTH_CLEARING, TokenBudget, clearing, kept_messages

MAX_FUTILE = 2
"""Compactions in a row that may save too little before no other is tried."""
LEAST_SAVING = 0.1
"""The share of the window that a compaction must save to be of use."""
WHOLE = (
    "it is sent whole, because think() and compaction=None never shorten it; use run() or a Session, which do, "
    "leave out earlier messages, or choose a model with a larger context window"
)
"""What to do about a conversation that is too long and must not be shortened."""


class Compactor:
    """Counts the tokens of a session, clears old results, and replaces old messages by a summary."""

    def __init__(self, record: SessionRecord, model: ModelClient, cwd: Path) -> None:
        self._record = record
        self._cwd = cwd
        self._model = model
        self.meter = ContextMeter()
        self._window: int | None = None
        """The window that the API has named in an error."""
        self._futile = 0
        self._measured: tuple[Message, Usage] | None = None
        """The newest reply whose usage the meter has."""
        self._counted: tuple[object, object, int, int] = None, None, 0, 0

    def use_model(self) -> None:
        """Forget what was learned about the model: there is another one."""
        self.meter, self._window, self._futile = ContextMeter(), None, 0

    def restart(self) -> None:
        """Count anew: the conversation is another one."""
        self.meter, self._futile, self._measured = ContextMeter(), 0, None

    # Counting

    def usage(self) -> ContextUsage:
        """Return how the tokens of the next request are divided."""
        system, tools = self._fixed()
        return usage_of(self._record.history, self.tokens(), self._known_window(), system, tools)

    def tokens(self) -> int:
        """Return the tokens of the next request."""
        self._measure()
        return self.meter.tokens(self._record.history, sum(self._fixed()))

    def _measure(self) -> None:
        """Take the usage of the newest reply that tells how long the conversation is."""
        if (measured := self._record.state.measured) is not self._measured:
            self._measured = measured
            if measured:
                self.meter.measure(*measured)

    def calibrate(self, reply: Message, usage: Usage) -> None:
        """Compare the usage of a reply that was just added with the estimate, if it is the first."""
        if self.meter.is_new and tells_context(reply, usage):
            self.meter.calibrate(reply, usage, self._record.history, sum(self._fixed()))

    def _fixed(self) -> tuple[int, int]:
        """Return the estimated tokens of the system prompt and of the tools."""
        system, specs = self._model.tools.system_prompt(self._model.agent), self._model.tools.specs
        if self._counted[0] is not system or self._counted[1] is not specs:
            words = estimated_tokens(system) + estimated_tokens(self._model.agent.situation)
            self._counted = system, specs, words, tool_tokens(specs)
        return self._counted[2], self._counted[3]

    def _known_window(self) -> int | None:
        window = window_of(self._model.provider)
        return min(window, self._window) if window and self._window else window or self._window

    def _room(self) -> TokenBudget | None:
        """Return how the window is divided, or None if it is unknown."""
        if (window := self._known_window()) is None:
            return None
        agent = self._model.agent
        reply = agent.max_tokens or reply_tokens_of(self._model.provider) or window // 8
        fixed = self.meter.scaled(sum(self._fixed()))
        return TokenBudget(window, min(reply, window // 2), fixed, self._policy)

    @property
    def _policy(self) -> Compaction:
        """The policy. Without one, `compact` uses the default: the caller asks for it."""
        return self._model.agent.compaction or Compaction()

    def bounded(self, settings: ModelSettings) -> ModelSettings:
        """Return the settings with a reply of at most half of the context window."""
        if not settings.max_tokens or not (window := self._known_window()) or settings.max_tokens <= window // 2:
            return settings
        return msgspec.structs.replace(settings, max_tokens=window // 2)

    # Making room

    async def make_room(self) -> None:
        """Shorten what the next request sends if it would be too long. Raise ContextExceededError if it still is.

        Without a known window, nothing is too long.
        """
        if (room := self._room()) is None:
            return
        used = self.tokens()
        if self._model.agent.compaction is None:
            self._check_whole(used, room)
            return
        if used < min(room.clear_at, room.full):
            return
        await self._record.load()
        if used >= room.clear_at:
            await self._clear(room.tail, WORTH_CLEARING * room.window)
        if self.tokens() >= room.full and self._futile < MAX_FUTILE:
            with suppress(ConversationError):  # there is nothing but the newest messages
                await self.compact("threshold")
        if self.tokens() > room.most:
            await self._clear(None)  # the newest results as well
        if (used := self.tokens()) > room.most and not any(map(files_in, self._messages())):
            # What files take is a rough guess, so a request with files is left to the API.
            raise self._does_not_fit(used, room)

    def _check_whole(self, used: int, room: TokenBudget) -> None:
        """Raise ContextExceededError if the whole conversation is longer than the window. Some servers only cut it."""
        if used > room.window and not any(map(files_in, self._messages())):
            name = self._model.provider.name
            raise ContextExceededError(
                f"the conversation has {used:,} tokens and {name} takes {room.window:,}: {WHOLE}"
            )

    async def _clear(self, tail: int | None, least: float = 0) -> None:
        """Clear the results before the newest messages, or all (`tail` is None), if that saves at least so much."""
        found = clearing(self._messages(), tail)
        if not found.count or self.meter.scaled(found.tokens) < least:
            return
        await self._record.append(ResultsClearedEntry(found.kept, found.tokens, found.count))
        self._view_changed()

    def _view_changed(self) -> None:
        self.meter.forget()
        self._model.offer_tools()

    def _does_not_fit(self, used: int, room: TokenBudget) -> ContextExceededError:
        name = self._model.provider.name
        if room.fixed > room.most // 2:
            advice = f"the system prompt and the tools alone take {room.fixed:,}; give the agent fewer tools"
        else:
            advice = "the newest messages alone are too long; send less at once"
        return ContextExceededError(
            f"the conversation has {used:,} tokens and {name} takes {room.most:,} beside a reply, even after a "
            f"compaction: {advice}, or choose a model with a larger context window"
        )

    async def after_refusal(self, error: ContextExceededError) -> None:
        """Compact because the API refused a request as too long. Raise the error if that cannot help."""
        used, known = self.tokens(), self._window
        # What the API says counts. If it names no number, the window is smaller than what was sent.
        self._window = error.window or min(self._known_window() or used, int(used * 0.9))
        try:
            await self._give_way(error, used)
        finally:
            if error.status == 413 and not error.window:  # too many bytes, which says nothing of the next tokens
                self._window = known

    async def _give_way(self, error: ContextExceededError, used: int) -> None:
        """Compact, or clear results. Raise the error if that does not help."""
        if self._model.agent.compaction is None or self._futile >= MAX_FUTILE:
            raise error
        await self._record.load()
        try:
            await self.compact("too_long")
        except ConversationError:
            await self._clear(None)
            if self.tokens() >= used:
                raise error from None

    # The compaction

    def _messages(self) -> list[Message]:
        """Return the messages that are sent, without the summary."""
        history = self._record.history
        return history.shown()[0 if history.summary is None else 1 :]

    async def compact(self, reason: CompactionReason, focus: str = "") -> Compacted:
        """Replace all but the newest messages by a summary. Raise ConversationError if there is nothing to replace."""
        from outrider.runtime.summary import summary_message  # most conversations are short

        agent, history = self._model.agent, self._record.history
        before = self.tokens()
        room = self._room() or TokenBudget(max(before * 2, 8_000), before // 4, 0, self._policy, is_guess=True)
        messages, former = self._messages(), history.summary
        tail = room.tail if reason != "manual" else min(room.tail, sum(map(message_tokens, messages)) // 4)
        kept = kept_messages(messages, tail)
        if kept == len(messages):
            raise ConversationError("there is nothing to compact: the conversation has only its newest messages")
        if agent.hooks.before_compaction:
            await self._ask_hooks(reason, focus)
        old, new = messages[: len(messages) - kept], messages[len(messages) - kept :]
        self._record.emit(CompactionStarted(reason, before))
        text, usage, model = await self._summary(room, old, focus)
        lasting = {tool.name: tool.lasting for tool in self._model.tools.known.values() if tool.lasting}
        summary = summary_message(text, former, old, lasting, room.summary, small=room.is_small)
        after = self._tokens_after(before, [summary, *new])
        await self._record.append(CompactionEntry(summary, kept, reason, before, after, usage, model))
        self._view_changed()
        self._futile = self._futile + 1 if before - after < LEAST_SAVING * room.window else 0
        return Compacted(reason, before, after, summary.text, usage, self._record.state.seq or None)

    async def _ask_hooks(self, reason: CompactionReason, focus: str) -> None:
        """Ask the hooks. Raises ConversationError if one prevents the compaction."""
        event = BeforeCompaction(session=self._record.id, cwd=self._cwd, reason=reason, focus=focus)
        wanted = await run_hooks(
            self._model.agent.hooks.before_compaction, event, lambda problem: self._record.emit(Notice(problem))
        )
        if wanted.block:
            raise ConversationError(f"a hook prevents the compaction: {wanted.block}")

    def _tokens_after(self, before: int, messages: Sequence[Message]) -> int:
        """Return the tokens of a request with these messages, in the measure in which it has `before` tokens now."""
        fixed = sum(self._fixed())
        now = fixed + sum(map(message_tokens, self._record.history.shown()))
        then = fixed + tool_tokens(self._model.tools.specs_to_come) + sum(map(message_tokens, messages))
        return round(before * then / max(1, now))

    async def _summary(
        self, room: TokenBudget, messages: Sequence[Message], focus: str
    ) -> tuple[str, Usage | None, str]:
        """Return a summary, its usage and its model. Without a model's summary, one is made from the messages."""
        from outrider.runtime.summary import request_text, summary_without_model

        used = Usage()
        ask = request_text(room.summary, focus)
        # The tools are there for the prompt cache, and some APIs insist on them. A small model would call them.
        keeps_tools = not (room.is_small and getattr(self._model.provider, "is_local", False))
        for sent, longest in self._shorter_and_shorter(room, self.meter.scaled(estimated_tokens(ask))):
            try:
                for choice in (None, "none") if keeps_tools else (None,):
                    reply = await self._ask(sent, ask, choice, longest, tools=keeps_tools)
                    used += reply.usage
                    if text := reply.message.text.strip():
                        return text, used, self._model.provider.name
            except ContextExceededError:
                continue
            except RequestRefusedError:
                break
        text = summary_without_model(self._record.history.summary, messages, room.summary)
        return text, used if used != Usage() else None, ""

    def _shorter_and_shorter(self, room: TokenBudget, asking: int) -> Iterator[tuple[Sequence[Message], int | None]]:
        """Yield what the request for a summary may send: all, with results cleared, and without the oldest messages.

        The first one extends the request before it, so that the prompt cache is used. If it leaves less room than other
        replies have, the second item is what is left for the summary.
        """
        history = self._record.history
        left = room.window - self.tokens() - asking
        if left >= min(room.reply, 2 * room.summary):
            yield history.sendable(), None if left >= room.reply else left
        head = [history.summary] if history.summary is not None else []
        rest = [cleared(message) for message in self._messages()]
        while rest:
            size = sum(self._fixed()) + sum(map(message_tokens, [*head, *rest]))
            if self.meter.scaled(size) + asking <= room.most:
                yield repair([*head, *rest]), None
            half = next((cut for cut in cuts(rest) if cut >= max(1, len(rest) // 2)), len(rest))
            rest = rest[half:]

    async def _ask(
        self, messages: Sequence[Message], ask: str, tool_choice: str | None, max_tokens: int | None, *, tools: bool
    ) -> Reply:
        """Request a summary."""
        settings = self.bounded(self._model.agent.settings.after_first)
        if tool_choice and self._model.tools.specs:
            settings = msgspec.structs.replace(settings, tool_choice=tool_choice)
        if max_tokens:
            settings = msgspec.structs.replace(settings, max_tokens=max_tokens)
        return await self._model.aside(messages, ask, settings, tools=tools)
