"""Attachments in Postgres: chunks of bytes under their SHA-256, so that every machine can read them."""

from __future__ import annotations

import hashlib
import tempfile
import uuid
from collections.abc import Iterator
from functools import partial
from typing import IO

from outrider.conversation.attachments import MAX_BYTES, Attachment
from outrider.conversation.messages import AttachmentBlock
from outrider.conversation.store import CHUNK, changed, checked, copied, missing
from outrider.errors import AttachmentError, LogError
from outrider.log.postgres.connections import Use
from outrider.log.postgres.schema import Connection
from outrider.log.session_files import UNREFERENCED_SECONDS

IN_MEMORY = 1_000_000
"""The size from which a file is put down on this machine's disk while it is copied."""
_TOUCH = "UPDATE file SET touched = now() WHERE sha256 = $1 AND size = $2 RETURNING true"
"""Updates the time of a file that is there, so that the cleanup sees it as new."""
_ADD_CHUNK = "INSERT INTO chunk (upload, n, data) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"
_FIND = "SELECT upload, size FROM file WHERE sha256 = $1"
_FINISH = (
    "INSERT INTO file (sha256, upload, size) VALUES ($1, $2, $3) ON CONFLICT (sha256) DO UPDATE SET touched = now()"
)
"""Names the uploaded chunks. If another process was quicker, the cleanup removes these."""


class PostgresStore:
    """A store in the database of the log."""

    def __init__(self, use: Use) -> None:
        self._use = use

    def put(self, attachment: Attachment, max_bytes: int = MAX_BYTES) -> AttachmentBlock:
        """Copy the bytes in chunks, so that a large file is never in memory as a whole."""
        with tempfile.SpooledTemporaryFile(IN_MEMORY) as spool:
            reference = copied(attachment, max_bytes, spool)
            try:
                if not self._use(lambda connection: connection.fetchval(_TOUCH, reference.sha256, reference.size)):
                    self._upload(reference, spool)
            except LogError as error:
                raise AttachmentError(f"{reference.label} cannot be stored: {error}") from None
            return reference

    def read(self, reference: AttachmentBlock) -> bytes:
        return checked(b"".join(self._chunks(reference)), reference)

    def chunks(self, reference: AttachmentBlock) -> Iterator[bytes]:
        """Return the bytes in chunks, after verifying all of them. A large file is never in memory as a whole."""
        digest = hashlib.sha256()
        for chunk in self._chunks(reference):
            digest.update(chunk)
        if digest.hexdigest() != reference.sha256:
            raise changed(reference)
        return self._chunks(reference)

    def _upload(self, reference: AttachmentBlock, spool: IO[bytes]) -> None:
        upload = uuid.uuid4()
        spool.seek(0)
        for chunk in enumerate(iter(lambda: spool.read(CHUNK), b"")):
            self._execute(_ADD_CHUNK, upload, *chunk)
        self._execute(_FINISH, reference.sha256, upload, reference.size)

    def _execute(self, statement: str, *values: object) -> None:
        self._use(lambda connection: connection.execute(statement, *values))

    def _chunks(self, reference: AttachmentBlock) -> Iterator[bytes]:
        try:
            found = self._use(lambda connection: connection.fetchrow(_FIND, reference.sha256))
            if found is None:
                raise missing(reference)
            upload, size = found
            for n in range((size + CHUNK - 1) // CHUNK):
                yield self._use(partial(_chunk, upload, n)) or b""
        except LogError as error:
            raise AttachmentError(f"{reference.label} cannot be read: {error}") from None


async def remove_unreferenced_files(connection: Connection) -> tuple[int, int]:
    """Delete the files that no session refers to, and the leftovers of uploads. Return how many, and their bytes."""
    old = f"interval '{UNREFERENCED_SECONDS} seconds'"
    doomed = await connection.fetch(
        f"DELETE FROM file WHERE touched < now() - {old} "
        "AND NOT EXISTS (SELECT FROM reference WHERE reference.sha256 = file.sha256) RETURNING size"
    )
    await connection.execute(
        f"DELETE FROM chunk WHERE stored < now() - {old} "
        "AND NOT EXISTS (SELECT FROM file WHERE file.upload = chunk.upload)"
    )
    return len(doomed), sum(size for (size,) in doomed)


async def _chunk(upload: uuid.UUID, n: int, connection: Connection) -> bytes | None:
    data: bytes | None = await connection.fetchval("SELECT data FROM chunk WHERE upload = $1 AND n = $2", upload, n)
    return data
