"""`@path` in a message: the file is attached to the message."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from outrider.coding.mcp.server_offers import mentioned_resources
from outrider.conversation.attachments import Attachment

_MENTION = re.compile(r'(?<!\S)@(?:"([^"\n]+)"|(\S+))')
_PUNCTUATION = ".,;:!?)]}'\""


def mentioned_files(text: str, folder: Path) -> list[Path]:
    """Return the files named with an @, each once. Words that name no file are ignored.

    >>> mentioned_files("mail me@example.org about @nothing", Path("."))
    []
    """
    found: dict[Path, None] = {}
    for quoted, word in _MENTION.findall(text):
        for name in (quoted,) if quoted else (word, word.rstrip(_PUNCTUATION)):
            if path := _file(name, folder):
                found[path] = None
                break
    return list(found)


def missing_files(text: str, folder: Path, servers: Sequence[str] = ()) -> list[str]:
    """Return the words after an @ that look like paths but name no file, and no resource of these MCP servers."""
    words = [quoted or word.rstrip(_PUNCTUATION) for quoted, word in _MENTION.findall(text)]
    resources = {f"{each.server}:{each.uri}" for each in mentioned_resources(text, servers)}
    missing = [word for word in words if ("." in word or "/" in word) and not _exists(word, folder)]
    return [word for word in missing if word.rstrip(_PUNCTUATION) not in resources]


def mentioned_folders(text: str, folder: Path) -> list[str]:
    """Return the words after an @ that name folders."""
    words = (quoted or word.rstrip(_PUNCTUATION) for quoted, word in _MENTION.findall(text))
    return [word for word in words if word and _is_folder(word, folder)]


def with_mentioned_files(text: str, folder: Path, more: Sequence[Attachment]) -> list[str | Attachment]:
    """Return the message with the attached files and the files that it mentions."""
    return [text, *more, *map(Attachment.from_path, mentioned_files(text, folder))]


def _exists(name: str, folder: Path) -> bool:
    return _file(name, folder) is not None or _is_folder(name, folder)


def _is_folder(name: str, folder: Path) -> bool:
    try:
        return (folder / Path(name).expanduser()).is_dir()
    except (OSError, RuntimeError, ValueError):
        return False


def _file(name: str, folder: Path) -> Path | None:
    try:
        path = folder / Path(name).expanduser()
        return path if name and path.is_file() else None
    except (OSError, RuntimeError, ValueError):
        return None
