"""A conversation in the bytes of one API. Each message is rendered once and kept; a request concatenates them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import is_

import msgspec

from outrider.conversation.messages import AttachmentBlock, Message, files_in
from outrider.providers.body import Body, Pieces, Rendered, interleave

CHEAP_TO_RENDER = 500, 1_000_000
"""Messages and bytes that take no more than a few milliseconds to render."""
TOO_LARGE = "the request is too large"
Render = Callable[[Message, Message | None, int], Rendered]
"""Renders a message, given the message before it and the bytes of file text before it."""


class _End(msgspec.Struct, frozen=True, gc=False):
    """Where a message ends, and the totals up to there."""

    json: int = 0
    files: int = 0
    images: int = 0
    text_bytes: int = 0


_START = _End()


class Transcript:
    """The rendered messages of one session for one model. It grows with the conversation."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._ends: list[_End] = []
        self._buffer = bytearray()
        """The JSON without large files."""
        self._files: list[tuple[int, bytes]] = []
        """Each large file, encoded, with its position in the buffer. Files are never copied."""

    def copy(self) -> Transcript:
        """Return an independent copy."""
        other = Transcript()
        other._messages, other._ends = self._messages.copy(), self._ends.copy()
        other._buffer, other._files = self._buffer.copy(), self._files.copy()
        return other

    def update(self, messages: Sequence[Message], render: Render) -> list[str]:
        """Render the messages that are new or were replaced. Return their notices."""
        kept = self._common_prefix(messages)
        if kept < len(self._messages):
            self._truncate(kept)
        notices: list[str] = []
        previous = messages[kept - 1] if kept else None
        for message in messages[kept:]:
            rendered = render(message, previous, self.text_bytes)
            self._append(message, rendered)
            notices += rendered.notices
            previous = message
        return notices

    def _common_prefix(self, messages: Sequence[Message]) -> int:
        known = self._messages
        if len(known) <= len(messages) and all(map(is_, known, messages)):
            return len(known)
        pairs = zip(known, messages, strict=False)
        return next((index for index, (old, new) in enumerate(pairs) if old is not new), min(len(known), len(messages)))

    def _truncate(self, length: int) -> None:
        del self._messages[length:]
        del self._ends[length:]
        del self._buffer[self._end.json :]
        del self._files[self._end.files :]

    def _append(self, message: Message, rendered: Rendered) -> None:
        before = self._end
        if rendered.json:
            if self._buffer:
                self._buffer += b","
            if rendered.files:
                start = len(self._buffer)
                self._files += [(start + position, data) for position, data in rendered.files]
            self._buffer += rendered.json
        self._messages.append(message)
        images, text_bytes = before.images + rendered.images, before.text_bytes + rendered.text_bytes
        self._ends.append(_End(len(self._buffer), len(self._files), images, text_bytes))

    @property
    def _end(self) -> _End:
        return self._ends[-1] if self._ends else _START

    @property
    def size(self) -> int:
        """The size in bytes."""
        return len(self._buffer) + sum(len(data) for _, data in self._files)

    @property
    def images(self) -> int:
        """The number of images."""
        return self._end.images

    @property
    def text_bytes(self) -> int:
        """Bytes of text that come from files."""
        return self._end.text_bytes

    @property
    def is_cheap_to_rebuild(self) -> bool:
        """Whether all messages can be rendered again in a moment. Files take longer: they are read and scaled."""
        max_messages, max_bytes = CHEAP_TO_RENDER
        if len(self._messages) > max_messages or len(self._buffer) > max_bytes:
            return False
        return not any(map(files_in, self._messages))

    def contains(self, text: bytes) -> bool:
        """Return whether the JSON of any message has this text."""
        return text in self._buffer

    def enclosed(self, before: bytes, after: bytes, extra: bytes = b"") -> Body:
        """Return all messages between `before` and `after`. `extra` are items for this request only.

        Large files are not copied.
        """
        comma = b"," if extra and self._buffer else b""
        if not self._files:
            return b"".join((before, self._buffer, comma, extra, after))
        first, *inner, last = interleave(self._buffer, self._files)
        return Pieces((before + first, *inner, b"".join((last, comma, extra, after))))


class LeftOut(msgspec.Struct, frozen=True):
    """Files of a message that the request mentions but does not contain."""

    message: Message
    reason: str
    only_images: bool = False

    def covers(self, message: Message, file: AttachmentBlock) -> bool:
        """Return whether this file of this message is left out."""
        return message is self.message and (not self.only_images or _is_image(file))


class Rendering:
    """The state of a session's conversation with one model: its bytes, and the files that are left out."""

    def __init__(self) -> None:
        self.transcript = Transcript()
        self.left_out: list[LeftOut] = []
        """Files of the oldest messages if a request was too large, and images that the API refused."""
        self._groups: Mapping[str, str] = {}
        """What messages were rendered with beside themselves: the groups of deferred tools."""
        self._notices: list[str] = []
        self._known_notices: set[str] = set()

    def copy(self) -> Rendering:
        """Return an independent copy."""
        other = Rendering()
        other.transcript, other.left_out = self.transcript.copy(), self.left_out.copy()
        other._groups = self._groups
        other._notices, other._known_notices = self._notices.copy(), self._known_notices.copy()
        return other

    def depend_on(self, groups: Mapping[str, str]) -> None:
        """Render all messages again if the groups of deferred tools changed, which calls name."""
        if groups != self._groups:
            self.transcript, self._groups = Transcript(), groups

    def update(self, messages: Sequence[Message], render: Render) -> None:
        """Render what is new. Each notice is kept once: messages that are rendered again repeat theirs."""
        for notice in self.transcript.update(messages, render):
            if notice not in self._known_notices:
                self._known_notices.add(notice)
                self._notices.append(notice)

    def take_notices(self) -> list[str]:
        """Return the notices that were not returned before."""
        notices, self._notices = self._notices, []
        return notices

    def drop_cache(self) -> None:
        """Release the rendered bytes if they are cheap to make again: the user may take long to write."""
        if not self.left_out and self.transcript.is_cheap_to_rebuild:
            self.transcript = Transcript()

    def leave_out(self, messages: Sequence[Message], surplus_bytes: int, surplus_images: int) -> bool:
        """Leave out the files of the oldest messages until the surplus is saved. Return False if no file is left."""
        found = False
        for message in messages:
            files = self._included(message)
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
        """Leave out the images of the newest message that has any. Return False if no message has."""
        for message in reversed(messages):
            if any(map(_is_image, self._included(message))):
                self.left_out.append(LeftOut(message, reason, only_images=True))
                self.transcript = Transcript()
                return True
        return False

    def restore_last(self) -> None:
        """Include again the files that were left out last."""
        del self.left_out[-1:]
        self.transcript = Transcript()

    def _included(self, message: Message) -> list[AttachmentBlock]:
        files = files_in(message)
        return [file for file in files if not any(each.covers(message, file) for each in self.left_out)]


def _is_image(file: AttachmentBlock) -> bool:
    return file.mime_type.startswith("image/")
