"""Read a settings file. The file may be anything, so reading never blocks and has a size limit."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

from outrider.coding.config.lines import line_of
from outrider.coding.config.masking import mask_tokens
from outrider.errors import ConfigError
from outrider.text import human_size

MAX_BYTES = 1024 * 1024
_MISSING = (errno.ENOENT, errno.ENOTDIR)


def nearest(name: str | Path, folder: Path) -> Path:
    """Return the nearest file of this name upwards within the repository, or the folder's own if none exists."""
    above = [folder, *folder.parents]
    roots = [number for number, each in enumerate(above) if os.path.lexists(each / ".git")]
    for each in above[: roots[0] + 1] if roots else [folder]:
        if os.path.lexists(each / name):
            return each / name
    return folder / name


class SettingsFile:
    """The content of a file, and the place of each key for error messages."""

    def __init__(self, label: str, content: bytes) -> None:
        self.label = label
        """The name of the file for people."""
        self.content = content
        self._text = ""

    def tables(self) -> dict[str, Any]:
        """Parse the TOML. Raises ConfigError."""
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
            problem = mask_tokens(str(error))
            raise ConfigError(f"{self.label} is not TOML: {problem}; see https://toml.io") from None
        except ValueError:
            raise ConfigError(f"{self.label} is not TOML: it has a number that is too long") from None

    def where(self, key: str) -> str:
        """Return the file's name, with the line of a dotted key if it can be found."""
        line = line_of(key, self._text)
        return f"{self.label}, line {line}" if line else self.label


def read_settings_file(path: Path, label: str) -> SettingsFile | None:
    """Read a file; None if there is none. Raises ConfigError for anything that is not a regular file."""
    try:
        content = read_regular_file(path, MAX_BYTES)
    except OSError as error:
        if error.errno in _MISSING and not path.is_symlink():
            return None
        raise ConfigError(f"{label} cannot be read: {_reason(error)}") from None
    except ValueError as error:
        raise ConfigError(f"{label} cannot be used: {error}") from None
    return SettingsFile(label, content)


def read_regular_file(path: Path, most: int) -> bytes:
    """Read a regular file. Raises ValueError for anything else and for more than `most` bytes, or OSError."""
    _check_regular(os.stat(path))  # before opening: some devices react to that
    # Do not block: the file may have been replaced by a FIFO just now.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(handle, "rb", buffering=0) as file:
        _check_regular(os.fstat(handle))
        pieces, size = [], 0
        while piece := file.read(most + 1 - size):
            pieces.append(piece)
            size += len(piece)
        if size > most:
            raise ValueError(f"it is larger than {human_size(most)}")
        return b"".join(pieces)


def _check_regular(status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise ValueError("it is a folder, not a file")
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("it is a pipe, a device or a socket, not a regular file")


def _reason(error: OSError) -> str:
    if error.errno in _MISSING:
        return "it is a broken link"
    return f"{error.strerror}; make it readable for you, or remove it"
