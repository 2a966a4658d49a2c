"""Export a session as JSON lines and import it into another log.

The first line is a header, and each entry is one line. Exported files come between them, as chunks of base64:

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
from outrider.conversation.usage import Usage
from outrider.errors import AttachmentError, LogError
from outrider.filesystem import make_private
from outrider.log.copying import ImportedEntry, endings
from outrider.log.entries import AttachmentStored, Entry, MessageEntry, SessionStarted
from outrider.log.journal import Journal
from outrider.log.log import Log
from outrider.log.rows import LAST_SEQ, decode
from outrider.log.state import SessionState
from outrider.struct_types import described

VERSION = 1
SHA256 = re.compile("[0-9a-f]{64}")
LARGEST_NUMBER = 10**12
"""The most tokens of a request, and bytes of a file, that an import may name."""
END_OF_TIME = 4_102_444_800.0
"""The end of the year 2099: a later time is wrong."""


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
    """The result of an import."""

    id: str
    entries: int
    missing: tuple[str, ...] = ()
    """The names of the files that the session mentions but the export does not contain."""


def export(log: Log, id: str, *, attachments: bool = False) -> Iterator[bytes]:
    """Yield the lines of a session. With `attachments`, include the bytes of its files, read in chunks."""
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
    """Yield the lines of one file: at least one, or none if the file cannot be read, which the import reports."""
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
    """Import a session from its lines, all or nothing. It keeps its id unless the log already has that id."""
    make_private(log.folder)
    with TemporaryDirectory(prefix="import-", dir=log.folder) as folder:
        incoming = _Lines(Path(folder))
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    incoming.take(line)
                except (LogError, ValueError, RecursionError) as error:
                    raise LogError(f"line {number} is not a line of an exported session: {error}") from None
        if incoming.header is None or not incoming.count:
            raise LogError("there is nothing to import: the input has no entries")
        try:
            name = log.add(incoming.header.id, incoming.entries, incoming.files())
        except AttachmentError as error:
            raise LogError(f"a file of the session cannot be stored: {error}") from None
        return Imported(name, incoming.count, tuple(incoming.missing()))


def import_conversation(log: Log, text: bytes) -> Imported:
    """Import a conversation that `outrider.dumps` wrote."""
    messages = from_json(text, MemoryStore())  # validate before creating a session
    journal = log.create()
    try:
        from_json(text, journal.files)
        said = [*map(MessageEntry, messages)]
        journal.write_now(*said, *endings(SessionState(said)))
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
    """The lines of a session during an import. The bytes of files go straight to a folder."""

    def __init__(self, folder: Path) -> None:
        self.header: Header | None = None
        self.entries: list[ImportedEntry] = []
        """All entries but the first, which the import writes anew."""
        self.count = 0
        self._last = 0
        self._folder = folder
        self._files: dict[str, AttachmentBlock] = {}
        self._mentioned: dict[str, AttachmentBlock] = {}

    def take(self, line: bytes) -> None:
        """Parse one line."""
        if self.header is None:
            self.header = msgspec.json.decode(line, type=described(Header))
            if self.header.outrider_session > VERSION:
                raise LogError("it was written by a newer version of Outrider; upgrade to import it")
        elif line.startswith(b'{"file"'):
            self._take_file(msgspec.json.decode(line, type=described(_File)))
        else:
            self._take_entry(msgspec.json.decode(line, type=described(_Line)))

    def files(self) -> Iterator[Attachment]:
        """Yield the imported files. Raise LogError if a hash does not match."""
        for name, file in self._files.items():
            with (self._folder / name).open("rb") as stream:
                if hashlib.file_digest(stream, "sha256").hexdigest() != name:
                    raise LogError(f"the bytes of {file.label} do not match their SHA-256")
            yield Attachment(self._folder / name, file.mime_type, file.name, file.description)

    def missing(self) -> Iterator[str]:
        """Yield the names of the files that the export does not contain."""
        return (file.label for name, file in self._mentioned.items() if name not in self._files)

    def _take_file(self, piece: _File) -> None:
        name = piece.file.sha256
        if not SHA256.fullmatch(name):
            raise LogError(f"{name[:80]!r} is not a SHA-256")
        self._files[name] = piece.file
        with (self._folder / name).open("ab") as file:
            file.write(base64.b64decode(piece.data, validate=True))

    def _take_entry(self, line: _Line) -> None:
        if not self._last < line.seq < LAST_SEQ // 2:  # those that the import adds come after it
            raise LogError(f"the number of entry {line.seq} is repeated, out of order or out of range")
        if not 0 <= line.time <= END_OF_TIME:
            raise LogError(f"the time of entry {line.seq} is out of range")
        body = bytes(line.body)
        entry = decode(line.kind, body)
        _check_numbers(entry)
        if isinstance(entry, AttachmentStored):
            self._mentioned[entry.attachment.sha256] = entry.attachment
        self._last = line.seq
        self.count += 1
        if self.count > 1 or not isinstance(entry, SessionStarted):
            # If the first entry was lost, the new first entry takes number 1 and the following ones move up.
            seq = max(line.seq, 2, self.entries[-1][0] + 1 if self.entries else 2)
            self.entries.append((seq, line.time, line.kind, body))


def _check_numbers(entry: Entry) -> None:
    """Raise LogError for tokens, costs and sizes that no session has: they count in sums and budgets."""
    usage = getattr(entry, "usage", None)
    numbers = list(msgspec.structs.astuple(usage)) if isinstance(usage, Usage) else []
    if isinstance(entry, AttachmentStored):
        numbers.append(entry.attachment.size)
    if not all(number is None or 0 <= number <= LARGEST_NUMBER for number in numbers):
        raise LogError("a number of tokens, a cost or a size is out of range")


def _json(value: msgspec.Struct) -> bytes:
    return msgspec.json.encode(value) + b"\n"
