"""The sendable form of a history: whatever goes in, what comes out satisfies the invariants."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.conversation.history import UNANSWERED, History, repair, violations
from outrider.conversation.messages import (
    AttachmentBlock,
    Block,
    Message,
    ProviderState,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)

# Few ids, so that calls and results meet, repeat and miss each other; surrogates and blanks among the texts.
ids = st.sampled_from(["a", "b", "c", "a-2", "", "\ud800"])
texts = st.one_of(st.sampled_from(["", " ", "\n", "hi", "é", "\udfff", "\ud83d\ude00"]), st.text(max_size=5))
states = st.none() | st.just(ProviderState("p", "m", {"signature": "s"}))
attachments = st.builds(AttachmentBlock, texts, texts, st.just(3), texts, texts)
blocks: st.SearchStrategy[Block] = st.one_of(
    st.builds(TextBlock, texts),
    st.builds(ThinkingBlock, texts, states),
    st.builds(ToolUseBlock, ids, texts, st.dictionaries(texts, texts, max_size=2), st.none() | texts),
    st.builds(ToolResultBlock, ids, st.lists(st.builds(TextBlock, texts) | attachments, max_size=2).map(tuple)),
    attachments,
)
messages = st.builds(Message, st.sampled_from(["user", "assistant"]), st.lists(blocks, max_size=5).map(tuple))
histories = st.lists(messages, max_size=8)


@given(histories)
def test_whatever_goes_in_what_comes_out_satisfies_the_invariants(history: list[Message]) -> None:
    repaired = repair(history)
    assert violations(repaired) == []
    msgspec.json.encode(repaired)


@given(histories)
def test_repairing_twice_changes_nothing(history: list[Message]) -> None:
    once = repair(history)
    twice = repair(once)
    assert twice == once
    assert all(a is b for a, b in zip(once, twice, strict=True)), "a sound message is passed on as the same object"


@given(histories)
def test_the_history_itself_is_not_changed(history: list[Message]) -> None:
    before = list(history)
    kept = History(history)
    kept.sendable()
    assert history == before
    assert kept.messages == before


@given(histories)
def test_growing_step_by_step_equals_repairing_at_once_and_earlier_requests_keep_their_view(
    history: list[Message],
) -> None:
    grown = History()
    requests = []
    for message in history:
        grown.append(message)
        sendable = grown.sendable()
        requests.append((sendable, list(sendable)))
    assert list(grown.sendable()) == repair(history)
    for view, seen in requests:
        assert list(view) == seen


@given(histories)
def test_no_text_of_a_user_or_assistant_is_lost(history: list[Message]) -> None:
    def words(of: list[Message]) -> list[str]:
        found = [block.text for message in of for block in message.content if isinstance(block, TextBlock)]
        return sorted(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for text in found)

    sent = words(repair(history))
    for text in words(history):
        if text.strip():
            sent.remove(text)


def call(call_id: str) -> ToolUseBlock:
    return ToolUseBlock(call_id, "Read", {})


def result(call_id: str, text: str = "ok") -> ToolResultBlock:
    return ToolResultBlock(call_id, (TextBlock(text),))


def test_a_sound_history_is_passed_on_as_the_same_objects() -> None:
    sound = [
        Message.user("go"),
        Message.assistant("I'll look.", call("a"), call("b")),
        Message.user(result("a"), result("b"), "and hurry"),
        Message.assistant("Done."),
    ]
    assert all(a is b for a, b in zip(repair(sound), sound, strict=True))


def test_a_call_without_a_result_is_answered_with_an_error() -> None:
    *_, answer = repair([Message.user("go"), Message.assistant(call("a"))])
    assert answer == Message.user(ToolResultBlock("a", (TextBlock(UNANSWERED),), is_error=True))


def test_a_gap_is_filled_beside_the_results_that_are_there() -> None:
    repaired = repair([Message.user("go"), Message.assistant(call("a"), call("b")), Message.user(result("b"), "x")])
    results = repaired[2].tool_results
    assert [(r.tool_use_id, r.is_error) for r in results] == [("a", True), ("b", False)]
    assert repaired[2].content[2] == TextBlock("x")


def test_results_in_the_wrong_order_and_behind_text_come_first_in_call_order() -> None:
    repaired = repair(
        [Message.user("go"), Message.assistant(call("a"), call("b")), Message.user("hm", result("b"), result("a"))]
    )
    assert repaired[2] == Message.user(result("a"), result("b"), "hm")


def test_a_result_that_comes_one_message_late_still_answers_its_call() -> None:
    repaired = repair(
        [Message.user("go"), Message.assistant(call("a")), Message.user("wait"), Message.user(result("a"))]
    )
    assert repaired[2] == Message.user(result("a"), "wait")


def test_of_two_results_for_one_call_the_first_counts() -> None:
    repaired = repair([Message.user("go"), Message.assistant(call("a")), Message.user(result("a"), result("a", "no"))])
    assert repaired[2] == Message.user(result("a"))


def test_a_result_without_its_call_is_left_out() -> None:
    assert repair([Message.user("go", result("zz"))]) == [Message.user("go")]


def test_an_id_that_was_used_before_is_replaced_in_call_and_result() -> None:
    turn = [Message.assistant(call("a")), Message.user(result("a"))]
    repaired = repair([Message.user("go"), *turn, *turn])
    assert [m.tool_calls[0].id for m in repaired if m.tool_calls] == ["a", "a-2"]
    assert [m.tool_results[0].tool_use_id for m in repaired if m.tool_results] == ["a", "a-2"]


def test_a_thinking_block_keeps_its_state_and_its_place() -> None:
    thinking = ThinkingBlock("", ProviderState("anthropic", "m", {"data": "…"}))
    reply = Message.assistant(thinking, "hello")
    assert repair([Message.user("go"), reply])[1] is reply


def test_pending_calls_are_those_that_nothing_answered_yet() -> None:
    history = History([Message.user("go"), Message.assistant(call("a"), call("b")), Message.user(result("b"))])
    assert [pending.id for pending in history.pending] == ["a"]
    assert History([Message.user("go"), Message.assistant("no calls")]).pending == ()


@given(st.integers(0, 12), st.slices(10))
def test_a_view_is_sliced_as_a_list_is(length: int, part: slice) -> None:
    history = History(Message.user(str(n)) if n % 2 == 0 else Message.assistant(str(n)) for n in range(length))
    view = history.sendable()
    history.append(Message.user("later") if length % 2 == 0 else Message.assistant("later"))
    assert list(view[part]) == list(view)[part]


def test_an_index_beyond_a_view_is_an_index_error() -> None:
    view = History([Message.user("a"), Message.assistant("b")]).sendable()
    assert (view[-2].text, view[1].text, view[-3:-4:-1]) == ("a", "b", [])
    for index in (2, -3):
        with pytest.raises(IndexError):
            view[index]


CALL = Message.assistant(ToolUseBlock("a", "read", {}))
RESULT = ToolResultBlock("a", (TextBlock("x"),))


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([Message.assistant("b")], "the first message is not the user's"),
        ([Message.user("a"), Message.user("b")], "message 2 has the role of the message before it"),
        ([Message.user(" ")], "message 1 has blank, misplaced or unencodable content"),
        ([Message.user("a"), CALL], "the calls of message 2 are not answered one by one in the next message"),
        ([Message.user(RESULT)], "message 1 has results without calls"),
        ([Message.user("a"), CALL, Message.user("b", RESULT)], "the results of message 3 do not come first"),
        ([Message.user("a"), *[CALL, Message.user(RESULT)] * 2], "the call id 'a' is used 2 times"),
    ],
)
def test_each_violation_is_named(found: list[Message], said: str) -> None:
    assert said in violations(found)
    assert violations(repair(found)) == []


def test_what_was_added_while_the_earlier_messages_were_loaded_stays() -> None:
    said = [Message.user(f"question {number}") for number in range(5)]
    history = History(said[2:3], earlier=lambda: said[:2])
    assert not history.is_ready
    tail = history.tail
    loaded, loaded_again = history.loaded(tail), history.loaded(tail)
    history.append(said[3])
    history.replace_with(loaded, len(tail))
    history.append(said[4])
    history.replace_with(loaded_again, len(tail))  # another one was quicker
    assert [*history.messages] == said


def test_what_is_shown_is_loaded_first() -> None:
    history = History([Message.user("new")], earlier=lambda: [Message.user("old")])
    assert [message.text for message in history.shown()] == ["old", "new"]
