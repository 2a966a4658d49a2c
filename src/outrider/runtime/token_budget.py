"""The tokens of a context window, divided by a policy, and what shortening a conversation would save."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from outrider.conversation.messages import Message
from outrider.conversation.view import cleared, cuts
from outrider.providers.catalogue.windows import SMALL_WINDOW, message_tokens
from outrider.runtime.compaction import Compaction

LONGEST_TAIL = 20_000
"""Tokens of the newest messages that a compaction keeps, at most."""
WORTH_CLEARING = 0.2
"""The share of the window that a clearing must save: it makes the prompt cache invalid from there on."""
SUMMARY_SHARE, SMALL_SUMMARY_SHARE = 0.08, 0.12
"""The share of the window that a summary has, and that of a small window, where the first would be a few sentences."""
LONGEST_SUMMARY = 8_000
"""Tokens of a summary, at most."""
ASKING = 400
"""Tokens of the text that asks for a summary."""
LARGEST_STEP = 15_000
"""Tokens that the results of one turn usually have, at most."""


class TokenBudget(msgspec.Struct, frozen=True):
    """The tokens of a context window, divided by a policy."""

    window: int
    reply: int
    """Tokens that the reply needs."""
    fixed: int
    """Tokens of the system prompt and the tools."""
    policy: Compaction
    is_guess: bool = False
    """Whether the window is not known."""

    @property
    def most(self) -> int:
        """The longest request that leaves room for the reply."""
        return self.window - self.reply

    @property
    def full(self) -> float:
        """The length of a request from which the conversation is compacted."""
        if self.policy.threshold is None:
            return math.inf
        # The results of one turn may exceed it, and the request for the summary must still fit with its reply.
        asking = ASKING + min(self.window // 10, LARGEST_STEP) + 2 * self.summary
        return min(self.policy.threshold * self.window, self.most, self.window - asking)

    @property
    def clear_at(self) -> float:
        """The length of a request from which old results may be cleared."""
        share = self.policy.clear_threshold
        return math.inf if share is None else min(share * self.window, self.most)

    @property
    def messages(self) -> int:
        """Tokens for all messages."""
        return max(0, int(min(self.full, self.most)) - self.fixed)

    @property
    def tail(self) -> int:
        """Tokens of the newest messages that stay whole."""
        return min(LONGEST_TAIL, int(self.messages * self.policy.tail_share))

    @property
    def summary(self) -> int:
        """Tokens of the summary, at most."""
        share = SMALL_SUMMARY_SHARE if self.is_small else SUMMARY_SHARE
        return max(0, min(LONGEST_SUMMARY, int(self.window * share), (self.most - self.fixed) // 4))

    @property
    def is_small(self) -> bool:
        """Whether the window is that of a small model, whose summaries lose what the user wants."""
        return self.window < SMALL_WINDOW and not self.is_guess


def kept_messages(messages: Sequence[Message], tokens: int) -> int:
    """Return how many of the newest messages have at most this many tokens, cut where no call loses its result.

    A message to which the model has not replied yet is kept even if it is longer, with the call that it answers.
    """
    sound = cuts(messages)
    best = sound[-1]
    if messages and messages[-1].role == "user":
        best = max((cut for cut in sound if cut < len(messages)), default=0)
    size, wanted = sum(map(message_tokens, messages[best:])), set(sound)
    for index in range(best - 1, -1, -1):
        size += message_tokens(messages[index])
        if size > tokens:
            break
        if index in wanted:
            best = index
    return len(messages) - best


class Clearing(msgspec.Struct, frozen=True):
    """What clearing old results would do."""

    kept: int
    """How many of the newest messages keep their results."""
    count: int
    """How many results would be cleared."""
    tokens: int
    """The tokens that it would save."""


def clearing(messages: Sequence[Message], tokens: int | None) -> Clearing:
    """Return what clearing would save if the newest messages, up to this many tokens, keep their results.

    None clears all results.
    """
    kept = 0 if tokens is None else kept_messages(messages, tokens)
    saved = count = 0
    for message in messages[: len(messages) - kept]:
        shorter = cleared(message)
        if shorter is not message:
            pairs = zip(shorter.tool_results, message.tool_results, strict=True)
            count += sum(new is not old for new, old in pairs)
            saved += message_tokens(message) - message_tokens(shorter)
    return Clearing(kept, count, saved)
