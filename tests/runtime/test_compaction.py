"""Compaction: what is sent shrinks, the history stays whole, and the log carries both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from outrider import Agent, Compaction, Limits, Log, ScriptedModel, Session, tool
from outrider.conversation.history import violations
from outrider.conversation.messages import Message, ToolUseBlock
from outrider.errors import ContextExceededError, ConversationError, RequestRefusedError, SessionCancelledError
from outrider.events import Compacted, CompactionStarted, Event, ResultsCleared
from outrider.log.entries import CompactionEntry
from outrider.providers.base import Request
from outrider.providers.testing.scripted import Delay, Step, call
from outrider.providers.windows import message_tokens

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
    model = ScriptedModel(working(30), window=8_000)
    asyncio.run(session_with(model).run("Count the files."))
    index = next(index for index, request in enumerate(model.requests) if is_summary_request(request))
    before, asked = model.requests[index - 1], model.requests[index]
    assert list(asked.messages[: len(before.messages)]) == list(before.messages)
    assert (asked.system, asked.tools, asked.settings) == (before.system, before.tools, before.settings)


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
