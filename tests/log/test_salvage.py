"""Salvage rows from a database that SQLite cannot read: every intact row of it."""

from __future__ import annotations

import errno
import io
import math
import os
import random
import re
import shutil
import sqlite3
import struct
import tracemalloc
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outrider.log.sqlite.salvage import Row, salvage
from tests.lengths import examples, only_long

TABLE = """CREATE TABLE event (
    session INTEGER NOT NULL, seq INTEGER NOT NULL, time REAL NOT NULL,
    kind TEXT NOT NULL, body BLOB NOT NULL, checksum INTEGER NOT NULL,
    PRIMARY KEY (session, seq)
) WITHOUT ROWID"""
PAGE_SIZES = [512, 4096, 65536]
FRAME = 24
LOG_HEADER = 32

page_sizes = pytest.mark.parametrize("page_size", PAGE_SIZES)
seeds = pytest.mark.parametrize("seed", [0, 1, *only_long(2, 3, 4, 5)])


def checksum(session: int, seq: int, kind: str, body: bytes) -> int:
    return zlib.crc32(f"{session}:{seq}:{kind}:".encode() + body)


def valid(row: Row) -> bool:
    return checksum(row.session, row.seq, row.kind, row.body) == row.checksum


def marker(session: int, seq: int) -> bytes:
    return b"<%05d %06d>" % (session, seq)


def event(session: int, seq: int, size: int = 0) -> Row:
    """A row whose body is at least one marker, over and over, so that its bytes can be found in the file."""
    mark = marker(session, seq)
    body = (mark * (size // len(mark) + 1))[: max(size, len(mark))]
    return Row(session, seq, 1_700_000_000.25 + seq, "said", body, checksum(session, seq, "said", body))


def events(count: int, sizes: Iterable[int] = (0, 40, 90, 130, 700, 2000)) -> list[Row]:
    choose = random.Random(count)
    sizes = list(sizes)
    return [event(number % 5, number, choose.choice(sizes)) for number in range(count)]


def connect(path: Path, page_size: int = 4096, journal: str = "OFF") -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"PRAGMA page_size={page_size}")
    connection.execute(f"PRAGMA journal_mode={journal}")
    connection.execute("PRAGMA synchronous=OFF")
    connection.execute("PRAGMA secure_delete=ON")
    connection.execute("PRAGMA wal_autocheckpoint=0")
    if not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
        connection.execute(TABLE)
    return connection


def insert(connection: sqlite3.Connection, rows: Iterable[Row]) -> None:
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?)", rows)
    connection.execute("COMMIT")


def made(path: Path, rows: Iterable[Row], page_size: int = 4096) -> Path:
    with closing(connect(path, page_size)) as connection:
        insert(connection, rows)
    return path


def log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def copied(source: Path, target: Path) -> Path:
    """The files as a crash would leave them, while a connection is still open."""
    shutil.copy(source, target)
    shutil.copy(log_of(source), log_of(target))
    return target


def read(path: Path) -> set[Row]:
    with closing(sqlite3.connect(path)) as connection:
        return {Row(*row) for row in connection.execute("SELECT * FROM event")}


def found(path: Path) -> set[Row]:
    return set(salvage(path, valid))


def pages_of(data: bytes, page_size: int) -> list[bytes]:
    return [data[start : start + page_size] for start in range(0, len(data), page_size)]


def places(rows: Iterable[Row], pages: list[bytes]) -> dict[Row, set[int]]:
    """On which pages, from 0, each row has bytes. Each of its pages has a whole marker, by the rules of spilling."""
    where: dict[bytes, set[int]] = {}
    for number, page in enumerate(pages):
        for mark in re.findall(rb"<\d{5} \d{6}>", page):
            where.setdefault(mark, set()).add(number)
    return {row: where[marker(row.session, row.seq)] for row in rows}


def overwrite(path: Path, start: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(data)


def flip(path: Path, start: int, bit: int = 0) -> None:
    overwrite(path, start, bytes([path.read_bytes()[start] ^ 1 << bit]))


def without_time(rows: Iterable[Row]) -> set[tuple[int, int, str, bytes]]:
    """What the checksum covers."""
    return {(row.session, row.seq, row.kind, row.body) for row in rows}


# Undamaged


@pytest.mark.sampled(1)
@page_sizes
def test_an_undamaged_file_gives_exactly_its_rows(tmp_path: Path, page_size: int) -> None:
    path = made(tmp_path / "log", events(4000), page_size)
    assert any(page[0] == 0x02 for page in pages_of(path.read_bytes(), page_size)) or page_size == 65536
    assert found(path) == read(path) == set(events(4000))


@page_sizes
def test_without_a_check_nothing_else_comes_out_of_an_undamaged_file(tmp_path: Path, page_size: int) -> None:
    rows = sorted(events(1000), key=lambda row: zlib.crc32(row.body))  # pages are split and filled out of order
    path = made(tmp_path / "log", rows, page_size)
    assert set(salvage(path, lambda row: True)) == set(rows)


@page_sizes
def test_bodies_of_all_sizes_come_back(tmp_path: Path, page_size: int) -> None:
    edges = [(page_size - 12) * 64 // 255 - 23, (page_size - 12) * 32 // 255 - 23, page_size, 2 * page_size]
    sizes = [size + more for size in edges for more in range(-40, 40)]
    bodies = [bytes(max(0, size)) for size in sizes] + [b"", b"x", os.urandom(100_000), os.urandom(300_000)]
    rows = [Row(1, seq, 0.5, "k", body, checksum(1, seq, "k", body)) for seq, body in enumerate(bodies)]
    assert found(made(tmp_path / "log", rows, page_size)) == set(rows)


def test_a_large_body_in_an_overflow_chain_comes_back(tmp_path: Path) -> None:
    row = event(1, 1, 300_000)
    assert found(made(tmp_path / "log", [row])) == {row}


def test_rows_in_the_cells_of_interior_pages_come_back(tmp_path: Path) -> None:
    rows = events(2000)
    path = made(tmp_path / "log", rows, 512)
    leaves = b"".join(page for page in pages_of(path.read_bytes(), 512) if page[0] == 0x0A)
    inner = {row for row in rows if marker(row.session, row.seq) not in leaves}
    assert len(inner) > 10
    assert inner <= found(path)


def test_a_time_that_is_a_whole_number_comes_back_as_a_float(tmp_path: Path) -> None:
    rows = [Row(1, seq, time, "k", b"", checksum(1, seq, "k", b"")) for seq, time in enumerate([0.0, 1.0, 1.7e9, -3.0])]
    times = [row.time for row in salvage(made(tmp_path / "log", rows), valid)]
    assert sorted(times) == [-3.0, 0.0, 1.0, 1.7e9]
    assert all(type(time) is float for time in times)


integers = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, 1, -1, 127, 128, -129, 2**15, 2**23, 2**31, 2**47])
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=100)
rows_of_any_kind = st.lists(
    st.builds(Row, integers, st.integers(0, 2**63 - 1), st.floats(allow_nan=False), texts, st.binary(), integers),
    max_size=20,
    unique_by=lambda row: row[:2],
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(40))
@given(rows_of_any_kind, st.sampled_from(PAGE_SIZES))
def test_whatever_sqlite_stores_is_read_as_sqlite_reads_it(tmp_path: Path, rows: list[Row], page_size: int) -> None:
    path = tmp_path / "log"
    path.unlink(missing_ok=True)
    made(path, rows, page_size)
    assert set(salvage(path, lambda row: True)) == read(path)


def test_rows_that_cannot_be_events_are_passed_over(tmp_path: Path) -> None:
    good = event(1, 1)
    path = made(tmp_path / "log", [good])
    with closing(connect(path)) as connection:
        add = "INSERT INTO event VALUES (?, ?, ?, ?, ?, ?)"
        connection.execute(add, (2, -1, 0.5, "k", b"", 0))
        connection.execute(add, (2, 2, 0.5, "k" * 101, b"", 0))
        connection.execute(add, (2, 3, "noon", "k", b"", 0))
        connection.execute(add, (2, 4, 0.5, "k", "text", 0))
        connection.execute(add, (2, 5, 0.5, b"k", b"", 0))
        connection.execute("INSERT INTO event VALUES (2, 6, 0.5, CAST(x'ff' AS TEXT), x'', 0)")
        connection.execute("CREATE TABLE other (a, b, c, d, e, f, g, PRIMARY KEY (a, b)) WITHOUT ROWID")
        connection.execute("INSERT INTO other VALUES (1, 2, 3, 'four', x'05', 6, 7)")
        connection.execute("CREATE TABLE like_it (a INTEGER PRIMARY KEY, b, c, d, e, f)")
        connection.execute("INSERT INTO like_it VALUES (1, 2, 3, 'four', x'05', 6)")
    assert set(salvage(path, lambda row: True)) == {good}


def test_what_was_deleted_does_not_come_back_from_sound_pages(tmp_path: Path) -> None:
    path = made(tmp_path / "log", events(2000))
    with closing(connect(path)) as connection:
        connection.execute("DELETE FROM event WHERE session = 3")
        connection.execute("DELETE FROM event WHERE seq % 7 = 1")
    assert found(path) == read(path)


@page_sizes
def test_an_emptied_page_gives_nothing(tmp_path: Path, page_size: int) -> None:
    path = made(tmp_path / "log", [event(1, 1), event(1, 2)], page_size)
    with closing(connect(path)) as connection:
        connection.execute("PRAGMA secure_delete=OFF")
        connection.execute("DELETE FROM event")
    assert marker(1, 1) in path.read_bytes()
    assert found(path) == set()


@pytest.fixture
def planted(tmp_path: Path) -> bytes:
    """A row as it is stored, its body a marker: what a body may hold if somebody has read a log."""
    data = made(tmp_path / "inner", [event(9, 1)], 512).read_bytes()
    stored = data[data.rindex(b"\x07\x01\x09\x07") :]  # the first cell of a page is at its end
    (tmp_path / "ruins").write_bytes((b"\xff" * 600 + stored).ljust(8192, b"\xff"))
    assert found(tmp_path / "ruins") == {event(9, 1)}
    return stored


def test_a_row_inside_a_body_is_none(tmp_path: Path, planted: bytes) -> None:
    sizes = [0, 100, 5000, 20_000]
    bodies = [planted * 5 + bytes(size) + planted * 10 for size in sizes]
    rows = [Row(1, seq, 0.5, "k", body, checksum(1, seq, "k", body)) for seq, body in enumerate(bodies)]
    path = made(tmp_path / "log", rows)
    assert found(path) == set(rows)
    overwrite(path, 4096, b"\xff" * 16)  # the rows have to be searched for
    assert found(path) == set(rows)


def test_a_row_inside_a_body_is_none_when_the_row_around_it_is_damaged(tmp_path: Path, planted: bytes) -> None:
    body = b"{" + planted * 5
    rows = [Row(1, seq, 0.5, "k", body, checksum(1, seq, "k", body)) for seq in range(4)]
    path = made(tmp_path / "log", rows)
    overwrite(path, 4096 + 5, b"\x00\x08")  # as if there were more on the page than it points to
    overwrite(path, path.read_bytes().index(b"{" + planted), b"[")
    assert len(found(path)) == 3
    assert found(path) < set(rows)


def test_a_whole_database_inside_a_body_is_not_looked_into(tmp_path: Path) -> None:
    inner = made(tmp_path / "inner", [event(9, seq) for seq in range(200)], 4096).read_bytes()
    bodies = [bytes(size) + inner for size in range(0, 4096, 64)]
    rows = [Row(1, seq, 0.5, "k", body, checksum(1, seq, "k", body)) for seq, body in enumerate(bodies)]
    path = made(tmp_path / "log", rows)
    assert found(path) == set(rows)
    flip(path, 4096 * 5 + 200)
    assert found(path) < set(rows)


@pytest.mark.parametrize("reserved", [12, 32])
def test_pages_with_a_reserved_part_are_read(tmp_path: Path, reserved: int) -> None:
    path = tmp_path / "log"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA page_size=512")
        connection.execute("VACUUM")
    overwrite(path, 20, bytes([reserved]))
    overwrite(path, 105, (512 - reserved).to_bytes(2))
    made(path, events(300), 512)
    assert path.read_bytes()[20] == reserved
    assert found(path) == read(path) == set(events(300))


# The write-ahead log


@pytest.mark.sampled(1)
@page_sizes
def test_rows_that_are_only_in_the_log_come_back(tmp_path: Path, page_size: int) -> None:
    source = tmp_path / "source"
    with closing(connect(source, page_size, "WAL")) as connection:
        for row in events(300):
            insert(connection, [row])
        path = copied(source, tmp_path / "log")
    assert path.stat().st_size <= page_size
    assert found(path) == set(events(300))


@page_sizes
def test_rows_partly_in_the_file_and_partly_in_the_log_come_back(tmp_path: Path, page_size: int) -> None:
    source, rows = tmp_path / "source", events(900)
    with closing(connect(source, page_size, "WAL")) as connection:
        insert(connection, rows[::2])
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        insert(connection, rows[1::2])
        path = copied(source, tmp_path / "log")
    assert found(path) == set(rows)


MANY = events(300, [0, 90, 700, 9000])
LARGE = event(7, 1, 300_000)


@pytest.fixture
def logged(tmp_path: Path) -> Path:
    """A file whose rows are all in its log."""
    with closing(connect(tmp_path / "source", 4096, "WAL")) as connection:
        for start in range(0, 300, 10):
            insert(connection, MANY[start : start + 10])
        return copied(tmp_path / "source", tmp_path / "log")


@pytest.fixture
def twice(tmp_path: Path) -> Path:
    """A file whose rows are all in it and in its log as well."""
    with closing(connect(tmp_path / "source", 4096, "WAL")) as connection:
        insert(connection, [*MANY, LARGE])
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        return copied(tmp_path / "source", tmp_path / "log")


@pytest.mark.parametrize("size", [0, 32])
def test_a_log_is_read_without_the_file_and_without_its_own_header(logged: Path, size: int) -> None:
    logged.unlink()
    overwrite(log_of(logged), 0, bytes(size))
    assert found(logged) == set(MANY)


def test_a_log_that_breaks_off_gives_the_rows_before(logged: Path) -> None:
    log = log_of(logged)
    size = log.stat().st_size
    before = set(MANY)
    for part in range(19, -1, -1):
        os.truncate(log, size * part // 20 + 1)
        rows = found(logged)
        assert rows <= before
        before = rows
    assert not before


@pytest.mark.parametrize("broken", ["file", "log"])
def test_entries_that_are_damaged_in_one_file_are_taken_from_the_other(twice: Path, broken: str) -> None:
    path = twice if broken == "file" else log_of(twice)
    data = bytearray(path.read_bytes())
    for start in range(200, len(data), 1000):
        data[start : start + 20] = os.urandom(20)
    path.write_bytes(data)
    assert found(twice) == {*MANY, LARGE}


def test_a_chain_with_damage_in_both_is_put_together_from_both(tmp_path: Path) -> None:
    row = event(1, 1, 40_000)
    with closing(connect(tmp_path / "source", 4096, "WAL")) as connection:
        insert(connection, [row])
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        path = copied(tmp_path / "source", tmp_path / "log")
    overwrite(path, 4096 * 4 + 100, b"damage")
    frames = range(LOG_HEADER, log_of(path).stat().st_size, FRAME + 4096)
    with log_of(path).open("rb") as log:
        page_7 = next(start for start in frames if log.seek(start) >= 0 and log.read(4) == (7).to_bytes(4))
    overwrite(log_of(path), page_7 + FRAME + 100, b"damage")
    assert found(path) == {row}


@pytest.mark.parametrize("damaged", ["nothing", "header of the log", "first frame"])
def test_a_row_on_pages_that_were_others_before_comes_back(tmp_path: Path, damaged: str) -> None:
    source, path = tmp_path / "source", tmp_path / "log"
    with closing(connect(source, 4096, "WAL")) as connection:
        insert(connection, [event(1, 1, 300_000)])
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        insert(connection, [event(1, 2, 500_000)])
        connection.execute("DELETE FROM event WHERE seq = 1")
        insert(connection, [event(2, 1, 250_000)])
        copied(source, path)
        assert {event(1, 2, 500_000), event(2, 1, 250_000)} <= found(path)
        # The log begins again, and is shorter: what is left of its first round is older than the file.
        connection.execute("PRAGMA wal_checkpoint(RESTART)")
        connection.execute("DELETE FROM event WHERE session = 2")
        insert(connection, [event(3, 1, 250_000)])
        copied(source, path)
    if damaged != "nothing":
        overwrite(log_of(path), 0 if damaged == "header of the log" else LOG_HEADER, bytes(24))
    assert {event(1, 2, 500_000), event(3, 1, 250_000)} <= found(path)


# Damage


@page_sizes
@pytest.mark.parametrize("size", [16, 100, 512])
def test_a_file_without_its_header_gives_all_rows(tmp_path: Path, page_size: int, size: int) -> None:
    path = made(tmp_path / "log", events(600), page_size)
    overwrite(path, 0, bytes(size))
    assert found(path) == set(events(600))


@page_sizes
def test_a_header_that_is_wrong_about_the_page_size_is_not_believed(tmp_path: Path, page_size: int) -> None:
    path = made(tmp_path / "log", events(600), page_size)
    for wrong in {0, 512, 1024, 4096, 32768, 0x1234} - {page_size}:
        overwrite(path, 16, wrong.to_bytes(2))
        assert found(path) == set(events(600))


@pytest.mark.long
def test_no_bit_of_the_header_matters(tmp_path: Path) -> None:
    rows = events(20)
    path = made(tmp_path / "log", rows, 512)
    for bit in range(100 * 8):
        flip(path, bit // 8, bit % 8)
        assert found(path) == set(rows)
        flip(path, bit // 8, bit % 8)


@pytest.mark.long
def test_every_truncation_gives_the_rows_on_the_pages_that_are_left(tmp_path: Path) -> None:
    rows = events(120)
    path = made(tmp_path / "log", rows, 512)
    data = path.read_bytes()
    where = places(rows, pages_of(data, 512))
    for count in range(len(data) // 512, -1, -1):
        for more in (0, 300):
            path.write_bytes(data[: count * 512 + more])
            left = found(path)
            assert left <= set(rows)
            assert left >= {row for row in rows if max(where[row]) < count}


@pytest.mark.sampled(1)
@page_sizes
def test_a_lost_page_loses_only_its_own_rows(tmp_path: Path, page_size: int) -> None:
    rows = events(1000)
    path = made(tmp_path / "log", rows, page_size)
    data = path.read_bytes()
    where = places(rows, pages_of(data, page_size))
    numbers = range(len(data) // page_size)
    for lost in random.Random(1).sample(numbers, min(4, len(numbers))):
        for content in (bytes(page_size), os.urandom(page_size), b"\x0a" + os.urandom(page_size - 1)):
            path.write_bytes(data[: lost * page_size] + content + data[(lost + 1) * page_size :])
            left = found(path)
            assert left <= set(rows)
            assert left >= {row for row in rows if lost not in where[row]}


@page_sizes
@seeds
def test_flipped_bits_take_only_rows_on_their_pages(tmp_path: Path, page_size: int, seed: int) -> None:
    rows = events(500, [0, 90, 700, 5000])
    path = made(tmp_path / "log", rows, page_size)
    data = bytearray(path.read_bytes())
    where = places(rows, pages_of(bytes(data), page_size))
    choose = random.Random(seed)
    touched = set()
    for _ in range(choose.choice([1, 5, 30])):
        place = choose.randrange(len(data))
        data[place] ^= 1 << choose.randrange(8)
        touched.add(place // page_size)
    path.write_bytes(data)
    left = without_time(found(path))
    assert left <= without_time(rows)
    assert left >= without_time(row for row in rows if not where[row] & touched)


@seeds
def test_flipped_bits_in_the_log_give_no_false_rows(logged: Path, seed: int) -> None:
    data = bytearray(log_of(logged).read_bytes())
    choose = random.Random(seed)
    for _ in range(choose.choice([1, 30, 300])):
        data[choose.randrange(len(data))] ^= 1 << choose.randrange(8)
    log_of(logged).write_bytes(data)
    left = without_time(found(logged))
    assert left <= without_time(MANY)
    assert len(left) > 50


@pytest.mark.long
def test_a_page_whose_head_is_damaged_still_gives_its_rows(tmp_path: Path) -> None:
    rows = [event(1, seq) for seq in range(30)]
    path = made(tmp_path / "log", rows)
    data = path.read_bytes()
    assert len(data) == 2 * 4096
    for start in range(8 + 2 * len(rows)):
        for bit in range(8):
            flip(path, 4096 + start, bit)
            assert found(path) == set(rows)
            flip(path, 4096 + start, bit)
    overwrite(path, 4096, b"\xff" * (8 + 2 * len(rows)))
    assert found(path) == set(rows)


def test_a_page_damaged_in_part_gives_its_other_rows(tmp_path: Path) -> None:
    rows = [event(1, seq) for seq in range(30)]
    path = made(tmp_path / "log", rows)
    data = path.read_bytes()
    for row in rows:
        overwrite(path, data.index(marker(1, row.seq)) - 10, b"\xff" * 12)
        assert found(path) == set(rows) - {row}
        path.write_bytes(data)


def test_a_time_that_is_no_number_is_damage(tmp_path: Path) -> None:
    path = made(tmp_path / "log", [event(1, 1), event(1, 2)])
    overwrite(path, path.read_bytes().index(struct.pack(">d", event(1, 1).time)), struct.pack(">d", math.nan))
    assert found(path) == {event(1, 2)}


def test_overflow_chains_that_run_in_circles_come_to_an_end(tmp_path: Path) -> None:
    rows = [event(1, 1), event(1, 2, 300_000), event(1, 3)]
    path = made(tmp_path / "log", rows)
    data = path.read_bytes()
    chain = sorted(places(rows, pages_of(data, 4096))[rows[1]])
    for target in (chain[0], chain[1], chain[30]):
        overwrite(path, chain[30] * 4096, (target + 1).to_bytes(4))
        assert found(path) == {rows[0], rows[2]}


@seeds
def test_overflow_pointers_to_anywhere_give_no_false_rows(tmp_path: Path, seed: int) -> None:
    rows = events(60, [9000, 40_000])
    path = made(tmp_path / "log", rows, 512)
    data = bytearray(path.read_bytes())
    choose = random.Random(seed)
    count = len(data) // 512
    for start in choose.sample(range(512, len(data), 512), count // 5):
        if data[start] == 0:
            data[start : start + 4] = choose.choice([choose.randrange(count), choose.randrange(2**32)]).to_bytes(4)
    path.write_bytes(data)
    assert found(path) < set(rows)


def test_a_length_of_gigabytes_is_not_believed(tmp_path: Path) -> None:
    rows = [event(1, 1), event(1, 2, 300_000), event(1, 3)]
    path = made(tmp_path / "log", rows)
    body = 300_000 * 2 + 12
    stored = bytes([0x80 | body >> 14, 0x80 | body >> 7 & 0x7F, body & 0x7F])
    place = path.read_bytes().index(stored)
    overwrite(path, place, b"\xff\xff\xff")
    tracemalloc.start()
    try:
        assert found(path) == {rows[0], rows[2]}
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_a_large_file_is_not_held_in_memory(tmp_path: Path) -> None:
    rows = events(100)
    path = made(tmp_path / "log", rows)
    os.truncate(path, 50_000_000)
    tracemalloc.start()
    try:
        assert found(path) == set(rows)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


# No database at all


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(60))
@given(st.binary(max_size=3000), st.binary(max_size=3000), st.sampled_from([b"", b"\n", b"\x02", b"SQLite format 3\0"]))
def test_garbage_gives_nothing(tmp_path: Path, main: bytes, log: bytes, head: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(head + main)
    log_of(path).write_bytes(head + log)
    assert found(path) == set()


@seeds
def test_much_garbage_gives_nothing(tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)
    path = tmp_path / "log"
    records = [b"\x08\x01\x01\x07\x15\x82\x12\x04", b"\x09\x01\x01\x09\x15\x8f\xff\x12\x04", b"\x0a\x00\x00\x00\x20"]
    path.write_bytes(b"".join(choose.choice([*records, choose.randbytes(40)]) for _ in range(3000)))
    shutil.copy(path, log_of(path))
    assert found(path) == set()


def test_an_empty_file_or_none_gives_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    log_of(tmp_path / "empty").touch()
    assert found(tmp_path / "empty") == set()
    assert found(tmp_path / "missing") == set()
    assert found(tmp_path / "no folder" / "missing") == set()
    assert found(tmp_path) == set()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    assert found(tmp_path / "log") == set()


def test_an_unreadable_part_of_the_disk_loses_only_its_own_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = events(600)
    path = made(tmp_path / "log", rows)
    where = places(rows, pages_of(path.read_bytes(), 4096))

    class BadSector(io.FileIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell() // 4096 in (0, 5, 6):
                raise OSError(errno.EIO, "Input/output error")
            return super().read(size) or b""

    def opened(path: Path, mode: str, buffering: int) -> BadSector:
        return BadSector(path, "r")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", opened)
        left = found(path)
    assert left < set(rows)
    assert left >= {row for row in rows if not where[row] & {5, 6}}


def test_rows_come_one_by_one_and_the_files_are_closed_when_no_more_are_wanted(tmp_path: Path) -> None:
    path = made(tmp_path / "log", events(100))
    rows: Iterator[Row] = salvage(path, valid)
    assert next(rows) in events(100)
    rows.close()  # type: ignore[attr-defined]
