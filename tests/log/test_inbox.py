"""Questions, answers and messages between processes: one answer wins, and nothing outlives the holder that asked."""

from __future__ import annotations

import asyncio
import os
import random
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outrider.errors import LogError, SessionLostError, ValidationError
from outrider.log.inbox import HeldInbox
from outrider.log.journal import Journal
from outrider.log.log import Log
from outrider.log.questions import Answer, ElicitationQuestion, Option, PermissionQuestion, Say, Stop
from outrider.log.summary import SessionRow
from tests.lengths import only_long
from tests.log import Process, asked, change, let_everything_happen, look, patch_everywhere, until_so

OPTIONS = (
    Option("once", "Yes, once", allows=True),
    Option("always", "Always", allows=True),
    Option("no", "No", allows=False, takes_words=True),
)
BODY = PermissionQuestion(tool="Bash", input={"command": "make"}, title="Bash(make)", reason="it runs", options=OPTIONS)
FORM = ElicitationQuestion(
    server="s",
    message="How many?",
    schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    options=(Option("accept", "Send", allows=True), Option("decline", "Decline", allows=False)),
)

HOLD = """
    from outrider.log.questions import *
    from tests.log import asked
    log = Log(arguments[0])
    session = talk(log)
    say(session.id)

    async def main():
        inbox = log.inbox.listen(session.id)
        body = PermissionQuestion(
            tool="Bash", input={}, title="Bash()", options=(Option("once", "Yes", True), Option("no", "No", False))
        )
        say(await inbox.ask(asked("call_1", body)))
        while True:
            await asyncio.to_thread(hear)
            say(*[type(each).__name__ for each in await inbox.take_signals()], "end")

    asyncio.run(main())
"""
"""A process that has a session open, and a question that waits."""


@pytest.fixture
def log(place: str) -> Iterator[Log]:
    with Log(place) as log:
        yield log


@pytest.fixture
def other(log: Log) -> Iterator[Log]:
    """The same log as another process sees it."""
    with Log(log.location) as other:
        yield other


@pytest.fixture
def journal(log: Log) -> Journal:
    return log.create()


@pytest.fixture
async def held(log: Log, journal: Journal) -> HeldInbox:
    held = log.inbox.listen(journal.id)
    await until_so(lambda: log.inbox.is_listening(journal.id))
    return held


def watcher(log: Log) -> Any:
    """What polls the file."""
    return log.inbox._watcher


# Questions


async def test_others_see_a_question_with_all_that_it_says(held: HeldInbox, journal: Journal, other: Log) -> None:
    name = await held.ask(asked("call_1", BODY))
    (seen,) = other.inbox.questions()
    assert (seen.id, seen.session, seen.call_id, seen.body, seen.answer) == (name, journal.id, "call_1", BODY, None)
    assert other.inbox.questions(journal.id) == [seen]
    assert other.inbox.questions(other.create().id) == []


async def test_the_first_answer_wins_and_the_second_hears_it(held: HeldInbox, other: Log) -> None:
    name = await held.ask(asked("call_1", BODY))
    assert other.inbox.answer(name, Answer("no", "not today"), "on the web page")
    assert not other.inbox.answer(name, Answer("once"), "a phone")
    earlier = await held.answer(name, Answer("once"), "in the terminal")
    assert earlier
    assert (earlier.answer, earlier.answered_by) == (Answer("no", "not today"), "on the web page")
    assert other.inbox.questions() == []
    assert (found := other.inbox.question(name)) is not None
    assert found.answered_by == "on the web page"


async def test_the_holders_own_answer_can_come_first(held: HeldInbox, other: Log) -> None:
    name = await held.ask(asked("call_1", BODY))
    assert await held.answer(name, Answer("always"), "in the terminal") is None
    assert not other.inbox.answer(name, Answer("no"), "on the web page")
    assert (found := other.inbox.question(name)) is not None
    assert found.answer == Answer("always")


@pytest.mark.parametrize(
    ("body", "answer", "said"),
    [
        (BODY, Answer("all"), "option: 'all' is not offered; choose one of: once, always, no"),
        (BODY, Answer(""), "option: '' is not offered"),
        (BODY, Answer("edits"), "not offered"),
        (BODY, Answer("once", "but carefully"), "words: the option 'once' takes none"),
        (BODY, Answer("no", "x" * 200_000), "words: at most 100,000 characters"),
        (BODY, Answer("once", content={"n": 1}), "content: the option 'once' takes none"),
        (FORM, Answer("accept"), "n"),
        (FORM, Answer("accept", content={"n": "many"}), "n: "),
        (FORM, Answer("decline", content={"n": 1}), "content: the option 'decline' takes none"),
    ],
)
async def test_an_answer_that_is_not_offered_is_refused(
    held: HeldInbox, other: Log, body: Any, answer: Answer, said: str
) -> None:
    name = await held.ask(asked("call_1", body))
    with pytest.raises(ValidationError) as refused:
        other.inbox.answer(name, answer, "on the web page")
    assert said in str(refused.value)
    assert [each.id for each in other.inbox.questions()] == [name]


async def test_a_form_is_answered_with_content_that_satisfies_it(held: HeldInbox, other: Log) -> None:
    name = await held.ask(asked("", FORM))
    assert other.inbox.answer(name, Answer("accept", content={"n": 3}), "on the web page")
    assert (found := other.inbox.question(name)) is not None
    assert found.answer == Answer("accept", content={"n": 3})


async def test_a_withdrawn_question_cannot_be_answered(held: HeldInbox, other: Log) -> None:
    name = await held.ask(asked("call_1", BODY))
    held.withdraw(name)
    await until_so(lambda: not other.inbox.questions())
    assert not other.inbox.answer(name, Answer("once"), "on the web page")
    assert await held.answer(name, Answer("once"), "in the terminal") is None
    assert other.inbox.question(name) is None


async def test_a_question_that_is_cancelled_while_it_is_stored_can_be_withdrawn(held: HeldInbox, other: Log) -> None:
    for _ in range(20):
        question = asked("call_1", BODY)
        asking = asyncio.ensure_future(held.ask(question))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])
        held.withdraw(question.id)
    await until_so(lambda: not other.inbox.questions())


async def test_closing_the_session_removes_its_questions(held: HeldInbox, journal: Journal, other: Log) -> None:
    name = await held.ask(asked("call_1", BODY))
    journal.close()
    assert other.inbox.questions() == []
    assert not other.inbox.answer(name, Answer("once"), "on the web page")
    assert look(other, "SELECT * FROM question") == []
    assert look(other, "SELECT * FROM listener") == []


async def test_deleting_a_session_leaves_nothing_of_its_questions(log: Log) -> None:
    with Process(HOLD, log.location) as process:
        session = process.hear()
        process.hear()
        process.kill()
        assert len(look(log, "SELECT * FROM question")) == 1
        log.delete(session)
        assert look(log, "SELECT * FROM question") == []


async def test_a_killed_holders_question_is_gone_and_the_next_holder_asks_its_own(log: Log) -> None:
    with Process(HOLD, log.location) as process:
        session, name = process.hear(), process.hear()
        assert [each.id for each in log.inbox.questions()] == [name]
        process.kill()
        assert log.inbox.questions() == []
        assert not log.inbox.answer(name, Answer("once"), "on the web page")
    journal = log.open(session)
    again = await log.inbox.listen(session).ask(asked("call_1", BODY))
    assert [each.id for each in log.inbox.questions()] == [again]
    assert not log.inbox.answer(name, Answer("once"), "on the web page")
    journal.close()


async def test_a_holder_that_slept_cannot_ask_or_take(held: HeldInbox, journal: Journal, other: Log) -> None:
    change(other, "UPDATE session SET fence = fence + 1")
    with pytest.raises(SessionLostError):
        await held.ask(asked("call_1", BODY))
    with pytest.raises(SessionLostError):
        await held.take_signals()
    assert look(other, "SELECT * FROM question") == []


async def test_text_that_is_not_unicode_does_not_break_a_question(held: HeldInbox, other: Log) -> None:
    body = PermissionQuestion(
        tool="Bash", input={"command": "a\ud800b", "odd": 1 << 70}, title="\udfff", options=OPTIONS
    )
    name = await held.ask(asked("call\ud800", body))
    assert [each.id for each in other.inbox.questions()] == [name]
    assert other.inbox.answer(name, Answer("no", "\ud800"), "on the \ud800 page")
    assert other.inbox.question(name)


def test_a_session_that_is_not_open_here_cannot_ask(log: Log, other: Log, journal: Journal) -> None:
    with pytest.raises(LogError, match="is not open here"):
        other.inbox.listen(journal.id)


# Messages


async def test_messages_are_taken_once_and_in_order(held: HeldInbox, journal: Journal, other: Log) -> None:
    numbers = [other.inbox.send(journal.id, each) for each in (Say("one"), Stop(), Say("two"))]
    assert [other.inbox.is_taken(number) for number in numbers] == [False] * 3
    taken = await asyncio.gather(*(held.take_signals() for _ in range(5)))
    assert [each for part in taken for each in part] == [Say("one"), Stop(), Say("two")]
    assert [other.inbox.is_taken(number) for number in numbers] == [True] * 3
    assert await held.take_signals() == []


async def test_a_message_is_known_to_be_taken_only_after_it_was_delivered(
    held: HeldInbox, journal: Journal, other: Log
) -> None:
    number = other.inbox.send(journal.id, Say("one"))
    seen: list[bool | None] = []
    await held.take_signals(lambda signal: seen.append(other.inbox.is_taken(number)))
    assert seen == [False]
    assert other.inbox.is_taken(number)
    lost = other.inbox.send(journal.id, Say("two"))
    journal.close()
    assert (other.inbox.is_taken(number), other.inbox.is_taken(lost)) == (True, None)
    other.delete(journal.id)
    assert look(other, "SELECT * FROM signal") == []


async def test_a_message_is_taken_when_the_session_has_stored_it(held: HeldInbox, journal: Journal, other: Log) -> None:
    numbers = [other.inbox.send(journal.id, Say(text)) for text in ("one", "two")]
    stored: list[asyncio.Future[None]] = [asyncio.get_running_loop().create_future() for _ in numbers]
    futures = iter(stored)
    assert await held.take_signals(lambda signal: next(futures)) == [Say("one"), Say("two")]
    assert await held.take_signals() == []  # they are not delivered twice
    assert [other.inbox.is_taken(number) for number in numbers] == [False, False]
    stored[0].set_result(None)
    await until_so(lambda: other.inbox.is_taken(numbers[0]))
    assert other.inbox.is_taken(numbers[1]) is False
    journal.close()
    assert [other.inbox.is_taken(number) for number in numbers] == [True, None]


async def test_a_message_that_is_taken_while_its_sender_looks_is_taken(
    held: HeldInbox, journal: Journal, other: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = other.inbox.send(journal.id, Say("one"))
    tables = other.inbox._tables
    numbered = tables.numbered
    taking = asyncio.new_event_loop()

    def close_first(session: int) -> SessionRow | None:
        taking.run_until_complete(held.take_signals())
        journal.close()
        return numbered(session)

    monkeypatch.setattr(tables, "numbered", close_first)
    try:
        assert await asyncio.to_thread(other.inbox.is_taken, number) is True
    finally:
        taking.close()


async def test_a_session_without_a_listener_cannot_be_reached(log: Log, journal: Journal, other: Log) -> None:
    with pytest.raises(LogError, match="does not take messages"):
        other.inbox.send(journal.id, Stop())
    assert not other.inbox.is_listening(journal.id)
    log.inbox.listen(journal.id)
    await until_so(lambda: other.inbox.is_listening(journal.id))
    journal.close()
    with pytest.raises(LogError, match="no process has it open"):
        other.inbox.send(journal.id, Stop())


@pytest.mark.parametrize("text", ["", "  \n", "x" * 200_000])
async def test_an_empty_or_endless_message_is_refused(held: HeldInbox, journal: Journal, other: Log, text: str) -> None:
    with pytest.raises(ValidationError):
        other.inbox.send(journal.id, Say(text))


async def test_a_message_to_a_killed_holder_is_known_to_be_lost(log: Log) -> None:
    with Process(HOLD, log.location) as process:
        session = process.hear()
        process.hear()
        number = log.inbox.send(session, Say("hello"))
        process.kill()
        assert log.inbox.is_taken(number) is None
        with pytest.raises(LogError, match="no process has it open"):
            log.inbox.send(session, Say("hello?"))
    journal = log.open(session)
    assert await log.inbox.listen(session).take_signals() == []
    journal.close()


async def test_another_process_takes_what_was_sent(log: Log) -> None:
    with Process(HOLD, log.location) as process:
        session = process.hear()
        process.hear()
        for signal in (Say("hello"), Stop()):
            log.inbox.send(session, signal)
        process.tell()
        assert process.hear() == "Say Stop end"
        process.tell()
        assert process.hear() == "end"


# Watching


async def test_a_watcher_sees_every_change_until_it_stops(log: Log, other: Log) -> None:
    looks = 0

    def look_there(_: object) -> None:
        nonlocal looks
        looks += 1

    assert log.inbox.questions() == []  # there is no log yet
    watcher(log).look_soon()  # no one watches: nothing happens
    stop = watcher(log).watch(look_there, lambda: False)
    journal = log.create()
    held = log.inbox.listen(journal.id)
    name = await held.ask(asked("call_1", BODY))
    answers: list[Any] = []

    def look_once(view: Any) -> None:
        answers.append(held.answered(view, name))
        if answers[-1]:
            stop_looking()

    stop_looking = held.watch(look_once, lambda: True)
    await until_so(lambda: looks and answers)
    other.inbox.answer(name, Answer("once"), "elsewhere")
    await until_so(lambda: answers[-1])
    before = looks
    held.look_soon()
    await until_so(lambda: looks > before)
    stop()
    seen = looks, len(answers)
    stop_looking()  # once more, which is harmless
    last = held.watch(lambda _: last(), lambda: True)
    await until_so(lambda: not watcher(log)._watches)
    assert (looks, len(answers)) == seen


async def test_a_look_that_is_asked_for_does_not_wait_for_the_next_poll(
    held: HeldInbox, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch_everywhere(monkeypatch, BUSY_SECONDS=1_000.0, IDLE_SECONDS=1_000.0)
    looks: list[object] = []
    stop = held.watch(looks.append, lambda: True)
    await until_so(lambda: looks)
    await let_everything_happen()
    held.look_soon()
    await until_so(lambda: len(looks) > 1)
    stop()


@pytest.mark.folder_only
async def test_changes_of_other_processes_are_noticed(log: Log) -> None:
    noticed = 0

    async def count() -> None:
        nonlocal noticed
        async for _ in log.inbox.changes():
            noticed += 1

    log.create().close()
    counting = asyncio.ensure_future(count())
    await until_so(lambda: noticed >= 1)
    before = noticed
    with Process(HOLD, log.location) as process:
        await asyncio.to_thread(process.hear)
        await until_so(lambda: noticed > before)
    counting.cancel()
    await asyncio.wait([counting])
    assert watcher(log)._timer is None


@pytest.mark.folder_only
async def test_a_log_that_no_one_watches_has_no_timer_and_no_connection(held: HeldInbox, log: Log) -> None:
    await held.ask(asked("call_1", BODY))
    assert watcher(log)._timer is None
    stop = held.watch(lambda _: None, lambda: False)
    await until_so(lambda: watcher(log)._connection)
    stop()
    watcher(log).look_soon()
    assert watcher(log)._timer is None
    assert watcher(log)._connection is None
    last = held.watch(lambda _: last(), lambda: False)
    await until_so(lambda: not watcher(log)._watches)
    assert watcher(log)._timer is None


@pytest.mark.folder_only
async def test_a_watcher_survives_a_replaced_file(held: HeldInbox, log: Log, journal: Journal) -> None:
    looked = 0

    def look_there(_: object) -> None:
        nonlocal looked
        looked += 1

    stop = held.watch(look_there, lambda: True)
    await until_so(lambda: looked == 1)
    moved = log.folder / "moved.db"
    os.rename(log.folder / "log.db", moved)
    await until_so(lambda: watcher(log)._connection is None)
    os.rename(moved, log.folder / "log.db")
    await until_so(lambda: looked >= 2)
    stop()


# The file


def older(folder: Path) -> str:
    """Write a log as it was before there was an inbox. Return its one session."""
    with Log(folder) as log:
        journal = log.create()
        journal.close()
    for table in ("question", "signal", "listener"):
        change(log, f"DROP TABLE {table}")
    change(log, "ALTER TABLE session DROP COLUMN chain")
    change(log, "PRAGMA user_version=1")
    return journal.id


@pytest.mark.folder_only
def test_an_older_log_gets_an_inbox(tmp_path: Path) -> None:
    session = older(tmp_path)
    with Log(tmp_path) as log:
        assert log.inbox.questions() == []
        assert log.session(session).id == session
        log.open(session).close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
@pytest.mark.folder_only
def test_an_older_log_on_a_read_only_disk_can_still_be_read(tmp_path: Path) -> None:
    session = older(tmp_path)
    tmp_path.chmod(0o500)
    try:
        assert Log(tmp_path).session(session).id == session
        assert Log(tmp_path).inbox.questions() == []
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.folder_only
async def test_only_the_owner_can_open_the_file(held: HeldInbox, log: Log) -> None:
    await held.ask(asked("call_1", BODY))
    for path in log.folder.glob("log.db*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name


# Any order of asking, answering and withdrawing


class Race:
    """One question, answered from several sides at once."""

    def __init__(self, held: HeldInbox, name: str) -> None:
        self._held = held
        self._name = name
        self.answered_here = False
        self.winners: list[str] = []
        """The sides that were told that their answer counts."""

    async def answer_elsewhere(self, log: Log, by: str) -> None:
        if await asyncio.to_thread(log.inbox.answer, self._name, Answer("no", by), by):
            self.winners.append(by)

    async def answer_here(self) -> None:
        earlier = await self._held.answer(self._name, Answer("once"), "here")
        if earlier:
            assert earlier.answer == Answer("no", earlier.answered_by)
        else:
            self.answered_here = True

    async def withdraw(self) -> None:
        self._held.withdraw(self._name)


@pytest.mark.parametrize("seed", [*range(10), *only_long(*range(10, 60))])
async def test_each_question_has_one_outcome_that_all_sides_agree_on(place: str, seed: int) -> None:
    choose = random.Random(seed)
    with Log(place) as log, Log(place) as first, Log(place) as second:
        journal = log.create()
        held = log.inbox.listen(journal.id)
        for _ in range(4):
            name = await held.ask(asked("call", BODY))
            race = Race(held, name)
            moves = [race.answer_elsewhere(first, "first"), race.answer_elsewhere(second, "second"), race.answer_here()]
            moves += [race.withdraw()] if choose.random() < 0.3 else []
            choose.shuffle(moves)
            running = []
            for move in moves:
                running.append(asyncio.ensure_future(move))
                if choose.random() < 0.5:
                    await let_everything_happen()
            await asyncio.gather(*running)
            await held.take_signals()  # what was posted before is done
            found = first.inbox.question(name)
            if race.answered_here and found:
                race.winners.append("here")
            assert race.winners == ([found.answered_by] if found else [])
            assert first.inbox.questions() == []
