"""A conversation as one API's bytes: each message is rendered once and kept, so that a request is a concatenation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_

from outrider.messages import Message, files_in

SOON_RENDERED = 500, 1_000_000
"""Messages and bytes that take no more than some milliseconds to render."""
Render = Callable[[Message, Message | None], bytes]
"""A message and the one before it, to the API's items, encoded and joined by commas; empty if there are none."""


class Transcript:
    """The rendered messages of one session for one model. It grows with the conversation."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._ends: list[int] = []
        """Where each message ends in the buffer."""
        self._buffer = bytearray()

    def copy(self) -> Transcript:
        """Another that grows by itself."""
        other = Transcript()
        other._messages, other._ends = self._messages.copy(), self._ends.copy()
        other._buffer = self._buffer.copy()
        return other

    def update(self, messages: Sequence[Message], render: Render) -> None:
        """Render what is new. Messages that were replaced since the last time are rendered again."""
        same = self._common(messages)
        del self._messages[same:]
        del self._ends[same:]
        del self._buffer[self._ends[-1] if self._ends else 0 :]
        for index in range(same, len(messages)):
            self._append(messages[index], messages[index - 1] if index else None, render)

    def _common(self, messages: Sequence[Message]) -> int:
        known = self._messages
        if len(known) <= len(messages) and all(map(is_, known, messages)):
            return len(known)
        pairs = zip(known, messages, strict=False)
        return next((index for index, (old, new) in enumerate(pairs) if old is not new), min(len(known), len(messages)))

    def _append(self, message: Message, previous: Message | None, render: Render) -> None:
        fragment = render(message, previous)
        if fragment:
            if self._buffer:
                self._buffer += b","
            self._buffer += fragment
        self._messages.append(message)
        self._ends.append(len(self._buffer))

    @property
    def size(self) -> int:
        """Bytes in all."""
        return len(self._buffer)

    @property
    def is_soon_made_again(self) -> bool:
        """Whether all of it could be rendered anew in a moment. Files take longer: they are read, and scaled."""
        most_messages, most_bytes = SOON_RENDERED
        if len(self._messages) > most_messages or len(self._buffer) > most_bytes:
            return False
        return not any(map(files_in, self._messages))

    def joined(self, before: bytes, after: bytes, extra: bytes = b"") -> bytes:
        """The whole between two other pieces, copied once; `extra` are items for this request alone."""
        comma = b"," if extra and self._buffer else b""
        return b"".join((before, self._buffer, comma, extra, after))


class Rendering:
    """How a session's conversation stands with one model: its bytes, and whose files no longer fit."""

    def __init__(self) -> None:
        self.transcript = Transcript()
        self.pictures: dict[int, int] = {}
        """How many pictures each message has that has any, by its identity."""
        self.left_out: list[Message] = []
        """The oldest messages with files, which are mentioned now instead of being shown."""
        self.notices: list[str] = []
        """What people should be told when the request is sent."""

    def copy(self) -> Rendering:
        """Another that grows by itself."""
        other = Rendering()
        other.transcript, other.pictures = self.transcript.copy(), self.pictures.copy()
        other.left_out, other.notices = self.left_out.copy(), self.notices.copy()
        return other

    def rest(self) -> None:
        """The model has answered, and a person may take long to: the words need not be kept twice until then."""
        if not self.left_out and self.transcript.is_soon_made_again:
            self.transcript = Transcript()

    def leave_out(self, messages: Sequence[Message], surplus_bytes: int, surplus_images: int) -> bool:
        """Give up the files of the oldest messages until so much is saved; False if there is nothing left."""
        found = False
        for message in messages:
            files = [] if any(message is other for other in self.left_out) else files_in(message)
            if not files:
                continue
            self.left_out.append(message)
            found = True
            surplus_bytes -= sum(file.size * 4 // 3 for file in files)
            surplus_images -= sum(file.mime_type.startswith("image/") for file in files)
            if surplus_bytes <= 0 and surplus_images <= 0:
                break
        self.transcript = Transcript()
        self.pictures.clear()
        return found

    def images(self, messages: Sequence[Message]) -> int:
        """Pictures in these messages."""
        return sum(self.pictures.get(id(message), 0) for message in messages) if self.pictures else 0
