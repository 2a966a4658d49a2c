"""A settings file as it stands on the disk, read without waiting and without trusting it."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

from outrider.coding.config.lines import line_of
from outrider.coding.config.showing import without_tokens
from outrider.errors import ConfigError
from outrider.text import human_size

MAX_BYTES = 1024 * 1024
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR)


class SettingsFile:
    """The content of a file, and how errors name places in it."""

    def __init__(self, label: str, content: bytes) -> None:
        self.label = label
        """How the file is called in what a person reads."""
        self.content = content
        self._text = ""

    def tables(self) -> dict[str, Any]:
        """What the TOML says. Raises ConfigError."""
        import tomllib

        try:
            self._text = self.content.decode("utf-8-sig")
            return tomllib.loads(self._text)
        except UnicodeDecodeError as error:
            line = self.content.count(b"\n", 0, error.start) + 1
            raise ConfigError(f"{self.label}, line {line}: the file is not UTF-8 text; save it as UTF-8") from None
        except RecursionError:
            raise ConfigError(f"{self.label} is nested too deeply") from None
        except tomllib.TOMLDecodeError as error:
            fault = without_tokens(str(error))
            raise ConfigError(f"{self.label} is not TOML: {fault}; https://toml.io shows how it is written") from None
        except ValueError:
            raise ConfigError(f"{self.label} is not TOML: a number in it is longer than any can be") from None

    def where(self, key: str) -> str:
        """The file, with the line of a dotted key if it can be found."""
        line = line_of(key, self._text)
        return f"{self.label}, line {line}" if line else self.label


def read(path: Path, label: str) -> SettingsFile | None:
    """The file; None if there is none. Whatever else is in its place raises ConfigError, at once."""
    try:
        content = regular_content(path, MAX_BYTES)
    except OSError as error:
        if error.errno in _NOT_THERE and not path.is_symlink():
            return None
        raise ConfigError(f"{label} cannot be read: {_reason(error)}") from None
    except ValueError as error:
        raise ConfigError(f"{label} cannot be used: {error}") from None
    return SettingsFile(label, content)


def regular_content(path: Path, most: int) -> bytes:
    """The bytes of a regular file. Raises ValueError for anything else, or for more than `most`; OSError as usual."""
    _check_regular(os.stat(path))  # before it is opened: some devices act on that
    # Without blocking, so that what became a FIFO this very moment is not waited for.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(handle, "rb", buffering=0) as file:
        _check_regular(os.fstat(handle))
        pieces, size = [], 0
        while piece := file.read(most + 1 - size):
            pieces.append(piece)
            size += len(piece)
        if size > most:
            raise ValueError(f"it has more than {human_size(most)}, which no such file needs")
        return b"".join(pieces)


def _check_regular(status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise ValueError("it is a folder; a file should stand there")
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("it is a pipe, a device or a socket; a regular file should stand there")


def _reason(error: OSError) -> str:
    if error.errno in _NOT_THERE:
        return "it is a link that leads nowhere"
    return f"{error.strerror}; make it readable for yourself, or remove it"
