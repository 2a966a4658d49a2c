"""Faults of a log in Postgres: writes that fail or stay unknown, and sessions that go meanwhile."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from outrider.conversation.attachments import Attachment
from outrider.errors import AttachmentError, DamagedLogError, LogError, UnknownSessionError
from outrider.log.log import Log
from outrider.log.postgres import commit, writer
from outrider.log.questions import Option, PermissionQuestion
from tests.log import asked, entry, let_everything_happen, look, patch_everywhere, texts, until, until_so
from tests.log.proxy import Proxy
from tests.postgres import execute

BODY = PermissionQuestion(tool="Bash", input={}, title="Bash()", options=(Option("once", "Yes", True),))


@pytest.fixture
def log(url: str) -> Iterator[Log]:
    with Log(url) as log:
        yield log


def fail_inserts(log: Log, state: str, *, times: int = 10**6) -> None:
    """Let the database refuse new entries so many times, with this SQLSTATE."""
    # What a sequence counts is not undone with the transaction.
    body = f"""
        BEGIN
            IF nextval('outrider.failed') <= {times} THEN RAISE EXCEPTION 'no' USING ERRCODE = '{state}'; END IF;
            RETURN NEW;
        END
    """
    execute(log.location, "CREATE SEQUENCE outrider.failed")
    execute(log.location, f"CREATE FUNCTION outrider.fail() RETURNS trigger LANGUAGE plpgsql AS $${body}$$")
    when = "BEFORE INSERT ON outrider.event FOR EACH ROW"
    execute(log.location, f"CREATE TRIGGER fail {when} EXECUTE FUNCTION outrider.fail()")


class Gate:
    """Holds the thread of a log, so that what is queued meanwhile waits at the same moment."""

    def __init__(self, log: Log) -> None:
        self._open = threading.Event()
        backend: Any = log._backend
        backend._thread.call(self._open.wait)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._open.set()


# Writes that fail


async def test_an_entry_that_the_database_refuses_does_not_keep_others_from_being_stored(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = log.create(), log.create()
    poison = "position('poison'::bytea in body) = 0"
    execute(log.location, f"ALTER TABLE outrider.event ADD CONSTRAINT harmless CHECK ({poison})")
    monkeypatch.setattr(commit, "BATCH_JOBS", 3)  # so that there are two commits
    with Gate(log):
        refused = bad.write(entry("poison"))
        kept = [good.write(entry(number)) for number in range(4)]
    with pytest.raises(LogError, match="violates check constraint"):
        await refused.finished()
    for write in kept:
        await write.finished()
    await bad.write(entry("harmless")).finished()
    assert (texts(log, bad.id), texts(log, good.id)) == (["harmless"], ["0", "1", "2", "3"])


@pytest.mark.parametrize("is_done", [True, False])
async def test_after_a_write_whose_outcome_is_unknown_a_session_goes_on_only_if_it_was_not_done(
    far: Log, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    journal = far.create()
    await journal.write(entry("one")).finished()
    proxy.closes_then = True
    setattr(proxy, "unanswered" if is_done else "lost_request", b"entry two")
    with monkeypatch.context() as impatient:
        patch_everywhere(impatient, RETRY_SECONDS=0.1)
        with pytest.raises(LogError, match="cannot be used"):
            await journal.write(entry("entry two")).finished()
    proxy.is_open, proxy.closes_then = True, False
    if is_done:
        for _ in range(2):
            with pytest.raises(LogError, match="open the session again"):
                await journal.write(entry("three")).finished()
        journal.close()
        journal = far.open(journal.id)
    await journal.write(entry("three")).finished()
    assert texts(far, journal.id) == ["one", *(["entry two"] if is_done else []), "three"]


async def test_closing_without_a_connection_fails_what_waits(
    far: Log, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = far.create()
    held = far.inbox.listen(journal.id)
    await held.ask(asked("call_1", BODY))
    monkeypatch.setattr(writer, "STOP_SECONDS", 0.05)
    for first_is_question in (True, False):
        proxy.cut()
        with Gate(far):
            asking = [asyncio.ensure_future(held.ask(asked("call_2", BODY)))] if first_is_question else []
            await let_everything_happen()
            writes = [journal.write(entry("lost")), journal.write(entry("lost"))]
        await asyncio.to_thread(far._backend.close)
        for waiting in (*asking, *(write.finished() for write in writes)):
            with pytest.raises(LogError, match="closed before Postgres could be reached"):
                await waiting
        proxy.is_open = True
    await journal.write(entry("later")).finished()
    assert texts(far, journal.id) == ["later"]


async def test_a_log_that_nobody_closed_does_not_wait_long_for_a_database_that_is_gone(
    far: Log, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch_everywhere(monkeypatch, UNCLOSED_SECONDS=0.1)
    patch_everywhere(monkeypatch, STOP_SECONDS=1_000.0)
    unclosed = Log(far._backend.url)
    journal = unclosed.create()
    proxy.cut()
    write = journal.write(entry("lost"))
    await let_everything_happen()
    backend: Any = unclosed._backend
    await asyncio.to_thread(backend._finalizer)  # as the garbage collector would
    with pytest.raises(LogError, match="closed before Postgres could be reached"):
        await write.finished()
    proxy.is_open = True


def test_a_log_that_is_not_used_disconnects_and_connects_again(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patch_everywhere(monkeypatch, BEAT_SECONDS=0.02)
    monkeypatch.setattr(writer, "IDLE_SECONDS", 0.0)
    with Log(url) as log:
        journal = log.create()
        journal.close()
        backend: Any = log._backend
        until(lambda: backend._writer._own._line._connection is None)
        journal = log.open(journal.id)
        journal.write_now(entry("hello"))
        assert texts(log, journal.id) == ["hello"]


def test_a_transaction_that_collides_is_repeated(log: Log) -> None:
    journal = log.create()
    fail_inserts(log, "40001", times=2)
    journal.write_now(entry("hello"))
    assert texts(log, journal.id) == ["hello"]
    assert look(log, "SELECT last_value FROM failed") == [(3,)]


@pytest.mark.parametrize(
    ("state", "kind", "advice"),
    [
        ("53100", LogError, "cannot be used: no; free some space there and continue: nothing is lost"),
        ("25006", LogError, "cannot be used: no; the server is a copy: add target_session_attrs=read-write to the URL"),
        ("XX001", DamagedLogError, "cannot be used: no"),
    ],
)
def test_an_error_of_the_database_says_what_to_do(
    log: Log, monkeypatch: pytest.MonkeyPatch, state: str, kind: type[LogError], advice: str
) -> None:
    journal = log.create()
    fail_inserts(log, state)
    patch_everywhere(monkeypatch, RETRY_SECONDS=0.0)
    with pytest.raises(kind) as failed:
        journal.write_now(entry("hello"))
    assert str(failed.value).endswith(advice)


def test_a_database_that_is_not_there_is_to_be_created(url: str) -> None:
    with Log(f"{url}_missing") as log, pytest.raises(LogError, match="create it with `createdb`"):
        log.sessions()


# What goes meanwhile


def test_a_session_that_is_deleted_while_it_is_read_is_unknown(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    patch_everywhere(monkeypatch, PAGE=2)
    journal = log.create()
    journal.write_now(*map(entry, range(6)))
    journal.close()
    reading = log.records(journal.id)
    next(reading)
    log.delete(journal.id)
    with pytest.raises(UnknownSessionError, match="was just deleted"):
        list(reading)


def test_bytes_that_are_not_those_of_a_reference_are_refused(log: Log) -> None:
    journal = log.create()
    file = journal.files.put(Attachment(b"right", "text/plain"))
    store = log._backend.store
    longer = msgspec.structs.replace(file, size=6)
    with pytest.raises(AttachmentError, match="has 5 bytes, not 6 as its reference says"):
        store.read(longer)
    assert b"".join(store.chunks(file)) == b"right"
    look(log, "UPDATE chunk SET data = ? RETURNING 1", b"wrong")
    with pytest.raises(AttachmentError, match="was changed in the attachment store"):
        store.chunks(file)


# Watching


async def test_who_stops_watching_is_not_called_any_more(log: Log) -> None:
    seen: list[Any] = []
    stop = watcher(log).watch(seen.append, lambda: True)
    until(lambda: watcher(log)._seen[1] >= 0)  # the call is on its way, and this event loop has not made it yet
    stop()
    await let_everything_happen()
    assert seen == []
    await until_so(lambda: watcher(log)._task is None)  # no one watches any more


async def test_a_log_that_is_watched_and_not_closed_ends_its_thread(url: str) -> None:
    log = Log(url)
    seen: list[Any] = []
    watcher(log).watch(seen.append, lambda: True)
    await until_so(lambda: seen)
    backend: Any = log._backend
    thread = backend._thread._thread
    del backend, log
    until(lambda: gc.collect() >= 0 and not thread.is_alive())  # each time: the thread may still have held it


def watcher(log: Log) -> Any:
    return log.inbox._watcher
