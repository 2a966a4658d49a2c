"""Damaged log files: the log works or reports the damage; `recover` saves the intact entries.

Nothing here is about the loss of power, so all of it happens in memory where the system offers that.
"""

from __future__ import annotations

import asyncio
import random
import re
import shutil
import sqlite3
import stat
import struct
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeAlias
from unittest.mock import patch

import msgspec
import pytest

from outrider.conversation.attachments import Attachment
from outrider.conversation.history import violations
from outrider.conversation.messages import AttachmentBlock, Message
from outrider.conversation.usage import Usage
from outrider.errors import AttachmentError, DamagedLogError, LogError, NewerLogError
from outrider.log.entries import (
    AttachmentStored,
    Entry,
    MessageEntry,
    SessionRecovered,
    SessionSettings,
    SessionStarted,
    UnknownEntry,
)
from outrider.log.holder import Holder
from outrider.log.log import Log
from outrider.log.rows import decode, encode
from outrider.log.sqlite.recovery import Recovery, recover
from outrider.log.state import SessionState
from outrider.log.summary import Summary
from outrider.log.transfer import import_session
from outrider.runtime.agent import Agent
from outrider.runtime.limits import Limits
from outrider.runtime.session import Session
from outrider.testing import ScriptedModel, Step, call
from outrider.tools.result import ToolResult
from tests.lengths import only_long
from tests.memory import memory_folder

PAGE = 4096
WAL_HEADER, FRAME_HEADER = 32, 24
FILES = ("log.db", "log.db-wal", "log.db-shm")
PARTS = 8
"""In how many tests a long series of cases is split. The first one is the short form; the others run side by side."""
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 12

Key: TypeAlias = tuple[int, int]
"""Session and seq."""
Rows: TypeAlias = dict[Key, tuple[float, str, bytes]]
"""Time, kind and body of each event."""
Place: TypeAlias = tuple[str, int]
"""A page of the file, or a frame of its write-ahead log: the name of the file, and which from 0."""
Damage: TypeAlias = Callable[[bytes, random.Random], bytes]

parts = pytest.mark.parametrize("part", [0, *only_long(*range(1, PARTS))])


# A realistic log


def look(size: int) -> str:
    """Look at something."""
    return f"{size:06d} " * (size // 7)


def picture() -> ToolResult:
    """Take a picture."""
    return ToolResult("a picture", [Attachment(PNG, "image/png", "shot.png")], details={"shown": True})


def agent(steps: Sequence[Step] | Callable[..., Step]) -> Agent:
    model = ScriptedModel(steps, usage=Usage(100, 10, cost=0.25))
    return Agent(model=model, system="Be brief.", tools=[look, picture], limits=Limits(result_characters=20_000))


def run(session: Session, *prompts: Any) -> None:
    async def runs() -> None:
        for prompt in prompts:
            assert (await session.run(prompt)).status == "done"

    asyncio.run(runs())


def write_sessions(log: Log) -> None:
    looks: list[Step] = [
        ["I'll look.", call("look", size=size), call("look", size=70)] for size in range(100, 1300, 200)
    ]
    with Session.open(log, agent=agent([step for each in looks for step in (each, "There.")])) as first:
        run(first, *(f"What is in place {number}?" for number in range(len(looks))))
    with Session.open(
        log, agent=agent([call("picture"), "Nice.", call("look", size=9000), "Long.", "Thanks."])
    ) as second:
        run(
            second,
            ["Look", Attachment(PNG[:-7], "image/png", "mine.png")],
            "Read it.",
            Attachment(b"notes", name="n.txt"),
        )
    with Session.open(log, agent=agent([call("look", size=40_000), "Very long."])) as third:
        run(third, "Read the large one.")
    with Session.open(log, agent=agent(lambda request: f"That was {len(request.messages)}. " * 5)) as long:
        run(long, *(f"Message {number}, and a few words more." for number in range(105)))
    with Session.open(log, agent=agent([call("look", size=7)])) as waiting:
        asyncio.run(waiting.think("Look, but wait."))
    with Session.open(log, agent=agent([call("look", size=3000), "Soon gone."])) as deleted:
        run(deleted, "Forget this.")
    child = log.create(SessionSettings(model="scripted"), parent=first.id)
    child.write_now(
        MessageEntry(Message.user("Go and see.")), UnknownEntry("hologram", msgspec.Raw(b'{"depth": 3,  "new":[true]}'))
    )
    child.close()
    log.close()
    log.delete(deleted.id)
    log.fork(first.id, at=20)
    log.rename(third.id, "The large one")
    log.close()


def write_more(log: Log) -> None:
    """A second process, whose commits are still in the write-ahead log when the files are copied."""
    ids = [summary.id for summary in log.sessions()]
    for number, name in enumerate(ids[:4]):
        with Session.open(log, name, agent(["Yes.", call("look", size=6000), "Yes, yes."])) as session:
            run(session, f"Is it {number}?", "Really?")
    with Session.open(log, agent=agent([call("picture"), "New."])) as session:
        run(
            session,
            "Begin another.",
        )
    Session.open(log, ids[0], agent([])).now()


class Original(msgspec.Struct, frozen=True):
    """A log as it was written."""

    folder: Path
    files: dict[str, bytes]
    ids: dict[int, str]
    """By number."""
    messages: dict[str, list[Message]]
    rows: Rows
    places: dict[Key, frozenset[Place]]
    """Where the bytes of each event are."""
    attachments: dict[str, dict[AttachmentBlock, bytes]]

    @property
    def pages(self) -> int:
        return len(self.files["log.db"]) // PAGE


def read_original(folder: Path, scratch: Path) -> Original:
    files = {name: (folder / name).read_bytes() for name in FILES if (folder / name).exists()}
    put(scratch, files, folder)
    log = Log(scratch)
    with closing(sqlite3.connect(scratch / "log.db")) as connection:
        ids = dict(connection.execute("SELECT number, id FROM session"))
        query = "SELECT session, seq, time, kind, body FROM event ORDER BY session, seq"
        rows = {(session, seq): (*rest,) for session, seq, *rest in connection.execute(query)}
        root = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'event'").fetchone()[0]
    pages = Pages(files)
    places = dict(zip(rows, pages.cells(root), strict=True))
    attachments: dict[str, dict[AttachmentBlock, bytes]] = {name: {} for name in ids.values()}
    for (number, _), (_, kind, body) in rows.items():
        entry = decode(kind, body)
        if isinstance(entry, AttachmentStored):
            attachments[ids[number]][entry.attachment] = log.files(ids[number]).read(entry.attachment)
    return Original(folder, files, ids, {name: log.messages(name) for name in ids.values()}, rows, places, attachments)


class Pages:
    """The b-tree of the events as SQLite would walk it: on which pages each of them is, in order."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self._files = files
        self._frames: dict[int, int] = {}
        log = files.get("log.db-wal", b"")
        for frame, start in enumerate(range(WAL_HEADER, len(log), FRAME_HEADER + PAGE)):
            if log[start + 8 : start + 16] == log[16:24]:  # of this round: the salt is the same
                self._frames[int.from_bytes(log[start : start + 4])] = frame

    def cells(self, number: int) -> Iterator[frozenset[Place]]:
        place, page = self._read(number)
        inner = page[0] == 0x02
        assert inner or page[0] == 0x0A
        start = 12 if inner else 8
        for index in range(int.from_bytes(page[3:5])):
            pointer = int.from_bytes(page[start + 2 * index : start + 2 * index + 2])
            if inner:
                yield from self.cells(int.from_bytes(page[pointer : pointer + 4]))
                pointer += 4
            yield frozenset([place, *self._overflow(page, pointer)])
        if inner:
            yield from self.cells(int.from_bytes(page[8:12]))

    def _overflow(self, page: bytes, pointer: int) -> Iterator[Place]:
        payload = 0
        while True:
            payload = payload << 7 | page[pointer] & 0x7F
            pointer += 1
            if page[pointer - 1] < 0x80:
                break
        most, least = (PAGE - 12) * 64 // 255 - 23, (PAGE - 12) * 32 // 255 - 23
        if payload <= most:
            return
        local = least + (payload - least) % (PAGE - 4)
        pointer += local if local <= most else least
        number = int.from_bytes(page[pointer : pointer + 4])
        while number:
            place, page = self._read(number)
            yield place
            number = int.from_bytes(page[:4])

    def _read(self, number: int) -> tuple[Place, bytes]:
        if number in self._frames:
            start = WAL_HEADER + self._frames[number] * (FRAME_HEADER + PAGE) + FRAME_HEADER
            return ("log.db-wal", self._frames[number]), self._files["log.db-wal"][start : start + PAGE]
        return ("log.db", number - 1), self._files["log.db"][(number - 1) * PAGE : number * PAGE]


def put(folder: Path, files: dict[str, bytes], original: Path) -> None:
    """A copy of a log; its attachments, which nobody changes here, are shared."""
    folder.mkdir(mode=0o700)
    for name, data in files.items():
        (folder / name).write_bytes(data)
        (folder / name).chmod(0o600)
    (folder / "attachments").symlink_to(original / "attachments")


@pytest.fixture(scope="session")
def memory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="outrider-damage-", dir=memory_folder()) as folder:
        yield Path(folder)


@pytest.fixture
def place(memory: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def closed(memory: Path) -> Original:
    """A log that was closed: all of it is in the file."""
    log = Log(memory / "closed")
    write_sessions(log)
    original = read_original(memory / "closed", memory / "closed-scratch")
    assert list(original.files) == ["log.db"]
    kinds = {original.files["log.db"][start] for start in range(0, len(original.files["log.db"]), PAGE)}
    assert {0x00, 0x02, 0x0A, 0x0D} <= kinds, "overflow pages, interior pages, leaves, and tables with row ids"
    return original


@pytest.fixture(scope="session")
def torn(memory: Path, closed: Original) -> Original:
    """A log whose newest commits are still in the write-ahead log: that of a process that was killed."""
    put(memory / "torn", closed.files, closed.folder)
    (memory / "torn" / "attachments").unlink()
    shutil.copytree(closed.folder / "attachments", memory / "torn" / "attachments")
    with process(WRITE_MORE, memory / "torn"):
        pass
    original = read_original(memory / "torn", memory / "torn-scratch")
    assert len(original.files["log.db-wal"]) > 40 * PAGE
    assert {file for places in original.places.values() for file, _ in places} == {"log.db", "log.db-wal"}
    return original


WRITE_MORE = """
from outrider import Log
from tests.log.test_damaged_files import write_more
log = Log(sys.argv[1])
write_more(log)
"""
HOLD = """
from outrider import Agent, Log, Session
session = Session.open(Log(sys.argv[1]), sys.argv[2], Agent(model="demo")).now()
"""


@contextmanager
def process(script: str, *arguments: object) -> Iterator[int]:
    """Another process that has done what the script says, and is killed in the end; its id."""
    script = f"import sys\n{script}\nprint('done', flush=True)\nsys.stdin.read()"
    command = [sys.executable, "-c", script, *map(str, arguments)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root) as running:
        assert running.stdout
        assert running.stdout.readline() == b"done\n"
        yield running.pid
        running.kill()


# What holds for every damage


ADVICE = re.compile(
    "`outrider sessions recover` saves the intact entries|`outrider sessions` lists them|upgrade Outrider|"
    "move it away|choose another folder|Check the permissions of its folder|Free some space|try again|open it again"
)


def is_clear(said: str, folder: Path) -> bool:
    """Whether it names the file or the event, and what to do."""
    named = r"entry \S+|list of sessions|the session was taken over|session '?[0-9a-f]{8}"
    where = str(folder / "log.db") in said or re.search(named, said)
    return bool(where and ADVICE.search(said))


@contextmanager
def works_or_refuses(folder: Path) -> Iterator[None]:
    said = None
    try:
        yield
    except LogError as error:
        said = str(error)
    assert said is None or is_clear(said, folder), f"not a clear error: {said}"


def check_use(folder: Path, original: Original, choose: random.Random) -> None:
    """Looking and going on work, or are refused in a sentence; what is read is what was written."""
    may_end_early = "log.db-wal" in original.files  # a write-ahead log ends where it is damaged: that is how it is made
    with Log(folder) as log:
        with works_or_refuses(folder):
            for summary in log.sessions():
                assert msgspec.convert(msgspec.to_builtins(summary), Summary) == summary, "a summary is none"
        for name, messages in original.messages.items():
            with works_or_refuses(folder):
                found = log.messages(name)
                assert found == (messages[: len(found)] if may_end_early else messages), "the history is another"
        with works_or_refuses(folder):
            go_on(log, choose.choice(list(original.messages)))


def go_on(log: Log, id: str) -> None:
    who = agent(["Still here."])
    with Session.open(log, id, who) as session:
        result = asyncio.run(session.run("Are you there?"))
        if result.status == "error":
            raise LogError(result.error)
        assert result.text == "Still here."
        assert violations(who.provider.requests[-1].messages) == []  # type: ignore[attr-defined]
        assert session.messages == log.messages(id)


def touched(original: Original, files: dict[str, bytes]) -> set[Place]:
    """The pages and frames that are not as they were."""
    found: set[Place] = set()
    for name, header, size in (("log.db", 0, PAGE), ("log.db-wal", WAL_HEADER, FRAME_HEADER + PAGE)):
        before, after = original.files.get(name, b""), files.get(name, b"")
        for number, start in enumerate(range(header, len(before), size)):
            if before[start : start + size] != after[start : start + size]:
                found.add((name, number))
    return found


def events(path: Path) -> Rows:
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT session, seq, time, kind, body FROM event"
        return {(session, seq): (*rest,) for session, seq, *rest in connection.execute(query)}


def check_recovery(folder: Path, original: Original, files: dict[str, bytes]) -> None:
    """All that is whole is saved, nothing else, and the log can be used again."""
    damaged = touched(original, files)
    whole = {key for key, places in original.places.items() if not places & damaged}
    try:
        found = recover(folder)
    except LogError as error:
        check_refusal(folder, original, files, whole, str(error))
        return
    saved = events(folder / "log.db")
    own = {key: value for key, value in saved.items() if value[1] != "recovered"}
    for key, (_, kind, body) in own.items():
        assert (kind, body) == original.rows[key][1:], f"event {key} is another"
    if found.backup is None and len(files.get("log.db-wal", b"")) < len(original.files.get("log.db-wal", b"")):
        # Where the file ends within a commit, that is as if the process had been killed within it: it was never made.
        newest = dict(sorted(own))
        whole = {(session, seq) for session, seq in whole if seq <= newest.get(session, 0)}
    assert sorted(whole - own.keys()) == [], "events that are whole are gone"
    assert {key: own[key][0] for key in whole} == {key: original.rows[key][0] for key in whole}, "times are others"
    assert found.entries == len(own)
    if found.backup:
        check_aside(folder, found.backup, files)
        assert recover(folder).backup is None
        check_recovered(folder, original, found, saved)
    elif "log.db-wal" not in original.files and files["log.db"]:
        assert own.keys() == original.rows.keys(), "something is gone, and it says that nothing was wrong"


def check_refusal(folder: Path, original: Original, files: dict[str, bytes], whole: set[Key], said: str) -> None:
    """A file that says it is another program's, or of a newer version, may be just that; else something is saved."""
    if re.search("is a database of another program|was written by a newer version", said):
        assert files["log.db"][60:72] != original.files["log.db"][60:72]
    else:
        assert not whole, f"events that are whole are not saved: {said}"
        assert "sessions recover" not in said, f"what was tried just now is of no help: {said}"
    for name, data in files.items():
        assert name == "log.db-shm" or (folder / name).read_bytes() == data


def check_aside(folder: Path, aside: Path, files: dict[str, bytes]) -> None:
    kept = {name: (aside / name).read_bytes() for name in files if name != "log.db-shm" and (aside / name).exists()}
    assert kept.keys() == files.keys() - {"log.db-shm"}
    assert [name for name in kept if kept[name] != files[name]] == [], "the damaged files were changed"
    for path in (folder, aside, *folder.glob("log.db*"), *aside.iterdir()):
        if not path.is_symlink():
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, f"{path.name} is open to others"


def check_recovered(folder: Path, original: Original, found: Recovery, saved: Rows) -> None:
    with closing(sqlite3.connect(folder / "log.db")) as connection:
        ids = dict(connection.execute("SELECT number, id FROM session"))
    assert ids.keys() == {number for number, _ in saved}
    assert found.sessions == len(ids)
    with Log(folder) as log:
        for number, name in ids.items():
            entries = {record.seq: record.entry for record in log.records(name)}
            check_marked(entries, found.lost.get(name, 0))
            if 1 in entries:
                assert name == original.ids[number]
            # The mark may have the number of a last entry that is gone.
            kept = {seq for seq, entry in entries.items() if not isinstance(entry, SessionRecovered)}
            if kept == {seq for session, seq in original.rows if session == number}:
                assert SessionState(entries.values()).messages == original.messages[original.ids[number]]
            else:
                assert name in {*found.lost, *found.unverified}, "a loss is not reported"
            for entry in entries.values():
                if isinstance(entry, AttachmentStored):
                    file = entry.attachment
                    assert log.files(name).read(file) == original.attachments[original.ids[number]][file]
            if name in found.lost or number == max(ids):
                with Session.open(log, name, agent(["Still here."])) as session:
                    assert violations(session.history.sendable()) == []
                    assert asyncio.run(session.run("Are you there?")).text == "Still here."


def check_marked(entries: dict[int, Entry], lost: int) -> None:
    """Where something is gone, the session says so, and says what; what may be gone from its end it need not know."""
    marks = [entry for entry in entries.values() if isinstance(entry, SessionRecovered)]
    gone = [seq for seq in range(1, max(entries)) if seq not in entries]
    assert len(gone) == lost
    assert [mark.count for mark in marks] in ([[lost]] if lost else [[], [0]])
    assert [list(mark.lost) for mark in marks] == [gone[:100] for _ in marks]


# Cases

Case: TypeAlias = tuple[str, dict[str, bytes]]
"""What was done, and the files after it."""


def check_part(subtests: pytest.Subtests, place: Path, original: Original, cases: Iterator[Case], part: int) -> None:
    """Use each and recover each, on a copy of its own: using a log may change its files."""
    for number, (name, files) in enumerate(islice(cases, part, None, PARTS)):
        used, saved = place / f"{number}-used", place / f"{number}-saved"
        with subtests.test(f"{name}: use"):
            put(used, files, original.folder)
            check_use(used, original, random.Random(name))
        with subtests.test(f"{name}: recover"):
            put(saved, files, original.folder)
            check_recovery(saved, original, files)
        shutil.rmtree(used)
        shutil.rmtree(saved)


def changed(original: Original, start: int, data: bytes, file: str = "log.db") -> dict[str, bytes]:
    old = original.files[file]
    return {**original.files, file: old[:start] + data + old[start + len(data) :]}


def flipped(original: Original, start: int, bit: int, file: str = "log.db") -> Case:
    byte = original.files[file][start] ^ 1 << bit
    return f"bit {bit} at {start:,} of {file}", changed(original, start, bytes([byte]), file)


def flips(original: Original, count: int, file: str = "log.db") -> Iterator[Case]:
    """Bits anywhere, half of them at the beginning of a page: there is its structure."""
    choose = random.Random(f"flips of {file}")
    for _ in range(count):
        page = choose.randrange(len(original.files[file]) // PAGE)
        yield flipped(original, page * PAGE + choose.randrange(choose.choice([60, PAGE])), choose.randrange(8), file)


def flips_of_page(original: Original, page: int, count: int) -> Iterator[Case]:
    """Bits of one page, where it is not empty; often the highest of a byte, which makes text none."""
    choose = random.Random(f"flips of page {page}")
    data = original.files["log.db"]
    used = [start for start in range((page - 1) * PAGE, page * PAGE) if data[start]]
    for _ in range(count):
        yield flipped(original, choose.choice(used), choose.choice([7, *range(8)]))


def clusters(original: Original, count: int, file: str = "log.db") -> Iterator[Case]:
    choose = random.Random(f"clusters in {file}")
    for _ in range(count):
        start, length = choose.randrange(len(original.files[file]) - 600), choose.choice([2, 8, 30, 512, 600])
        data = bytes(byte ^ choose.randrange(256) for byte in original.files[file][start : start + length])
        yield f"{length} bytes at {start:,} of {file}", changed(original, start, data, file)


def lost_pages(original: Original) -> Iterator[Case]:
    choose = random.Random("lost pages")
    for page in range(original.pages):
        yield f"page {page + 1} is zero", changed(original, page * PAGE, bytes(PAGE))
        yield f"page {page + 1} is garbage", changed(original, page * PAGE, choose.randbytes(PAGE))


def truncations(original: Original, file: str = "log.db", every: int = 1) -> Iterator[Case]:
    choose = random.Random(f"truncations of {file}")
    for page in range(0, len(original.files[file]) // PAGE, every):
        for size in (page * PAGE, page * PAGE + choose.randrange(1, PAGE)):
            yield f"{file} ends after {size:,} bytes", {**original.files, file: original.files[file][:size]}


def swaps(original: Original, count: int) -> Iterator[Case]:
    choose = random.Random("swaps")
    data = original.files["log.db"]
    for _ in range(count):
        first, second = sorted(choose.sample(range(original.pages), 2))
        pages = [data[start : start + PAGE] for start in range(0, len(data), PAGE)]
        pages[first], pages[second] = pages[second], pages[first]
        yield f"pages {first + 1} and {second + 1} are swapped", {**original.files, "log.db": b"".join(pages)}


def root_of(original: Original, table: str) -> int:
    with closing(sqlite3.connect(f"file:{original.folder / 'log.db'}?mode=ro&immutable=1", uri=True)) as connection:
        found = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    return int(found[0])


@parts
def test_with_a_flipped_bit_it_works_or_refuses_and_is_saved(
    subtests: pytest.Subtests, place: Path, closed: Original, part: int
) -> None:
    check_part(subtests, place, closed, flips(closed, 88), part)


@parts
def test_with_many_flipped_bits_side_by_side_it_works_or_refuses_and_is_saved(
    subtests: pytest.Subtests, place: Path, closed: Original, part: int
) -> None:
    check_part(subtests, place, closed, clusters(closed, 32), part)


@pytest.mark.long
@parts
def test_with_a_damaged_header_or_schema_it_works_or_refuses_and_is_saved(
    subtests: pytest.Subtests, place: Path, closed: Original, part: int
) -> None:
    header = (flipped(closed, start, bit) for start in range(16, 72) for bit in (0, 7) if not 24 <= start < 40)
    check_part(subtests, place, closed, chain(header, flips_of_page(closed, 1, 32)), part)


@pytest.mark.long
@parts
def test_with_a_damaged_table_of_sessions_it_works_or_refuses_and_is_saved(
    subtests: pytest.Subtests, place: Path, closed: Original, part: int
) -> None:
    counts = {"session": 24, "sqlite_autoindex_session_1": 8, "session_opened": 4, "reference": 8}
    cases = [flips_of_page(closed, root_of(closed, name), count) for name, count in counts.items()]
    start = (root_of(closed, "session") - 1) * PAGE
    rows = (flipped(closed, start + offset, bit) for offset in (3, 4, *range(8, 22, 2)) for bit in (0, 1, 3))
    check_part(subtests, place, closed, chain(rows, *cases), part)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("column", range(24))
def test_a_session_with_a_column_of_another_type_is_refused_or_of_use(
    place: Path, closed: Original, column: int
) -> None:
    """SQLite holds any value in any column: a flipped bit makes a number of a text, and nothing of a number."""
    start = (root_of(closed, "session") - 1) * PAGE
    start += int.from_bytes(closed.files["log.db"][start + 8 : start + 10])  # its first row
    for bit in range(4):
        folder = place / str(bit)
        put(folder, flipped(closed, start + 3 + column, bit)[1], closed.folder)
        with Log(folder) as log:
            with works_or_refuses(folder):
                for summary in log.sessions():
                    assert msgspec.convert(msgspec.to_builtins(summary), Summary) == summary, "a summary is none"
            with works_or_refuses(folder):
                go_on(log, closed.ids[1])
            with works_or_refuses(folder):
                log.rename(closed.ids[1], "Another title")


@pytest.mark.long
@parts
def test_without_any_one_of_its_pages_it_works_or_refuses_and_is_saved(
    subtests: pytest.Subtests, place: Path, closed: Original, part: int
) -> None:
    check_part(subtests, place, closed, lost_pages(closed), part)


@pytest.mark.long
@parts
def test_truncated_at_any_page_it_works_or_refuses_and_is_saved(
    subtests: pytest.Subtests, place: Path, closed: Original, part: int
) -> None:
    check_part(subtests, place, closed, truncations(closed), part)


@parts
def test_with_two_pages_swapped_it_works_or_refuses_and_is_saved(
    subtests: pytest.Subtests, place: Path, closed: Original, part: int
) -> None:
    check_part(subtests, place, closed, swaps(closed, 32), part)


@pytest.mark.long
@parts
def test_with_damage_beside_a_write_ahead_log_it_works_or_refuses_and_is_saved(
    subtests: pytest.Subtests, place: Path, torn: Original, part: int
) -> None:
    check_part(subtests, place, torn, chain(flips(torn, 24), clusters(torn, 8), truncations(torn, every=3)), part)


@parts
def test_with_a_damaged_write_ahead_log_it_works_or_refuses_and_is_saved(
    subtests: pytest.Subtests, place: Path, torn: Original, part: int
) -> None:
    header = (flipped(torn, start, 0, "log.db-wal") for start in range(0, WAL_HEADER, 4))
    cases = chain(header, flips(torn, 24, "log.db-wal"), clusters(torn, 8, "log.db-wal"))
    check_part(subtests, place, torn, cases, part)


@parts
def test_with_a_truncated_write_ahead_log_it_works_or_refuses_and_is_saved(
    subtests: pytest.Subtests, place: Path, torn: Original, part: int
) -> None:
    check_part(subtests, place, torn, truncations(torn, "log.db-wal", every=6), part)


def test_what_else_may_lie_beside_the_file_does_no_harm(
    subtests: pytest.Subtests, place: Path, closed: Original, torn: Original
) -> None:
    garbage = random.Random("beside").randbytes(3 * PAGE)
    log = torn.files["log.db-wal"]
    beside_torn = {
        "the shared memory is garbage": {**torn.files, "log.db-shm": garbage},
        "the shared memory is empty": {**torn.files, "log.db-shm": b""},
        "the shared memory is missing": {name: torn.files[name] for name in FILES[:2]},
        "the write-ahead log is garbage": {**torn.files, "log.db-wal": garbage},
        "the write-ahead log is empty": {**torn.files, "log.db-wal": b""},
        "the write-ahead log is missing": {"log.db": torn.files["log.db"]},
        "the write-ahead log came twice": {**torn.files, "log.db-wal": log + log[WAL_HEADER:]},
    }
    beside_closed = {
        "there are second files with nothing in them": {**closed.files, "log.db-wal": b"", "log.db-shm": b""},
        "garbage takes the place of a write-ahead log": {**closed.files, "log.db-wal": garbage},
        "a recovery broke off": {**closed.files, "log.db.new": garbage, "log.db.new-wal": garbage},
    }
    for original, cases in ((torn, beside_torn), (closed, beside_closed)):
        for case in cases.items():
            check_part(subtests, place, original, iter([case]), 0)


# Something else in its place


def test_garbage_in_its_place_is_refused_and_put_aside(place: Path) -> None:
    garbage = random.Random("garbage").randbytes(5 * PAGE + 17)
    (place / "log.db").write_bytes(garbage)
    (place / "log.db").chmod(0o600)
    for use in USES:
        with pytest.raises(DamagedLogError, match="recover") as caught:
            use(Log(place))
        assert is_clear(str(caught.value), place)
    found = recover(place)
    assert (found.sessions, found.entries, found.lost) == (0, 0, {})
    assert found.backup
    check_aside(place, found.backup, {"log.db": garbage})
    begin(Log(place))


def begin(log: Log) -> None:
    with log, Session.open(log, agent=agent(["Hello."])) as session:
        run(session, "Hi.")


USES: list[Callable[[Log], object]] = [
    Log.sessions,
    begin,
    lambda log: log.messages("0" * 32),
    lambda log: log.remove_unreferenced_files(),
    lambda log: import_session(log, [b'{"outrider_session":1,"id":""}', b'{"seq":1,"time":1,"kind":"x","body":{}}']),
]


def test_an_empty_file_is_a_log_without_sessions(place: Path) -> None:
    (place / "log.db").touch(0o600)
    assert Log(place).sessions() == []
    assert recover(place) == Recovery(0, 0, {}, (), None)
    begin(Log(place))
    assert len(Log(place).sessions()) == 1


def test_a_folder_in_its_place_is_refused(place: Path) -> None:
    (place / "log.db").mkdir()
    (place / "log.db" / "mine.txt").write_text("kept")
    for use in (*USES, lambda log: recover(log.folder)):
        with pytest.raises(LogError) as caught:
            use(Log(place))
        assert is_clear(str(caught.value), place)
    assert [path.name for path in place.iterdir()] == ["log.db"]
    assert (place / "log.db" / "mine.txt").read_text() == "kept"


@pytest.mark.parametrize("mark", [0, 0x0F055112])
def test_a_database_of_another_program_is_refused_and_not_changed(place: Path, mark: int) -> None:
    with closing(sqlite3.connect(place / "log.db")) as connection:
        connection.executescript(f"PRAGMA application_id={mark}; CREATE TABLE bookmark (url TEXT)")
        connection.executescript("INSERT INTO bookmark VALUES ('https://example.org')")
    before = (place / "log.db").read_bytes()
    for use in (*USES, lambda log: recover(log.folder)):
        with pytest.raises(LogError, match="is a database of another program; choose another folder"):
            use(Log(place))
    assert [path.name for path in place.iterdir()] == ["log.db"]
    assert (place / "log.db").read_bytes() == before


def test_a_folder_without_a_log_has_nothing_to_recover(place: Path) -> None:
    for folder in (place, place / "nothing here"):
        with pytest.raises(LogError, match="there is no log in"):
            recover(folder)
    assert list(place.iterdir()) == []


# Recovering


@pytest.fixture
def whole(place: Path, closed: Original) -> Path:
    """A copy of the log that was closed, to be damaged."""
    put(place / "log", closed.files, closed.folder)
    return place / "log"


def spoil(folder: Path, original: Original, *keys: Key) -> None:
    """Damage events: a bit of each one's body, wherever the event is in the file."""
    data = (folder / "log.db").read_bytes()
    for key in keys:
        when, kind, body = original.rows[key]
        head = struct.pack(">d", when) + kind.encode()
        assert head + body[:40] in data
        data = data.replace(head + body[:40], head + bytes([body[0], body[1] ^ 1]) + body[2:40])
    (folder / "log.db").write_bytes(data)


@pytest.fixture
def said(closed: Original) -> Key:
    """Something said in the first session, after the place at which that was forked."""
    return next(key for key, (_, kind, body) in closed.rows.items() if kind == "message" and b"place 5" in body)


def test_a_log_that_is_whole_is_left_as_it_is(whole: Path, closed: Original) -> None:
    found = recover(whole)
    assert found == Recovery(len(closed.ids), len(closed.rows), {}, (), None)
    assert {path.name for path in whole.iterdir()} == {"log.db", "attachments"}
    assert (whole / "log.db").read_bytes() == closed.files["log.db"]


def test_a_log_whose_process_was_killed_is_whole(place: Path, torn: Original) -> None:
    put(place / "log", torn.files, torn.folder)
    assert recover(place / "log") == Recovery(len(torn.ids), len(torn.rows), {}, (), None)
    assert events(place / "log" / "log.db") == torn.rows


def test_one_damaged_event_is_all_that_is_lost(whole: Path, closed: Original, said: Key) -> None:
    spoil(whole, closed, said)
    number, seq = said
    name = closed.ids[number]
    with pytest.raises(DamagedLogError, match=f"entry {seq} of a session is missing or damaged"):
        Log(whole).messages(name)
    found = recover(whole)
    assert (found.sessions, found.entries, found.lost) == (len(closed.ids), len(closed.rows) - 1, {name: 1})
    assert found.unverified == ()
    assert Log(whole).newest(name, 1)[0].entry == SessionRecovered((seq,), 1)
    assert len(Log(whole).messages(name)) == len(closed.messages[name]) - 1


def test_the_other_sessions_are_listed_as_before(whole: Path, closed: Original, said: Key) -> None:
    before = {summary.id: summary for summary in Log(whole).sessions()}
    spoil(whole, closed, said)
    recover(whole)
    after = {summary.id: summary for summary in Log(whole).sessions()}
    assert after.keys() == before.keys()
    for name, summary in before.items():
        if name != closed.ids[said[0]]:
            fields = ("title", "model", "turns", "last", "parent", "holder")
            assert [getattr(after[name], field) for field in fields] == [getattr(summary, field) for field in fields]
            assert abs(after[name].created - summary.created) < 1


def test_a_fork_does_not_spend_again_what_its_source_has_spent(whole: Path, closed: Original, said: Key) -> None:
    before = {summary.id: summary.usage for summary in Log(whole).sessions()}
    spoil(whole, closed, said)
    recover(whole)
    assert {summary.id: summary.usage for summary in Log(whole).sessions()} == before


def test_two_recoveries_in_a_row_keep_both_damaged_files(whole: Path, closed: Original, said: Key) -> None:
    kept: list[tuple[Path | None, bytes]] = []
    for key in (said, (said[0], said[1] - 3)):
        spoil(whole, closed, key)
        data = (whole / "log.db").read_bytes()
        kept.append((recover(whole).backup, data))
    for aside, data in kept:
        assert aside
        assert (aside / "log.db").read_bytes() == data


def test_a_second_recovery_tells_only_of_what_was_lost_since(whole: Path, closed: Original, said: Key) -> None:
    spoil(whole, closed, said)
    aside = recover(whole).backup
    assert aside
    aside.rename(aside.with_name("first"))
    other = next(key for key in closed.rows if key[0] != said[0] and b"Read the large one." in closed.rows[key][2])
    spoil(whole, closed, other)
    assert recover(whole).lost == {closed.ids[other[0]]: 1}


def test_a_recovery_that_broke_off_can_be_done_again(place: Path, torn: Original) -> None:
    page = max(number for places in torn.places.values() for file, number in places if file == "log.db")
    put(place / "log", changed(torn, page * PAGE, bytes(PAGE)), torn.folder)
    broken = patch("outrider.log.sqlite.recovery.os.replace", side_effect=OSError(5, "Input/output error"))
    with broken, pytest.raises(LogError, match="Input/output error"):
        recover(place / "log")
    for path in (place / "log").glob("damaged-*"):
        path.rename(path.with_name("first"))
    recover(place / "log")
    gone = torn.rows.keys() - events(place / "log" / "log.db").keys()
    assert gone == {key for key, places in torn.places.items() if ("log.db", page) in places}


@pytest.mark.parametrize("damaged", [False, True])
def test_it_is_refused_while_a_living_process_holds_a_session(
    whole: Path, closed: Original, said: Key, damaged: bool
) -> None:
    with Log(whole) as log:
        session = Session.open(log, closed.ids[2], agent(["Still here."])).now()
        if damaged:
            # Ids are random: the open session may write the page of one event again, never that of each.
            spoil(whole, closed, *(key for key in closed.rows if key[0] == said[0]))
        with pytest.raises(LogError, match=r"the log is in use: .*\(this process\).*Close the sessions there first"):
            recover(whole)
        session.close()
    assert bool(recover(whole).backup) is damaged


def test_it_is_refused_while_another_process_holds_a_session_and_goes_on_when_that_is_killed(
    whole: Path, closed: Original, said: Key
) -> None:
    spoil(whole, closed, said)
    with process(HOLD, whole, closed.ids[2]) as holder, pytest.raises(LogError, match=f"in use: .*process {holder}"):
        recover(whole)
    assert recover(whole).backup


def test_it_is_refused_while_a_process_on_another_machine_holds_a_session(
    whole: Path, closed: Original, said: Key
) -> None:
    elsewhere = Holder("far", "another machine", 4711, "1", time.time(), "outrider")
    spoil(whole, closed, said)
    with closing(sqlite3.connect(whole / "log.db")) as connection:
        holder = msgspec.json.encode(elsewhere).decode()
        connection.execute("UPDATE session SET holder = ?, beaten = ? WHERE number = 1", (holder, time.time()))
        connection.commit()
    with pytest.raises(LogError, match=r"the log is in use: .*far"):
        recover(whole)


def test_without_the_table_of_sessions_every_event_is_saved(whole: Path, closed: Original) -> None:
    page = root_of(closed, "session")
    files = changed(closed, (page - 1) * PAGE, bytes(PAGE))
    (whole / "log.db").write_bytes(files["log.db"])
    with pytest.raises(DamagedLogError):
        Log(whole).sessions()
    found = recover(whole)
    assert (found.sessions, found.entries, found.lost) == (len(closed.ids), len(closed.rows), {})
    assert set(found.unverified) == set(closed.ids.values()), "how long each was is not known any more"
    assert {key: value for key, value in events(whole / "log.db").items() if value[1] != "recovered"} == closed.rows
    with closing(sqlite3.connect(whole / "log.db")) as connection:
        assert dict(connection.execute("SELECT number, id FROM session")) == closed.ids
    for name, messages in closed.messages.items():
        assert Log(whole).messages(name) == messages
        assert {file: Log(whole).files(name).read(file) for file in closed.attachments[name]} == (
            closed.attachments[name]
        )
    titles = {summary.title for summary in Log(whole).sessions()}
    assert "The large one" in titles


def test_without_the_table_of_sessions_a_child_still_knows_its_parent(whole: Path, closed: Original) -> None:
    page = root_of(closed, "session")
    (whole / "log.db").write_bytes(changed(closed, (page - 1) * PAGE, bytes(PAGE))["log.db"])
    before = [summary.id for summary in Log(closed.folder).children(closed.ids[1])]
    recover(whole)
    assert [summary.id for summary in Log(whole).children(closed.ids[1])] == before != []


@pytest.mark.parametrize("table", [True, False], ids=["with the table of sessions", "without it"])
def test_sessions_that_lost_their_beginning_are_saved(whole: Path, closed: Original, table: bool) -> None:
    if not table:
        page = root_of(closed, "session")
        (whole / "log.db").write_bytes(changed(closed, (page - 1) * PAGE, bytes(PAGE))["log.db"])
    spoil(whole, closed, *((number, 1) for number in closed.ids))
    found = recover(whole)
    assert found.entries == len(closed.rows) - len(closed.ids)
    assert sorted(found.lost.values()) == [1] * len(closed.ids)
    with Log(whole) as log:
        if table:
            assert set(found.lost) == set(closed.ids.values())
        for name in found.lost:
            assert re.fullmatch("[0-9a-f]{32}", name)
            assert log.messages(name) in closed.messages.values()
            with Session.open(log, name, agent(["Still here."])) as session:
                assert violations(session.history.sendable()) == []
    assert recover(whole).backup is None


def test_a_log_of_a_newer_version_is_left_to_that_version(whole: Path) -> None:
    with closing(sqlite3.connect(whole / "log.db")) as connection:
        connection.execute("PRAGMA user_version=99")
    before = (whole / "log.db").read_bytes()
    with pytest.raises(NewerLogError, match="was written by a newer version"):
        recover(whole)
    assert (whole / "log.db").read_bytes() == before
    assert {path.name for path in whole.iterdir()} == {"log.db", "attachments"}


@pytest.mark.parametrize("table", ["event", "reference"])
def test_entries_and_files_without_a_session_are_damage(whole: Path, closed: Original, table: str) -> None:
    columns = {"event": (999, 1, 1.5, "message", b"{}", 0), "reference": (999, "0" * 64)}[table]
    with closing(sqlite3.connect(whole / "log.db")) as connection:
        connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})", columns)
        connection.commit()
    found = recover(whole)
    assert found.backup
    assert (found.sessions, found.entries, found.lost) == (len(closed.ids), len(closed.rows), {})
    assert recover(whole).backup is None


def test_a_session_of_which_nothing_is_left_is_reported(whole: Path, closed: Original) -> None:
    number = next(number for number, name in closed.ids.items() if "but wait" in closed.messages[name][0].text)
    keys = [key for key in closed.rows if key[0] == number]
    spoil(whole, closed, *keys)
    found = recover(whole)
    assert found.lost == {closed.ids[number]: len(keys)}
    assert found.sessions == len(closed.ids) - 1


def test_deleted_sessions_do_not_come_back(place: Path) -> None:
    with Log(place / "log") as log:
        with Session.open(log, agent=agent([call("look", size=15_000), "Kept."])) as kept:
            run(kept, "Remember this.")
        log.close()
        with Session.open(log, agent=agent([call("look", size=9000), "Forgotten."])) as deleted:
            run(deleted, "A secret.")
        log.remove_unreferenced_files()  # waits until it is let go
        log.delete(deleted.id)
        files = {name: (log.folder / name).read_bytes() for name in FILES}
    assert b"A secret." in files["log.db-wal"], "its pages are still in the write-ahead log"
    files["log.db"] = files["log.db"].replace(b"015000 015000", b"015000 016000")
    shutil.rmtree(place / "log")
    put(place / "log", files, place)
    assert recover(place / "log").lost == {kept.id: 1}
    assert [summary.id for summary in Log(place / "log").sessions()] == [kept.id]
    assert {number for number, _ in events(place / "log" / "log.db")} == {1}


def test_a_file_that_came_with_a_session_is_readable_after_a_flip_in_the_table_of_references(
    whole: Path, closed: Original
) -> None:
    page = root_of(closed, "reference")
    name, files = next((name, files) for name, files in closed.attachments.items() if files)
    file = next(iter(files))
    data = bytearray(closed.files["log.db"])
    data[data.index(file.sha256.encode(), (page - 1) * PAGE, page * PAGE) + 63] ^= 2
    (whole / "log.db").write_bytes(data)
    recover(whole)
    assert Log(whole).files(name).read(file) == files[file]


def test_a_file_that_did_not_come_with_an_import_stays_unreadable_after_a_recovery(
    whole: Path, closed: Original, said: Key
) -> None:
    owner, files = next((name, files) for name, files in closed.attachments.items() if files)
    file = next(iter(files))
    with Log(whole) as log:
        lines = [b'{"outrider_session":1,"id":""}', line(1, SessionStarted("", "")), line(2, AttachmentStored(file))]
        thief = import_session(log, lines).id
        with pytest.raises(AttachmentError, match="was never added to this session"):
            log.files(thief).read(file)
    spoil(whole, closed, said)
    assert recover(whole).backup
    assert Log(whole).files(owner).read(file) == files[file]
    with pytest.raises(AttachmentError, match="was never added to this session"):
        Log(whole).files(thief).read(file)


def line(seq: int, entry: Entry) -> bytes:
    kind, body = encode(entry)
    return b'{"seq":%d,"time":1.5,"kind":"%s","body":%s}' % (seq, kind.encode(), body)


def test_an_import_that_poses_as_another_session_does_not_hinder_a_recovery(
    whole: Path, closed: Original, said: Key
) -> None:
    with Log(whole) as log:
        poser = SessionStarted(closed.ids[1], "")
        lines = [
            b'{"outrider_session":1,"id":""}',
            line(1, SessionStarted("", "")),
            line(2, poser),
            line(3, MessageEntry(Message.user("I"))),
        ]
        imported = import_session(log, lines).id
    spoil(whole, closed, said)
    assert recover(whole).backup
    assert Log(whole).messages(imported) == [Message.user("I")]
    assert Log(whole).session(closed.ids[1]).title == "What is in place 0?"


def test_a_leap_in_the_numbers_of_an_import_costs_a_recovery_nothing(whole: Path, closed: Original, said: Key) -> None:
    with Log(whole) as log:
        header = b'{"outrider_session":1,"id":""}'
        with suppress(LogError):
            import_session(
                log, [header, line(1, SessionStarted("", "")), line(1_000_000, MessageEntry(Message.user("far away")))]
            )
    spoil(whole, closed, said)
    tracemalloc.start()
    try:
        recover(whole)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_events_of_a_newer_version_are_saved_as_they_are(whole: Path, closed: Original, said: Key) -> None:
    newer = {key: value for key, value in closed.rows.items() if value[1] == "hologram"}
    assert newer
    spoil(whole, closed, said)
    recover(whole)
    assert newer.items() <= events(whole / "log.db").items()


def test_a_session_goes_on_after_a_recovery_that_took_an_answer_from_it(whole: Path, closed: Original) -> None:
    """Whatever is missing in the middle, the conversation can be sent."""
    for (number, seq), (_, kind, body) in closed.rows.items():
        if number != 1 or kind not in ("message", "tool_started", "tool_finished") or seq > 12:
            continue
        data = bytearray(closed.files["log.db"])
        if data.count(body) == 1:
            data[data.index(body) + len(body) // 2] ^= 1
            (whole / "log.db").write_bytes(data)
            aside = recover(whole).backup
            assert aside
            shutil.rmtree(aside)
            with Log(whole) as log:
                go_on(log, closed.ids[1])
