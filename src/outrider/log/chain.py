"""The chain of a session's entries: each is linked to the one before by the user's key.

The newest link, the head, is in the session's row. Each entry has 31 bits of its link beside its checksum: they tell
which entry was changed. The head tells whether one was: without the key nobody can compute it, nor that of an earlier
entry, so the end cannot be cut off either.
"""

from __future__ import annotations

from outrider.log.key import LogKey
from outrider.log.rows import Row, row

_ID = 4
"""Bytes at the beginning of a head that name its key."""


class Chain:
    """Links the entries of one session."""

    def __init__(self, key: LogKey, session: str) -> None:
        self._key, self._session = key, session
        self._secret = bytes.fromhex(key.sign("chain"))
        self._id = bytes.fromhex(key.sign("name of the chain's key"))[:_ID]

    def is_own(self, head: bytes) -> bool:
        """Return whether this key made a head."""
        return head[:_ID] == self._id

    def row(self, head: bytes, session: int, seq: int, time: float, kind: str, body: bytes) -> tuple[Row, bytes]:
        """Return the row of an entry that is linked to a head, and the new head."""
        head = self.after(head, seq, time + 0.0, kind, body)
        return row(session, seq, time, kind, body, link_in(head)), head

    def after(self, head: bytes, seq: int, time: float, kind: str, body: bytes) -> bytes:
        """Return the head after an entry. The chain begins with it if there is none yet, or another key made it."""
        import hmac

        if head[:_ID] != self._id:
            head = bytes.fromhex(self._key.sign("beginning of a chain", self._session, seq))
        said = f"{seq}:{time!r}:{len(kind)}:{kind}:".encode(errors="surrogateescape")
        return self._id + hmac.digest(self._secret, b"".join((head, said, body)), "sha256")


def link_in(head: bytes) -> int:
    """Return the part of a head that the row of its entry has. It is never 0, which says that there is no link."""
    return int.from_bytes(head[_ID : _ID + 4], signed=True) | 1
