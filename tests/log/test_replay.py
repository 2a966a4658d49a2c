"""Replay of entries: wherever a session stopped, it is rebuilt unchanged and can continue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.conversation.history import History, violations
from outrider.conversation.messages import Message, TextBlock, ToolResultBlock, ToolUseBlock
from outrider.conversation.usage import Usage
from outrider.errors import ConversationError, ProviderError, SessionCancelledError
from outrider.log.entries import CallResult, Entry, Intent, MessageEntry, RunCancelled, SessionSettings, SessionStarted
from outrider.log.log import Log
from outrider.log.state import SessionState, start_of_tail
from outrider.providers.base import Request
from outrider.runtime.agent import Agent
from outrider.runtime.events import Event, MessageAdded, ToolFinished, ToolStarted
from outrider.runtime.limits import Limits
from outrider.runtime.session import Session
from outrider.testing import Cut, ScriptedModel, Step, call, malformed_call
from outrider.tools.context import ToolContext
from outrider.tools.result import ToolResult
from outrider.tools.tool import Tool, tool
from tests.lengths import examples
from tests.log import entries_of

USED = Usage(7, 3, 2, 1, 1, cost=0.25)


# A session that is treated badly


class Work:
    """Tools of every effect, and what they were really asked to do."""

    def __init__(self) -> None:
        self.done: list[tuple[str, str]] = []
        """The effect and the idempotency key of each call that was carried out."""

    def tools(self) -> list[Tool]:
        def make(effect: Any, *, concurrent: bool = True, fails: bool = False, final: bool = False) -> Tool:
            async def body(context: ToolContext, text: str = "") -> ToolResult:
                self.done.append((effect, context.key))
                await asyncio.sleep(0)
                if fails:
                    raise ValueError(f"{text} is not possible")
                await asyncio.sleep(0)
                return ToolResult(f"{effect}: {text}", final=final, details={"of": text})

            name = "_".join([effect, *(["alone"] if not concurrent else []), *(["fails"] if fails else [])])
            body.__name__ = "ends" if final else name
            return tool(effect=effect, concurrent=concurrent)(body)

        effects = ("read", "idempotent", "write")
        return [
            *(make(effect) for effect in effects),
            *(make(effect, concurrent=False) for effect in effects),
            *(make(effect, fails=True) for effect in effects),
            make("write", final=True),
        ]


names = [each.name for each in Work().tools()]
words = st.sampled_from(["Hello.", "I'll look.", "é “quoted”", " "])
calls = st.one_of(
    st.builds(lambda name, text: call(name, text=text), st.sampled_from(names), words),
    st.just(call("unheard_of", text="x")),
    st.just(malformed_call("write", '{"text": "x')),
    st.just(call("write", text=3, more="x")),
    st.just(ToolUseBlock("same", "read", {})),
)
replies: st.SearchStrategy[Step] = st.one_of(
    st.tuples(words, st.lists(calls, max_size=4)).map(lambda pair: [pair[0], *pair[1]]),
    st.lists(calls, min_size=1, max_size=4),
    st.just("Done."),
    st.just(Message("assistant", ())),
    st.just(ProviderError("overloaded")),
    st.just(Cut("It pri")),
)
scripts = st.lists(replies, max_size=3)


class Run(msgspec.Struct, frozen=True):
    prompt: str
    script: list[Any]


class Think(msgspec.Struct, frozen=True):
    prompt: str
    script: list[Any]
    answer: int
    """How many of the pending calls get a result from outside."""


class Act(msgspec.Struct, frozen=True):
    pass


class Struck(msgspec.Struct, frozen=True):
    """A run that is cancelled at its n-th event."""

    prompt: str
    script: list[Any]
    event: int


class Reopen(msgspec.Struct, frozen=True):
    pass


steps = st.one_of(
    st.builds(Run, st.sampled_from(["go", "go on", ""]), scripts),
    st.builds(Think, st.sampled_from(["what?", ""]), scripts, st.integers(0, 4)),
    st.just(Act()),
    st.builds(Struck, st.sampled_from(["go", ""]), scripts, st.integers(0, 25)),
    st.just(Reopen()),
)
courses = st.lists(steps, min_size=1, max_size=6)


class Ill:
    """A session in a log that is treated badly, with the checks that must hold after each step."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.work = Work()
        self.script: list[Any] = []
        self.struck_at = -1
        self.events = 0
        self.wrong: list[Event] = []
        """Events that came before what they tell of was on disk."""
        self.session = self._open(None)

    def _open(self, name: str | None) -> Session:
        model = ScriptedModel(self._next, usage=USED, chunk=3)
        agent = Agent(model=model, system="Be brief.", tools=self.work.tools(), limits=Limits(max_turns=4))
        return Session.open(self.log, name, agent, observer=self._observe).now()

    def _next(self, request: Request) -> Step:
        return self.script.pop(0) if self.script else "Enough."

    def _observe(self, event: Event) -> None:
        self.events += 1
        if self.events == self.struck_at:
            self.session.cancel()
        if isinstance(event, MessageAdded | ToolStarted | ToolFinished):
            # Memory is never ahead of the disk. A failure here would not be heard: observers may fail.
            known = self.session.history.tail
            if self.log.messages(self.session.id)[: len(known)] != known:
                self.wrong.append(event)

    async def take(self, step: Any) -> None:
        self.events, self.struck_at = 0, -1
        self.script = list(getattr(step, "script", ()))
        try:
            match step:
                case Run(prompt):
                    await self.session.run(prompt)
                case Think(prompt, _, answer):
                    pending = self.session.history.pending[:answer]
                    results = [{"tool_use_id": use.id, "content": f"for {use.name}"} for use in pending]
                    await self.session.think(prompt, tool_results=results)
                case Act():
                    await self.session.act()
                case Struck(prompt, _, event):
                    self.struck_at = event
                    await self.session.run(prompt)
                case Reopen():
                    self.reopen()
        except (ConversationError, ProviderError, SessionCancelledError):
            pass  # a step that makes no sense here, or a model that failed

    def reopen(self) -> None:
        before = self.session
        pending, messages, entries = before.history.pending, before.messages, entries_of(self.log, before.id)
        before.close()
        self.session = self._open(before.id)
        assert self.session.id == before.id
        assert self.session.history.pending == pending
        assert self.session.messages == messages
        assert self.session.usage == before.usage
        assert entries_of(self.log, before.id) == entries, "nothing was going on, so nothing was settled or changed"

    def check(self) -> None:
        session = self.session
        assert self.wrong == []
        assert self.log.messages(session.id) == session.messages
        assert violations(session.history.sendable()) == []
        summary = self.log.session(session.id)
        records = list(self.log.records(session.id))
        assert [record.seq for record in records] == list(range(1, summary.last + 1))
        assert summary.usage == session.usage
        said = [r.entry for r in records if isinstance(r.entry, MessageEntry) and r.entry.message.role == "assistant"]
        assert summary.turns == len(said)
        recorded = SessionState(record.entry for record in records).settings
        assert (recorded.model, recorded.system, recorded.tools) == ("scripted", "Be brief.", tuple(names))
        assert recorded.limits == msgspec.to_builtins(Limits(max_turns=4))


def lived_through(log: Log, course: Sequence[Any], check: Callable[[Ill], Any]) -> None:
    async def scenario() -> None:
        ill = Ill(log)
        try:
            for step in course:
                await ill.take(step)
                ill.check()
            outcome = check(ill)
            if outcome is not None:
                await outcome
        finally:
            ill.session.close()

    asyncio.run(scenario())


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    """One log for the sessions of all courses."""
    with Log(tmp_path_factory.mktemp("log")) as log:
        yield log


@settings(max_examples=examples(30))
@given(course=courses)
def test_what_is_in_the_log_is_at_any_time_what_the_session_says(log: Log, course: list[Any]) -> None:
    lived_through(log, course, lambda ill: ill.reopen())


# Cut anywhere


class Begun(msgspec.Struct, frozen=True):
    """What must hold of a call that was begun and has no answer."""

    effect: str
    key: str


def begun_without_answer(entries: Sequence[Entry]) -> dict[str, Begun]:
    """The calls of the newest reply that were begun and have no answer, found in the plainest way."""
    newest = max((n for n, entry in enumerate(entries) if isinstance(entry, MessageEntry)), default=-1)
    if newest < 0 or entries[newest].message.role != "assistant":  # type: ignore[attr-defined]
        return {}
    rest = entries[newest + 1 :]
    answered = {entry.result.tool_use_id for entry in rest if isinstance(entry, CallResult)}
    begun = {entry.call_id: Begun(entry.effect, entry.key) for entry in rest if isinstance(entry, Intent)}
    return {call_id: each for call_id, each in begun.items() if call_id not in answered}


def check_cut(entries: Sequence[Entry]) -> None:
    """What every beginning of a log must satisfy."""
    expected = begun_without_answer(entries)
    replay = SessionState(entries)
    for answer in replay.unknown_outcomes():
        replay.apply(answer)
    history = History(replay.messages)
    assert violations(history.sendable()) == []
    results = {result.tool_use_id: result for message in replay.messages for result in message.tool_results}
    results |= {call_id: answer.result for call_id, answer in replay.answers.items()}
    pending = {use.id for use in history.pending}
    for call_id, call_begun in expected.items():
        if call_begun.effect == "write":
            assert results[call_id].is_error
            assert "outcome of this call is unknown" in results[call_id].text
            assert "was not run again" in results[call_id].text
        else:
            assert call_id in pending
            assert call_id not in results
            assert replay.intents[call_id].key == call_begun.key
    assert SessionState([*entries, *SessionState(entries).unknown_outcomes()]).unknown_outcomes() == [], (
        "what was settled stays settled"
    )


@settings(max_examples=examples(30))
@given(course=courses)
def test_a_log_that_ends_anywhere_gives_a_session_that_can_go_on(log: Log, course: list[Any]) -> None:
    def check(ill: Ill) -> None:
        entries = entries_of(ill.log, ill.session.id)
        for length in range(len(entries) + 1):
            check_cut(entries[:length])

    lived_through(log, course, check)


@settings(max_examples=examples(30))
@given(course=courses, place=st.integers(0))
def test_a_session_that_stopped_anywhere_goes_on_and_does_nothing_twice(
    log: Log, course: list[Any], place: int
) -> None:
    async def go_on(ill: Ill) -> None:
        entries = entries_of(ill.log, ill.session.id)
        cut = 1 + place % len(entries)
        begun = begun_without_answer(entries[:cut])
        ill.session.close()
        fork = ill.log.fork(ill.session.id, at=cut)
        ill.work.done.clear()
        ill.session = ill._open(fork)
        stood = [use.id for use in ill.session.history.pending]
        ill.check()
        ill.script = []
        try:
            await ill.session.run()
        except ConversationError:
            await ill.session.run("go")  # it stopped before anything was said
        ill.check()
        assert ill.session.history.pending == ()
        keys = [key for _, key in ill.work.done]
        for call_id, each in begun.items():
            if each.effect == "write":
                assert each.key not in keys, "a write that may have happened is not done again"
            elif call_id in stood:
                assert keys.count(each.key) == 1, "a read is done again, under the same key"

    lived_through(log, course, go_on)


@settings(max_examples=examples(30))
@given(course=courses)
def test_the_end_and_what_was_before_it_are_together_the_whole(log: Log, course: list[Any]) -> None:
    def check(ill: Ill) -> None:
        entries = entries_of(ill.log, ill.session.id)
        whole = SessionState(entries)
        for start in range(len(entries)):
            skipped = start_of_tail(entries[start:])
            if skipped is None:
                continue
            cut = start + skipped
            end = SessionState(entries[cut:])
            assert [*SessionState(entries[:cut]).messages, *end.messages] == whole.messages
            assert (end.intents, end.answers, end.final) == (whole.intents, whole.answers, whole.final)

    lived_through(log, course, check)


# Entry by entry

USES = (ToolUseBlock("a", "look", {"at": "x"}), ToolUseBlock("b", "send", {"to": "y"}))


def intent(use: ToolUseBlock, effect: str) -> Intent:
    return Intent(use.id, use.name, effect, f"key of {use.id}", use.input)


def answer(use: ToolUseBlock, text: str = "done", *, final: bool = False) -> CallResult:
    return CallResult(ToolResultBlock(use.id, (TextBlock(text),)), final)


def test_the_results_of_a_reply_are_one_message_in_call_order_once_all_are_there() -> None:
    replay = SessionState(
        [MessageEntry(Message.user("go")), MessageEntry(Message.assistant(*USES)), answer(USES[1], "second")]
    )
    assert len(replay.messages) == 2
    assert list(replay.answers) == ["b"]
    replay.apply(answer(USES[0], "first"))
    assert [result.text for result in replay.messages[2].tool_results] == ["first", "second"]
    assert (replay.answers, replay.intents) == ({}, {})


def test_the_first_answer_of_a_call_counts_and_an_answer_without_a_call_does_not() -> None:
    stranger = ToolUseBlock("z", "look", {})
    entries = [
        MessageEntry(Message.assistant(*USES)),
        answer(stranger),
        answer(USES[0], "first"),
        answer(USES[0], "second"),
    ]
    replay = SessionState([*entries, answer(USES[1])])
    assert [result.text for result in replay.messages[1].tool_results] == ["first", "done"]


def test_a_new_prompt_closes_the_open_calls() -> None:
    spoken = Message.user(ToolResultBlock("a", (TextBlock("by hand"),)), ToolResultBlock("b", ()), "never mind")
    replay = SessionState(
        [MessageEntry(Message.assistant(*USES)), intent(USES[1], "write"), answer(USES[0]), MessageEntry(spoken)]
    )
    assert replay.messages == [Message.assistant(*USES), spoken]
    assert replay.unknown_outcomes() == []
    replay.apply(answer(USES[1], "too late"))
    assert replay.messages == [Message.assistant(*USES), spoken]


def test_a_begun_write_is_answered_with_what_was_asked_and_not_run_again() -> None:
    replay = SessionState([MessageEntry(Message.assistant(*USES)), intent(USES[0], "read"), intent(USES[1], "write")])
    (unknown,) = replay.unknown_outcomes()
    assert unknown.result.tool_use_id == "b"
    assert unknown.result.is_error
    assert "the program stopped while send was running" in unknown.result.text
    assert '{"to":"y"}' in unknown.result.text


def test_an_effect_that_this_version_does_not_know_counts_as_a_write() -> None:
    replay = SessionState([MessageEntry(Message.assistant(*USES)), intent(USES[0], "destroy")])
    assert [each.result.tool_use_id for each in replay.unknown_outcomes()] == ["a"]


def test_what_was_asked_is_shortened_in_the_answer() -> None:
    use = ToolUseBlock("a", "send", {"text": "x" * 100_000})
    (unknown,) = SessionState([MessageEntry(Message.assistant(use)), intent(use, "write")]).unknown_outcomes()
    assert len(unknown.result.text) < 1000


def test_a_final_answer_ends_the_run_until_something_is_said() -> None:
    replay = SessionState(
        [MessageEntry(Message.assistant(*USES)), answer(USES[0]), answer(USES[1], "the end", final=True)]
    )
    assert replay.final
    assert replay.final.result.text == "the end"
    replay.apply(RunCancelled())
    assert replay.final
    replay.apply(MessageEntry(Message.user("more")))
    assert replay.final is None


def test_entries_that_say_nothing_about_the_conversation_change_nothing_of_it() -> None:
    replay = SessionState([SessionStarted("x", "1"), MessageEntry(Message.assistant(*USES)), intent(USES[0], "read")])
    before = (list(replay.messages), dict(replay.intents), dict(replay.answers))
    for entry in (RunCancelled(), SessionSettings(title="x"), SessionStarted("y", "2")):
        replay.apply(entry)
    assert (replay.messages, replay.intents, replay.answers) == before


def test_of_each_setting_the_newest_value_counts() -> None:
    first = SessionSettings("title", "demo", "Be brief.", ("read",), {"turns": 3}, "/a")
    replay = SessionState([first, SessionSettings(model="other"), SessionSettings(tools=(), system="")])
    assert replay.settings == SessionSettings("title", "other", "", (), {"turns": 3}, "/a")
    assert first.changes(replay.settings) == SessionSettings(model="other", system="", tools=())
    assert first.changes(first) is None
    assert first.changes(SessionSettings()) is None
    assert first.merged(SessionSettings()) == first


optional = st.none() | st.sampled_from(["a", "b"])
some_settings = st.builds(
    SessionSettings,
    optional,
    optional,
    optional,
    st.none() | st.sampled_from([(), ("x",)]),
    st.none() | st.just({"turns": 1}),
)


@given(some_settings, some_settings)
def test_what_changed_added_to_the_old_is_the_new(old: SessionSettings, new: SessionSettings) -> None:
    assert old.merged(old.changes(new) or SessionSettings()) == old.merged(new)


def test_the_end_can_begin_at_a_reply_and_nowhere_else() -> None:
    entries = [
        MessageEntry(Message.user("go")),
        intent(USES[0], "read"),
        MessageEntry(Message.assistant(*USES)),
        answer(USES[0]),
    ]
    assert start_of_tail(entries) == 2
    assert start_of_tail(entries[:2]) is None
    assert start_of_tail([]) is None
