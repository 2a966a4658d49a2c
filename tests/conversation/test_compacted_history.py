"""Compacted histories: whatever is cut or cleared, what is sent is sound, and the history stays whole."""

from __future__ import annotations

from typing import Literal, TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.conversation.history import UNANSWERED, History, repair, violations
from outrider.conversation.messages import Message, TextBlock, ToolResultBlock, ToolUseBlock
from outrider.conversation.store import MemoryStore
from outrider.conversation.view import WORTH_CLEARING, cleared, cuts
from outrider.providers.base import Request
from outrider.runtime.token_budget import clearing, kept_messages
from tests.adapters import ALL, Case, each_at_length
from tests.conversation.test_history import messages
from tests.lengths import examples

SUMMARY = Message.user("## Goal\nGo on.")
LONG = "a long result " * 40

Step: TypeAlias = Message | tuple[Literal["compact", "clear"], int]
steps: st.SearchStrategy[list[Step]] = st.lists(
    messages | st.tuples(st.sampled_from(["compact", "clear"]), st.integers(0, 12)),  # type: ignore[arg-type]
    max_size=14,
)


@st.composite
def exchanges(draw: st.DrawFn) -> list[Message]:
    """A conversation as sessions have them: prompts, calls with results, answers. Calls may be open at its end."""
    found: list[Message] = []
    for turn in range(draw(st.integers(0, 6))):
        found.append(Message.user(f"prompt {turn}"))
        for round_ in range(draw(st.integers(0, 3))):
            ids = [f"c{turn}{round_}{index}" for index in range(draw(st.integers(1, 3)))]
            found.append(Message.assistant("Looking.", *(ToolUseBlock(each, "look", {}) for each in ids)))
            text = draw(st.sampled_from(["short", LONG]))
            found.append(Message.user(*(ToolResultBlock(each, (TextBlock(text),)) for each in ids)))
        found.append(Message.assistant(f"answer {turn}"))
    return found[: draw(st.integers(0, len(found)))]


def played(history: History, done: list[Step]) -> list[Message]:
    """Play the steps, and return the messages among them."""
    added: list[Message] = []
    for step in done:
        if isinstance(step, Message):
            history.append(step)
            added.append(step)
        elif step[0] == "compact":
            history.compact(SUMMARY, min(step[1], len(added)))
        else:
            history.clear_results(min(step[1], len(added)))
    return added


@given(steps)
def test_whatever_is_cut_or_cleared_what_is_sent_is_sound_and_nothing_is_lost(done: list[Step]) -> None:
    history = History()
    added = played(history, done)
    assert violations(history.sendable()) == []
    assert history.messages == added


@given(steps, steps)
def test_what_was_sent_is_not_changed_by_what_follows(first: list[Step], second: list[Step]) -> None:
    history = History()
    played(history, first)
    view = history.sendable()
    before = list(view)
    played(history, [step for step in second if isinstance(step, Message)])
    assert list(view) == before


@given(exchanges())
def test_no_cut_parts_a_call_from_its_result(conversation: list[Message]) -> None:
    for cut in cuts(conversation):
        rest = conversation[cut:]
        calls = {call.id for message in rest for call in message.tool_calls}
        results = {result.tool_use_id for message in rest for result in message.tool_results}
        assert results <= calls
        waits = bool(conversation) and bool(conversation[-1].tool_calls)
        assert str(repair([SUMMARY, *rest])).count(UNANSWERED) == (len(conversation[-1].tool_calls) if waits else 0)


@given(exchanges(), st.integers(0, 2_000))
def test_what_is_kept_begins_at_a_cut_and_has_what_waits_for_a_reply(conversation: list[Message], room: int) -> None:
    kept = kept_messages(conversation, room)
    assert len(conversation) - kept in cuts(conversation)
    if conversation and (conversation[-1].role == "user" or conversation[-1].tool_calls):
        assert kept > 0


@given(exchanges(), st.integers(0, 2_000))
def test_clearing_leaves_a_line_with_the_reference_of_each_long_result(conversation: list[Message], room: int) -> None:
    found = clearing(conversation, room)
    history = History(conversation)
    history.clear_results(found.kept)
    shown = history.shown()
    lines = [result for message in shown for result in message.tool_results if result.text.startswith("[Cleared:")]
    assert len(lines) == found.count
    for line in lines:
        assert f'Recall(reference="{line.tool_use_id}")' in line.text
    assert shown[len(conversation) - found.kept :] == conversation[len(conversation) - found.kept :]
    assert history.messages == conversation


@given(messages)
def test_clearing_twice_changes_nothing(message: Message) -> None:
    once = cleared(message)
    assert cleared(once) is once
    assert all(len(result.text) < WORTH_CLEARING + 1000 for result in once.tool_results)


@given(steps, st.integers(0, 14), st.integers(0, 14))
def test_a_history_whose_beginning_comes_late_sends_the_same(done: list[Step], split: int, kept: int) -> None:
    added = [step for step in done if isinstance(step, Message)]
    split = min(split, len(added))
    tail = added[split:]
    kept = min(kept, len(tail))
    whole, late = History(added), History(tail, lambda: added[:split])
    for history in (whole, late):
        history.compact(SUMMARY, kept)
    assert late.is_ready
    assert list(late.sendable()) == list(whole.sendable())
    assert not late.is_loaded
    assert late.late_messages[-1:] == added[-1:]
    more = Message.user("more")
    for history in (whole, late):
        history.append(more)
    assert late.messages == [*added, more]
    assert list(late.sendable()) == list(whole.sendable())


def test_ids_stay_unique_in_the_whole_conversation() -> None:
    call = Message.assistant(ToolUseBlock("call_1", "look", {}))
    first = [Message.user("go"), call, Message.user(ToolResultBlock("call_1", (TextBlock("seen"),)))]
    history = History(first)
    history.compact(SUMMARY, 0)
    assert history.normalized(call).tool_calls[0].id == "call_1-2"
    unread = History([], lambda: first)
    unread.compact(SUMMARY, 0)
    assert unread.normalized(call).tool_calls[0].id not in ("call_1", "call_1-2"), "what was used is not known"
    random = Message.assistant(ToolUseBlock("toolu_01A09q90qw90lq917835lq9", "look", {}))
    assert unread.normalized(random) == random
    assert not unread.is_loaded
    unread.load()
    assert unread.normalized(call).tool_calls[0].id == "call_1-2"


@each_at_length(*ALL)
@settings(max_examples=examples(40))
@given(exchanges(), st.integers(0, 12), st.integers(0, 12))
def test_every_adapter_renders_what_is_left(
    case: Case, conversation: list[Message], kept: int, cleared_before: int
) -> None:
    history = History(conversation)
    history.clear_results(min(cleared_before, len(conversation)))
    history.compact(SUMMARY, min(kept, len(conversation)))
    body = case.adapter().render(Request(history.sendable(), MemoryStore()))
    assert b"Go on." in body
