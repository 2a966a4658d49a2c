"""A session as JSON lines, to be kept elsewhere or taken to another machine, and back into a log.

The first line says what it is, each further line is one entry; where files come along, they stand between the two, in
pieces of base64:

    {"outrider_session": 1, "id": "…", "title": "…"}
    {"file": {"sha256": "…", "mime_type": "image/png", "size": 4711}, "data": "iVBORw0…"}
    {"seq": 1, "time": 1794718492.69, "kind": "began", "body": {…}}
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from outrider.conversation.attachments import Attachment
from outrider.conversation.codec import from_json
from outrider.conversation.messages import AttachmentBlock, files_in
from outrider.conversation.store import MemoryStore
from outrider.errors import AttachmentError, LogError
from outrider.filesystem import make_private
from outrider.log.copying import Foreign
from outrider.log.entries import AttachmentStored, MessageEntry, SessionStarted, decode
from outrider.log.journal import Journal
from outrider.log.log import Log
from outrider.log.rows import LAST_SEQ

VERSION = 1
SHA256 = re.compile("[0-9a-f]{64}")
END_OF_TIME = 4_102_444_800.0
"""The end of the year 2099: a clock beyond that is wrong."""


class Header(msgspec.Struct, frozen=True):
    """The first line."""

    outrider_session: int
    id: str
    title: str = ""


class _File(msgspec.Struct, frozen=True):
    file: AttachmentBlock
    data: str


class _Line(msgspec.Struct, frozen=True):
    seq: int
    time: float
    kind: str
    body: msgspec.Raw


class Imported(msgspec.Struct, frozen=True):
    """What came in."""

    id: str
    entries: int
    missing: tuple[str, ...] = ()
    """The names of files that the session mentions and that did not come along."""


def export(log: Log, id: str, *, attachments: bool = False) -> Iterator[bytes]:
    """The lines of a session, one by one. Files are read piece by piece, and only if they are wanted."""
    summary = log.session(id)
    yield _json(Header(VERSION, summary.id, summary.title))
    if attachments:
        for file in _files(log, summary.id):
            yield from _pieces(log, summary.id, file)
    for _, seq, when, kind, body, _ in log.rows(summary.id):
        yield _json(_Line(seq, when, kind, msgspec.Raw(body)))


def _files(log: Log, id: str) -> list[AttachmentBlock]:
    found = (record.entry.attachment for record in log.records(id) if isinstance(record.entry, AttachmentStored))
    return list({file.sha256: file for file in found}.values())


def _pieces(log: Log, id: str, file: AttachmentBlock) -> Iterator[bytes]:
    """The lines of one file, at least one; none if it is not there to be read, which the import will say."""
    try:
        chunks = log.files(id).chunks(file)
    except AttachmentError:
        return
    piece = b""
    for piece in chunks:
        yield _json(_File(file, base64.b64encode(piece).decode()))
    if not piece:
        yield _json(_File(file, ""))


def import_session(log: Log, lines: Iterable[bytes]) -> Imported:
    """A session out of its lines, all or nothing. It keeps its id, unless the log has that already."""
    make_private(log.folder)
    with TemporaryDirectory(prefix="import-", dir=log.folder) as folder:
        incoming = _Lines(Path(folder))
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    incoming.take(line)
                except (LogError, ValueError, RecursionError) as error:
                    raise LogError(f"line {number} is not one of an exported session: {error}") from None
        if incoming.header is None or not incoming.count:
            raise LogError("there is nothing to import: the input has no entries")
        try:
            name = log.add(incoming.header.id, incoming.entries, incoming.files())
        except AttachmentError as error:
            raise LogError(f"a file of the session cannot be stored: {error}") from None
        return Imported(name, incoming.count, tuple(incoming.missing()))


def import_conversation(log: Log, text: bytes) -> Imported:
    """A session out of a conversation as `outrider.dumps` writes it."""
    messages = from_json(text, MemoryStore())  # first see whether it is one
    journal = log.begin()
    try:
        from_json(text, journal.files)
        journal.write_now(*map(MessageEntry, messages))
    except BaseException:
        journal.close()
        log.delete(journal.id)
        raise
    journal.close()
    missing = {file.label for message in messages for file in files_in(message) if not _has(journal, file)}
    return Imported(journal.id, len(messages), tuple(sorted(missing)))


def _has(journal: Journal, file: AttachmentBlock) -> bool:
    try:
        journal.files.chunks(file)
    except AttachmentError:
        return False
    return True


class _Lines:
    """The lines of a session as they come in. The bytes of files go to a folder at once."""

    def __init__(self, folder: Path) -> None:
        self.header: Header | None = None
        self.entries: list[Foreign] = []
        """All but the beginning, which the session will have anew."""
        self.count = 0
        self._last = 0
        self._folder = folder
        self._files: dict[str, AttachmentBlock] = {}
        self._mentioned: dict[str, AttachmentBlock] = {}

    def take(self, line: bytes) -> None:
        """Understand one line."""
        if self.header is None:
            self.header = msgspec.json.decode(line, type=Header)
            if self.header.outrider_session > VERSION:
                raise LogError("it was written by a newer version of Outrider; upgrade to import it")
        elif line.startswith(b'{"file"'):
            self._take_file(msgspec.json.decode(line, type=_File))
        else:
            self._take_entry(msgspec.json.decode(line, type=_Line))

    def files(self) -> Iterator[Attachment]:
        """The files that came along, each as it was."""
        for name, file in self._files.items():
            with (self._folder / name).open("rb") as stream:
                if hashlib.file_digest(stream, "sha256").hexdigest() != name:
                    raise LogError(f"the bytes of {file.label} are not those that were exported")
            yield Attachment(self._folder / name, file.mime_type, file.name, file.description)

    def missing(self) -> Iterator[str]:
        """What to call the files that did not."""
        return (file.label for name, file in self._mentioned.items() if name not in self._files)

    def _take_file(self, piece: _File) -> None:
        name = piece.file.sha256
        if not SHA256.fullmatch(name):
            raise LogError(f"{name[:80]!r} is not a SHA-256")
        self._files[name] = piece.file
        with (self._folder / name).open("ab") as file:
            file.write(base64.b64decode(piece.data, validate=True))

    def _take_entry(self, line: _Line) -> None:
        if not self._last < line.seq <= LAST_SEQ:
            raise LogError(f"the entry {line.seq} comes twice, too late, or has a number that none has")
        if not 0 <= line.time <= END_OF_TIME:
            raise LogError(f"the entry {line.seq} has a time that no clock shows")
        body = bytes(line.body)
        entry = decode(line.kind, body)
        if isinstance(entry, AttachmentStored):
            self._mentioned[entry.attachment.sha256] = entry.attachment
        self._last = line.seq
        self.count += 1
        if self.count > 1 or not isinstance(entry, SessionStarted):
            # Where the beginning was lost, its place is taken by the new one, and what stood there moves on.
            seq = max(line.seq, 2, self.entries[-1][0] + 1 if self.entries else 2)
            self.entries.append((seq, line.time, line.kind, body))


def _json(value: msgspec.Struct) -> bytes:
    return msgspec.json.encode(value) + b"\n"
