"""The holder of a session: one at a time, named in errors, replaced when dead, and harmless after a suspend."""

from __future__ import annotations

import asyncio
import gc
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from outrider.conversation.messages import Message
from outrider.errors import LogError, SessionHeldError, SessionLostError, UnknownSessionError
from outrider.log import holder as holder_module
from outrider.log.entries import MessageEntry, RunStarted, RunStopped, SessionSettings
from outrider.log.holder import Holder
from outrider.log.log import Log
from outrider.log.sqlite.backend import SqliteBackend
from tests.log import Process, change, entries_of, look, open_session, patch_everywhere, texts, until

linux = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux's process table")

HOLD = """
    log = Log(arguments[0])
    session = talk(log, *arguments[1:2])
    asyncio.run(session.run("from the other process"))
    say(session.id)
    while (order := hear()) != "end":
        if order == "close":
            session.close()
        elif order == "run":
            result = asyncio.run(session.run("still here"))
            say(result.status, result.error)
            continue
        say("done")
"""
"""A process that has a session open."""

TEXTS = ["from the other process", "You said: from the other process"]


@pytest.fixture
def log(place: str) -> Iterator[Log]:
    with Log(place) as log:
        yield log


def begun(log: Log, *words: str) -> str:
    journal = log.create()
    journal.write_now(*(MessageEntry(Message.user(word)) for word in words))
    journal.close()
    return journal.id


def elsewhere(**changes: Any) -> Holder:
    """A holder on another machine."""
    holder = Holder("faraway", "another boot", 4711, "12345", time.time() - 3600, "outrider")
    return msgspec.structs.replace(holder, **changes)


def forge(log: Log, holder: Holder, *, beaten: float = 0.0) -> None:
    """Have the sessions held by someone else, whose heart was heard so many seconds ago."""
    change(
        log,
        "UPDATE session SET holder = ?, beaten = ?",
        msgspec.json.encode(holder).decode(),
        time.time() - beaten,
    )


def put_to_sleep(log: Log) -> None:
    """Have its heart stand still, before it was ever used."""
    backend = log._backend
    assert isinstance(backend, SqliteBackend)
    backend.writer._interval = 3600.0


class Heart:
    """Beats in a holder's place, again and again."""

    def __init__(self, log: Log) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, args=(log,), daemon=True)

    def _beat(self, log: Log) -> None:
        while not self._stop.wait(0.01):
            change(log, "UPDATE session SET beat = beat + 1")

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def timed(action: Callable[[], Any]) -> float:
    begun = time.monotonic()
    action()
    return time.monotonic() - begun


# Held


def test_a_session_that_another_process_has_open_is_refused_with_its_name(log: Log) -> None:
    with Process(HOLD, log.location) as other:
        name = other.hear()
        with pytest.raises(SessionHeldError) as refused:
            log.open(name)
        said = str(refused.value)
        assert f"process {other.pid} on {platform.node()}" in said
        assert f"the session {name[:8]} is open elsewhere" in said
        assert "sessions show" in said
        assert "sessions fork" in said
        assert "this process" not in said
        other.tell("close")
        assert other.hear() == "done"
        with open_session(log, ["mine now"], id=name) as session:
            assert asyncio.run(session.run("hello")).text == "mine now"


def test_a_second_opening_in_the_same_process_is_refused(log: Log) -> None:
    with open_session(log) as session:
        for opener in (log, Log(log.location)):
            with pytest.raises(SessionHeldError, match=rf"process {os.getpid()} \(this process\)"):
                open_session(opener, id=session.id)
    with open_session(log, id=session.id):
        pass


def test_a_process_that_was_stopped_still_holds_its_session(log: Log) -> None:
    with Process(HOLD, log.location) as other:
        name = other.hear()
        other.signal(signal.SIGSTOP)
        try:
            with pytest.raises(SessionHeldError, match=f"process {other.pid} "):
                log.open(name)
        finally:
            other.signal(signal.SIGCONT)
        other.tell("run")
        assert other.hear() == "done"


def test_looking_is_always_possible(log: Log) -> None:
    with Process(HOLD, log.location) as other:
        name = other.hear()
        assert texts(log, name) == TEXTS
        assert [summary.id for summary in log.sessions()] == [name]
        summary = log.session(name[:12])
        assert summary.holder
        assert summary.holder.pid == other.pid
        assert [record.seq for record in log.newest(name, 2)] == [summary.last - 1, summary.last]
        fork = log.fork(name)
        with open_session(log, ["in the copy"], id=fork) as session:
            assert asyncio.run(session.run("go on")).text == "in the copy"
        other.tell("run")
        assert other.hear() == "done"
        assert len(texts(log, name)) == 4


def test_a_held_session_is_not_renamed_or_deleted(log: Log) -> None:
    with Process(HOLD, log.location) as other:
        name = other.hear()
        before = entries_of(log, name)
        with pytest.raises(SessionHeldError, match=f"process {other.pid} "):
            log.rename(name, "mine")
        with pytest.raises(SessionHeldError, match=f"process {other.pid} "):
            log.delete(name)
        assert entries_of(log, name) == before
        assert log.session(name).title == "from the other process"
        other.tell("run")
        assert other.hear() == "done"
    log.rename(name, "mine")
    assert log.session(name).title == "mine"
    log.delete(name)
    with pytest.raises(UnknownSessionError):
        log.session(name)


def test_a_held_session_that_is_not_deleted_keeps_its_sub_agents(log: Log) -> None:
    parent = log.create()
    child = log.create(parent=parent.id)
    child.write_now(MessageEntry(Message.user("the child's task")))
    child.close()
    with pytest.raises(SessionHeldError):
        log.delete(parent.id)
    assert [summary.id for summary in log.children(parent.id)] == [child.id]
    parent.close()
    log.delete(parent.id)
    assert look(log, "SELECT count(*) FROM session") == look(log, "SELECT count(*) FROM event") == [(0,)]


def test_a_session_that_is_opened_while_it_is_being_deleted_stays(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    name = begun(log, "hello")
    opened = []

    def check_free(*_: Any) -> None:
        monkeypatch.undo()
        opened.append(Log(log.location).open(name))

    monkeypatch.setattr(Log, "_check_free", check_free)
    with pytest.raises(SessionHeldError, match="was just opened; try again"):
        log.delete(name)
    opened[0].write_now(MessageEntry(Message.user("still here")))
    assert texts(log, name) == ["hello", "still here"]


def test_a_rename_leaves_the_order_of_the_sessions_and_needs_words(log: Log) -> None:
    first, second = begun(log, "first"), begun(log, "second")
    log.rename(first, "  The\nfirst \ud800 ")
    assert [(summary.id, summary.title) for summary in log.sessions()] == [
        (second, "second"),
        (first, "The first \N{REPLACEMENT CHARACTER}"),
    ]
    for title in ("", " \n\t "):
        with pytest.raises(LogError, match="a title must not be empty"):
            log.rename(first, title)
    assert log.session(first).holder is None


def test_the_session_that_was_used_last_comes_first_not_the_one_that_was_opened_last(log: Log) -> None:
    first, second = begun(log, "first"), begun(log, "second")
    before = log.session(first).updated
    with closing(log.open(first)) as journal:
        journal.write_now(SessionSettings(model="another", cwd="/elsewhere"))  # as a chat does when it opens one
    assert [summary.id for summary in log.sessions()] == [second, first]
    assert log.session(first).updated == before
    for entry in (RunStarted(), RunStopped("done"), MessageEntry(Message.user("again"))):
        for name, other in ((first, second), (second, first)):
            with closing(log.open(name)) as journal:
                journal.write_now(entry)
            assert [summary.id for summary in log.sessions()] == [name, other]
    assert log.session(first).updated > before


def test_a_session_whose_sub_agent_is_still_at_work_is_not_deleted(log: Log) -> None:
    parent = log.create()
    child = log.create(parent=parent.id)
    parent.close()
    with pytest.raises(SessionHeldError):
        log.delete(parent.id)
    assert log.session(parent.id).id == parent.id
    child.write_now(MessageEntry(Message.user("still at work")))
    assert texts(log, child.id) == ["still at work"]


# Let go


def test_a_session_that_was_closed_can_be_opened_at_once(log: Log) -> None:
    session = open_session(log)
    for _ in range(10):
        session.close()
        session = open_session(log, id=session.id)
    with pytest.raises(SessionHeldError):
        log.open(session.id)
    session.close()
    session.close()
    log.delete(session.id)


def test_who_leaves_the_with_block_lets_go_however_it_is_left(log: Log) -> None:
    with pytest.raises(ZeroDivisionError), open_session(log) as session:
        raise ZeroDivisionError
    log.open(session.id).close()


def test_a_session_that_was_forgotten_lets_go(log: Log) -> None:
    session = open_session(log, ["ok"])
    asyncio.run(session.run("hello"))
    name = session.id
    del session

    def is_free() -> bool:
        gc.collect()  # more than once: the writer's thread may still be busy with what it wrote last
        return log.session(name).holder is None

    until(is_free)
    log.open(name).close()


def test_closing_the_log_lets_go_of_all_that_it_holds(log: Log) -> None:
    names = [open_session(log).id, open_session(log).id]
    log.close()
    with Log(log.location) as other:
        for name in names:
            other.open(name).close()


def test_a_log_in_postgres_lets_go_though_its_thread_is_late(url: str) -> None:
    log = Log(url)
    name = open_session(log).id
    late = threading.Event()
    thread = log._backend._thread  # type: ignore[attr-defined]
    thread.call(late.wait, 60)
    closing = threading.Thread(target=log.close)
    closing.start()
    until(lambda: thread._loop is None)
    late.set()
    closing.join(60)
    assert thread._thread is None, "nothing is left to do"
    with Log(url) as other:
        other.open(name).close()


def test_a_failed_open_does_not_hold_the_session(log: Log) -> None:
    name = begun(log, "hello")
    change(log, "UPDATE event SET body = ? WHERE seq = 2", b"{")
    for _ in range(2):
        with pytest.raises(Exception, match="entry 2 of a session is missing or damaged"):
            open_session(log, id=name)
    assert log.session(name).holder is None


def test_a_process_that_ended_without_closing_holds_nothing(log: Log) -> None:
    with Process(HOLD, log.location) as other:
        name = other.hear()
        other.tell("end")
        other.end()
        assert log.session(name).holder, "it did not close"
        assert timed(lambda: log.open(name).close()) < 2


# Dead


@pytest.mark.sampled(2)
@linux
@pytest.mark.parametrize("bury", [True, False], ids=["buried", "a zombie"])
def test_a_killed_holder_is_taken_over_at_once(log: Log, bury: bool) -> None:
    with Process(HOLD, log.location) as other:
        name = other.hear()
        other.kill(bury=bury)
        if not bury:
            until(lambda: Path(f"/proc/{other.pid}/stat").read_text().rpartition(") ")[2].startswith("Z"))
        assert timed(lambda: log.open(name).close()) < 2
        assert texts(log, name) == TEXTS


@linux
def test_a_process_id_that_was_given_again_does_not_hold(log: Log) -> None:
    name = begun(log, "hello")
    here = Holder.current()
    forge(log, here)
    with pytest.raises(SessionHeldError):
        log.open(name)
    forge(log, msgspec.structs.replace(here, started="1"))
    log.open(name).close()


@linux
def test_a_process_that_is_not_there_does_not_hold(log: Log) -> None:
    name = begun(log, "hello")
    forge(log, msgspec.structs.replace(Holder.current(), pid=2**22 + 1))
    log.open(name).close()


# Elsewhere: only the heart can be heard


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    patch_everywhere(monkeypatch, BEAT_SECONDS=0.2, STALE_SECONDS=2.0)


def test_a_holder_elsewhere_that_was_heard_of_lately_is_respected_at_once(log: Log) -> None:
    name = begun(log, "hello")
    forge(log, elsewhere(), beaten=5)

    def refused() -> None:
        with pytest.raises(SessionHeldError, match="outrider, process 4711 on faraway, since "):
            log.open(name)

    assert timed(refused) < 2, "nobody waited for the next beat"


@pytest.mark.usefixtures("quick")
@pytest.mark.folder_only
def test_a_holder_elsewhere_that_is_silent_is_watched_and_then_taken_over(log: Log) -> None:
    name = begun(log, "hello")
    forge(log, elsewhere(), beaten=60)
    begun_watching = time.monotonic()
    journal = log.open(name)
    assert time.monotonic() - begun_watching >= 0.2, "for longer than from one beat to the next"
    holder = log.session(journal.id).holder
    assert holder
    assert holder.pid == os.getpid()


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("beaten", [60.0, 10**9, -3600.0], ids=["late", "very late", "in the future"])
@pytest.mark.folder_only
def test_a_holder_with_a_heartbeat_keeps_its_session_whatever_the_clock_says(log: Log, beaten: float) -> None:
    name = begun(log, "hello")
    forge(log, elsewhere(), beaten=beaten)
    with Heart(log), pytest.raises(SessionHeldError, match="faraway"):
        log.open(name)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("beaten", [-3.0, -3600.0, -(10.0**9)])
@pytest.mark.folder_only
def test_a_clock_that_jumped_does_not_keep_a_dead_holder_alive(log: Log, beaten: float) -> None:
    name = begun(log, "hello")
    forge(log, elsewhere(), beaten=beaten)
    log.open(name).close()


@pytest.mark.usefixtures("quick")
@pytest.mark.folder_only
def test_a_holder_that_lets_go_while_it_is_watched_is_followed(log: Log) -> None:
    name = begun(log, "hello")
    forge(log, elsewhere(), beaten=60)
    threading.Timer(0.05, change, [log, "UPDATE session SET holder = ''"]).start()
    log.open(name).close()


@pytest.mark.usefixtures("quick")
@pytest.mark.folder_only
def test_a_session_that_another_took_over_while_it_was_watched_is_not_taken_from_that_one(log: Log) -> None:
    name = begun(log, "hello")
    forge(log, elsewhere(), beaten=60)
    taken = "UPDATE session SET fence = fence + 1, beaten = ?, holder = replace(holder, 'faraway', 'nearby')"
    threading.Timer(0.05, change, [log, taken, time.time()]).start()
    with pytest.raises(SessionHeldError):
        log.open(name)


def test_a_holder_on_another_machine_or_in_another_container_cannot_be_asked() -> None:
    here = Holder.current()
    assert here.is_alive()
    assert elsewhere().is_alive() is None
    assert msgspec.structs.replace(here, boot="").is_alive() is None
    if sys.platform == "linux":
        boot, *_ = here.boot.split(" ")
        assert msgspec.structs.replace(here, boot=f"{boot} pid:[1]").is_alive() is None


@linux
@pytest.mark.folder_only
def test_a_holder_on_another_run_of_this_machine_is_dead(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    here = Holder.current()
    room = here.boot.split(" ")[1]
    before = msgspec.structs.replace(here, boot=f"another-run {room}")
    assert before.is_alive() is False
    assert msgspec.structs.replace(before, host="faraway").is_alive() is None
    name = begun(log, "hello")
    forge(log, before, beaten=1)
    assert timed(lambda: log.open(name).close()) < 2, "nobody waited for its heart"
    monkeypatch.setattr(holder_module, "_host", lambda: "localhost")
    nameless = msgspec.structs.replace(before, host="localhost")
    assert nameless.is_alive() is None, "many machines have that name"


@pytest.mark.usefixtures("quick")
def test_the_heartbeat_decides_where_the_process_table_does_not_tell(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holder_module, "_boot", lambda: "")
    name = begun(log, "hello")
    journal = log.open(name)
    with pytest.raises(SessionHeldError):
        Log(log.location).open(name)
    journal.close()
    Log(log.location).open(name).close()


def test_a_holder_says_who_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Holder.current()
    assert (here.pid, here.host) == (os.getpid(), platform.node())
    monkeypatch.delattr(os, "uname")  # as on Windows
    assert Holder.current().host == here.host
    assert "(this process)" in str(here)
    assert str(elsewhere(host="", program="", since=0.0)).startswith("process 4711 on an unnamed host, since ")


# The heart


def beats(log: Log, name: str) -> int:
    ((beat,),) = look(log, "SELECT beat FROM session WHERE id = ?", name)
    return int(beat)


@pytest.mark.parametrize("how", ["begin", "open"])
def test_a_session_that_was_opened_and_is_idle_shows_that_its_holder_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    patch_everywhere(monkeypatch, BEAT_SECONDS=0.02)
    with Log(tmp_path) as log:
        journal = log.create() if how == "begin" else log.open(begun(log, "hello"))
        before = beats(log, journal.id)
        until(lambda: beats(log, journal.id) > before + 2)


def test_a_holder_sends_heartbeats_until_it_releases_its_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch_everywhere(monkeypatch, BEAT_SECONDS=0.02)
    with Log(tmp_path) as log:
        held, released = log.create(), log.create()
        released.close()
        after = beats(log, released.id)
        held.write_now(MessageEntry(Message.user("hello")))
        ((first,),) = look(log, "SELECT beaten FROM session WHERE id = ?", held.id)
        until(lambda: beats(log, held.id) > 3)
        ((later,),) = look(log, "SELECT beaten FROM session WHERE id = ?", held.id)
        assert later > first
        assert beats(log, released.id) == after


# Fences


@pytest.mark.usefixtures("quick")
@pytest.mark.folder_only
def test_who_was_taken_over_while_it_slept_cannot_write_any_more(log: Log) -> None:
    put_to_sleep(log)
    name = begun(log, "before")
    sleeper = log.open(name)
    forge(log, elsewhere(), beaten=60)  # as the other machine sees it
    with Log(log.location) as other:
        taker = other.open(name)
        before = look(log, "SELECT * FROM event"), look(log, "SELECT * FROM session")
        with pytest.raises(SessionLostError, match="taken over by another process, or deleted; open it again"):
            sleeper.write_now(MessageEntry(Message.user("from the grave")))
        assert (look(log, "SELECT * FROM event"), look(log, "SELECT * FROM session")) == before
        taker.write_now(MessageEntry(Message.user("from the living")))
        sleeper.close()
        holder = log.session(name).holder
        assert holder, "whoever lost it cannot let it go for the other"
        with pytest.raises(SessionHeldError):
            Log(log.location).open(name)
        assert texts(log, name) == ["before", "from the living"]


@pytest.mark.usefixtures("quick")
def test_the_next_run_of_a_process_that_lost_its_session_says_so(log: Log) -> None:
    with Process(HOLD, log.location) as other:
        name = other.hear()
        forge(log, elsewhere(), beaten=60)
        with open_session(log, ["mine"], id=name) as session:
            other.tell("run")
            assert other.hear().startswith("error the session was taken over by another process")
            assert asyncio.run(session.run("hello")).text == "mine"
            assert texts(log, name) == [*TEXTS, "hello", "mine"]


@pytest.mark.usefixtures("quick")
@pytest.mark.folder_only
def test_who_holds_a_session_that_was_deleted_cannot_write_into_the_next_one(log: Log) -> None:
    put_to_sleep(log)
    journal = log.create()
    forge(log, elsewhere(), beaten=60)  # as the other machine sees it
    with Log(log.location) as other:
        other.delete(journal.id)
        following = other.create()
        with pytest.raises(SessionLostError, match="taken over by another process, or deleted"):
            journal.write_now(MessageEntry(Message.user("from the grave")))
        assert entries_of(log, following.id)[1:] == []


async def test_a_session_that_was_closed_takes_nothing_more_whoever_has_it_now(log: Log) -> None:
    first = log.create()
    first.write_now(MessageEntry(Message.user("one")))
    first.close()
    closed = "the session was closed; open it again to continue"
    with Log(log.location) as other:
        second = other.open(first.id)
        second.write_now(MessageEntry(Message.user("two")))
        with pytest.raises(LogError, match=closed):
            first.write_now(MessageEntry(Message.user("three")))
        with pytest.raises(LogError, match=closed):
            await first.write(MessageEntry(Message.user("three"))).finished()
        first.close()
        assert log.session(first.id).holder, "that it was closed twice does not harm the other"
    assert texts(log, first.id) == ["one", "two"]


async def test_a_run_of_a_closed_session_says_so_and_sends_no_request(log: Log) -> None:
    session = open_session(log, ["One.", "Two."])
    await session.run("first")
    session.close()
    result = await session.run("second")
    assert (result.status, result.error) == ("error", "the session was closed; open it again to continue")
    assert [message.text for message in session.messages] == texts(log, session.id) == ["first", "One."]
    with pytest.raises(LogError, match="was closed"):
        await session.think("second")


def test_a_session_that_this_log_has_let_go_is_free_even_if_that_could_not_be_written(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise LogError("the disk is full")

    name = begun(log, "hello")
    with monkeypatch.context() as broken:
        broken.setattr(type(log._backend), "release", fails)
        journal = log.open(name)
        with pytest.raises(LogError, match="the disk is full"):
            journal.close()
    assert log.session(name).holder, "it stands there still"
    with pytest.raises(SessionHeldError, match="this process"):
        Log(log.location).open(name)  # this one cannot know
    again = log.open(name)
    again.write_now(MessageEntry(Message.user("again")))
    with pytest.raises(SessionHeldError):
        log.open(name)
    again.close()
    assert texts(log, name) == ["hello", "again"]
    assert log.session(name).holder is None


@pytest.mark.usefixtures("quick")
def test_a_holder_that_wakes_after_it_was_watched_and_before_it_is_taken_over_keeps_its_session(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = begun(log, "hello")
    forge(log, elsewhere(), beaten=60)
    looked: list[Any] = []

    def check_free(_: Log, row: Any) -> None:
        looked.append(row)
        if len(looked) > 1:
            raise SessionHeldError("it beats")
        change(log, "UPDATE session SET beat = beat + 1")

    monkeypatch.setattr(Log, "_check_free", check_free)
    with pytest.raises(SessionHeldError, match="it beats"):
        log.open(name)
    assert len(looked) == 2, "it was looked at once more"
    holder = log.session(name).holder
    assert holder
    assert holder.host == "faraway"


def test_one_of_many_concurrent_opens_gets_the_session(log: Log) -> None:
    name = begun(log, "hello")
    logs = [Log(log.location) for _ in range(6)]
    won: list[Any] = []
    refused: list[BaseException] = []
    ready = threading.Barrier(len(logs))

    def try_it(own: Log) -> None:
        ready.wait()
        try:
            won.append(own.open(name))
        except BaseException as error:
            refused.append(error)

    threads = [threading.Thread(target=try_it, args=(own,)) for own in logs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert {type(error) for error in refused} == {SessionHeldError}
    for own in logs:
        own.close()
