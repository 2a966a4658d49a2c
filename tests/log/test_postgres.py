"""What only a log in Postgres promises: broken connections, leases, roles, TLS, and passwords that stay secret."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import shutil
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from outrider.cli import main
from outrider.conversation.attachments import Attachment
from outrider.conversation.messages import AttachmentBlock, Message
from outrider.errors import LogError, NewerLogError, SessionHeldError, SessionLostError
from outrider.log.entries import MessageEntry, SessionSettings
from outrider.log.holder import STALE_SECONDS, Holder
from outrider.log.log import Log
from outrider.log.postgres import loop_writer
from outrider.log.postgres.address import Address
from outrider.log.postgres.connections import Database, LoopThread
from outrider.log.postgres.inbox import PostgresWatcher, _Watch
from outrider.log.questions import Answer, Option, PermissionQuestion, Say
from outrider.log.transfer import export, import_session
from tests.lengths import only_long
from tests.log import (
    DEADLINE,
    Process,
    asked,
    change,
    entry,
    look,
    open_session,
    patch_everywhere,
    texts,
    until,
    until_so,
)
from tests.log.proxy import Proxy
from tests.postgres import Server, execute, own_server, rights_of, without, worker_role

SECRET = "s3cr%40t%2Fword"
DENIED_SECONDS = 5.0
"""How long to wait for what a role without a right does in the background."""
HOLD = """
    log = Log(arguments[0])
    journal = log.create()
    journal.write_now(MessageEntry(Message.user("kept")))
    say(journal.id)
    hear()
"""


@pytest.fixture
def log(url: str) -> Iterator[Log]:
    with Log(url) as log:
        yield log


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that tests may stop and kill."""
    with own_server() as server:
        yield server


# Broken connections


async def test_a_commit_whose_answer_is_lost_is_not_written_twice(far: Log, proxy: Proxy) -> None:
    journal = far.create()
    for number in range(30):
        if number % 3 == 0:
            proxy.unanswered = f"entry {number}".encode()
        await journal.write(entry(f"entry {number}")).finished()
        assert not proxy.unanswered
    assert texts(far, journal.id) == [f"entry {number}" for number in range(30)]


async def test_writes_wait_while_the_network_is_cut_and_come_in_order(far: Log, proxy: Proxy) -> None:
    journal = far.create()
    await journal.write(entry("before")).finished()
    proxy.cut()
    writes = [journal.write(entry(number)) for number in range(20)]
    await asyncio.sleep(0.1)
    assert not any(write.done for write in writes)
    proxy.is_open = True
    for write in writes:
        await write.finished()
    assert texts(far, journal.id) == ["before", *map(str, range(20))]


async def test_a_network_that_stays_away_is_an_error_and_the_session_goes_on_later(
    far: Log, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = far.create()
    await journal.write(entry("one")).finished()
    proxy.cut()
    with monkeypatch.context() as impatient:
        patch_everywhere(impatient, RETRY_SECONDS=0.3)
        with pytest.raises(LogError, match="cannot be used"):
            await journal.write(entry("lost")).finished()
    proxy.is_open = True
    await journal.write(entry("two")).finished()
    assert texts(far, journal.id) == ["one", "two"]


async def test_a_lost_answer_of_creating_opening_forking_and_importing_leaves_one_session(
    far: Log, proxy: Proxy
) -> None:
    assert far.sessions() == []  # a log that was never reached does not wait for Postgres
    for _ in range(2):
        name = os.urandom(16).hex()
        proxy.unanswered = name.encode()
        journal = far.create(id=name)
        journal.write_now(entry("hello"))
        assert not proxy.unanswered
        proxy.unanswered = b"COMMIT;"
        child = far.open_child(os.urandom(16).hex(), SessionSettings(), journal, "call_1")
        assert not proxy.unanswered
        child.close()
        journal.close()
        proxy.unanswered = far._token.encode()  # it is in the name of the holder
        far.open(journal.id).close()
        assert not proxy.unanswered
        proxy.unanswered = b"COMMIT;"
        copy = far.fork(journal.id)
        assert not proxy.unanswered
        assert texts(far, copy) == ["hello"]
        exported = [*export(far, journal.id)]
        proxy.unanswered = b"COMMIT;"
        imported = import_session(far, exported).id
        assert not proxy.unanswered
        assert imported != journal.id
        assert texts(far, imported) == ["hello"]
    assert len(look(far, "SELECT id FROM session")) == 8
    assert look(far, "SELECT session FROM event WHERE session NOT IN (SELECT number FROM session)") == []


async def test_postgres_may_be_restarted_and_killed_under_open_sessions(server: Server, home: None) -> None:
    database = f"restarted_{os.urandom(4).hex()}"
    server.execute(f"CREATE DATABASE {database}")
    with Log(server.url(database)) as log:
        journals = [log.create() for _ in range(4)]
        written: list[list[str]] = [[] for _ in journals]

        async def write(number: int) -> None:
            for count in range(40):
                await journals[number].write(entry(count)).finished()
                written[number].append(str(count))

        async def disturb() -> None:
            for end in (server.kill, server.stop, server.kill):
                reached = sum(map(len, written)) + 8
                while sum(map(len, written)) < min(reached, 150):
                    await asyncio.sleep(0.005)
                await asyncio.to_thread(end)
                await asyncio.to_thread(server.start)

        await asyncio.gather(*map(write, range(4)), disturb())
        for journal, expected in zip(journals, written, strict=True):
            assert texts(log, journal.id) == expected == [str(count) for count in range(40)]


async def test_a_holder_that_another_replaced_while_it_was_cut_off_cannot_write(
    far: Log, proxy: Proxy, log: Log
) -> None:
    journal = far.create()
    await journal.write(entry("mine")).finished()
    proxy.cut()
    change(log, "UPDATE session SET holder = ''")
    other = log.open(journal.id)
    other.write_now(entry("theirs"))
    late = journal.write(entry("too late"))
    proxy.is_open = True
    with pytest.raises(SessionLostError):
        await late.finished()
    assert texts(log, journal.id) == ["mine", "theirs"]


# Leases


def elsewhere(log: Log, name: str, silent: float) -> None:
    """Have a session held on another machine, whose last heartbeat was so many seconds ago by the database's clock."""
    holder = Holder("faraway", "another boot", 4711, "1", 0.0, "outrider")
    change(
        log,
        "UPDATE session SET holder = ?, beaten = extract(epoch from clock_timestamp()) - ? WHERE id = ?",
        *(msgspec.json.encode(holder).decode(), silent, name),
    )


def test_the_clock_of_the_database_judges_a_lease(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = log.create()
    journal.close()
    elsewhere(log, journal.id, STALE_SECONDS - 20)
    now = time.time
    for wrong in (0.0, 10**6, -(10**6)):
        with monkeypatch.context() as context:
            context.setattr(time, "time", lambda wrong=wrong: now() + wrong)
            with pytest.raises(SessionHeldError, match="process 4711 on faraway"):
                log.open(journal.id)


def test_a_silent_holder_elsewhere_is_replaced(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = log.create()
    journal.close()
    elsewhere(log, journal.id, 60)
    patch_everywhere(monkeypatch, STALE_SECONDS=0.0)  # the server of the tests has not run for long
    log.open(journal.id).close()


def test_a_restart_of_the_database_does_not_end_leases(log: Log) -> None:
    journal = log.create()
    journal.close()
    elsewhere(log, journal.id, 10**6)  # no beat since long before the server started
    ((running,),) = look(log, "SELECT extract(epoch from now() - pg_postmaster_start_time())::float8")
    if running < STALE_SECONDS - 10:
        with pytest.raises(SessionHeldError):
            log.open(journal.id)


def test_a_held_session_sends_heartbeats(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patch_everywhere(monkeypatch, BEAT_SECONDS=0.02)
    with Log(url) as log:
        journal = log.create()
        until(lambda: look(log, "SELECT beat FROM session")[0][0] > 2)
        journal.close()


def test_a_killed_process_on_this_machine_is_replaced_at_once(log: Log) -> None:
    with Process(HOLD, log.location) as process:
        name = process.hear()
        with pytest.raises(SessionHeldError, match=f"process {process.pid}"):
            log.open(name)
        process.kill()
        with open_session(log, id=name) as session:
            assert [message.text for message in session.messages] == ["kept"]


# Files


async def test_files_that_no_session_refers_to_are_removed_when_they_are_old(log: Log) -> None:
    journal = log.create()
    kept = journal.files.put(Attachment(b"kept" * 300_000, "application/octet-stream"))
    journal.write_now(MessageEntry(Message.user(kept)))
    stray = log._backend.store.put(Attachment(b"stray", "text/plain"))
    assert log.remove_unreferenced_files() == (0, 0)
    change(log, "UPDATE file SET touched = now() - interval '2 hours'")
    change(log, "UPDATE chunk SET stored = now() - interval '2 hours'")
    assert log.remove_unreferenced_files() == (1, 5)
    assert look(log, "SELECT count(*) FROM chunk WHERE upload NOT IN (SELECT upload FROM file)") == [(0,)]
    assert log.files(journal.id).read(kept) == b"kept" * 300_000
    with pytest.raises(Exception, match="is not in the attachment store"):
        log._backend.store.read(stray)


async def test_changed_bytes_of_a_file_are_refused(log: Log) -> None:
    journal = log.create()
    reference = journal.files.put(Attachment(b"right", "text/plain"))
    change(log, "UPDATE chunk SET data = ?", b"wrong")
    with pytest.raises(Exception, match="was changed in the attachment store"):
        journal.files.read(reference)


# Versions


def test_looking_creates_nothing(log: Log) -> None:
    assert log.sessions() == []
    assert log.search("anything") == []
    assert execute(log.location, "SELECT nspname FROM pg_namespace WHERE nspname = 'outrider'") == []


def test_many_processes_create_the_tables_at_once(url: str) -> None:
    logs = [Log(url) for _ in range(6)]
    threads = [threading.Thread(target=each.create) for each in logs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(look(logs[0], "SELECT * FROM session")) == 6
    for each in logs:
        each.close()


def test_an_older_format_is_upgraded_and_a_newer_one_refused(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    from outrider.log.postgres import schema

    log.create().close()
    more = (*schema.MIGRATIONS, "CREATE TABLE later (id integer)")
    with monkeypatch.context() as newer:
        patch_everywhere(newer, MIGRATIONS=more)
        with Log(log.location) as upgraded:
            assert upgraded.sessions() == []
            assert look(upgraded, "SELECT * FROM later") == []
    with Log(log.location) as old, pytest.raises(NewerLogError, match="upgrade Outrider"):
        old.sessions()


# Roles


async def test_the_role_of_the_documentation_suffices_and_has_no_more_rights(log: Log, url: str) -> None:
    log.create().close()  # the owner makes the tables
    with worker_role(url, batches=False) as restricted, Log(restricted) as mine:
        with open_session(mine, ["Well."]) as session:
            await session.run(["Look.", Attachment(b"notes", "text/plain")])
        assert texts(mine, session.id)[-1] == "Well."
        assert mine.search("well")
        assert mine.fork(session.id)
        open_session(mine, id=session.id).close()
        mine.rename(session.id, "Renamed")
        with pytest.raises(LogError, match=r"permission denied .* docs/scale.md"):
            mine.delete(session.id)
        with pytest.raises(Exception, match="permission denied"):
            execute(mine.location, "CREATE TABLE outrider.more (id integer)")
        with pytest.raises(Exception, match="permission denied"):
            execute(mine.location, "UPDATE outrider.event SET body = ''")


async def use_everything(url: str) -> None:
    """Do all that a worker does with a log."""
    question = PermissionQuestion(tool="Bash", input={}, title="Bash()", options=(Option("once", "Yes", True),))
    with Log(url) as log:
        with open_session(log, ["Well."]) as session:
            await session.run(["Look.", Attachment(os.urandom(16), "application/octet-stream")])
            held = log.inbox.listen(session.id)
            await until_so(lambda: log.inbox.is_listening(session.id))
            log.inbox.answer(await held.ask(asked("call_1", question)), Answer("once"), "here")
            log.inbox.send(session.id, Say("More."))
            assert await held.take_signals()
        (file,) = [block for block in log.messages(session.id)[0].content if isinstance(block, AttachmentBlock)]
        assert log.files(session.id).read(file)
        assert log.search("well")
        assert log.fork(session.id)
        open_session(log, id=session.id).close()
        log.rename(session.id, "Renamed")


@pytest.mark.parametrize("step", [15, *only_long(1)])
async def test_the_role_needs_each_right_of_the_documentation(log: Log, url: str, step: int) -> None:
    log.create().close()
    with worker_role(url, batches=False) as restricted:
        await use_everything(restricted)
        role = restricted.partition("//")[2].partition("@")[0]
        rights = rights_of(url, role)
        assert len(rights) > 30
        for right, place in rights[::step]:
            with without(url, role, right, place):
                (failure,) = await asyncio.gather(
                    asyncio.wait_for(use_everything(restricted), DENIED_SECONDS), return_exceptions=True
                )
            assert failure, f"{right} on {place} is not needed"


def test_a_role_that_may_not_create_the_tables_is_told_so(url: str) -> None:
    role = f"nobody_{os.urandom(4).hex()}"
    execute(url, f"CREATE ROLE {role} LOGIN")
    try:
        with Log(url.replace("postgres@", f"{role}@")) as log, pytest.raises(LogError, match="the owner of the schema"):
            log.create()
    finally:
        execute(url, f"DROP ROLE {role}")


# Passwords


@pytest.mark.parametrize(
    "form", ["postgresql://ann:{}@db:5432/log", "postgres://ann@db/log?password={}&sslmode=require"]
)
def test_no_form_of_an_address_shows_the_password(form: str) -> None:
    address = Address(form.format(SECRET))
    assert address.password == "s3cr@t/word"
    for shown in (repr(address), address.location, address.url, str(vars(Log(form.format(SECRET))))):
        assert "s3cr" not in shown
    assert address.conceal(f"bad {SECRET} and s3cr@t/word") == "bad *** and ***"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://ann:s3c@ret@db/log", "more than one @"),
        ("postgresql://ann:s3cret/x@db/log", "port in the URL"),
        ("postgresql://ann@db:s3cret/log", "port in the URL"),
        ("postgresql://[ann:s3cret@db/log", "cannot be read"),
    ],
)
def test_an_address_that_cannot_be_read_is_refused_without_its_password(url: str, said: str) -> None:
    with pytest.raises(LogError, match=said) as refused:
        Log(url)
    assert "s3c" not in str(refused.value)


@pytest.fixture
def guarded(server: Server) -> Iterator[Server]:
    """A server that wants a password from `ann`."""
    rules = server.data / "pg_hba.conf"
    before = rules.read_text()
    server.execute("DROP ROLE IF EXISTS ann")
    server.execute("CREATE ROLE ann LOGIN SUPERUSER PASSWORD 's3cr@t/word'")
    rules.write_text("host all ann 127.0.0.1/32 scram-sha-256\n" + before)
    server.execute("SELECT pg_reload_conf()")
    until(lambda: _is_refused(server))
    yield server
    rules.write_text(before)
    server.execute("SELECT pg_reload_conf()")


def _is_refused(server: Server) -> bool:
    try:
        execute(server.url(user="ann"), "SELECT 1")
    except Exception:
        return True
    return False


def test_a_wrong_password_is_refused_with_what_to_do(guarded: Server) -> None:
    with Log(guarded.url(user="ann:wr0ngword")) as log, pytest.raises(LogError) as refused:
        log.sessions()
    assert "PGPASSWORD or a password file" in str(refused.value)
    assert "wr0ngword" not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize("way", ["url", "variable", "file"])
def test_the_password_comes_from_the_url_a_variable_or_a_file(
    guarded: Server, way: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if way == "variable":
        monkeypatch.setenv("PGPASSWORD", "s3cr@t/word")
    if way == "file":
        passwords = tmp_path / "pgpass"
        passwords.write_text("*:*:*:ann:s3cr@t/word\n")
        passwords.chmod(0o600)
        monkeypatch.setenv("PGPASSFILE", str(passwords))
    with Log(guarded.url(user=f"ann:{SECRET}" if way == "url" else "ann")) as log:
        assert log.sessions() == []


def test_the_commands_show_the_place_without_the_password(
    guarded: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    address = guarded.url(user=f"ann:{SECRET}")
    assert main(["sessions", "--log", address]) == 0
    assert "can read the password in --log" in capsys.readouterr().err
    monkeypatch.setenv("OUTRIDER_LOG", address)
    for command in (["sessions"], ["doctor"], ["config"], ["sessions", "recover"]):
        main(command)
        shown = capsys.readouterr()
        assert "s3cr" not in shown.out + shown.err
        assert command != ["doctor"] or f"postgresql://ann@127.0.0.1:{guarded.port}/postgres" in shown.out


# TLS


@contextlib.contextmanager
def tls(port: int, certificate: Path, key: Path) -> Iterator[int]:
    """Offer TLS in front of a server that has none, as Postgres does: after a request for it. Return the port."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    loop = asyncio.new_event_loop()

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            assert await reader.readexactly(8) == bytes([0, 0, 0, 8, 4, 210, 22, 47]), "no request for TLS"
            writer.write(b"S")
            await writer.start_tls(context)
            there = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(copy(reader, there[1]), copy(there[0], writer))

    async def start() -> asyncio.Server:
        return await asyncio.start_server(serve, "127.0.0.1", 0)

    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(start(), loop).result()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:

        async def stop() -> None:
            server.close()
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            loop.stop()

        asyncio.run_coroutine_threadsafe(stop(), loop)
        thread.join()
        loop.close()


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """Make a certificate for the loopback interface, signed by itself. Return it and its key."""
    if not shutil.which("openssl"):
        pytest.skip("there is no openssl to make a certificate")
    made, key = folder / f"{name}.crt", folder / f"{name}.key"
    form = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", made]
    subprocess.run(["openssl", "req", *form, *names], check=True, capture_output=True)
    return made, key


def test_sslmode_of_the_url_decides_about_tls(url: str, tmp_path: Path) -> None:
    ours, key = certificate(tmp_path, "ours")
    theirs, _ = certificate(tmp_path, "theirs")
    port = int(url.rpartition(":")[2].partition("/")[0])
    with tls(port, ours, key) as secured:
        address = url.replace(f":{port}/", f":{secured}/")
        with Log(f"{address}?sslmode=verify-full&sslrootcert={ours}") as log:
            journal = log.create()
            journal.write_now(entry("hello"))
            assert texts(log, journal.id) == ["hello"]
            journal.close()
        refused = pytest.raises(LogError, match="certificate verify failed")
        with Log(f"{address}?sslmode=verify-full&sslrootcert={theirs}") as log, refused:
            log.sessions()
    with Log(f"{url}?sslmode=require") as log, pytest.raises(LogError, match="SSL"):
        log.sessions()  # this server offers none


def append_in_a_loop_and_close_it(log: Log) -> None:
    """Append until the loop has a connection."""
    journal = log.create()

    async def append() -> None:
        home = None
        while home is None or home._connection is None:
            await journal.write(entry("hello")).finished()
            home = log._backend._writer._loops[asyncio.get_running_loop()]  # type: ignore[attr-defined]

    loop = asyncio.new_event_loop()
    loop.run_until_complete(asyncio.wait_for(append(), DEADLINE))
    loop.close()
    journal.close()


def test_a_log_over_tls_may_be_closed_after_its_loop(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_writer, "APPENDS_BEFORE_CONNECTION", 1)
    ours, key = certificate(tmp_path, "ours")
    port = int(url.rpartition(":")[2].partition("/")[0])
    with tls(port, ours, key) as secured:
        address = url.replace(f":{port}/", f":{secured}/")
        with Log(f"{address}?sslmode=verify-full&sslrootcert={ours}") as log:
            append_in_a_loop_and_close_it(log)
        gc.collect()  # a socket that is still open would warn


# Without asyncpg


def test_a_missing_driver_is_named_and_nothing_else_needs_it(tmp_path: Path) -> None:
    script = """
        import sys
        sys.modules["asyncpg"] = None
        from outrider import Log
        Log(sys.argv[1]).create().close()
        try:
            Log("postgresql://localhost/x")
        except Exception as error:
            print(error)
    """
    code = "\n".join(line[8:] for line in script.splitlines())
    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    told = (
        "a log in Postgres needs asyncpg: pip install 'PATH[postgres]', with the path of Outrider's checkout or wheel"
    )
    assert ended.stdout.strip() == told


def test_a_log_that_is_not_closed_ends_its_thread(url: str) -> None:
    def threads() -> list[Any]:
        return [thread for thread in threading.enumerate() if thread.name == "outrider-log"]

    before = len(threads())
    log = Log(url)
    log.create().close()
    assert len(threads()) == before + 1
    del log
    until(lambda: gc.collect() >= 0 and len(threads()) == before)  # each time: the thread may still have held it


async def test_a_wish_to_look_that_comes_during_a_look_is_not_forgotten() -> None:
    watcher = PostgresWatcher(LoopThread(), Database(Address("postgresql://nowhere/log")))
    looks: list[bool] = []
    watcher._watches.append(_Watch(lambda view: looks.append(True), lambda: False, asyncio.get_running_loop()))

    class Unchanged:
        """A database that does not change, and someone who begins to wait while it is read."""

        wishes = 1

        async def fetchval(self, query: str) -> str:
            if "snapshot" not in query and self.wishes:
                self.wishes -= 1
                watcher._asked += 1
            return "same"

        async def fetch(self, query: str) -> list[Any]:
            return []

    connection: Any = Unchanged()
    for _ in range(3):
        await watcher._look(connection)
        await asyncio.sleep(0)
    assert len(looks) == 2


def test_a_server_that_lets_everyone_in_is_named(url: str, guarded: Server) -> None:
    with Log(url) as log:
        assert log.warning == "", "nothing is known before the first connection"
        log.create().close()
        assert "asks for no password" in log.warning
    with Log(f"postgresql://ann:s3cr%40t%2Fword@127.0.0.1:{guarded.port}/postgres") as log:
        log.create().close()
        assert log.warning == ""
