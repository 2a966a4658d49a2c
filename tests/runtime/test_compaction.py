"""Compaction: what is sent shrinks, the history stays whole, and the log carries both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from outrider import Agent, Compaction, Limits, Log, Session, tool
from outrider.conversation.history import violations
from outrider.conversation.messages import Message, TextBlock, ToolUseBlock
from outrider.errors import (
    ContextExceededError,
    ConversationError,
    RequestRefusedError,
    SessionCancelledError,
    UnavailableError,
)
from outrider.events import Compacted, CompactionStarted, Event, ResultsCleared, Retrying
from outrider.log.entries import CompactionEntry
from outrider.providers.base import Request
from outrider.providers.catalogue.windows import SMALL_WINDOW, message_tokens
from outrider.runtime.answer_schema import Answer, AnswerSchema
from outrider.runtime.retry import Retry
from outrider.runtime.summary import WORDS, newest_words, summary_message, summary_without_model
from outrider.testing import Delay, ScriptedModel, Step, call

SUMMARY = "## Goal\nCount the files."


def look(number: int) -> str:
    """Look at a file."""
    return f"file {number}: " + "words of it " * 170


def is_summary_request(request: Request) -> bool:
    return "Write a summary" in request.reminder


def working(turns: int) -> Callable[[Request], Step]:
    """A model that looks at one file a turn, and writes summaries."""
    done = 0

    def step(request: Request) -> Step:
        nonlocal done
        if is_summary_request(request):
            return SUMMARY
        done += 1
        return call("look", number=done) if done <= turns else "Done."

    return step


def sent_tokens(request: Request) -> int:
    return sum(map(message_tokens, request.messages))


def session_with(model: ScriptedModel, seen: list[Event] | None = None, clear_at: float | None = None) -> Session:
    limits, compaction = Limits(max_turns=None, max_repeats=None), Compaction(clear_threshold=clear_at)
    agent = Agent(model, tools=[look], limits=limits, compaction=compaction)
    return Session(agent, observer=seen.append if seen is not None else None)


def test_a_full_window_is_compacted_and_the_run_goes_on() -> None:
    seen: list[Event] = []
    model = ScriptedModel(working(30), window=8_000)
    session = session_with(model, seen)
    result = asyncio.run(session.run("Count the files."))
    assert result.status == "done"
    assert any(isinstance(event, Compacted) for event in seen)
    assert max(map(sent_tokens, model.requests)) < 8_000
    assert len(session.messages) == 62  # the prompt, 30 calls with results, and the answer
    for request in model.requests:
        assert violations(request.messages) == []
    newest = model.requests[-1].messages[0].text
    assert SUMMARY in newest
    assert "> Count the files." in newest


def test_events_come_in_pairs_with_what_was_saved() -> None:
    seen: list[Event] = []
    asyncio.run(session_with(ScriptedModel(working(12), window=8_000), seen).run("Count the files."))
    events = [event for event in seen if isinstance(event, CompactionStarted | Compacted)]
    started, compacted = events[:2]
    assert isinstance(started, CompactionStarted)
    assert isinstance(compacted, Compacted)
    assert started.reason == compacted.reason == "threshold"
    assert compacted.tokens_before == started.tokens > compacted.tokens_after


def test_without_a_known_window_nothing_is_compacted() -> None:
    seen: list[Event] = []
    asyncio.run(session_with(ScriptedModel(working(30)), seen).run("Count the files."))
    assert not any(isinstance(event, Compacted | ResultsCleared) for event in seen)


def test_a_person_can_compact_with_a_focus() -> None:
    model = ScriptedModel(working(3), window=200_000)
    session = session_with(model)
    asyncio.run(session.run("Count the files."))
    compacted = asyncio.run(session.compact("the names of the files"))
    assert compacted.reason == "manual"
    assert "the names of the files" in model.requests[-1].reminder
    assert session.context.used == compacted.tokens_after < compacted.tokens_before
    assert len(session.messages) == 8


def test_the_request_for_the_summary_extends_the_one_before_it() -> None:
    for window in (8_000, 40_000):
        model = ScriptedModel(working(30 if window < 10_000 else 200), window=window)
        model.is_local = True  # type: ignore[attr-defined]
        asyncio.run(session_with(model).run("Count the files."))
        index = next(index for index, request in enumerate(model.requests) if is_summary_request(request))
        before, asked = model.requests[index - 1], model.requests[index]
        assert list(asked.messages[: len(before.messages)]) == list(before.messages)
        assert (asked.system, asked.settings) == (before.system, before.settings)
        assert asked.tools == (() if window < SMALL_WINDOW else before.tools), "a small model would call them"


def test_in_a_small_window_the_words_of_the_user_come_first_and_whole() -> None:
    wish = "Count the files, and never touch those of Mr. Okoro. " * 12
    for window in (8_000, 40_000):
        model = ScriptedModel(working(30 if window < 10_000 else 200), window=window)
        session = session_with(model)
        asyncio.run(session.run(wish))
        assert session.history.summary
        first, *_ = blocks = [block.text for block in session.history.summary.content if isinstance(block, TextBlock)]
        is_small = window < SMALL_WINDOW
        assert first.startswith(WORDS) is is_small
        assert any(wish.strip() in block for block in blocks)
        assert SUMMARY in session.history.summary.text


def test_there_is_nothing_to_compact_in_a_new_session() -> None:
    session = Agent(ScriptedModel(["Hello."])).session()
    with pytest.raises(ConversationError, match="nothing to compact"):
        asyncio.run(session.compact())


def test_a_resumed_session_sends_the_summary_without_reading_the_rest(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        agent = Agent(ScriptedModel(working(120), window=8_000), tools=[look], limits=Limits(max_turns=None))
        with Session.open(log, agent=agent) as session:
            asyncio.run(session.run("Count the files."))
            name, before, sent = session.id, session.messages, list(session.history.sendable())
        again = ScriptedModel(["Still here."], window=8_000)
        log.messages = None  # type: ignore[method-assign, assignment]
        with Session.open(log, name, Agent(again, tools=[look])) as session:
            result = asyncio.run(session.run("Go on."))
            assert result.status == "done"
            assert list(again.requests[0].messages[: len(sent)]) == sent
            assert again.requests[0].messages[-1] == Message.user("Go on.")
            del log.messages
            assert session.messages[: len(before)] == before


def test_the_summary_counts_as_usage(tmp_path: Path) -> None:
    with Log(tmp_path) as log, Session.open(log, agent=Agent(ScriptedModel(["Hi.", "Yes.", SUMMARY]))) as session:
        asyncio.run(session.run("Hello."))
        asyncio.run(session.run("Are you there?"))
        asyncio.run(session.compact())
        entry = [record.entry for record in log.records(session.id)][-1]
        assert isinstance(entry, CompactionEntry)
        assert entry.usage is not None
        assert entry.kept == 1


def test_a_request_that_the_api_finds_too_long_is_sent_again_after_a_compaction() -> None:
    steps = working(20)
    refused = 0

    def step(request: Request) -> Step:
        nonlocal refused
        if len(request.messages) == 15 and not is_summary_request(request):
            refused += 1
            return ContextExceededError("prompt is too long")
        return steps(request)

    seen: list[Event] = []
    session = session_with(ScriptedModel(step), seen)
    assert asyncio.run(session.run("Count the files.")).status == "done"
    assert refused == 1
    compacted = [event for event in seen if isinstance(event, Compacted)]
    assert compacted[0].reason == "too_long"
    assert len(session.messages) == 42


def test_a_second_refusal_ends_the_run_with_the_error() -> None:
    def step(request: Request) -> Step:
        return SUMMARY if is_summary_request(request) else ContextExceededError("prompt is too long")

    session = session_with(ScriptedModel(step))
    for number in range(4):
        session.history.append(Message.user(f"question {number}"))
        session.history.append(Message.assistant("answer " * 100))
    result = asyncio.run(session.run("And now?"))
    assert result.status == "error"
    assert "prompt is too long" in result.error
    assert result.messages[-1].text == "And now?"


def test_a_limit_that_the_api_names_holds_from_then_on() -> None:
    steps = working(40)

    def step(request: Request) -> Step:
        if sent_tokens(request) > 6_000:
            error = ContextExceededError("too long")
            error.window = 6_000
            return error
        return steps(request)

    seen: list[Event] = []
    model = ScriptedModel(step)
    assert asyncio.run(session_with(model, seen).run("Count the files.")).status == "done"
    reasons = [event.reason for event in seen if isinstance(event, Compacted)]
    assert reasons[0] == "too_long"
    assert set(reasons[1:]) == {"threshold"}


def test_a_system_prompt_that_fills_the_window_is_an_error_that_says_so() -> None:
    agent = Agent(ScriptedModel(["Hi."], window=8_000), system="Be brief. " * 4_000)
    result = asyncio.run(agent.run("Hello."))
    assert result.status == "error"
    assert "the system prompt and the tools alone take" in result.error


def test_compactions_that_do_not_help_are_given_up() -> None:
    """The system prompt takes most of the window: there is nearly nothing to save, and the request fits as it is."""
    seen: list[Event] = []

    def step(request: Request) -> Step:
        return SUMMARY if is_summary_request(request) else call("peek", number=len(model.requests))

    def peek(number: int) -> str:
        """Look for a moment."""
        return f"{number} " * 20

    model = ScriptedModel(step, window=8_000)
    agent = Agent(model, tools=[peek], limits=Limits(max_turns=28, max_repeats=None), system="Be brief. " * 2_200)
    result = asyncio.run(Session(agent, observer=seen.append).run("Look."))
    assert result.status == "max_turns"
    assert sum(isinstance(event, Compacted) for event in seen) == 2


def test_a_model_that_only_calls_tools_is_asked_once_more_without_them() -> None:
    def step(request: Request) -> Step:
        if not is_summary_request(request):
            return steps(request)
        return SUMMARY if request.settings.tool_choice == "none" else call("look", number=99)

    steps = working(3)
    model = ScriptedModel(step)
    session = session_with(model)
    asyncio.run(session.run("Count the files."))
    compacted = asyncio.run(session.compact())
    assert SUMMARY in compacted.summary
    assert not any("call_99" in str(message) for message in session.messages)


def test_without_any_summary_the_words_of_the_user_and_the_files_are_kept() -> None:
    def step(request: Request) -> Step:
        return RequestRefusedError("no") if is_summary_request(request) else steps(request)

    def read(path: str) -> str:
        """Read a file."""
        return path * 100

    steps_left: list[Step] = [call("read", path="src/main.py"), "Read."]
    steps = lambda request: steps_left.pop(0)  # noqa: E731
    session = Session(Agent(ScriptedModel(step), tools=[read]))
    asyncio.run(session.run("Read the main file."))
    compacted = asyncio.run(session.compact())
    assert "> Read the main file." in compacted.summary
    assert "- src/main.py" in compacted.summary


def test_a_cancel_during_the_summary_changes_nothing(tmp_path: Path) -> None:
    async def scene() -> None:
        steps: list[Step] = ["Hi.", "Yes.", Delay(3600, SUMMARY)]
        with Log(tmp_path) as log:
            async with Session.open(log, agent=Agent(ScriptedModel(steps))) as session:
                await session.run("Hello.")
                await session.run("Are you there?")
                before = list(session.history.sendable())
                compacting = asyncio.ensure_future(session.compact())
                session.observe(lambda event: None)
                while len(session.provider.requests) < 3:  # type: ignore[attr-defined]
                    await asyncio.sleep(0.01)
                session.cancel()
                with pytest.raises(SessionCancelledError):
                    await compacting
                assert list(session.history.sendable()) == before
                assert not any(isinstance(record.entry, CompactionEntry) for record in log.records(session.id))

    asyncio.run(scene())


def test_old_results_are_cleared_in_large_steps_before_a_summary_is_needed() -> None:
    seen: list[Event] = []
    model = ScriptedModel(working(12), window=8_000)
    session = session_with(model, seen, clear_at=0.6)
    asyncio.run(session.run("Count the files."))
    cleared = [event for event in seen if isinstance(event, ResultsCleared)]
    assert cleared
    assert all(event.tokens >= 0.2 * 8_000 for event in cleared)
    assert not any(isinstance(event, Compacted) for event in seen)
    assert 'Recall(reference="call_1")' in str(model.requests[-1].messages[2])
    assert "words of it" in str(session.messages[2])


def test_below_the_threshold_every_word_is_sent() -> None:
    model = ScriptedModel(working(12), window=8_000)
    session = session_with(model, clear_at=Compaction().clear_threshold)
    asyncio.run(session.run("Count the files."))
    shares = []
    for request in model.requests:
        whole = session.messages[: len(request.messages)]
        share = sum(map(message_tokens, whole)) / 8_000
        if share < 0.6:
            assert list(request.messages) == list(whole)
            shares.append(share)
    assert max(shares) > 0.5
    assert len(shares) < len(model.requests)


def test_the_plan_and_the_words_of_the_user_outlive_two_compactions() -> None:
    @tool(name="Plan")
    def plan(steps: str) -> str:
        """Write down a plan."""
        return f"The plan: {steps}"

    lasting = msgspec.structs.replace(plan, lasting=True)
    script: list[Step] = [call("Plan", steps="count them all"), "Planned.", "Two.", "S one", "Three.", "Four.", "S two"]
    session = Session(Agent(ScriptedModel(script), tools=[lasting]))
    for prompt in ("Count the files in lib, never in tmp.", "And?"):
        asyncio.run(session.run(prompt))
    asyncio.run(session.compact())
    for prompt in ("Go on.", "More."):
        asyncio.run(session.run(prompt))
    summary = asyncio.run(session.compact()).summary
    assert "S two" in summary
    assert "S one" not in summary
    assert "> Count the files in lib, never in tmp." in summary
    assert "The plan: count them all" in summary


def test_text_that_cannot_be_encoded_is_counted() -> None:
    broken = Message.assistant("caf\ud800", ToolUseBlock("c", "look", {"at": "\udfff"}))
    assert message_tokens(broken) > 0
    session = Session(Agent(ScriptedModel(["ok"], window=8_000), system="caf\ud800"), [broken])
    assert session.context.used > 0
    assert asyncio.run(session.run("go")).text == "ok"


async def test_the_parts_of_a_context_are_its_whole_also_where_a_server_counts_little() -> None:
    session = Session(Agent("demo", system="Be brief. " * 400))
    await session.run("Hi")
    usage = session.context
    assert usage.system + usage.tools + usage.files + usage.conversation == usage.used
    assert 0 < usage.system <= usage.used


def test_a_reply_takes_at_most_half_of_the_window_and_a_summary_what_is_left() -> None:
    model = ScriptedModel(working(20), window=8_000)
    session = session_with(model)
    session.agent = session.agent.replace(max_tokens=6_000)
    assert asyncio.run(session.run("Count the files.")).status == "done"
    replies = {request.settings.max_tokens for request in model.requests if not is_summary_request(request)}
    summaries = {request.settings.max_tokens for request in model.requests if is_summary_request(request)}
    assert replies == {4_000}
    assert all(longest and longest < 4_000 for longest in summaries)
    assert summaries


def test_a_prompt_that_fills_the_window_is_an_error_that_says_so() -> None:
    result = asyncio.run(Agent(ScriptedModel(["Hi."], window=8_000)).run("Read this. " * 4_000))
    assert result.status == "error"
    assert "the newest messages alone are too long; send less at once" in result.error


def test_results_are_cleared_if_there_is_nothing_else_to_compact() -> None:
    def step(request: Request) -> Step:
        if sent_tokens(request) > 400:
            error = ContextExceededError("prompt is too long")
            error.window = 100_000  # so all messages are among the newest
            return error
        return call("look", number=1) if len(request.messages) == 1 else "Done."

    seen: list[Event] = []
    model = ScriptedModel(step)
    assert asyncio.run(session_with(model, seen).run("Count the files.")).text == "Done."
    assert [type(event) for event in seen if isinstance(event, Compacted | ResultsCleared)] == [ResultsCleared]


@pytest.mark.parametrize("reply", [ContextExceededError("prompt is too long"), ""])
def test_a_model_that_writes_no_summary_however_short_the_request_is(reply: Step) -> None:
    steps = working(12)
    model = ScriptedModel(lambda request: reply if is_summary_request(request) else steps(request), window=8_000)
    session = session_with(model)
    assert asyncio.run(session.run("Count the files.")).status == "done"
    sizes = [len(request.messages) for request in model.requests if is_summary_request(request)]
    assert len(set(sizes)) > 1  # it was asked again with less
    assert "No summary could be written by the model" in model.requests[-1].messages[0].text


def test_a_refusal_after_compactions_that_did_not_help_ends_the_run() -> None:
    def step(request: Request) -> Step:
        if is_summary_request(request):
            return SUMMARY
        return ContextExceededError("prompt is too long") if len(model.requests) > 25 else call("peek", number=1)

    def peek(number: int) -> str:
        """Look for a moment."""
        return f"{number} " * 20

    seen: list[Event] = []
    model = ScriptedModel(step, window=8_000)
    agent = Agent(model, tools=[peek], limits=Limits(max_turns=40, max_repeats=None), system="Be brief. " * 2_200)
    result = asyncio.run(Session(agent, observer=seen.append).run("Look."))
    assert (result.status, "prompt is too long" in result.error) == ("error", True)
    assert sum(isinstance(event, Compacted) for event in seen) == 2


def test_without_a_threshold_nothing_is_compacted() -> None:
    seen: list[Event] = []
    agent = Agent(
        ScriptedModel(working(12), window=8_000),
        tools=[look],
        limits=Limits(max_turns=None, max_repeats=None),
        compaction=Compaction(threshold=None),
    )
    asyncio.run(agent.run("Count the files.", observer=seen.append))
    assert not any(isinstance(event, Compacted) for event in seen)
    with pytest.raises(ValueError, match=r"compaction.threshold is 2; it must be a share: over 0, at most 1"):
        Compaction(threshold=2)


def test_a_summary_is_asked_for_without_the_schema_of_answers_and_again_after_an_error() -> None:
    steps = working(12)
    seen: list[Event] = []

    def step(request: Request) -> Step:
        if is_summary_request(request) and not any(isinstance(event, Retrying) for event in seen):
            return UnavailableError("overloaded", retryable=True, retry_after=0.0)
        return steps(request)

    model = ScriptedModel(step, window=8_000)
    session = session_with(model, seen)
    session.agent = session.agent.replace(
        answer=AnswerSchema({"type": "object"}, lambda text: Answer(text, text)), retry=Retry(seconds=5)
    )
    asyncio.run(session.run("Count the files."))
    schemas = {is_summary_request(request): request.output_schema for request in model.requests}
    assert schemas == {False: {"type": "object"}, True: None}
    assert any(isinstance(event, Retrying) for event in seen)


def test_a_summary_without_a_model_keeps_what_can_be_said() -> None:
    former = summary_message("Old.", None, [Message.user("first words")], {}, 400)
    told = summary_without_model(former, [Message.assistant("Yes.")], 400)
    assert "## Earlier summary" in told
    assert "## User's words" not in told
    assert "## Files" not in told
    assert summary_message("New.", None, [Message.assistant("Yes.")], {}, 400).content[1:] == ()
    long = [Message.user("one"), Message.user("word " * 1_000)]
    assert newest_words(None, long, 20).startswith("> word word")
    assert "one" not in newest_words(None, long, 20)
    assert newest_words(None, [Message.user("word " * 1_000), Message.user("one")], 20) == "> one"
