"""Why a turn was dear: which part of its request changed, and what that cost in cache reads."""

from __future__ import annotations

from collections.abc import Iterable
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.conversation.messages import Message
from outrider.conversation.usage import Usage
from outrider.log.cache_losses import CacheLoss, cache_losses, has_usage, lost_tokens
from outrider.log.entries import (
    CompactionEntry,
    Entry,
    GoalChecked,
    MessageEntry,
    Record,
    Requested,
    ResultsClearedEntry,
    RewindEntry,
)
from outrider.log.log import Log
from outrider.log.rows import encode
from outrider.providers.base import ToolSpec

MODEL = "anthropic/claude-sonnet-4-5"
FIRST = Requested(system="a", tools=(ToolSpec("look", "Look.", {}),), settings={}, reminder="")


def reply(usage: Usage, model: str = MODEL) -> MessageEntry:
    return MessageEntry(Message.assistant("Yes."), usage, "end", model)


CACHED = reply(Usage(20_000, 10, 15_000, 5_000))
COLD = reply(Usage(21_000, 10, 0, 21_000))
WARM = reply(Usage(21_000, 10, 20_000, 1_000))


def losses_of(entries: Iterable[Entry], pause: float = 10.0) -> list[CacheLoss]:
    return cache_losses([Record(seq, seq * pause, entry) for seq, entry in enumerate(entries, 1)])


@pytest.mark.parametrize(
    ("between", "cause", "detail"),
    [
        ([Requested(system="b")], "system", "the system prompt changed"),
        ([Requested(tools=(ToolSpec("look", "Stare.", {}),))], "tools", "the tools changed: look"),
        ([Requested(tools=(*FIRST.tools, ToolSpec("go", "", {})))], "tools", "the tools changed: +go"),  # type: ignore[misc]
        ([Requested(tools=())], "tools", "the tools changed: -look"),
        ([Requested(settings={"effort": "high"})], "settings", "the settings changed"),
        ([Requested(system="b", settings={"effort": "high"})], "system", "the system prompt changed"),
        ([CompactionEntry(Message.user("It was long."), 4)], "compaction", "the newest 4 messages are sent"),
        ([ResultsClearedEntry(6, 100, 3)], "cleared results", "3 old results before the newest 6 messages"),
        ([RewindEntry(2, 3)], "rewind", "went back to message 2"),
        ([Requested(reminder="It is your last turn.")], "provider", "nothing changed"),
        ([], "provider", "nothing changed"),
    ],
)
def test_the_part_that_changed_is_named(between: list[Entry], cause: str, detail: str) -> None:
    (loss,) = losses_of([FIRST, CACHED, *between, COLD])
    assert (loss.cause, loss.turn, loss.tokens) == (cause, 2, 20_000)
    assert detail in loss.detail
    assert losses_of([FIRST, CACHED, *between, WARM]) == []  # where the cache held, nothing was lost


def test_another_model_has_another_cache() -> None:
    (loss,) = losses_of([FIRST, CACHED, Requested(system="b"), reply(Usage(21_000), "openai/gpt-5")])
    assert (loss.cause, loss.detail) == ("model", f"the model changed from {MODEL} to openai/gpt-5")


def test_a_long_pause_lets_it_expire() -> None:
    (loss,) = losses_of([FIRST, CACHED, COLD], pause=720.0)
    assert (loss.cause, loss.detail) == ("time", "the request before was 12 min earlier")


def test_the_cost_is_what_was_paid_more_than_for_a_read() -> None:
    (loss,) = losses_of([FIRST, CACHED, Requested(system="b"), COLD])
    assert loss.cost == pytest.approx(20_000 * (3.75 - 0.30) / 1e6)
    assert str(loss) == "20k cached tokens were paid again (+$0.0690): the system prompt changed"
    (unpriced,) = losses_of(
        [FIRST, reply(CACHED.usage or Usage(), "ollama/q"), reply(COLD.usage or Usage(), "ollama/q")]
    )
    assert unpriced.cost is None


tokens = st.integers(0, 100_000)


@given(tokens, tokens, tokens, tokens)
def test_no_more_is_lost_than_was_cached_or_was_paid(cached: int, written: int, paid: int, still: int) -> None:
    before, now = Usage(cached + written, 0, cached, written), Usage(paid + still, 0, still)
    lost = lost_tokens(before, now)
    assert 0 <= lost <= min(cached + written, paid)
    assert lost == 0 or lost >= 1024
    assert lost_tokens(before, Usage(cached + written + paid, 0, cached + written)) == 0


QUIET = GoalChecked("x", False)
ENTRIES = st.sampled_from(
    [CACHED, COLD, WARM, Requested(system="b"), Requested(tools=()), MessageEntry(Message.user("Go.")), QUIET]
)


@given(st.lists(ENTRIES, max_size=20), st.integers(0, 2))
def test_one_reply_has_the_loss_that_it_has_in_the_whole_session(entries: list[Entry], quiet: int) -> None:
    """Also far from the reply before, with many entries in between."""
    spread = [FIRST, *(part for each in entries for part in (each, *[QUIET] * (quiet * 60)))]
    with TemporaryDirectory() as folder, Log(folder) as log:
        session = log.add("", [(seq, 10.0 * seq, *encode(entry)) for seq, entry in enumerate(spread, 2)], ())
        whole = {loss.seq: (loss.cause, loss.detail, loss.tokens, loss.cost) for loss in log.cache_losses(session)}
        for record in (each for each in log.records(session) if has_usage(each.entry)):
            found = log.cache_loss(session, record.seq)
            assert (found and (found.cause, found.detail, found.tokens, found.cost)) == whole.get(record.seq)
