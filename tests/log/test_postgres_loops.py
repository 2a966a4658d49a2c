"""Appends in the event loop of the caller: in order and once, whatever happens to the loop, task or connection."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial

import asyncpg
import pytest

from outrider.conversation.messages import Message
from outrider.errors import SessionLostError
from outrider.log.entries import MessageEntry
from outrider.log.journal import Journal
from outrider.log.log import Log
from outrider.log.pending_write import PendingWrite
from outrider.log.postgres import loop_writer
from outrider.log.postgres.connections import LoopThread
from tests.log import DEADLINE, Process, change, look, patch_everywhere, until, until_so
from tests.postgres import execute, new_database

CONNECTIONS = "SELECT pid FROM pg_stat_activity WHERE application_name = 'outrider' AND datname = current_database()"


@pytest.fixture
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with new_database(tmp_path_factory) as url:
        yield url


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each loop connect with its first append."""
    monkeypatch.setattr(loop_writer, "APPENDS_BEFORE_CONNECTION", 1)


@pytest.fixture
def log(url: str) -> Iterator[Log]:
    with Log(url) as log:
        yield log


def entry(text: object) -> MessageEntry:
    return MessageEntry(Message.user(str(text)))


def texts(log: Log, journal: Journal) -> list[str]:
    return [message.text for message in log.messages(journal.id)]


async def write(journal: Journal, text: object) -> None:
    await journal.write(entry(text)).finished()


async def connect(log: Log, journal: Journal) -> None:
    """Append until the appends of this loop have a connection in it."""
    await write(journal, "first")
    writer = log._backend._writer  # type: ignore[attr-defined]
    home = writer._loops[asyncio.get_running_loop()]
    await until_so(lambda: home._connection is not None)


async def connected(log: Log) -> Journal:
    journal = log.create()
    await connect(log, journal)
    return journal


@asynccontextmanager
async def locked(url: str, journal: Journal) -> AsyncIterator[asyncpg.Connection]:
    """Hold the row of a session, so that an append to it waits in Postgres."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("BEGIN")
        await connection.execute("SELECT FROM outrider.session WHERE id = $1 FOR UPDATE", journal.id)
        yield connection
    finally:
        await connection.close()


def blocked(url: str) -> list[int]:
    """Return the connections that wait for a lock."""
    return [pid for (pid,) in execute(url, f"{CONNECTIONS} AND wait_event_type = 'Lock'")]


async def under_way(url: str) -> int:
    """Wait until an append waits for a lock. Return its connection."""
    await until_so(lambda: blocked(url))
    return blocked(url)[0]


# The way


async def test_appends_of_a_busy_loop_do_not_wait_for_the_thread(log: Log) -> None:
    journal = await connected(log)
    free = threading.Event()
    log._backend._thread.call(free.wait, DEADLINE)  # type: ignore[attr-defined]
    try:
        written = journal.write(entry("second"))
        waiting = asyncio.ensure_future(written.finished())
        await until_so(lambda: written.done)
        unawaited = journal.write(entry("third"))
        await until_so(lambda: unawaited.done)
    finally:
        free.set()
    await waiting
    assert texts(log, journal) == ["first", "second", "third"]


async def test_a_loop_that_appends_seldom_has_no_connection(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_writer, "APPENDS_BEFORE_CONNECTION", 3)
    with Log(url) as log:
        journal = log.create()
        log.sessions()
        for number in range(2):
            await write(journal, number)
        assert len(execute(url, CONNECTIONS)) == 2
        await write(journal, 2)
        await until_so(lambda: len(execute(url, CONNECTIONS)) == 3)


async def test_sessions_that_append_at_once_share_commits(log: Log, url: str) -> None:
    journals = [log.create() for _ in range(50)]
    await connect(log, journals[0])
    ((before,),) = execute(url, "SELECT pg_current_xact_id()::text::bigint")
    await asyncio.gather(*(write(journal, "together") for journal in journals))
    ((after,),) = execute(url, "SELECT pg_current_xact_id()::text::bigint")
    assert after - before < 25, "some of them are of others on this server"
    assert all(texts(log, journal)[-1] == "together" for journal in journals)


async def test_a_holder_that_was_replaced_cannot_write(log: Log) -> None:
    journal = await connected(log)
    change(log, "UPDATE session SET fence = fence + 1")
    with pytest.raises(SessionLostError):
        await write(journal, "late")
    assert texts(log, journal) == ["first"]


async def test_a_callback_that_fails_does_not_touch_the_write(log: Log) -> None:
    journal = await connected(log)
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context["exception"]))
    written = journal.write(entry("second"))
    written.then(lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    await written.finished()
    assert [type(each) for each in told] == [ZeroDivisionError]
    assert texts(log, journal) == ["first", "second"]


# Several places


async def test_writes_with_and_without_waiting_stay_in_order(log: Log) -> None:
    journal = await connected(log)
    pending: list[PendingWrite] = []
    for number in range(0, 60, 3):
        pending += [journal.write(entry(number)), journal.write(entry(number + 1))]
        if number % 2:
            await asyncio.sleep(0)
        journal.write_now(entry(number + 2))  # the loop cannot run meanwhile
        assert texts(log, journal)[1:] == [str(each) for each in range(number + 3)]
    for each in pending:
        await each.finished()
    assert texts(log, journal) == ["first", *map(str, range(60))]


async def test_a_session_is_closed_after_its_writes(log: Log, url: str) -> None:
    journal = await connected(log)
    async with locked(url, journal) as other:
        write = journal.write(entry("second"))
        waiting = asyncio.ensure_future(write.finished())
        await under_way(url)
        closing = asyncio.ensure_future(asyncio.to_thread(journal.close))
        await other.execute("COMMIT")
        await closing
    await waiting
    assert texts(log, journal) == ["first", "second"]
    log.open(journal.id).close()


def run_together(*works: Callable[[], object]) -> None:
    """Call functions in a thread each, and wait. None may fail."""
    with ThreadPoolExecutor(len(works)) as pool:
        for each in [pool.submit(work) for work in works]:
            each.result()


@pytest.mark.parametrize("loops", [1, 3])
def test_loops_and_threads_share_a_session(log: Log, loops: int) -> None:
    journal = log.create()
    others = [log.create() for _ in range(loops)]

    async def in_loop(number: int) -> None:
        for count in range(40):
            await asyncio.gather(write(journal, f"{number} {count}"), write(others[number], count))

    def in_thread() -> None:
        for count in range(40):
            journal.write_now(entry(f"thread {count}"))

    run_together(in_thread, *(partial(asyncio.run, in_loop(number)) for number in range(loops)))
    found = texts(log, journal)
    assert len(found) == 40 * (loops + 1)
    for name in ("thread", *map(str, range(loops))):
        assert [text for text in found if text.startswith(f"{name} ")] == [f"{name} {count}" for count in range(40)]
    for other in others:
        assert texts(log, other) == [str(count) for count in range(40)]


async def test_a_thread_need_not_wait_for_a_loop_that_is_blocked(log: Log, url: str) -> None:
    journal = await connected(log)
    written: list[float] = []

    def in_thread() -> None:
        journal.write_now(entry("third"))
        written.append(time.monotonic())

    async with locked(url, journal) as other:
        waiting = asyncio.ensure_future(write(journal, "second"))
        await under_way(url)
        await other.execute("COMMIT")
        thread = threading.Thread(target=in_thread)
        thread.start()
        thread.join(DEADLINE)  # blocks the loop
        assert written
    await waiting
    await write(journal, "fourth")
    assert texts(log, journal) == ["first", "second", "third", "fourth"]


# Cancels and broken connections


async def test_a_cancel_in_the_middle_of_an_append_waits_for_its_outcome(log: Log, url: str) -> None:
    journal = await connected(log)
    async with locked(url, journal) as other:
        waiting = asyncio.ensure_future(write(journal, "second"))
        behind = asyncio.ensure_future(write(journal, "third"))
        await under_way(url)
        for _ in range(3):
            waiting.cancel()
            await asyncio.sleep(0.01)
            assert not waiting.done()
        await other.execute("COMMIT")
    await asyncio.wait([waiting, behind], timeout=DEADLINE)
    assert waiting.cancelled()
    assert behind.exception() is None
    await write(journal, "fourth")
    assert texts(log, journal) == ["first", "second", "third", "fourth"]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("number", range(12))
async def test_a_cancel_at_any_turn_of_the_loop_leaves_each_entry_once(log: Log, number: int) -> None:
    journal = await connected(log)
    waiting = asyncio.ensure_future(write(journal, "second"))
    for _ in range(number):
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting], timeout=DEADLINE)
    await write(journal, "third")
    assert texts(log, journal) in (["first", "second", "third"], ["first", "third"])
    assert number == 0 or "second" in texts(log, journal)


async def test_a_connection_that_is_killed_in_the_middle_of_an_append_loses_nothing(log: Log, url: str) -> None:
    journal = await connected(log)
    async with locked(url, journal) as other:
        waiting = asyncio.ensure_future(write(journal, "second"))
        execute(url, "SELECT pg_terminate_backend($1)", await under_way(url))
        await until_so(lambda: blocked(url))  # the thread tries again
        await other.execute("COMMIT")
    await waiting
    await connect(log, journal)
    assert texts(log, journal) == ["first", "second", "first"]


async def test_an_idle_connection_that_was_killed_loses_nothing(log: Log, url: str) -> None:
    journal = await connected(log)
    for (pid,) in execute(url, CONNECTIONS):
        execute(url, "SELECT pg_terminate_backend($1)", pid)
    for number in range(5):
        await write(journal, number)
    assert texts(log, journal) == ["first", *map(str, range(5))]


async def test_a_server_without_room_for_a_connection_does_not_stop_the_thread(url: str) -> None:
    with Log(url) as log:
        journal = log.create()
        server, _, name = url.rpartition("/")
        execute(f"{server}/postgres", f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        for number in range(5):
            await write(journal, number)
            await asyncio.sleep(0.01)
        execute(f"{server}/postgres", f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        assert texts(log, journal) == list(map(str, range(5)))


# The end of the loop


def in_new_loop(work: object) -> asyncio.AbstractEventLoop:
    """Run a coroutine in a new loop, and return the loop as it is then."""
    loop = asyncio.new_event_loop()
    loop.run_until_complete(work)  # type: ignore[arg-type]
    return loop


def shut_down(loop: asyncio.AbstractEventLoop) -> None:
    """End a loop as `asyncio.run` does."""
    for task in asyncio.all_tasks(loop):
        task.cancel()
        loop.run_until_complete(asyncio.wait([task]))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


@pytest.mark.parametrize("end", ["tidy", "closed", "stopped"])
def test_a_log_may_be_closed_after_its_loops(url: str, end: str) -> None:
    with Log(url) as log:
        loops = []
        for _ in range(3):
            journal = log.create()
            loop = in_new_loop(connect(log, journal))
            loops.append(loop)
            if end == "tidy":
                shut_down(loop)
            elif end == "closed":
                loop.close()
            journal.write_now(entry("second"))
            assert texts(log, journal) == ["first", "second"]
            journal.close()
    if end == "stopped":
        for each in loops:
            shut_down(each)
    del loops, loop
    until(lambda: is_disconnected(url))


@pytest.mark.parametrize("end", ["tidy", "closed", "stopped"])
def test_a_write_that_its_loop_leaves_behind_is_done(url: str, end: str) -> None:
    with Log(url) as log:
        journal = log.create()

        async def leave() -> None:
            await connect(log, journal)
            journal.write(entry("second"))
            await asyncio.sleep(0)

        loop = in_new_loop(leave())
        if end == "tidy":
            shut_down(loop)
        elif end == "closed":
            loop.close()
    assert texts(log, journal) == ["first", "second"]
    if end == "stopped":
        shut_down(loop)
    log.close()


def test_a_loop_that_stopped_leaves_its_writes_to_the_next_heartbeat(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patch_everywhere(monkeypatch, BEAT_SECONDS=0.05)
    with Log(url) as log:
        journal = log.create()

        async def leave() -> None:
            await connect(log, journal)
            journal.write(entry("second"))
            await asyncio.sleep(0)

        loop = in_new_loop(leave())
        until(lambda: texts(log, journal) == ["first", "second"])
        journal.close()
    shut_down(loop)


async def test_a_log_that_is_closed_in_its_loop_keeps_what_was_under_way(url: str) -> None:
    with Log(url) as log:
        journal = await connected(log)
        async with locked(url, journal) as other:
            waiting = asyncio.ensure_future(write(journal, "second"))
            queued = asyncio.ensure_future(write(journal, "third"))
            await under_way(url)
            await other.execute("COMMIT")
    await asyncio.gather(waiting, queued)
    assert texts(log, journal) == ["first", "second", "third"]
    await write(journal, "fourth")
    assert texts(log, journal)[-1] == "fourth"
    journal.close()
    log.close()


async def test_a_log_that_is_not_closed_disconnects(url: str) -> None:
    log = Log(url)
    journal = await connected(log)
    journal.close()
    del log, journal
    await until_so(lambda: is_disconnected(url))


def is_disconnected(url: str) -> bool:
    gc.collect()  # each time: a thread may still have held the log
    return execute(url, CONNECTIONS) == []


def test_a_log_that_its_own_thread_collects_ends_the_thread(url: str) -> None:
    gc.collect()
    gc.disable()
    try:
        log = Log(url)
        log.create().close()
        worker = log._backend._thread  # type: ignore[attr-defined]
        thread = worker._thread
        del log
        worker.call(gc.collect)
        until(lambda: not thread.is_alive())
    finally:
        gc.enable()


def test_a_forked_process_leaves_the_connection_alone(url: str) -> None:
    script = """
        from outrider.log.postgres import loop_writer
        loop_writer.APPENDS_BEFORE_CONNECTION = 1
        log = Log(arguments[0])
        journal = log.create()

        def write(text):
            return journal.write(MessageEntry(Message.user(text)))

        async def main():
            await write("first").finished()
            home = log._backend._writer._loops[asyncio.get_running_loop()]
            while home._connection is None:
                await asyncio.sleep(0.001)
            child = os.fork()
            if not child:
                told = write("child").error
                log.close()
                say(told)
                os._exit(0)
            os.waitpid(child, 0)
            before = home._connection
            await write("second").finished()
            assert home._connection is before
            say(*(message.text for message in log.messages(journal.id)))

        asyncio.run(main())
        journal.close()
        log.close()
    """
    with Process(script, url) as process:
        assert process.hear().startswith("this Log was created before the process forked")
        assert process.hear() == "first second"
        process.end()


# Heartbeats


async def test_heartbeats_do_not_wait_for_appends(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patch_everywhere(monkeypatch, BEAT_SECONDS=0.02)
    with Log(url) as log:
        journal, beating = await connected(log), log.create()
        async with locked(url, journal) as other:
            waiting = asyncio.ensure_future(write(journal, "second"))
            await under_way(url)
            before = look(log, "SELECT beat FROM session WHERE id = ?", beating.id)[0][0]
            await until_so(lambda: look(log, "SELECT beat FROM session WHERE id = ?", beating.id)[0][0] > before + 2)
            await other.execute("COMMIT")
            await waiting
        journal.close()
        beating.close()


async def test_an_append_counts_as_a_heartbeat(log: Log) -> None:
    journals = [await connected(log), log.create()]
    change(log, "UPDATE session SET beaten = 0")
    await write(journals[0], "alone")
    await asyncio.gather(*(write(journal, "together") for journal in journals))
    assert all(beaten > 0 for (beaten,) in look(log, "SELECT beaten FROM session"))


async def test_an_answer_that_does_not_come_is_sought_by_the_thread(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patch_everywhere(monkeypatch, BEAT_SECONDS=0.02)
    monkeypatch.setattr(loop_writer, "ANSWER_SECONDS", 0.1)
    with Log(url) as log:
        journal = await connected(log)
        async with locked(url, journal) as other:
            waiting = asyncio.ensure_future(write(journal, "second"))
            before = await under_way(url)
            await until_so(lambda: set(blocked(url)) - {before})
            await other.execute("COMMIT")
        await waiting
        await write(journal, "third")
        assert texts(log, journal) == ["first", "second", "third"]
        journal.close()


def test_a_log_may_be_closed_while_others_write(url: str) -> None:
    log = Log(url)
    journals = [log.create() for _ in range(3)]
    is_over = threading.Event()
    counts = [0] * len(journals)

    def use(place: int) -> None:
        while not is_over.is_set():
            journals[place].write_now(entry(counts[place]))
            counts[place] += 1

    def close() -> None:
        try:
            for _ in range(20):
                log.close()
        finally:
            is_over.set()

    run_together(close, *(partial(use, place) for place in range(len(journals))))
    for journal, count in zip(journals, counts, strict=True):
        assert texts(log, journal) == list(map(str, range(count)))
        journal.close()
    log.close()


def test_a_thread_begins_after_the_end_of_the_one_before_it() -> None:
    thread = LoopThread()
    was_alive: list[bool] = []

    async def nothing() -> None:
        pass

    async def last() -> None:
        thread.call(lambda: was_alive.append(before.is_alive()))  # as a finalizer does meanwhile
        await asyncio.sleep(0.2)  # time to begin too early

    thread.run(nothing())
    before = thread._thread
    assert before
    thread.stop(last)
    until(lambda: was_alive)
    thread.stop(nothing)
    assert was_alive == [False]
