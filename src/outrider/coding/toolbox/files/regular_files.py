"""Find, open and decode regular files. Anything else that has a path is rejected."""

from __future__ import annotations

import codecs
import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from outrider.coding.toolbox.no_follow import Folder, opened_folder
from outrider.coding.toolbox.tool_errors import ToolCallError, os_error, printable
from outrider.coding.toolbox.workspace import Workspace
from outrider.conversation.encodings import UNKNOWN, Encoding
from outrider.text import clean
from outrider.tools.context import ToolContext

MAX_NAMES_COMPARED = 5_000
"""How many names in a folder are compared with a missing name."""

_KINDS = (
    (stat.S_ISFIFO, "is a FIFO (a named pipe)"),
    (stat.S_ISSOCK, "is a socket"),
    (stat.S_ISCHR, "is a device"),
    (stat.S_ISBLK, "is a device"),
)


def resolve_path(workspace: Workspace, name: str, tool: str, context: ToolContext) -> Path:
    """Return the path that the model means, with symbolic links resolved. The file may be missing.

    Links may have changed since the call was approved, so the resolved path is confirmed. Open it without following
    links. Raises ToolCallError.
    """
    if not name:
        raise ToolCallError("file_path is empty: give the path of a file.")
    if "\0" in name:
        raise ToolCallError("file_path has a NUL character, which no path can have.")
    try:
        path = os.path.realpath(workspace.path(name))
    except (RuntimeError, ValueError):  # `~` of an unknown user, a lone surrogate
        raise ToolCallError(f"{printable(name)} is not a path that can be used here.") from None
    if reason := workspace.confirm(context.call_id, tool, path):
        raise ToolCallError(f"{printable(name)} was not opened: {reason}.")
    return Path(path)


@contextmanager
def open_regular(path: Path, name: str) -> Iterator[BinaryIO]:
    """Open the file for reading. Raises ToolCallError if it is missing, is not a regular file or cannot be opened."""
    try:
        with opened_folder(path.parent) as folder:
            handle = _open_in(folder, path.name or ".", name)
    except FileNotFoundError:
        raise _missing_error(path, name) from None
    except OSError as error:
        raise os_error(error, name) from None
    with os.fdopen(handle, "rb") as file:
        yield file


@contextmanager
def open_regular_in(folder: Folder, file_name: str, name: str) -> Iterator[BinaryIO]:
    """Open a file in a folder for reading. Raises ToolCallError if it is not a regular file, or OSError."""
    with os.fdopen(_open_in(folder, file_name, name), "rb") as file:
        yield file


def _open_in(folder: Folder, file_name: str, name: str) -> int:
    check_regular(folder.status(file_name), name)  # before opening: opening some devices has side effects
    # Without blocking, in case the file was just replaced by a FIFO.
    handle = folder.open(file_name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))
    try:
        check_regular(os.fstat(handle), name)
    except BaseException:
        os.close(handle)
        raise
    return handle


def check_regular(status: os.stat_result, name: str) -> None:
    """Raise ToolCallError unless the file is a regular file."""
    if stat.S_ISREG(status.st_mode):
        return
    if stat.S_ISLNK(status.st_mode):
        raise os_error(OSError(errno.ELOOP, ""), name)
    if stat.S_ISDIR(status.st_mode):
        raise ToolCallError(f"{printable(name)} is a folder, not a file. Glob lists what is in it.")
    kind = next((words for fits, words in _KINDS if fits(status.st_mode)), "is something special")
    raise ToolCallError(f"{printable(name)} {kind}, not a regular file, and was not opened.")


def _missing_error(path: Path, name: str) -> ToolCallError:
    folder = path.parent
    while not folder.exists():
        folder = folder.parent
    if folder != path.parent:
        return ToolCallError(
            f"{printable(name)} does not exist: there is no {path.relative_to(folder).parts[0]!r} in {folder}."
        )
    if names := _similar_names(path):
        return ToolCallError(f"{printable(name)} does not exist. Names like it in the same folder: {', '.join(names)}.")
    return ToolCallError(
        f"{printable(name)} does not exist, and nothing in its folder has a name like it. Glob finds files."
    )


def _similar_names(path: Path) -> list[str]:
    from difflib import get_close_matches

    try:
        with opened_folder(path.parent) as folder:
            names = {each.lower(): each for each in folder.names(MAX_NAMES_COMPARED)}
    except OSError:
        return []
    return [printable(names[close]) for close in get_close_matches(path.name.lower(), names, 5)]


CHUNK = 256 * 1024
"""Bytes or characters handled at once: few enough for the processor's cache."""


def file_chunks(file: BinaryIO, encoding: Encoding, scanned: Callable[[int], object]) -> Iterator[str]:
    """Yield the text of a large file in chunks. `scanned` is called with the number of bytes read so far."""
    decoder = codecs.getincrementaldecoder(encoding.codec)(_error_handler(encoding))
    total = file.seek(len(encoding.mark))
    while chunk := file.read(CHUNK):
        total += len(chunk)
        scanned(total)
        yield decoder.decode(chunk)
    yield decoder.decode(b"", final=True)


def decode_lenient(data: bytes, encoding: Encoding) -> str:
    """Return the text of a file, with invalid bytes escaped or replaced."""
    return data[len(encoding.mark) :].decode(encoding.codec, _error_handler(encoding))


def encode_like(encoding: Encoding, text: str, name: str) -> bytes:
    """Return a text in the encoding of the file that it changes. Raises ToolCallError if that lacks a character."""
    try:
        return encoding.encode(text)
    except UnicodeEncodeError as error:
        missing = printable(text[error.start : error.start + 1])
        kind = "neither UTF-8 nor Windows-1252" if encoding.codec == UNKNOWN else "Windows-1252"
        raise ToolCallError(
            f"{printable(name)} was left as it is: it is {kind}, and {missing} cannot be written in its encoding. "
            "Leave such characters out, or convert the file to UTF-8 with a command first."
        ) from None


def text_chunks(text: str) -> Iterator[str]:
    return (text[start : start + CHUNK] for start in range(0, len(text), CHUNK))


def _error_handler(encoding: Encoding) -> str:
    return "surrogateescape" if encoding.codec in ("utf-8", UNKNOWN) else "replace"


def readable(text: str) -> tuple[str, bool]:
    """Return text that can be shown, and whether invalid UTF-8 was replaced in it."""
    cleaned = clean(text)
    return cleaned.replace("\0", "\N{SYMBOL FOR NULL}"), cleaned is not text


def has_crlf(text: str) -> bool:
    """Return whether most lines end with CR LF."""
    return text.count("\r\n") * 2 > text.count("\n")


def with_crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")
