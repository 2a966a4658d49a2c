"""Settings files: read without blocking and within limits; private ones written atomically under a lock."""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from outrider.coding.masking import mask_tokens
from outrider.errors import ConfigError
from outrider.filesystem import open_lock, replace_private, try_lock
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


HEADER = re.compile(r"\s*\[\[?([^\[\]#]+)\]\]?\s*(?:#.*)?$")
ASSIGNED = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")


def line_of(key: str, text: str) -> int | None:
    """Return the line that sets a dotted key, or else the line where its table begins; None if neither is certain.

    >>> line_of("limits.max_turns", "[limits]\\n\\nmax_turns = 0")
    3
    """
    while key:
        found = [number for number, name in _named_lines(text) if name == key]
        if len(found) == 1:
            return found[0]
        if found:  # one of them may be inside a multi-line string
            return None
        key = key.rpartition(".")[0]
    return None


def _named_lines(text: str) -> list[tuple[int, str]]:
    """Return the lines that seem to name a key or a table, with the dotted name."""
    named, table = [], ""
    for number, line in enumerate(text.split("\n"), 1):
        if header := HEADER.match(line):
            table = dotted(header[1])
            named.append((number, table))
        elif assigned := ASSIGNED.match(line):
            name = dotted(assigned[1])
            named.append((number, f"{table}.{name}" if table else name))
    return named


def dotted(written: str) -> str:
    """Return a written key or table name without spaces and quotes around its parts."""
    return ".".join(part.strip("\"'") for part in _PART.findall(written))


MAX_PRIVATE_BYTES = 10 * 1024 * 1024
LOCK_SECONDS = 10.0


def project_folder(project: Path, data: Path) -> Path:
    """Return the folder of a project's data: a readable name and a hash of the resolved path.

    >>> project_folder(Path("/a/my project"), Path("/data")).name[:11]
    'my-project-'
    """
    resolved = project.resolve()
    readable = re.sub(r"[^A-Za-z0-9_.]+", "-", resolved.name)[:40].strip("-.") or "project"
    return data / "projects" / f"{readable}-{sha256(os.fsencode(resolved)).hexdigest()[:32]}"


def read_private(path: Path) -> bytes:
    """Return the content; empty if it cannot be read."""
    try:
        return b"" if _is_unexpanded(path) else read_regular_file(path, MAX_PRIVATE_BYTES)
    except (OSError, ValueError):
        return b""


def write_private(path: Path, content: bytes) -> None:
    """Replace the content atomically. Raises ConfigError if writing fails."""
    with _report_errors(path):
        replace_private(path, content)


def write_shared(path: Path, content: bytes) -> None:
    """Replace a project's file atomically. It is part of the project, so others who work on it may read it."""
    temporary = path.parent / f".{path.name}.{os.urandom(6).hex()}"
    with _report_errors(path):
        path.parent.mkdir(exist_ok=True)
        try:
            temporary.write_bytes(content)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


def remove_private(path: Path) -> bool:
    """Delete a file, under the lock of its folder. Return whether it was there. Raises ConfigError if that fails."""
    if not path.exists():
        return False
    with locked(path.parent), _report_errors(path):
        path.unlink(missing_ok=True)
    return True


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder. Raises ConfigError if another process keeps it."""
    with _report_errors(folder):
        handle = open_lock(folder / "lock")
    try:
        _acquire(handle, folder)
        yield
    finally:
        os.close(handle)  # releases the lock


def _acquire(handle: int, folder: Path) -> None:
    deadline = time.monotonic() + LOCK_SECONDS
    while not try_lock(handle):
        if time.monotonic() > deadline:
            raise ConfigError(
                f"{folder} is in use by another process (waited {LOCK_SECONDS:.0f} s); end it and try again"
            )
        time.sleep(0.01)


def _is_unexpanded(path: Path) -> bool:
    """Return whether `~` was not expanded. It would then be a folder that the project could bring along."""
    return path.parts[:1] == ("~",)


@contextmanager
def _report_errors(path: Path) -> Iterator[None]:
    if _is_unexpanded(path):
        raise ConfigError(f"{path} cannot be written: your home folder is unknown; set HOME or OUTRIDER_HOME")
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from error
