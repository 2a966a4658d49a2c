"""A conversation as one API's bytes: each message is rendered once and kept, so that a request is a concatenation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import is_

import msgspec

from outrider.conversation.messages import AttachmentBlock, Message, files_in
from outrider.providers.body import Body, Fragment, Pieces, interleaved

SOON_RENDERED = 500, 1_000_000
"""Messages and bytes that take no more than some milliseconds to render."""
TOO_LARGE = "the request is too large"
Render = Callable[[Message, Message | None], Fragment]
"""A message and the one before it, to the API's items."""


class _End(msgspec.Struct, frozen=True, gc=False):
    """Where a message ends, and what there is up to there."""

    text: int = 0
    files: int = 0
    images: int = 0
    words: int = 0


_BEGINNING = _End()


class Transcript:
    """The rendered messages of one session for one model. It grows with the conversation."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._ends: list[_End] = []
        self._buffer = bytearray()
        """The JSON without large files."""
        self._files: list[tuple[int, bytes]] = []
        """Each large file, encoded, with its place in the buffer. They are never copied."""

    def copy(self) -> Transcript:
        """Another that grows by itself."""
        other = Transcript()
        other._messages, other._ends = self._messages.copy(), self._ends.copy()
        other._buffer, other._files = self._buffer.copy(), self._files.copy()
        return other

    def update(self, messages: Sequence[Message], render: Render) -> None:
        """Render what is new. Messages that were replaced since the last time are rendered again."""
        same = self._common(messages)
        if same < len(self._messages):
            self._cut(same)
        for index in range(same, len(messages)):
            self._append(messages[index], messages[index - 1] if index else None, render)

    def _common(self, messages: Sequence[Message]) -> int:
        known = self._messages
        if len(known) <= len(messages) and all(map(is_, known, messages)):
            return len(known)
        pairs = zip(known, messages, strict=False)
        return next((index for index, (old, new) in enumerate(pairs) if old is not new), min(len(known), len(messages)))

    def _cut(self, length: int) -> None:
        del self._messages[length:]
        del self._ends[length:]
        del self._buffer[self._end.text :]
        del self._files[self._end.files :]

    def _append(self, message: Message, previous: Message | None, render: Render) -> None:
        fragment = render(message, previous)
        if fragment.text:
            if self._buffer:
                self._buffer += b","
            if fragment.files:
                start = len(self._buffer)
                self._files += [(start + place, data) for place, data in fragment.files]
            self._buffer += fragment.text
        self._messages.append(message)
        before = self._end
        self._ends.append(
            _End(
                len(self._buffer),
                len(self._files),
                before.images + fragment.images,
                before.words + fragment.words,
            )
        )

    @property
    def _end(self) -> _End:
        return self._ends[-1] if self._ends else _BEGINNING

    @property
    def size(self) -> int:
        """Bytes in all."""
        return len(self._buffer) + sum(len(data) for _, data in self._files)

    @property
    def images(self) -> int:
        """Pictures in all."""
        return self._end.images

    @property
    def words(self) -> int:
        """Bytes of text from files in all."""
        return self._end.words

    @property
    def is_soon_made_again(self) -> bool:
        """Whether all of it could be rendered anew in a moment. Files take longer: they are read, and scaled."""
        most_messages, most_bytes = SOON_RENDERED
        if len(self._messages) > most_messages or len(self._buffer) > most_bytes:
            return False
        return not any(map(files_in, self._messages))

    def enclosed(self, before: bytes, after: bytes, extra: bytes = b"") -> Body:
        """The whole between two other pieces; `extra` are items for this request alone. Large files are not copied."""
        comma = b"," if extra and self._buffer else b""
        if not self._files:
            return b"".join((before, self._buffer, comma, extra, after))
        first, *inner, last = interleaved(self._buffer, self._files)
        return Pieces((before + first, *inner, b"".join((last, comma, extra, after))))


class LeftOut(msgspec.Struct, frozen=True):
    """Files of a message that are mentioned instead of shown."""

    message: Message
    reason: str
    only_images: bool = False

    def concerns(self, message: Message, file: AttachmentBlock) -> bool:
        """Whether this file of this message is one of them."""
        return message is self.message and (not self.only_images or _is_image(file))


class Rendering:
    """How a session's conversation stands with one model: its bytes, and whose files are no longer shown."""

    def __init__(self) -> None:
        self.transcript = Transcript()
        self.left_out: list[LeftOut] = []
        """The oldest messages with files, when a request was too large; or pictures that the API refused."""
        self.notices: list[str] = []
        """What people should be told when the request is sent."""
        self._told: set[str] = set()

    def copy(self) -> Rendering:
        """Another that grows by itself."""
        other = Rendering()
        other.transcript, other._told = self.transcript.copy(), self._told.copy()
        other.left_out, other.notices = self.left_out.copy(), self.notices.copy()
        return other

    def rest(self) -> None:
        """The model has answered, and a person may take long to: the words need not be kept twice until then."""
        if not self.left_out and self.transcript.is_soon_made_again:
            self.transcript = Transcript()

    def tell(self, notices: Iterable[str]) -> None:
        """Keep these for people, each once: what is rendered again is no news."""
        for notice in notices:
            if notice not in self._told:
                self._told.add(notice)
                self.notices.append(notice)

    def news(self) -> list[str]:
        """What people were not told yet."""
        notices, self.notices = self.notices, []
        return notices

    def leave_out(self, messages: Sequence[Message], surplus_bytes: int, surplus_images: int) -> bool:
        """Give up the files of the oldest messages until so much is saved; False if there is nothing left."""
        found = False
        for message in messages:
            files = self._shown(message)
            if not files:
                continue
            self.left_out.append(LeftOut(message, TOO_LARGE))
            found = True
            surplus_bytes -= sum(file.size * 4 // 3 for file in files)
            surplus_images -= sum(map(_is_image, files))
            if surplus_bytes <= 0 and surplus_images <= 0:
                break
        self.transcript = Transcript()
        return found

    def leave_out_newest_images(self, messages: Sequence[Message], reason: str) -> bool:
        """Give up the pictures of the newest message that shows any; False if none does."""
        for message in reversed(messages):
            if any(map(_is_image, self._shown(message))):
                self.left_out.append(LeftOut(message, reason, only_images=True))
                self.transcript = Transcript()
                return True
        return False

    def show_again(self) -> None:
        """Take back what was left out last."""
        del self.left_out[-1:]
        self.transcript = Transcript()

    def _shown(self, message: Message) -> list[AttachmentBlock]:
        files = files_in(message)
        return [file for file in files if not any(each.concerns(message, file) for each in self.left_out)]


def _is_image(file: AttachmentBlock) -> bool:
    return file.mime_type.startswith("image/")
