"""A conversation in the bytes of one API. Each message is rendered once and kept; a request concatenates them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import is_
from typing import Any

import msgspec

from outrider.conversation.messages import Message, files_in
from outrider.errors import ContextExceededError
from outrider.providers.catalogue.capabilities import Capabilities, Kind
from outrider.providers.rendering.encoding import Rendered, interleave
from outrider.providers.rendering.shown_files import LeftOut, Omission, Room, ShownFile, surplus_files
from outrider.providers.transport.http import Body, Pieces
from outrider.text import counted, human_size

CHEAP_TO_RENDER = 500, 1_000_000  # messages and bytes that take no more than a few milliseconds to render
Render = Callable[[Message, Message | None, int], Rendered]
"""Renders a message, given the message before it and the bytes of file text before it."""


class _End(msgspec.Struct, frozen=True, gc=False):
    """Where a message ends, and the totals up to there."""

    json: int = 0
    files: int = 0
    shown: int = 0
    text_bytes: int = 0


_START = _End()


class Transcript:
    """The rendered messages of one session for one model. It grows with the conversation."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._ends: list[_End] = []
        self._buffer = bytearray()  # the JSON without large files
        self._files: list[tuple[int, bytes]] = []
        """Each large file, encoded, with its position in the buffer. Files are never copied."""
        self.shown: list[ShownFile] = []  # the files that the messages show, the oldest first

    def copy(self) -> Transcript:
        other = Transcript()
        vars(other).update((name, value.copy()) for name, value in vars(self).items())
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
        del self.shown[self._end.shown :]

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
        self.shown += rendered.shown
        text_bytes = before.text_bytes + rendered.text_bytes
        self._ends.append(_End(len(self._buffer), len(self._files), len(self.shown), text_bytes))

    @property
    def _end(self) -> _End:
        return self._ends[-1] if self._ends else _START

    @property
    def size(self) -> int:
        return len(self._buffer) + sum([len(data) for _, data in self._files])

    @property
    def images(self) -> int:
        return sum([file.images for file in self.shown])

    @property
    def text_bytes(self) -> int:
        return self._end.text_bytes

    @property
    def is_cheap_to_rebuild(self) -> bool:
        """Whether all messages can be rendered again in a moment. Files take longer: they are read and scaled."""
        is_short = len(self._messages) <= CHEAP_TO_RENDER[0] and len(self._buffer) <= CHEAP_TO_RENDER[1]
        return is_short and not any(map(files_in, self._messages))

    def contains(self, text: bytes) -> bool:
        return text in self._buffer

    def request(self, head: Mapping[str, Any], field: str, extra: Iterable[Any] = ()) -> Body:
        """Return a request: `head`, and a field with all messages and with items for this request only."""
        before = msgspec.json.encode(head)[:-1] + b',"%b":[' % field.encode()
        return self.enclosed(before, b"]}", b",".join(map(msgspec.json.encode, extra)))

    def enclosed(self, before: bytes, after: bytes, extra: bytes = b"") -> Body:
        """Return all messages, and items for this request only, between two texts. Large files are not copied."""
        comma = b"," if extra and self._buffer else b""
        if not self._files:
            return b"".join((before, self._buffer, comma, extra, after))
        first, *inner, last = interleave(self._buffer, self._files)
        return Pieces((before + first, *inner, b"".join((last, comma, extra, after))))


class Rendering:
    """The state of a session's conversation with one model: its bytes, and the files that are left out."""

    def __init__(self) -> None:
        self.transcript = Transcript()
        self.left_out = LeftOut()  # the oldest files if a request was too large, and files that the API refused
        self._beside: tuple[Mapping[str, str], str] = {}, ""
        """What messages were rendered with beside themselves."""
        self._notices: list[str] = []
        self._known_notices: set[str] = set()

    def copy(self) -> Rendering:
        other = Rendering()
        other.transcript, other.left_out = self.transcript.copy(), self.left_out.copy()
        other._beside = self._beside
        other._notices, other._known_notices = self._notices.copy(), self._known_notices.copy()
        return other

    def depend_on(self, groups: Mapping[str, str], situation: str) -> None:
        """Render all messages again if the groups of deferred tools changed, which calls name, or the situation."""
        if (groups, situation) != self._beside:
            self.transcript, self._beside = Transcript(), (groups, situation)

    def update(self, messages: Sequence[Message], render: Render) -> None:
        """Render what is new. Each notice is kept once: messages that are rendered again repeat theirs."""
        for notice in self.transcript.update(messages, render):
            self.notify(notice)

    def notify(self, notice: str) -> None:
        if notice not in self._known_notices:
            self._known_notices.add(notice)
            self._notices.append(notice)

    def take_notices(self) -> list[str]:
        notices, self._notices = self._notices, []
        return notices

    def fitting(
        self, assemble: Callable[[], Body], limits: Capabilities, label: str, messages: Sequence[Message]
    ) -> Body:
        """Return a body within the limits of the API. Files that do not fit are left out, the oldest first."""
        body = assemble()
        left: dict[str, int] = {}
        while len(body) > limits.request_bytes or self.transcript.images > limits.images:
            shown, too_many = self.transcript.shown, self.transcript.images > limits.images
            room = Room(limits.images, limits.request_bytes - len(body) + sum(file.size for file in shown))
            surplus = surplus_files(shown, room, messages[-1])
            if not surplus:
                raise ContextExceededError(
                    f"the request has {len(body):,} bytes and {label} takes {limits.request_bytes:,}; "
                    "start a new conversation with the parts that matter"
                )
            for file in surplus:
                is_image = too_many and file.images
                limit = counted(limits.images, "image") if is_image else human_size(limits.request_bytes)
                reason = f"{label} takes at most {limit} in a request, and newer files come first"
                self.leave_out([file], Omission(reason))
                left[reason] = left.get(reason, 0) + 1
            body = assemble()
        for reason, count in left.items():
            self.notify(f"{count} {'file is' if count == 1 else 'files are'} not shown to the model: {reason}")
        return body

    def drop_cache(self) -> None:
        """Release the rendered bytes if they are cheap to make again: the user may take long to write."""
        if not self.left_out and self.transcript.is_cheap_to_rebuild:
            self.transcript = Transcript()

    def leave_out(self, files: Iterable[ShownFile], omission: Omission) -> None:
        for file in files:
            self.left_out.add(file, omission)
        self.transcript = Transcript()

    def newest(self, kind: Kind) -> list[ShownFile]:
        """Return the files of a kind in the newest message that shows any."""
        found = self.all_of(kind)
        return [file for file in found if file.message is found[-1].message]

    def all_of(self, kind: Kind) -> list[ShownFile]:
        return [file for file in self.transcript.shown if kind in file.kinds]

    def include(self, files: Iterable[ShownFile]) -> None:
        self.left_out.remove(files)
        self.transcript = Transcript()
