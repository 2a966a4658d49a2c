"""A session as JSON lines, to be kept elsewhere or taken to another machine, and back into a log.

The first line says what it is, each further line is one entry; where files come along, they stand between the two, in
pieces of base64:

    {"outrider_session": 1, "id": "…", "title": "…"}
    {"file": {"sha256": "…", "mime_type": "image/png", "size": 4711}, "data": "iVBORw0…"}
    {"seq": 1, "time": 1794718492.69, "kind": "began", "body": {…}}
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from outrider.attachments import Attachment
from outrider.conversation import from_json
from outrider.errors import LogError
from outrider.log.entries import Said, Stored, decode, encode
from outrider.log.log import Incoming, Log
from outrider.messages import AttachmentBlock

VERSION = 1
SHA256 = re.compile("[0-9a-f]{64}")


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
        files = log.files(summary.id)
        for record in log.records(summary.id):
            if isinstance(record.entry, Stored):
                for chunk in files.chunks(record.entry.attachment):
                    yield _json(_File(record.entry.attachment, base64.b64encode(chunk).decode()))
    for record in log.records(summary.id):
        kind, body = encode(record.entry)
        yield _json(_Line(record.seq, record.time, kind, msgspec.Raw(body)))


def import_session(log: Log, lines: Iterable[bytes]) -> Imported:
    """A session out of its lines, all or nothing. It keeps its id, unless the log has that already."""
    with TemporaryDirectory(prefix="outrider-") as folder:
        incoming = _Incoming(Path(folder))
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    incoming.take(line)
                except (LogError, ValueError, RecursionError) as error:
                    raise LogError(f"line {number} is not one of an exported session: {error}") from None
        if incoming.header is None or not incoming.entries:
            raise LogError("there is nothing to import: the input has no entries")
        name = log.add(incoming.header.id, incoming.entries, incoming.files())
        return Imported(name, len(incoming.entries), tuple(incoming.missing()))


def import_conversation(log: Log, text: bytes) -> Imported:
    """A session out of a conversation as `outrider.dumps` writes it."""
    journal = log.begin()
    try:
        messages = from_json(text, journal.files)
        journal.write_now(*map(Said, messages))
    except BaseException:
        journal.close()
        log.delete(journal.id)
        raise
    journal.close()
    return Imported(journal.id, len(messages))


class _Incoming:
    """The lines of a session as they come in. The bytes of files go to a folder at once."""

    def __init__(self, folder: Path) -> None:
        self.header: Header | None = None
        self.entries: list[Incoming] = []
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
        """The files that came along."""
        for name, file in self._files.items():
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
        expected = self.entries[-1][0] + 1 if self.entries else 1
        if line.seq < expected:
            raise LogError(f"the entry {line.seq} comes twice, or too late")
        body = bytes(line.body)
        entry = decode(line.kind, body)
        if isinstance(entry, Stored):
            self._mentioned[entry.attachment.sha256] = entry.attachment
        self.entries.append((line.seq, line.time, line.kind, body))


def _json(value: msgspec.Struct) -> bytes:
    return msgspec.json.encode(value) + b"\n"
