"""Rows of the event table picked out of a damaged database without SQLite, from its raw pages.

SQLite gives up on a file whose header, schema or inner pages are broken. The rows are still there: each is one record
on an index page of the file or of its write-ahead log, and a large one goes on in a chain of overflow pages. The
layout is that of https://sqlite.org/fileformat2.html; the table is the one with six columns and no row id.

A row counts only if the caller finds it valid. That decides between the versions of a page, and it tells rows from
bytes that look like one.
"""

from __future__ import annotations

import math
import os
import re
import struct
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import BinaryIO, NamedTuple

MAX_KIND = 100
"""Characters in the longest kind that is taken for one."""

_PAGE_SIZES = (4096, 512, 1024, 2048, 8192, 16384, 32768, 65536)
_INTERIOR, _LEAF = 0x02, 0x0A
# Overflow pages, and those of other tables. They hold no rows, but whatever bytes a user had stored: a copied database,
# say, whose rows are none of ours.
_FOREIGN = (0x00, 0x05, 0x0D)
_LOG_HEADER, _FRAME_HEADER = 32, 24
_MAX_RESERVED = 32
_MAX_VERSIONS = 4  # of one overflow page, on each side of the main file's
_MAX_WAYS = 64  # through the versions of a chain

# Length of the header, then the types of session, seq, time, kind, body and checksum.
_INTEGER = rb"[\x01-\x06\x08\x09]"
_RECORD = re.compile(
    rb"([\x07-\x0c])(%(integer)s)(%(integer)s)([\x01-\x09])"
    rb"([\x0d-\x7f]|[\x81-\x86][\x00-\x7f])([\x0c-\x7f]|[\x81-\xff][\x80-\xff]{0,3}[\x00-\x7f])(%(integer)s)"
    % {b"integer": _INTEGER}
)
_WIDTHS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 7: 8, 8: 0, 9: 0}


class Row(NamedTuple):
    """One row of the event table."""

    session: int
    seq: int
    time: float
    kind: str
    body: bytes
    checksum: int


def salvage(path: Path, valid: Callable[[Row], bool]) -> Iterator[Row]:
    """Every valid row that can be found in the file's pages and in its write-ahead log.

    They come in any order and perhaps several times. Rows that were deleted or replaced come too where their bytes
    have not been overwritten. No damage makes it raise, and what cannot be read gives no rows; what `valid` raises is
    passed on. No more is held in memory than a page, the places of the pages in the log, and one row.
    """
    with closing(_File(path)) as main, closing(_File(path.with_name(f"{path.name}-wal"))) as log:
        pages = _Pages(main, log, _page_size(main, log))
        reader = _Reader(pages, _usable_sizes(main, pages.size), valid)
        for number in pages.numbers():
            yield from reader.rows(number)


class _File:
    """A file that is read here and there. What is not there or cannot be read is empty."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO | None = None
        self.size = 0
        try:
            if path.is_file():  # opening a pipe would wait for its writer
                self._file = path.open("rb", buffering=0)
                self.size = self._file.seek(0, os.SEEK_END)
        except OSError:
            self.close()

    def read(self, start: int, length: int) -> bytes:
        # Not mapped into memory: a bad sector or a file cut short meanwhile would then end the process.
        if self._file is None or not 0 <= start < self.size:
            return b""
        try:
            self._file.seek(start)
            return self._file.read(length) or b""
        except OSError:
            return b""

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _page_size(main: _File, log: _File) -> int:
    """What a header says if there are pages of that size, else the size of which there are most."""
    stored = int.from_bytes(main.read(16, 2))
    said = [65536 if stored == 1 else stored, int.from_bytes(log.read(8, 4))]
    said = [size for size in said if size in _PAGE_SIZES]
    for size in said:
        if any(_index_pages(main, log, size)):
            return size
    return max([*said, *_PAGE_SIZES], key=lambda size: sum(_index_pages(main, log, size)))


def _index_pages(main: _File, log: _File, size: int) -> Iterator[bool]:
    """For each place of a page, if pages have this size, whether an index page with cells is there."""
    for start in range(0, main.size, size):
        yield _is_index_page(main, start, size)
    for start in range(_LOG_HEADER + _FRAME_HEADER, log.size, _FRAME_HEADER + size):
        yield _is_index_page(log, start, size)


def _is_index_page(file: _File, start: int, size: int) -> bool:
    head = file.read(start, 8)
    if len(head) < 8 or head[0] not in (_INTERIOR, _LEAF):
        return False
    count = int.from_bytes(head[3:5])
    if not 0 < count <= size // 6:
        return False
    pointers = _pointers(head + file.read(start + 8, 4 + 2 * count))
    # Cells are laid from the end of a page and are no longer than a quarter of it: the last shows where the page ends.
    return bool(pointers) and min(pointers) >= 8 + 2 * count and size // 2 < max(pointers) < size


def _pointers(page: bytes) -> tuple[int, ...]:
    """Where the cells of an index page begin, as far as its bytes go."""
    start = 12 if page[0] == _INTERIOR else 8
    count = min(int.from_bytes(page[3:5]), max(0, len(page) - start) // 2)
    return struct.unpack_from(f">{count}H", page, start) if count else ()


def _usable_sizes(main: _File, size: int) -> list[int]:
    """What may be the part of a page in use. The header may be wrong about it, and hardly any file reserves a part."""
    reserved = int.from_bytes(main.read(20, 1))
    return [size - reserved, size] if 0 < reserved <= _MAX_RESERVED else [size]


class _Pages:
    """The pages of a database by number: each as it is in the main file and as it was in each frame of the log."""

    def __init__(self, main: _File, log: _File, size: int) -> None:
        self._main, self._log, self.size = main, log, size
        self.count = -(-main.size // size)
        self.bytes = main.size + log.size
        # A log is written again from its start, under a new salt: what is left of the round before is older than the
        # main file.
        self._newer: dict[int, list[int]] = {}
        self._older: dict[int, list[int]] = {}
        salts = (log.read(16, 8), log.read(_LOG_HEADER + 8, 8))  # the same, unless one is damaged
        for start in range(_LOG_HEADER, log.size, _FRAME_HEADER + size):
            frame = log.read(start, _FRAME_HEADER)
            side = self._newer if frame[8:16] in salts else self._older
            side.setdefault(int.from_bytes(frame[:4]), []).append(start + _FRAME_HEADER)

    def numbers(self) -> Iterator[int]:
        yield from range(1, self.count + 1)
        yield from sorted(number for number in self._newer.keys() | self._older.keys() if not self._in_main(number))

    def versions(self, number: int, most: int | None = None, main_first: bool = False) -> Iterator[bytes]:
        """What the page is and was, the newest first, each content once. It may be cut short.

        `most` limits how many come from the log before the main file's and after it.
        """
        newer = [(self._log, start) for start in self._newer.get(number, [])[::-1][:most]]
        older = [(self._log, start) for start in self._older.get(number, [])[::-1][:most]]
        main = [(self._main, (number - 1) * self.size)] if self._in_main(number) else []
        seen = set()
        for file, start in [*main, *newer, *older] if main_first else [*newer, *main, *older]:
            page = file.read(start, self.size)
            digest = hash(page)
            if page and digest not in seen:
                seen.add(digest)
                yield page

    def _in_main(self, number: int) -> bool:
        return 1 <= number <= self.count


class _Header(NamedTuple):
    """The header of a record: where it is on the page, how long, and how the columns after it are stored."""

    start: int
    length: int
    types: tuple[int, ...]
    widths: tuple[int, ...]

    @property
    def payload(self) -> int:
        return self.length + sum(self.widths)

    @classmethod
    def of(cls, match: re.Match[bytes] | None) -> _Header | None:
        """None if it is not that of an event."""
        if match is None or match[1][0] != len(match[0]):
            return None
        types = tuple(_varint(each, 0)[0] for each in match.groups()[1:])
        kind, body = types[3:5]
        if kind % 2 == 0 or body % 2 == 1:
            return None
        widths = (*(_WIDTHS[each] for each in types[:3]), (kind - 13) // 2, (body - 12) // 2, _WIDTHS[types[5]])
        return cls(match.start(), len(match[0]), types, widths)

    def row(self, payload: bytes) -> Row | None:
        """The row of a whole payload, or None if it can be none."""
        columns, start = [], self.length
        for width in self.widths:
            columns.append(payload[start : start + width])
            start += width
        session, seq, time, kind, body, checksum = columns
        types = self.types
        try:
            row = Row(
                session=_integer(types[0], session),
                seq=_integer(types[1], seq),
                time=struct.unpack(">d", time)[0] if types[2] == 7 else float(_integer(types[2], time)),
                kind=kind.decode(),
                body=body,
                checksum=_integer(types[5], checksum),
            )
        except UnicodeDecodeError:
            return None
        return None if row.seq < 0 or len(row.kind) > MAX_KIND or math.isnan(row.time) else row


class _Reader:
    """The rows on each page."""

    def __init__(self, pages: _Pages, usable_sizes: list[int], valid: Callable[[Row], bool]) -> None:
        self._pages, self._usable_sizes, self._valid = pages, usable_sizes, valid
        self._tried: dict[bytes, bool] = {}  # cells of the page at hand, and whether a valid row began there

    def rows(self, number: int) -> Iterator[Row]:
        """The rows of all versions of a page. A cell that several of them have is looked at once."""
        self._tried = {}
        for page in self._pages.versions(number):
            if page[0] not in _FOREIGN:
                yield from self._rows_on(page)

    def _rows_on(self, page: bytes) -> Iterator[Row]:
        rest = bytearray(page)
        cells = list(_cells(page))
        for header in cells:
            end = header.start + self._local(header)
            rest[header.start : end] = bytes(len(page[header.start : end]))
            if row := self._row(page, header):
                yield row
        if not self._is_sound(page, cells):
            yield from self._rows_anywhere(page, rest)

    def _is_sound(self, page: bytes, cells: list[_Header]) -> bool:
        """Whether the page has no other rows than those it points to, as far as can be seen."""
        if page[0] not in (_INTERIOR, _LEAF):
            return False
        pointers = _pointers(page)
        lowest = int.from_bytes(page[5:7]) or 65536
        return len(cells) == len(pointers) and lowest == min(pointers, default=self._usable_sizes[0])

    def _rows_anywhere(self, page: bytes, rest: bytearray) -> Iterator[Row]:
        """The rows in the rest of a page, wherever something there looks like a record.

        In the rest the cells that the page points to are blank: what looks like a record inside them was said or read
        by somebody. On a sound page one does not look at all, since what was deleted or moved may still be there.
        """
        position = 0
        while match := _RECORD.search(rest, position):
            position = match.start() + 1
            header = _Header.of(match)
            if header is None:
                continue
            if row := self._row(page, header):
                yield row
            if self._tried.get(self._cell(page, header)):
                position = header.start + self._local(header)

    def _row(self, page: bytes, header: _Header) -> Row | None:
        """The valid row that begins here, if there is one and it has not been given already."""
        cell = self._cell(page, header)
        if cell in self._tried or header.payload > self._pages.bytes:
            return None
        for payload in self._payloads(page, header):
            row = header.row(payload)
            if row is not None and self._valid(row):
                self._tried[cell] = True
                return row
        self._tried[cell] = False
        return None

    def _cell(self, page: bytes, header: _Header) -> bytes:
        local = self._local(header)
        return page[header.start : header.start + local + (4 if local < header.payload else 0)]

    def _local(self, header: _Header) -> int:
        return _local(header.payload, self._usable_sizes[0])

    def _payloads(self, page: bytes, header: _Header) -> Iterator[bytes]:
        """What the whole record may be, the likeliest first."""
        for usable in self._usable_sizes:
            end = header.start + _local(header.payload, usable)
            local = page[header.start : end]
            if len(local) == header.payload:
                yield local
            elif header.start + header.payload > end and end + 4 <= len(page):
                first = int.from_bytes(page[end : end + 4])
                for tail in self._tails(first, header.payload - len(local), usable - 4):
                    yield local + tail

    def _tails(self, first: int, length: int, room: int) -> Iterator[bytes]:
        """What a chain of overflow pages may hold: by the newest pages, by those of the main file, then mixed."""
        ways: deque[tuple[bool, tuple[int, ...]]] = deque([(False, ())])
        for tried in range(_MAX_WAYS):
            if not ways:
                return
            main_first, way = ways.popleft()
            tail, versions = self._follow(first, length, room, main_first, way)
            if tail is not None:
                yield tail
            if tried == 0 and any(each > 1 for each in versions):
                ways.append((True, ()))
            for depth in range(len(way), len(versions)):
                if len(ways) < _MAX_WAYS:
                    same = way + (0,) * (depth - len(way))
                    ways.extend((main_first, (*same, other)) for other in range(1, versions[depth]))

    def _follow(
        self, first: int, length: int, room: int, main_first: bool, way: tuple[int, ...]
    ) -> tuple[bytes | None, list[int]]:
        """The bytes of a chain, None if it breaks off, and how many versions each page on the way has.

        `way` says which version to take of each page; after its end it is the first.
        """
        pieces: list[bytes] = []
        counts: list[int] = []
        seen = {0}  # the number that ends a chain
        number = first
        while length > 0:
            versions = [] if number in seen else list(self._pages.versions(number, _MAX_VERSIONS, main_first))
            if not versions:
                return None, counts
            seen.add(number)
            depth = len(counts)
            page = versions[way[depth] if depth < len(way) else 0]
            counts.append(len(versions))
            piece = page[4 : 4 + min(length, room)]
            if len(piece) < min(length, room):
                return None, counts
            pieces.append(piece)
            length -= len(piece)
            number = int.from_bytes(page[:4])
        return b"".join(pieces), counts


def _cells(page: bytes) -> Iterator[_Header]:
    """The records that an index page points to and whose length is that of their columns."""
    if page[0] not in (_INTERIOR, _LEAF):
        return
    for pointer in _pointers(page):
        payload, start = _varint(page, pointer + (4 if page[0] == _INTERIOR else 0))
        header = _Header.of(_RECORD.match(page, start))
        if header is not None and header.payload == payload:
            yield header


def _local(payload: int, usable: int) -> int:
    """How much of a payload is on the index page itself."""
    most = (usable - 12) * 64 // 255 - 23
    if payload <= most:
        return payload
    least = (usable - 12) * 32 // 255 - 23
    length = least + (payload - least) % (usable - 4)
    return length if length <= most else least


def _varint(data: bytes, start: int) -> tuple[int, int]:
    """A number of seven bits a byte, the highest first, and where it ends. Lengths need no ninth byte."""
    value = 0
    for position in range(start, min(start + 8, len(data))):
        value = value << 7 | data[position] & 0x7F
        if data[position] < 0x80:
            return value, position + 1
    return value, len(data)


def _integer(kind: int, data: bytes) -> int:
    """A stored integer. Two types are the number itself: 8 is zero and 9 is one."""
    return kind - 8 if kind in (8, 9) else int.from_bytes(data, signed=True)
