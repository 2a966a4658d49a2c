"""The messages of JSON-RPC 2.0: bytes to lines, lines to messages, and messages to lines for every reader."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from outrider.errors import OutriderError
from outrider.text import clean_value

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
CANCELLED = -32800
AUTH_REQUIRED = -32000
NOT_FOUND = -32002

NULL = b"null"
_NOTHING = msgspec.Raw()
_VERSION = b'"2.0"'
# A pair of surrogates, a surrogate alone, or any other escape: one after the other, so that `\\ud800` is none of them.
_ESCAPES = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)


class RpcError(OutriderError):
    """An error as JSON-RPC has it: one that we answer with, or one that the client answered with."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    @classmethod
    def invalid_request(cls, message: str, data: Any = None) -> RpcError:
        """Not a message of JSON-RPC, or one that does not fit now."""
        return cls(INVALID_REQUEST, message, data)

    @classmethod
    def invalid_params(cls, message: str, data: Any = None) -> RpcError:
        """Parameters that the method cannot use."""
        return cls(INVALID_PARAMS, message, data)

    @classmethod
    def internal(cls, message: str, data: Any = None) -> RpcError:
        """It went wrong here."""
        return cls(INTERNAL_ERROR, message, data)

    @classmethod
    def auth_required(cls, message: str, data: Any = None) -> RpcError:
        """No key, or one that is not accepted."""
        return cls(AUTH_REQUIRED, message, data)

    @classmethod
    def not_found(cls, message: str, data: Any = None) -> RpcError:
        """A session or a file that is not there."""
        return cls(NOT_FOUND, message, data)


class ClosedError(RpcError, ConnectionResetError):
    """The client has closed the connection, or it was closed: nothing more is asked or answered."""

    def __init__(self) -> None:
        super().__init__(INTERNAL_ERROR, "The connection to the client is closed.")


class IncomingMessage(msgspec.Struct):
    """A message as it was received; what it does not have is empty."""

    jsonrpc: msgspec.Raw = _NOTHING
    id: msgspec.Raw = _NOTHING
    method: msgspec.Raw = _NOTHING
    params: msgspec.Raw = _NOTHING
    result: msgspec.Raw = _NOTHING
    error: msgspec.Raw = _NOTHING

    @property
    def is_response(self) -> bool:
        """Whether it answers a request. Its version does not matter: whoever waits for it should not wait for ever."""
        return not self.method and bool(self.result or self.error)

    def called(self) -> str:
        """The method. Raises RpcError if this is not a request or a notification."""
        if bytes(self.jsonrpc) != _VERSION:
            raise RpcError(INVALID_REQUEST, 'The message is not JSON-RPC 2.0: it needs "jsonrpc": "2.0".')
        if not self.method:
            raise RpcError(INVALID_REQUEST, "The message has no method.")
        if self.id and not is_id(bytes(self.id)):
            raise RpcError(INVALID_REQUEST, "The id of a request is a string, a number or null.")
        try:
            return msgspec.json.decode(self.method, type=str)
        except msgspec.ValidationError:
            raise RpcError(INVALID_REQUEST, "The method of a message is a string.") from None


class ErrorObject(msgspec.Struct, omit_defaults=True):
    """The error of a response."""

    code: int
    message: str = ""
    data: Any = None


_DECODER = msgspec.json.Decoder(IncomingMessage)
_ENCODER = msgspec.json.Encoder()


class LineSplitter:
    """Bytes, as they arrive, to lines without their ends. A line that is too long is not kept: None stands for it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = bytearray()
        self._skipping = False

    def split(self, data: bytes) -> Iterator[bytes | None]:
        """The lines that end in these bytes, in order; each byte is looked at once."""
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            if self._skipping:
                self._skipping = False
            else:
                yield self._line(data[start:end])
            start = end + 1
        if start < len(data) and not self._skipping:
            self._skipping = not self._hold(data[start:])
            if self._skipping:
                yield None

    def _line(self, end: bytes) -> bytes | None:
        if not self._held and len(end) <= self._limit:
            return end
        line = bytes(self._held) if self._hold(end) else None
        self._held = bytearray()
        return line

    def _hold(self, part: bytes) -> bool:
        if len(self._held) + len(part) > self._limit:
            self._held = bytearray()
            return False
        self._held += part
        return True


def read(line: bytes) -> IncomingMessage:
    """The message of a line. Raises RpcError if it is none."""
    try:
        if not line.isascii():
            line.decode()
        return _DECODER.decode(line)
    except UnicodeDecodeError as error:
        raise RpcError(PARSE_ERROR, f"The line is not UTF-8: {error.reason} at byte {error.start}.") from None
    except msgspec.ValidationError:
        raise _not_an_object(line) from None
    except msgspec.DecodeError as error:
        return _read_repaired(line, error)
    except RecursionError:
        raise RpcError(PARSE_ERROR, "The JSON of the line is nested too deeply.") from None


def is_id(raw: bytes) -> bool:
    """Whether the JSON of a value is that of an id."""
    return raw[:1] not in (b"", b"{", b"[", b"t", b"f")


def id_key(raw: bytes) -> bytes:
    """What an id is known by here: the same however its string is written; a number as it was sent."""
    if raw[:1] != b'"' or b"\\" not in raw:
        return raw
    text: str = json.loads(raw)
    return b'"%b"' % text.encode("utf-8", "surrogatepass")


def decode(raw: msgspec.Raw, wanted: Any) -> Any:
    """A value by its type. None at all, or null, is an object without fields where the type is one of objects."""
    if len(raw) in (0, 4) and bytes(raw) in (b"", NULL):
        return msgspec.json.decode(b"{}" if isinstance(wanted, msgspec.StructMeta) else NULL, type=wanted)
    return msgspec.json.decode(raw, type=wanted)


def request(id: bytes, method: str, params: Any) -> bytes:
    """A line that asks."""
    return b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}\n' % (id, encode(method), encode(params))


def notification(method: str, params: Any) -> bytes:
    """A line that tells."""
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}\n' % (encode(method), encode(params))


def response(id: bytes, result: Any) -> bytes:
    """A line that answers; None is an object without fields, as the protocol has no other empty answers."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (id, encode({} if result is None else result))


def refusal(id: bytes, error: RpcError) -> bytes:
    """A line that answers with an error; without its data if that has no JSON."""
    try:
        fault = encode(ErrorObject(error.code, error.message, error.data))
    except (TypeError, ValueError):
        fault = encode(ErrorObject(error.code, error.message))
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}\n' % (id, fault)


def encode(value: Any) -> bytes:
    """Strict JSON on one line. Lone surrogates are replaced, numbers that JSON does not have become null.

    Raises TypeError or ValueError for what has no JSON.
    """
    try:
        text = _ENCODER.encode(value)
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(value, enc_hook=_plain)
        text = _ENCODER.encode(clean_value(plain))
    except RecursionError:
        raise ValueError("the value is nested too deeply") from None
    if b"\n" in text or b"\r" in text:  # between the values of JSON that was passed on as it came
        text = text.replace(b"\n", b" ").replace(b"\r", b" ")
    if not text.isascii():  # some readers, Node's readline for one, take these for the ends of lines
        text = text.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    return text


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Raw):
        return msgspec.json.decode(value)
    raise TypeError(f"{type(value).__name__} has no JSON")


def _not_an_object(line: bytes) -> RpcError:
    try:
        msgspec.json.decode(line, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError) as error:
        return RpcError(PARSE_ERROR, f"The line is not JSON: {error}.")
    if line.lstrip().startswith(b"["):
        return RpcError(INVALID_REQUEST, "Batches are not supported: send one message a line.")
    return RpcError(INVALID_REQUEST, "The line is JSON, but not an object.")


def _read_repaired(line: bytes, error: msgspec.DecodeError) -> IncomingMessage:
    """A message with lone surrogates in it, which JavaScript sends and JSON allows: they are replaced."""
    repaired = _ESCAPES.sub(lambda escape: b"\\ufffd" if escape[1] else escape[0], line)
    try:
        message = _DECODER.decode(repaired)
    except (msgspec.DecodeError, RecursionError):
        raise RpcError(PARSE_ERROR, f"The line is not JSON: {error}.") from None
    if b"\\ufffd" in bytes(message.id):  # an id goes back as it came
        message.id = msgspec.Raw(json.dumps(json.loads(line)["id"]))
    return message
