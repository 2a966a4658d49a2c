"""Inputs of a prompt: files that it mentions, attachments, standard input, and the schema of the answer."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import msgspec

from outrider.cli.options import UsageError
from outrider.coding.mcp.server_offers import mentioned_resources
from outrider.coding.named_files import NamedFiles
from outrider.conversation.attachments import MAX_BYTES, Attachment
from outrider.conversation.mime_types import sniff
from outrider.errors import AttachmentError, SchemaError
from outrider.text import human_size
from outrider.tools.schema.raw_schemas import MAX_BYTES as MAX_SCHEMA_BYTES

if TYPE_CHECKING:
    from outrider.runtime.structured_output import Report

MAX_STDIN_BYTES = 10 * 1024 * 1024
"""Limit for standard input: more than any model reads."""


def read_stdin() -> str | Attachment:
    """Return piped input: text, or an attachment if it is binary; empty from a terminal. Raises UsageError."""
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    try:
        data = sys.stdin.buffer.read(MAX_STDIN_BYTES + 1)
    except OSError as error:
        raise UsageError(f"standard input cannot be read: {error.strerror}") from None
    if len(data) > MAX_STDIN_BYTES:
        raise UsageError(
            f"standard input has more than {human_size(MAX_STDIN_BYTES)}, which is more than a model can read"
        )
    if sniff(data) or b"\0" in data:
        return Attachment(data, name="standard input")
    return data.decode("utf-8-sig", "replace").strip()


def open_attachments(paths: Sequence[str], limit: int = MAX_BYTES) -> list[Attachment]:
    """Return the files as attachments, after checking that each can be read. Raises UsageError."""
    from pathlib import Path  # slow to import, and few prompts have files

    files = [Attachment.from_path(path) for path in paths]
    for path, file in zip(paths, files, strict=True):
        try:
            file.open(limit).close()
        except AttachmentError as error:
            raise UsageError(f"--attach {path}: {error}") from None
    return [file.within(Path.cwd()) for file in files]  # the session may have another folder


def read_schema(path: str) -> Report:
    """Return the report described by a file with a JSON Schema. Raises UsageError."""
    from outrider.runtime.structured_output import Report  # few prompts ask for data

    try:
        return Report(_schema(path))
    except SchemaError as error:
        raise UsageError(f"--schema {path}: {error}") from None


def _pipe(path: str) -> bytes:
    """Return what a pipe has, such as that of `--schema <(…)`; empty if the path is no pipe with a writer."""
    try:
        if not stat.S_ISFIFO(os.stat(path).st_mode):
            return b""
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # without a writer, opening it would wait for one
        with os.fdopen(handle, "rb") as pipe:
            with suppress(BlockingIOError):
                if not (first := os.read(handle, 1)):
                    return b""
                os.set_blocking(handle, True)
                return first + pipe.read(MAX_SCHEMA_BYTES)
            os.set_blocking(handle, True)
            return pipe.read(MAX_SCHEMA_BYTES + 1)
    except (OSError, ValueError):
        return b""  # reading it as a file says what is wrong


def _schema(path: str) -> Any:
    try:
        data = _pipe(path) or b"".join(Attachment.from_path(path).chunks(MAX_SCHEMA_BYTES))
        if len(data) > MAX_SCHEMA_BYTES:
            raise UsageError(f"--schema {path} has more than {human_size(MAX_SCHEMA_BYTES)}")
        schema = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except AttachmentError as error:
        raise UsageError(f"--schema: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"--schema {path} is not JSON: {error}") from None
    if not isinstance(schema, dict | bool):
        raise UsageError(f'--schema {path} is not a JSON Schema: a schema is an object, as in {{"type": "object"}}')
    return schema


_MENTION = re.compile(r'(?<!\S)@(?:"([^"\n]+)"|(\S+))')
_PUNCTUATION = ".,;:!?)]}'\""


class Mentions:
    """The words after an @ in a text. Words that name nothing stay text."""

    def __init__(self, text: str, files: NamedFiles) -> None:
        """Look the words up. May block."""
        self._text, self._files = text, files
        found = _MENTION.findall(text)
        tried = [(quoted,) if quoted else (word, word.rstrip(_PUNCTUATION)) for quoted, word in found]
        names = list(dict.fromkeys(name for each in tried for name in each))
        kinds = dict(zip(names, files.kinds(names) if names else [], strict=True))
        self._tried = tried
        named = [next((name for name in each if kinds[name] == "file"), "") for each in tried]
        self.files = list({str(PurePath(name)): name for name in reversed(named) if name}.values())[::-1]
        """The files, each once."""
        self.folders = [each[-1] for each in tried if kinds[each[-1]] == "folder"]
        """The folders."""
        self._is_there = {each[-1] for each in tried if any(kinds[name] for name in each)}

    def missing(self, servers: Sequence[str] = ()) -> list[str]:
        """Return the words that look like paths but name no file, and no resource of these MCP servers."""
        resources = {f"{each.server}:{each.uri}" for each in mentioned_resources(self._text, servers)}
        words = [each[-1] for each in self._tried]
        missing = [word for word in words if ("." in word or "/" in word) and word not in self._is_there]
        return [word for word in missing if word.rstrip(_PUNCTUATION) not in resources]

    def attached(self) -> list[Attachment]:
        """Return the files as attachments. May block. Raises HandsError if one cannot be fetched."""
        return [self._files.attach(name) for name in self.files]
