"""Read rows of the event table from the raw pages of a damaged database, without SQLite.

SQLite cannot read a file whose header, schema or interior pages are damaged, but the rows are still there. Each row is
one record on an index page of the file or of its write-ahead log; a large record continues in a chain of overflow
pages. The layout is described at https://sqlite.org/fileformat2.html; the table has six columns and no row id.

A row counts only if the caller's check accepts it. The check chooses between versions of a page, and rejects bytes that
only look like a row.
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
"""The longest kind to accept, in characters."""

_PAGE_SIZES = (4096, 512, 1024, 2048, 8192, 16384, 32768, 65536)
_INTERIOR, _LEAF = 0x02, 0x0A
# Overflow pages and pages of other tables. They hold no rows of ours, but may hold bytes that users stored, such as a
# copy of another database.
_OTHER_PAGES = (0x00, 0x05, 0x0D)
_LOG_HEADER, _FRAME_HEADER = 32, 24
_MAX_RESERVED = 32
_MAX_VERSIONS = 4  # of one overflow page, newer and older than the main file's each
_MAX_PATHS = 64  # through the versions of a chain

# The length of the header, then the types of session, seq, time, kind, body and checksum.
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
    """Yield every valid row in the file's pages and in its write-ahead log.

    Rows come in any order, possibly several times. Deleted and replaced rows come too if their bytes were not
    overwritten. Damage never raises: unreadable parts yield no rows. Exceptions of `valid` are passed on. Memory holds
    one page, the positions of the pages in the log, and one row.
    """
    with closing(_File(path)) as main, closing(_File(path.with_name(f"{path.name}-wal"))) as log:
        pages = _Pages(main, log, _page_size(main, log))
        reader = _Reader(pages, _usable_sizes(main, pages.size), valid)
        for number in pages.numbers():
            yield from reader.rows(number)


class _File:
    """Random access to a file. Missing or unreadable parts read as empty."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO | None = None
        self.size = 0
        try:
            if path.is_file():  # opening a FIFO would block
                self._file = path.open("rb", buffering=0)
                self.size = self._file.seek(0, os.SEEK_END)
        except OSError:
            self.close()

    def read(self, start: int, length: int) -> bytes:
        # No mmap: a bad sector or a truncated file would kill the process.
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
    """Return the size in a header if pages of that size exist, else the size with the most pages."""
    stored = int.from_bytes(main.read(16, 2))
    declared = [65536 if stored == 1 else stored, int.from_bytes(log.read(8, 4))]
    declared = [size for size in declared if size in _PAGE_SIZES]
    for size in declared:
        if any(_index_pages(main, log, size)):
            return size
    return max([*declared, *_PAGE_SIZES], key=lambda size: sum(_index_pages(main, log, size)))


def _index_pages(main: _File, log: _File, size: int) -> Iterator[bool]:
    """Yield for each page position of this page size whether an index page with cells is there."""
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
    # Cells fill a page from its end, and none is longer than a quarter of it: the last one shows where the page ends.
    return bool(pointers) and min(pointers) >= 8 + 2 * count and size // 2 < max(pointers) < size


def _pointers(page: bytes) -> tuple[int, ...]:
    """Return the offsets of an index page's cells, as far as its bytes go."""
    start = 12 if page[0] == _INTERIOR else 8
    count = min(int.from_bytes(page[3:5]), max(0, len(page) - start) // 2)
    return struct.unpack_from(f">{count}H", page, start) if count else ()


def _usable_sizes(main: _File, size: int) -> list[int]:
    """Return the candidates for a page's usable size. The header may be wrong, and few files reserve bytes."""
    reserved = int.from_bytes(main.read(20, 1))
    return [size - reserved, size] if 0 < reserved <= _MAX_RESERVED else [size]


class _Pages:
    """The pages of a database by number, with the versions in the main file and in each frame of the log."""

    def __init__(self, main: _File, log: _File, size: int) -> None:
        self._main, self._log, self.size = main, log, size
        self.count = -(-main.size // size)
        self.bytes = main.size + log.size
        # SQLite rewrites the log from its start with a new salt. Frames of earlier rounds are older than the main file.
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
        """Yield the versions of a page, newest first, without duplicates. A version may be truncated.

        `most` limits the versions from the log that are newer than the main file's, and those that are older.
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
    """The header of a record: its offset on the page, its length, and the types and widths of the columns."""

    start: int
    length: int
    types: tuple[int, ...]
    widths: tuple[int, ...]

    @property
    def payload(self) -> int:
        return self.length + sum(self.widths)

    @classmethod
    def of(cls, match: re.Match[bytes] | None) -> _Header | None:
        """Return the header in a match, or None if it cannot belong to an event."""
        if match is None or match[1][0] != len(match[0]):
            return None
        types = tuple(_varint(each, 0)[0] for each in match.groups()[1:])
        kind, body = types[3:5]
        if kind % 2 == 0 or body % 2 == 1:
            return None
        widths = (*(_WIDTHS[each] for each in types[:3]), (kind - 13) // 2, (body - 12) // 2, _WIDTHS[types[5]])
        return cls(match.start(), len(match[0]), types, widths)

    def row(self, payload: bytes) -> Row | None:
        """Return the row in a complete payload, or None if it is not one."""
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
    """Reads the rows of each page."""

    def __init__(self, pages: _Pages, usable_sizes: list[int], valid: Callable[[Row], bool]) -> None:
        self._pages, self._usable_sizes, self._valid = pages, usable_sizes, valid
        self._tried: dict[bytes, bool] = {}  # cells of the current page, and whether each held a valid row

    def rows(self, number: int) -> Iterator[Row]:
        """Yield the rows of all versions of a page. A cell that several versions share is read once."""
        self._tried = {}
        for page in self._pages.versions(number):
            if page[0] not in _OTHER_PAGES:
                yield from self._rows_on(page)

    def _rows_on(self, page: bytes) -> Iterator[Row]:
        rest = bytearray(page)
        cells = list(_cells(page))
        for header in cells:
            end = header.start + self._local(header)
            rest[header.start : end] = bytes(len(page[header.start : end]))
            if row := self._row(page, header):
                yield row
        if not self._is_consistent(page, cells):
            yield from self._rows_anywhere(page, rest)

    def _is_consistent(self, page: bytes, cells: list[_Header]) -> bool:
        """Return whether the page seems to have no rows besides those that it points to."""
        if page[0] not in (_INTERIOR, _LEAF):
            return False
        pointers = _pointers(page)
        lowest = int.from_bytes(page[5:7]) or 65536
        return len(cells) == len(pointers) and lowest == min(pointers, default=self._usable_sizes[0])

    def _rows_anywhere(self, page: bytes, rest: bytearray) -> Iterator[Row]:
        """Yield the rows in the rest of a page, wherever bytes look like a record.

        The cells that the page points to are blanked in the rest: bytes inside them that look like a record are
        content. A consistent page is not searched, because deleted or moved rows may still be on it.
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
        """Return the valid row that begins here, unless it was returned before."""
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
        """Yield the candidates for the complete record, the likeliest first."""
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
        """Yield candidates for a chain of overflow pages: the newest pages, those of the main file, then mixed."""
        paths: deque[tuple[bool, tuple[int, ...]]] = deque([(False, ())])
        for tried in range(_MAX_PATHS):
            if not paths:
                return
            main_first, path = paths.popleft()
            tail, versions = self._follow(first, length, room, main_first, path)
            if tail is not None:
                yield tail
            if tried == 0 and any(each > 1 for each in versions):
                paths.append((True, ()))
            for depth in range(len(path), len(versions)):
                if len(paths) < _MAX_PATHS:
                    same = path + (0,) * (depth - len(path))
                    paths.extend((main_first, (*same, other)) for other in range(1, versions[depth]))

    def _follow(
        self, first: int, length: int, room: int, main_first: bool, path: tuple[int, ...]
    ) -> tuple[bytes | None, list[int]]:
        """Return the bytes of a chain, or None if it is broken, and the number of versions of each page on it.

        `path` gives the version to use for each page. Beyond its end the first version is used.
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
            page = versions[path[depth] if depth < len(path) else 0]
            counts.append(len(versions))
            piece = page[4 : 4 + min(length, room)]
            if len(piece) < min(length, room):
                return None, counts
            pieces.append(piece)
            length -= len(piece)
            number = int.from_bytes(page[:4])
        return b"".join(pieces), counts


def _cells(page: bytes) -> Iterator[_Header]:
    """Yield the records that an index page points to, if their length matches their columns."""
    if page[0] not in (_INTERIOR, _LEAF):
        return
    for pointer in _pointers(page):
        payload, start = _varint(page, pointer + (4 if page[0] == _INTERIOR else 0))
        header = _Header.of(_RECORD.match(page, start))
        if header is not None and header.payload == payload:
            yield header


def _local(payload: int, usable: int) -> int:
    """Return how many bytes of a payload are on the index page itself."""
    most = (usable - 12) * 64 // 255 - 23
    if payload <= most:
        return payload
    least = (usable - 12) * 32 // 255 - 23
    length = least + (payload - least) % (usable - 4)
    return length if length <= most else least


def _varint(data: bytes, start: int) -> tuple[int, int]:
    """Decode a varint (seven bits a byte, highest first). Return it and its end. Lengths need no ninth byte."""
    value = 0
    for position in range(start, min(start + 8, len(data))):
        value = value << 7 | data[position] & 0x7F
        if data[position] < 0x80:
            return value, position + 1
    return value, len(data)


def _integer(kind: int, data: bytes) -> int:
    """Decode a stored integer. Types 8 and 9 stand for the constants 0 and 1."""
    return kind - 8 if kind in (8, 9) else int.from_bytes(data, signed=True)
