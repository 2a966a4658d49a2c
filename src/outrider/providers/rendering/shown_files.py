"""Which files a request contains, which ones it only mentions, and which ones fit into it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from outrider.conversation.messages import Message
from outrider.providers.catalogue.capabilities import Kind


class ShownFile(msgspec.Struct, frozen=True, eq=False):
    """A file that a request contains: which one it is, and what it adds to the request."""

    message: Message
    position: int  # its position among the files of the message
    kinds: frozenset[Kind]
    """What the API gets. A scanned PDF may be sent as images of its pages."""
    images: int = 0
    size: int = 0  # its bytes in the request


class Omission(msgspec.Struct, frozen=True):
    reason: str
    as_text: bool = False


class LeftOut:
    """The files that requests mention but do not contain."""

    def __init__(self) -> None:
        self._omissions: dict[tuple[int, int], Omission] = {}
        self._messages: dict[int, Message] = {}  # the messages, kept alive: they are recognized by their identity

    def __bool__(self) -> bool:
        return bool(self._omissions)

    def copy(self) -> LeftOut:
        other = LeftOut()
        other._omissions, other._messages = self._omissions.copy(), self._messages.copy()
        return other

    def add(self, file: ShownFile, omission: Omission) -> None:
        self._messages[id(file.message)] = file.message
        self._omissions[id(file.message), file.position] = omission

    def remove(self, files: Iterable[ShownFile]) -> None:
        for file in files:
            self._omissions.pop((id(file.message), file.position), None)

    def find(self, message: Message, position: int) -> Omission | None:
        """Return why a file of a message is left out, or None if it is not."""
        return self._omissions.get((id(message), position))


class Room(msgspec.Struct, frozen=True):
    """The images and the bytes of files that a request may have."""

    images: int
    size: int

    def holds(self, images: int, size: int) -> bool:
        return images <= self.images and size <= self.size


def surplus_files(files: Sequence[ShownFile], room: Room, newest: Message) -> list[ShownFile]:
    """Return the files that do not fit. The newest files are kept first.

    Files of the newest message may fill the room. Those of earlier messages may fill half of it: each change of the
    history invalidates the provider's cache, so it should change rarely. The newest file that fits is always kept.
    """
    images, size = sum(file.images for file in files), sum(file.size for file in files)
    half = Room(
        room.images // 2 if images > room.images else room.images, room.size // 2 if size > room.size else room.size
    )
    images = size = 0
    left: list[ShownFile] = []
    for file in reversed(files):
        may_fill = file.message is newest or not size
        if (room if may_fill else half).holds(images + file.images, size + file.size):
            images, size = images + file.images, size + file.size
        else:
            left.append(file)
    return left
