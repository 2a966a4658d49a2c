"""The writer thread: waiting jobs are committed together, in order, and a failing job does not affect others."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from outrider.conversation.messages import Message
from outrider.errors import LogError, SessionLostError
from outrider.log.entries import MessageEntry
from outrider.log.log import Log
from outrider.log.pending_write import PendingWrite, deliver_cancel
from outrider.log.sqlite import writer as writer_module
from outrider.log.sqlite.database import open_for_writing
from outrider.log.sqlite.writer import Work, Writer
from tests.log import DEADLINE, Process, patch_everywhere, until

HOLD = """
    import sqlite3
    connection = sqlite3.connect(arguments[0], isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    say("held")
    hear()
    connection.execute("ROLLBACK")
    say("free")
"""
"""A process that keeps the file busy until it is told to let go."""


class Trace:
    """What SQLite was told to do."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.statements: list[str] = []
        opened = open_for_writing

        def traced(path: Path) -> sqlite3.Connection:
            connection = opened(path)
            connection.set_trace_callback(self.statements.append)
            return connection

        monkeypatch.setattr(writer_module, "open_for_writing", traced)

    @property
    def commits(self) -> int:
        return self.statements.count("COMMIT")


@pytest.fixture
def trace(monkeypatch: pytest.MonkeyPatch) -> Trace:
    return Trace(monkeypatch)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


@pytest.fixture
def writer(path: Path) -> Iterator[Writer]:
    made = Writer(path, {}, lambda connection: None, 60.0)
    made.run(make_notes)
    yield made
    made.close()


def make_notes(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE IF NOT EXISTS note (place INTEGER PRIMARY KEY, text)")


def note(text: object) -> Work[None]:
    """Work that writes one line."""

    def work(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO note (text) VALUES (?)", (text,))

    return work


def failing(text: object, error: BaseException) -> Work[None]:
    """Work that writes one line and then fails."""

    def work(connection: sqlite3.Connection) -> None:
        note(text)(connection)
        raise error

    return work


def notes(path: Path) -> list[Any]:
    with closing(sqlite3.connect(path, timeout=DEADLINE)) as connection:
        return [text for (text,) in connection.execute("SELECT text FROM note ORDER BY place")]


class Held:
    """Keeps the writer's thread at its first job, so that what is sent meanwhile waits together."""

    def __init__(self, writer: Writer) -> None:
        self._begun, self._go_on = threading.Event(), threading.Event()
        self._writer = writer

    def __enter__(self) -> Held:
        self._writer.post(self._wait)
        assert self._begun.wait(DEADLINE)
        return self

    def __exit__(self, *_: object) -> None:
        self._go_on.set()

    def _wait(self, connection: sqlite3.Connection) -> None:
        self._begun.set()
        assert self._go_on.wait(DEADLINE)


class Doing:
    """`writer.do` in a thread of its own."""

    def __init__(self, writer: Writer, work: Work[Any]) -> None:
        self.outcome: Any = None
        self._thread = threading.Thread(target=self._run, args=(writer, work), daemon=True)
        self._thread.start()

    def _run(self, writer: Writer, work: Work[Any]) -> None:
        try:
            self.outcome = writer.run(work)
        except BaseException as error:
            self.outcome = error

    def wait(self, seconds: float = DEADLINE) -> Any:
        self._thread.join(seconds)
        assert not self._thread.is_alive(), "it was never answered"
        return self.outcome


# Together


def test_what_waits_at_the_same_moment_shares_a_commit(trace: Trace, writer: Writer, path: Path) -> None:
    before = trace.commits
    with Held(writer):
        for number in range(100):
            writer.post(note(number))
    writer.run(lambda connection: None)
    assert notes(path) == list(range(100))
    assert trace.commits - before <= 3


async def test_messages_of_many_sessions_share_commits(trace: Trace, tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        journals = [log.create() for _ in range(20)]
        before = trace.commits
        writes = [
            journal.write(MessageEntry(Message.user(str(n)))) for n, journal in enumerate(journals) for _ in range(5)
        ]
        for write in writes:
            await write.finished()
        assert trace.commits - before < len(writes) / 2
        for number, journal in enumerate(journals):
            assert log.messages(journal.id) == [Message.user(str(number))] * 5


def test_one_commit_holds_no_more_than_it_may(
    trace: Trace, writer: Writer, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch_everywhere(monkeypatch, BATCH=10)
    before = trace.commits
    with Held(writer):
        for number in range(95):
            writer.post(note(number))
    writer.run(lambda connection: None)
    assert notes(path) == list(range(95))
    assert 10 <= trace.commits - before <= 12


def done_together(writer: Writer, *works: Work[Any]) -> list[Any]:
    """What comes of pieces of work that share a commit, in this order."""
    with Held(writer):
        doings = []
        for work in works:
            doings.append(Doing(writer, work))
            until(lambda: writer._jobs.qsize() == len(doings))
    return [each.wait() for each in doings]


@pytest.mark.parametrize(
    "error", [SessionLostError("gone"), ValueError("no"), sqlite3.OperationalError("no"), MemoryError("no")], ids=repr
)
def test_one_that_fails_does_not_spoil_its_neighbours(
    trace: Trace, writer: Writer, path: Path, error: Exception
) -> None:
    before = trace.commits
    first, said, second = done_together(writer, note(1), failing("never", error), note(2))
    assert (first, second) == (None, None)
    assert said is error if isinstance(error, LogError) else type(said) is LogError
    assert str(error) in str(said)
    assert notes(path) == [1, 2], "what the failing one had done is undone"
    assert trace.commits - before == 2, "that of the one before, and one for all of them"


def test_what_ends_a_thread_does_not_end_the_writer_but_the_commit(writer: Writer, path: Path) -> None:
    outcomes = done_together(writer, note(1), failing("never", SystemExit(3)), note(2))
    assert [type(outcome) for outcome in outcomes] == [LogError] * 3
    assert "cannot be written: SystemExit: 3" in str(outcomes[0])
    assert notes(path) == [], "who was told that it failed is right"
    writer.run(note(3))
    assert notes(path) == [3]


def test_work_that_rolls_everything_back_is_not_taken_for_done(writer: Writer, path: Path) -> None:
    def full(connection: sqlite3.Connection) -> None:  # as SQLite does it by itself, on some errors
        connection.execute("ROLLBACK")
        raise sqlite3.OperationalError("database or disk is full")

    outcomes = done_together(writer, note(1), full, note(2))
    assert [type(outcome) for outcome in outcomes] == [LogError] * 3
    assert notes(path) == []
    assert done_together(writer, note(3), note(4)) == [None, None]
    assert notes(path) == [3, 4]


def test_a_failed_commit_fails_for_all_of_its_jobs(writer: Writer, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_large(connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA defer_foreign_keys=ON")
        connection.execute("INSERT INTO child VALUES (4711)")  # found out by COMMIT alone

    def prepare(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE child (note REFERENCES note (place))")

    opened = open_for_writing

    def strict(path: Path) -> sqlite3.Connection:
        connection = opened(path)
        connection.execute("PRAGMA foreign_keys=ON")
        return connection

    writer.run(prepare)
    writer.close()
    monkeypatch.setattr(writer_module, "open_for_writing", strict)
    outcomes = done_together(writer, note(1), too_large, note(2))
    assert len({id(outcome) for outcome in outcomes}) == 1
    assert isinstance(outcomes[0], LogError)
    assert notes(path) == []
    assert done_together(writer, note(3), note(4)) == [None, None]
    assert notes(path) == [3, 4]


def test_work_is_done_in_the_order_in_which_it_came(writer: Writer, path: Path) -> None:
    for error in (None, ValueError("no")):  # all well, and one that is left out
        with Held(writer):
            for number in range(50):
                writer.post(note(number))
                if error and number == 25:
                    writer.post(failing("never", error))
        writer.run(lambda connection: None)
    assert notes(path) == [*range(50), *range(50)]


def test_the_result_of_a_job_is_returned_to_its_caller(writer: Writer) -> None:
    with Held(writer):
        doings = [Doing(writer, lambda connection, number=number: number * number) for number in range(10)]
    assert [each.wait() for each in doings] == [number * number for number in range(10)]


# Done is done


async def test_it_counts_as_done_only_when_others_can_see_it(writer: Writer, path: Path) -> None:
    for number in range(20):
        seen: list[Any] = []
        write = writer.submit(note(number))
        write.then(lambda seen=seen: seen.extend(notes(path)))
        await write.finished()
        assert seen == list(range(number + 1))
    writer.run(note(20))
    assert notes(path) == list(range(21))


async def test_who_waits_is_told_what_went_wrong(writer: Writer) -> None:
    write = writer.submit(failing("never", SessionLostError("gone")))
    with pytest.raises(SessionLostError, match="gone"):
        await write.finished()
    with pytest.raises(SessionLostError, match="gone"):
        await write.finished()
    with pytest.raises(LogError, match=r"log\.db is damaged \(no such table: nowhere\)"):
        writer.run(lambda connection: connection.execute("SELECT * FROM nowhere"))
    with pytest.raises(LogError, match=r"log\.db cannot be written: ValueError: what is that\?"):
        writer.run(failing("never", ValueError("what is that?")))
    await writer.submit(note("still there")).finished()


async def test_what_comes_then_comes_at_once_if_the_work_is_done(writer: Writer) -> None:
    write = writer.submit(note(1))
    heard: list[str] = []
    write.then(lambda: heard.append("later"))
    assert heard == []
    await write.finished()
    assert heard == ["later"]
    write.then(lambda: heard.append("at once"))
    assert heard == ["later", "at once"]


async def test_work_that_could_not_even_begin_has_failed_at_once() -> None:
    write = PendingWrite.failed(SessionLostError("gone"))
    heard: list[BaseException | None] = []
    write.then(lambda: heard.append(write.error))
    assert [str(error) for error in heard] == ["gone"]
    with pytest.raises(SessionLostError, match="gone"):
        await write.finished()


async def test_who_waits_is_woken_whatever_a_callback_does(writer: Writer) -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
    heard: list[int] = []
    with Held(writer):
        writes = [writer.submit(note(number)) for number in range(3)]
        for number, write in enumerate(writes):
            write.then(lambda: 1 / 0)
            write.then(lambda number=number: heard.append(number))
        writes[1].then(lambda: heard.append(4711))
    for write in writes:
        await asyncio.wait_for(write.finished(), DEADLINE)
    await asyncio.sleep(0)
    assert [type(each["exception"]) for each in told] == [ZeroDivisionError], "it is not swallowed either"


async def test_a_cancelled_waiter_is_cancelled_after_its_job_is_done(writer: Writer, path: Path) -> None:
    with Held(writer):
        write = writer.submit(note("written"))
        waiting = asyncio.ensure_future(write.finished())
        await asyncio.sleep(0)
        for _ in range(3):
            waiting.cancel()
            await asyncio.sleep(0)
            assert not waiting.done()
    with pytest.raises(asyncio.CancelledError):
        await wait_and_then(waiting)
    assert notes(path) == ["written"]


async def test_a_cancel_goes_before_the_error_of_the_work(writer: Writer) -> None:
    with Held(writer):
        write = writer.submit(failing("never", SessionLostError("gone")))
        waiting = asyncio.ensure_future(write.finished())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
        assert not waiting.done()
    await asyncio.wait([waiting], timeout=DEADLINE)
    assert waiting.cancelled()


async def test_a_cancel_that_came_during_the_work_can_be_had_at_once(writer: Writer) -> None:
    reached: list[str] = []

    async def wait() -> None:
        await write.finished()
        reached.append("in line with the disk")
        await deliver_cancel()
        reached.append("beyond")

    with Held(writer):
        write = writer.submit(note(1))
        waiting = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
    await asyncio.wait([waiting], timeout=DEADLINE)
    assert waiting.cancelled()
    assert reached == ["in line with the disk"]
    await deliver_cancel()  # nothing, where nobody is cancelled


async def wait_and_then(waiting: asyncio.Future[None]) -> None:
    await waiting
    await asyncio.sleep(0)


async def test_several_may_wait_for_the_same_work(writer: Writer) -> None:
    with Held(writer):
        write = writer.submit(note(1))
        waiting = [asyncio.ensure_future(write.finished()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[1].cancel()
    await asyncio.wait(waiting)
    assert [each.cancelled() for each in waiting] == [False, True, False]


# The end


def test_closing_finishes_what_waits(writer: Writer, path: Path) -> None:
    with Held(writer):
        for number in range(50):
            writer.post(note(number))
        closing_it = threading.Thread(target=writer.close)
        closing_it.start()
        until(lambda: writer._jobs.qsize() == 51)
    closing_it.join(DEADLINE)
    assert not closing_it.is_alive()
    assert notes(path) == list(range(50))
    assert not path.with_name("log.db-wal").exists(), "the file was closed, and all is in it"


def test_a_closed_writer_opens_the_file_again_when_it_is_used_again(writer: Writer, path: Path) -> None:
    for number in range(3):
        writer.run(note(number))
        writer.close()
        writer.close()
    assert notes(path) == [0, 1, 2]


def test_work_that_comes_while_the_writer_is_being_closed_is_still_done(writer: Writer, path: Path) -> None:
    class Slow(queue.SimpleQueue):  # type: ignore[type-arg]
        """A queue in which a job arrives a moment late, while the writer is being closed."""

        late = False

        def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
            if item is not None and self.late:
                self.late = False
                closing_it = threading.Thread(target=writer.close)
                closing_it.start()
                closing_it.join(0.2)
            super().put(item, block, timeout)

    writer.close()
    writer._jobs = slow = Slow()
    writer.run(note("first"))
    slow.late = True
    assert Doing(writer, note("second")).wait(seconds=3) is None
    assert notes(path) == ["first", "second"]


def test_work_that_comes_after_the_order_to_close_is_done_and_the_writer_closed(path: Path) -> None:
    writer = Writer(path, {}, lambda connection: None, 60.0)
    writer.run(make_notes)
    with Held(writer):
        closing_it = threading.Thread(target=writer.close, daemon=True)
        closing_it.start()
        until(lambda: writer._jobs.qsize() == 1)
        doing = Doing(writer, note("late"))
        until(lambda: writer._jobs.qsize() == 2)
    assert doing.wait() is None
    assert notes(path) == ["late"]
    closing_it.join(DEADLINE)
    assert not closing_it.is_alive()


def test_work_may_close_the_writer_that_does_it(path: Path) -> None:
    """A finalizer may: the garbage collector runs on any thread."""
    writer = Writer(path, {}, lambda connection: None, 60.0)
    writer.run(make_notes)

    def last(connection: sqlite3.Connection) -> None:
        note("last")(connection)
        writer.close()

    assert Doing(writer, last).wait() is None
    until(lambda: writer._thread is None)
    assert notes(path) == ["last"]


def test_without_a_thread_for_the_log_a_write_fails_and_the_next_one_can_succeed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    writer = Writer(path, {}, lambda connection: None, 60.0)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refused)
        with pytest.raises(LogError, match="the log cannot be written: can't start new thread"):
            writer.run(make_notes)
    writer.run(make_notes)
    writer.close()


def test_concurrent_writes_and_closes_lose_nothing(path: Path) -> None:
    writer = Writer(path, {}, lambda connection: None, 0.02)
    writer.run(make_notes)
    outcomes: list[Any] = []

    def use() -> None:
        for number in range(20):
            outcomes.append(writer.run(note(number)))
            writer.close()

    users = [threading.Thread(target=use, daemon=True) for _ in range(4)]
    for user in users:
        user.start()
    for user in users:
        user.join(DEADLINE)
        assert not user.is_alive()
    assert outcomes == [None] * 80
    assert sorted(notes(path)) == sorted([*range(20)] * 4)


def test_an_event_loop_that_was_closed_meanwhile_is_harmless(writer: Writer, path: Path) -> None:
    failed: list[Any] = []
    before, threading.excepthook = threading.excepthook, failed.append
    try:
        loop = asyncio.new_event_loop()

        async def send() -> None:
            writer.submit(note("from a loop that ends"))

        with Held(writer):
            loop.run_until_complete(send())
            loop.close()
        writer.run(note("from elsewhere"))
    finally:
        threading.excepthook = before
    assert notes(path) == ["from a loop that ends", "from elsewhere"]
    assert failed == []


def test_a_process_that_was_forked_is_told_to_open_the_log_again(tmp_path: Path) -> None:
    script = """
        log = Log(arguments[0])
        session = talk(log)
        asyncio.run(session.run("before"))
        if os.fork() == 0:
            result = asyncio.run(session.run("in the child"))
            say("child:", result.status, result.error)
            try:
                log.create()
            except LogError as error:
                say("child:", type(error).__name__, error)
            with Log(arguments[0]) as own:
                other = talk(own)
                asyncio.run(other.run("by itself"))
                say("child:", len(own.messages(other.id)), len(own.messages(session.id)))
            os._exit(0)
        os.wait()
        asyncio.run(session.run("after"))
        say("parent:", [message.text for message in log.messages(session.id)])
        session.close()
    """
    told = "this Log was created before the process forked; create a new Log in the child process"
    with Process(script, tmp_path) as process:
        assert process.hear() == f"child: error {told}"
        assert process.hear() == f"child: LogError {told}"
        assert process.hear() == "child: 2 2"
        assert process.hear() == "parent: ['before', 'You said: before', 'after', 'You said: after']"
        assert process.end() == []


def test_a_fork_while_another_thread_hands_work_to_the_log_does_not_hang_the_child(tmp_path: Path) -> None:
    script = """
        import threading
        log = Log(arguments[0])
        log.create()
        handing, done = threading.Event(), threading.Event()

        def hand_over():
            with log._backend.writer._lock:
                handing.set()
                done.wait()

        threading.Thread(target=hand_over, daemon=True).start()
        handing.wait()
        threading.Timer(0.2, done.set).start()
        if os.fork() == 0:
            try:
                log.create()
            except LogError as error:
                say("child:", error)
            os._exit(0)
        os.wait()
        say("parent:", len(log.create().id))
    """
    with Process(script, tmp_path) as process:
        assert process.hear(seconds=5).startswith("child: this Log was created before the process forked")
        assert process.hear() == "parent: 32"


def test_a_fork_in_the_middle_of_work_waits_for_it_and_harms_neither_process(tmp_path: Path) -> None:
    script = """
        import threading
        log = Log(arguments[0])
        journals = [log.create() for _ in range(3)]
        stop = threading.Event()

        def work(journal):
            while not stop.is_set():
                journal.write_now(MessageEntry(Message.user("busy")))
                written[journal.id] += 1

        written = {journal.id: 0 for journal in journals}
        threads = [threading.Thread(target=work, args=(journal,)) for journal in journals]
        for thread in threads:
            thread.start()
        codes = []
        for _ in range(10):
            child = os.fork()
            if child == 0:
                with Log(arguments[0]) as own:
                    mine = own.create()
                    mine.write_now(MessageEntry(Message.user("from a child")))
                    os._exit(0 if len(own.messages(mine.id)) == 1 else 1)
            codes.append(os.waitpid(child, 0)[1])
        stop.set()
        for thread in threads:
            thread.join()
        say(codes == [0] * 10, all(len(log.messages(name)) == count for name, count in written.items()))
        checked = __import__("sqlite3").connect(log.folder / "log.db").execute("PRAGMA integrity_check")
        say([each[0] for each in checked])
    """
    with Process(script, tmp_path) as process:
        assert process.hear() == "True True"
        assert process.hear() == "['ok']"
        process.end()


# Busy


def test_a_file_that_another_process_keeps_busy_is_waited_for(writer: Writer, path: Path) -> None:
    with Process(HOLD, path) as other:
        assert other.hear() == "held"
        doing = Doing(writer, note("at last"))
        until(lambda: writer._jobs.empty())
        assert notes(path) == []
        other.tell()
        assert other.hear() == "free"
        assert doing.wait() is None
    assert notes(path) == ["at last"]


def test_a_file_that_stays_busy_is_given_up_with_a_sentence_and_can_be_used_later(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch_everywhere(monkeypatch, BUSY_SECONDS=0.1)
    writer = Writer(path, {}, lambda connection: None, 60.0)
    writer.run(make_notes)
    with Process(HOLD, path) as other:
        assert other.hear() == "held"
        begun = time.monotonic()
        with pytest.raises(LogError, match=r"another process has been writing to the log .* for too long; try again"):
            writer.run(note("never"))
        took = time.monotonic() - begun
        assert 0.2 < took < 30, "each of a few attempts waited"
        other.tell()
        assert other.hear() == "free"
    writer.run(note("at last"))
    writer.close()
    assert notes(path) == ["at last"]


def test_the_wait_for_a_busy_file_is_bounded_however_many_wait(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patch_everywhere(monkeypatch, BUSY_SECONDS=0.1)
    writer = Writer(path, {}, lambda connection: None, 60.0)
    writer.run(make_notes)
    with Process(HOLD, path) as other:
        assert other.hear() == "held"
        begun = time.monotonic()
        doings = [Doing(writer, note(number)) for number in range(100)]
        outcomes = [each.wait() for each in doings]
        took = time.monotonic() - begun
    writer.close()
    assert {type(outcome) for outcome in outcomes} == {LogError}
    assert took < 15, "not much longer than for one: one after the other, they would take half a minute"


# The pulse


def wait_for_beats(beats: list[float], more: int) -> None:
    there = len(beats)
    until(lambda: len(beats) >= there + more)


def beating(path: Path, every: float, held: dict[int, int], beat: Callable[[], None]) -> Writer:
    return Writer(path, held, lambda connection: beat(), every)


def test_the_pulse_goes_on_while_there_is_nothing_else_to_do_and_while_there_is(path: Path) -> None:
    beats: list[float] = []
    writer = beating(path, 0.01, {1: 1}, lambda: beats.append(time.monotonic()))
    writer.run(make_notes)
    wait_for_beats(beats, 3)
    there = len(beats)
    while len(beats) < there + 3:
        writer.run(note("busy"))
    writer.close()


def test_the_pulse_begins_and_ends_with_what_is_held(path: Path) -> None:
    beats: list[float] = []
    held: dict[int, int] = {}
    writer = beating(path, 0.05, held, lambda: beats.append(time.monotonic()))
    writer.run(make_notes)
    assert beats == []
    held[1] = 1  # no word to the writer: its thread looks by itself
    wait_for_beats(beats, 2)
    held.clear()
    until(lambda: writer._thread is None)
    there = len(beats)
    time.sleep(0.2)
    assert len(beats) == there


def test_a_writer_with_nothing_to_do_ends_its_thread_and_closes_the_file_and_begins_again(path: Path) -> None:
    writer = beating(path, 0.02, {}, lambda: None)
    writer.run(make_notes)
    for number in range(3):
        writer.run(note(number))
        thread = writer._thread
        until(lambda: writer._thread is None)
        if thread:
            thread.join(DEADLINE)
            assert not thread.is_alive()
        assert not path.with_name("log.db-wal").exists(), "the file was closed"
    assert notes(path) == [0, 1, 2]


def test_work_that_comes_when_the_thread_is_about_to_end_is_done(path: Path) -> None:
    writer = beating(path, 0.001, {}, lambda: None)
    writer.run(make_notes)
    for number in range(200):
        writer.run(note(number))
        time.sleep(0.001)  # about as long as it takes the thread to give up
    writer.close()
    assert notes(path) == list(range(200))


def test_a_pulse_that_fails_does_not_end_the_writer(path: Path) -> None:
    beats: list[float] = []

    def beat() -> None:
        beats.append(time.monotonic())
        raise ValueError("no pulse")

    writer = beating(path, 0.01, {1: 1}, beat)
    writer.run(make_notes)
    wait_for_beats(beats, 2)
    writer.run(note("alive"))
    writer.close()
    assert notes(path) == ["alive"]


# Another file at the same place


def test_a_file_that_was_put_in_the_place_of_another_is_the_one_that_is_written(writer: Writer, path: Path) -> None:
    writer.run(note("in the old one"))
    path.rename(path.with_name("aside.db"))
    for suffix in ("-wal", "-shm"):
        path.with_name(f"log.db{suffix}").unlink(missing_ok=True)
    writer.run(make_notes)
    writer.run(note("in the new one"))
    assert notes(path) == ["in the new one"]
