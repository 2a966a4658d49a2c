"""The messages between a session and its hands, and how they are written to a stream of bytes.

After a first line, each message is a frame: four bytes with its length, then MessagePack. The session sends a `Hello`,
requests, cancels and changes of its permissions. The hands answer each request once, in any order. Before the answer
come progress and the bytes of its files. Neither side trusts the other: a frame that is too long or is no message ends
the connection.
"""

from __future__ import annotations

import asyncio
from typing import Any, TypeAlias, TypeVar

import msgspec

from outrider.coding.access import Access
from outrider.coding.hands.requests import Request, Setup, Stance
from outrider.errors import HandsError
from outrider.struct_types import described
from outrider.text import clean_value

VERSION = 2
PREAMBLE = b"\0outrider-hands\n"
"""The first bytes of the hands, in every version. What a login shell prints before them is skipped."""
LONGEST_FRAME = 16 * 1024 * 1024
CHUNK = 256 * 1024
"""Bytes of a file in one frame."""

T = TypeVar("T")


# Messages to the hands.


class Hello(msgspec.Struct, frozen=True, tag=True):
    """The first message."""

    version: int
    setup: Setup
    stance: Stance
    first_command: int = 1
    """The number of the next background command."""


class Ask(msgspec.Struct, frozen=True, tag=True):
    """A request."""

    id: int
    request: Request


class Cancel(msgspec.Struct, frozen=True, tag=True):
    """End a request. It is still answered, perhaps with what was done."""

    id: int


class Change(msgspec.Struct, frozen=True, tag=True):
    """The session's permissions have changed. This holds for the requests that follow."""

    stance: Stance


ToHands: TypeAlias = Hello | Ask | Cancel | Change


# Messages of the hands.


class Welcome(msgspec.Struct, frozen=True, tag=True):
    """The answer to a hello."""

    version: int
    folder: str
    is_sandboxed: bool = False
    sandbox_note: str = ""


class Refusal(msgspec.Struct, frozen=True, tag=True):
    """Why the hands do not work here."""

    reason: str


class Answer(msgspec.Struct, frozen=True, tag=True):
    """The answer to a request."""

    id: int
    body: msgspec.Raw


class Failure(msgspec.Struct, frozen=True, tag=True):
    """A request that failed, or was cancelled."""

    id: int
    text: str
    is_cancelled: bool = False


class Progress(msgspec.Struct, frozen=True, tag=True):
    """The progress of a call."""

    id: int
    content: msgspec.Raw


class Chunk(msgspec.Struct, frozen=True, tag=True):
    """The next bytes of a file of an answer."""

    id: int
    file: int
    data: bytes


class CommandState(msgspec.Struct, frozen=True):
    """A background command."""

    number: int
    command: str
    access: Access
    seconds: float
    running: bool
    exit_code: int | None = None
    ended_by_user: bool = False


class Commands(msgspec.Struct, frozen=True, tag=True):
    """The background commands, all of them."""

    commands: tuple[CommandState, ...]


FromHands: TypeAlias = Welcome | Refusal | Answer | Failure | Progress | Chunk | Commands

to_hands: msgspec.msgpack.Decoder[ToHands] = msgspec.msgpack.Decoder(described(ToHands))
from_hands: msgspec.msgpack.Decoder[FromHands] = msgspec.msgpack.Decoder(described(FromHands))


def frame(message: object) -> bytes:
    """Return a message as a frame. Raises HandsError if it is too long or no data."""
    try:
        body = encoded(message)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise HandsError(f"a message cannot be sent: {error}") from None
    if len(body) > LONGEST_FRAME:
        raise HandsError(f"a message of {len(body):,} bytes is too long to be sent; {LONGEST_FRAME:,} are the most")
    return len(body).to_bytes(4) + body


def encoded(message: object) -> bytes:
    """Return data as MessagePack. Lone surrogates, such as in the name of a file, are replaced."""
    try:
        return msgspec.msgpack.encode(message, enc_hook=str)
    except UnicodeEncodeError:
        return msgspec.msgpack.encode(clean_value(msgspec.to_builtins(message, enc_hook=str, builtin_types=(bytes,))))


async def read_frame(reader: asyncio.StreamReader, decoder: msgspec.msgpack.Decoder[T]) -> T | None:
    """Return the next message; None at the end of the stream. Raises HandsError for one that is none."""
    try:
        length = int.from_bytes(await reader.readexactly(4))
        if length > LONGEST_FRAME:
            raise HandsError(f"a frame of {length:,} bytes was announced; {LONGEST_FRAME:,} are the most")
        return decoder.decode(await reader.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise HandsError(f"a frame is no message: {error}") from None


def decoded(body: msgspec.Raw, kind: Any) -> Any:
    """Return the answer to a request. Raises HandsError if it is of another type."""
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise HandsError(f"an answer cannot be read: {error}") from None
