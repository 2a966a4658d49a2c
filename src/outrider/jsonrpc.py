"""Messages of JSON-RPC 2.0: splits bytes into lines, parses them, and encodes messages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from outrider.errors import OutriderError
from outrider.struct_types import described
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
_ABSENT = msgspec.Raw()
_VERSION = b'"2.0"'
_HEAD = 256
# A surrogate pair, a lone surrogate (the group), or any other escape. Escapes are matched in sequence, so that the
# text `\\ud800` with an escaped backslash does not match as a surrogate.
_ESCAPES = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)


class RpcError(OutriderError):
    """A JSON-RPC error: raised to send one, and raised for one that the other side sent."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    @classmethod
    def invalid_request(cls, message: str, data: Any = None) -> RpcError:
        """An invalid message, or a request that is not allowed now."""
        return cls(INVALID_REQUEST, message, data)

    @classmethod
    def invalid_params(cls, message: str, data: Any = None) -> RpcError:
        """Invalid parameters."""
        return cls(INVALID_PARAMS, message, data)

    @classmethod
    def internal(cls, message: str, data: Any = None) -> RpcError:
        """An error inside this program."""
        return cls(INTERNAL_ERROR, message, data)

    @classmethod
    def auth_required(cls, message: str, data: Any = None) -> RpcError:
        """A missing or rejected API key."""
        return cls(AUTH_REQUIRED, message, data)

    @classmethod
    def not_found(cls, message: str, data: Any = None) -> RpcError:
        """An unknown session or file."""
        return cls(NOT_FOUND, message, data)


class IncomingMessage(msgspec.Struct):
    """A received message. Absent fields are empty."""

    jsonrpc: msgspec.Raw = _ABSENT
    id: msgspec.Raw = _ABSENT
    method: msgspec.Raw = _ABSENT
    params: msgspec.Raw = _ABSENT
    result: msgspec.Raw = _ABSENT
    error: msgspec.Raw = _ABSENT

    @property
    def is_response(self) -> bool:
        """Whether it is a response. Its version is not checked, so that the waiting request does not hang."""
        return not self.method and bool(self.result or self.error)

    def method_name(self) -> str:
        """Return the method. Raises RpcError if this is not a valid request or notification."""
        if bytes(self.jsonrpc) != _VERSION:
            raise RpcError(INVALID_REQUEST, 'The message is not JSON-RPC 2.0: it needs "jsonrpc": "2.0".')
        if not self.method:
            raise RpcError(INVALID_REQUEST, "The message has no method.")
        if self.id and not is_id(bytes(self.id)):
            raise RpcError(INVALID_REQUEST, "The id of a request must be a string, a number or null.")
        try:
            return msgspec.json.decode(self.method, type=str)
        except msgspec.ValidationError:
            raise RpcError(INVALID_REQUEST, "The method of a message must be a string.") from None


class ErrorObject(msgspec.Struct, omit_defaults=True):
    """The error object of a response."""

    code: int
    message: str = ""
    data: Any = None


_DECODER = msgspec.json.Decoder(IncomingMessage)
_ENCODER = msgspec.json.Encoder()


class LineSplitter:
    """Splits incoming bytes into lines without their line ends. A line over the limit is None."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.skipped = b""
        """The first bytes of the last line over the limit."""
        self._buffer = bytearray()
        self._skipping = False

    def split(self, data: bytes) -> Iterator[bytes | None]:
        """Yield the lines that are complete with these bytes."""
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            if self._skipping:
                self._skipping = False
            else:
                yield self._line(data[start:end])
            start = end + 1
        if start < len(data) and not self._skipping:
            self._skipping = not self._add(data[start:])
            if self._skipping:
                yield None

    def _line(self, end: bytes) -> bytes | None:
        if not self._buffer and len(end) <= self._limit:
            return end
        line = bytes(self._buffer) if self._add(end) else None
        self._buffer = bytearray()
        return line

    def _add(self, part: bytes) -> bool:
        if len(self._buffer) + len(part) > self._limit:
            self.skipped = bytes(self._buffer[:_HEAD]) + part[: max(0, _HEAD - len(self._buffer))]
            self._buffer = bytearray()
            return False
        self._buffer += part
        return True


def parse(line: bytes) -> IncomingMessage:
    """Parse a message. Raises RpcError if the line is not one."""
    try:
        if not line.isascii():
            line.decode()
        return _DECODER.decode(line)
    except UnicodeDecodeError as error:
        raise RpcError(PARSE_ERROR, f"The line is not UTF-8: {error.reason} at byte {error.start}.") from None
    except msgspec.ValidationError:
        raise _not_an_object(line) from None
    except msgspec.DecodeError as error:
        return _parse_repaired(line, error)
    except RecursionError:
        raise RpcError(PARSE_ERROR, "The JSON of the line is nested too deeply.") from None


def is_id(raw: bytes) -> bool:
    """Return whether JSON text can be an id."""
    return raw[:1] not in (b"", b"{", b"[", b"t", b"f")


def id_key(raw: bytes) -> bytes:
    """Return a key for an id: strings with different escapes have the same key; a number stays as it was sent."""
    if raw[:1] != b'"' or b"\\" not in raw:
        return raw
    text: str = json.loads(raw)
    return b'"%b"' % text.encode("utf-8", "surrogatepass")


def decode(raw: msgspec.Raw, wanted: Any) -> Any:
    """Decode a value of a type. If the type is a struct, an absent value or null is an empty object."""
    if len(raw) in (0, 4) and bytes(raw) in (b"", NULL):
        return msgspec.json.decode(b"{}" if isinstance(wanted, msgspec.StructMeta) else NULL, type=described(wanted))
    return msgspec.json.decode(raw, type=described(wanted))


def request(id: bytes, method: str, params: Any) -> bytes:
    """Return the line of a request."""
    return b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}\n' % (id, encode(method), encode(params))


def notification(method: str, params: Any) -> bytes:
    """Return the line of a notification."""
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}\n' % (encode(method), encode(params))


def response(id: bytes, result: Any) -> bytes:
    """Return the line of a response. None becomes an empty object: no protocol here has another empty result."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (id, encode({} if result is None else result))


def error_response(id: bytes, error: RpcError) -> bytes:
    """Return the line of an error response, without the error's data if that cannot be JSON."""
    try:
        error_object = encode(ErrorObject(error.code, error.message, error.data))
    except (TypeError, ValueError):
        error_object = encode(ErrorObject(error.code, error.message))
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}\n' % (id, error_object)


def encode(value: Any) -> bytes:
    """Encode strict JSON on one line. Lone surrogates are replaced; NaN and infinity become null.

    Raises TypeError or ValueError if the value cannot be JSON.
    """
    try:
        text = _ENCODER.encode(value)
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(value, enc_hook=_to_builtin)
        text = _ENCODER.encode(clean_value(plain))
    except RecursionError:
        raise ValueError("the value is nested too deeply") from None
    if b"\n" in text or b"\r" in text:  # whitespace in raw JSON that is passed through
        text = text.replace(b"\n", b" ").replace(b"\r", b" ")
    if not text.isascii():  # some readers, such as Node's readline, treat these as line ends
        text = text.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    return text


def _to_builtin(value: Any) -> Any:
    if isinstance(value, msgspec.Raw):
        return msgspec.json.decode(value)
    raise TypeError(f"{type(value).__name__} cannot be JSON")


def _not_an_object(line: bytes) -> RpcError:
    try:
        msgspec.json.decode(line, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError) as error:
        return RpcError(PARSE_ERROR, f"The line is not JSON: {error}.")
    if line.lstrip().startswith(b"["):
        return RpcError(INVALID_REQUEST, "Batches are not supported: send one message per line.")
    return RpcError(INVALID_REQUEST, "The line is JSON, but not an object.")


def _parse_repaired(line: bytes, error: msgspec.DecodeError) -> IncomingMessage:
    """Parse a message with lone surrogates replaced. JavaScript sends them, and JSON allows them."""
    repaired = _ESCAPES.sub(lambda escape: b"\\ufffd" if escape[1] else escape[0], line)
    try:
        message = _DECODER.decode(repaired)
    except (msgspec.DecodeError, RecursionError):
        raise RpcError(PARSE_ERROR, f"The line is not JSON: {error}.") from None
    if b"\\ufffd" in bytes(message.id):  # an id is sent back as it came
        message.id = msgspec.Raw(json.dumps(json.loads(line)["id"]))
    return message
