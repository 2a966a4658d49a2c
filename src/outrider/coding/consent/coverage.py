"""What a consent covers: the files that a program runs, as far as its command line tells, by their content."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from pathlib import Path

import msgspec

from outrider.coding.consent.command_line import CommandLine
from outrider.filesystem import is_within

MOST_FILES, MOST_BYTES = 2_000, 64 * 1024 * 1024
"""Files that one consent covers, and their size together."""
WRITTEN_SUFFIXES = (".log", ".pid", ".jsonl", ".db", ".sqlite", ".sqlite3", ".pyc")
"""Files that programs write beside themselves. Their content does not count."""
SKIPPED = frozenset(
    (".git", "__pycache__", "node_modules", ".venv", "venv", ".tox", ".mypy_cache", ".pytest_cache", ".ruff_cache")
)
"""Folders in a covered folder whose content does not count: caches, and packages that were installed."""
_INSTALLED = ("node_modules", ".venv", "venv")
_CODE = (
    *(".py", ".pyw", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".sh", ".bash", ".zsh", ".fish"),
    *(".rb", ".pl", ".pm", ".php", ".lua", ".jl", ".r", ".ps1", ".jar", ".exe", ".bin"),
)
_SCRIPTS = (".sh", ".bash", ".zsh")
_CONFIGURATION = (
    *(".json", ".jsonc", ".toml", ".yaml", ".yml", ".cfg", ".ini", ".conf", ".lock", ".xml", ".gradle", ".mk"),
)
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/nix", "/snap", "/dev", "/proc", "/sys", "/System")
_PACKAGES = ("__init__.py", "index.js", "package.json")


class TooMuchError(ValueError):
    """A folder has more files than a consent covers."""


class Coverage(msgspec.Struct, frozen=True):
    """The files that a consent covers, as they are now."""

    entries: dict[str, str] = {}
    """The digest of each file and the target of each link, by path."""
    paths: tuple[str, ...] = ()
    """The files and folders that were named. A model changes nothing in them without a question."""
    uncovered: tuple[str, ...] = ()
    """What the consent does not cover, in a few words each."""


def cover(lines: Iterable[CommandLine], folders: Iterable[str] = ()) -> Coverage:
    """Return what a consent to these command lines covers. `folders` are covered as a whole.

    Raises TooMuchError if one of `folders` has too many files.
    """
    covering = _Covering()
    for folder in folders:
        covering.add_folder(folder)
    for line in lines:
        covering.add_line(line)
    return Coverage(covering.entries, tuple(covering.paths), tuple(covering.uncovered))


class _Covering:
    def __init__(self) -> None:
        self.entries: dict[str, str] = {}
        self.paths: dict[str, None] = {}
        self.uncovered: dict[str, None] = {}
        self._bytes = 0
        self._seen: set[str] = set()
        self._top = ""

    def add_line(self, line: CommandLine) -> None:
        self._top = line.bases[0]
        code, data = line.folders()
        for folder in code:
            if not _is_around(folder, self._top) and not self._is_system(folder):
                self._try_folder(folder)
        written = {os.path.normpath(os.path.join(base, name)) for base in line.bases for name in line.written}
        for file in line.task_files():
            self.paths[file] = None
            self._try(file, lambda file=file: self._add_file(file))  # type: ignore[misc]
        for file, is_script in line.files().items():
            if file not in written and not self._is_system(file):
                self._add_named(file, line, is_script=is_script)
        for name in line.tasks:
            self._leave_out(f"other files of the project that {name} runs")
        for folder in data:
            if not _is_around(folder, self._top) and not self._is_system(folder):
                self._leave_out(f"the folder {os.path.relpath(folder, self._top)}, which is taken for data")
        for part in line.unknown:
            self._leave_out(f"files that {part} names when the command runs")

    def _add_named(self, file: str, line: CommandLine, *, is_script: bool) -> None:
        shown, suffix = os.path.relpath(file, self._top), os.path.splitext(file)[1].lower()
        is_run = os.access(file, os.X_OK) or suffix in _CODE
        if not is_script and (file.endswith(WRITTEN_SUFFIXES) or not (is_run or suffix in _CONFIGURATION)):
            self._leave_out(f"{shown}, which is taken for data")
            return
        self.paths[file] = None
        has_neighbours = is_script or (is_run and (line.runs_code or suffix in _SCRIPTS or os.access(file, os.X_OK)))
        self._try(file, lambda: self._add_script(file, has_neighbours=has_neighbours))

    def _add_script(self, file: str, *, has_neighbours: bool) -> None:
        for each in dict.fromkeys((file, os.path.realpath(file))):
            self._add_link(each) if os.path.islink(each) else self._add_file(each)
            if has_neighbours:
                self._add_neighbours(each)

    def _add_neighbours(self, file: str) -> None:
        """Cover what a script of the project can import: its folder, or what is like it in the project's own folder."""
        folder = os.path.dirname(file)
        if not _is_inside(file, self._top):
            return
        if folder != self._top:
            self._try_folder(folder)
            return
        suffix = os.path.splitext(file)[1]
        for entry in _entries(folder):
            if entry.is_dir():
                if packages := [name for name in _PACKAGES if os.path.lexists(os.path.join(entry.path, name))]:
                    self.entries[entry.path] = f"a package: {packages}"
            elif suffix and entry.name.endswith(suffix):
                self.paths[entry.path] = None
                self._add_file(entry.path)
        self._leave_out(f"what {os.path.basename(file)} imports from folders of the project")

    def _try_folder(self, folder: str) -> None:
        self.paths[folder] = None
        self._try(folder, lambda: self.add_folder(folder))

    def _try(self, path: str, add: Callable[[], None]) -> None:
        """Cover a path; what is too large is left out as a whole, and the user is told."""
        before, size, seen = dict(self.entries), self._bytes, set(self._seen)
        try:
            add()
        except TooMuchError:
            self.entries, self._bytes, self._seen = before, size, seen
            self._leave_out(f"{os.path.relpath(path, self._top)}, which is too large")

    def add_folder(self, folder: str) -> None:
        """Cover every file of a folder. Raises TooMuchError."""
        self.paths[folder] = None
        real = os.path.realpath(folder)
        self.entries[folder] = f"a folder: {real}"
        if any(is_within(real, each) for each in self._seen):
            return
        self._seen.add(real)
        waiting = [folder]
        while waiting:
            for entry in _entries(waiting.pop()):
                if entry.is_symlink():
                    self._add_link(entry.path)
                elif entry.is_dir():
                    if entry.name not in SKIPPED:
                        waiting.append(entry.path)
                    elif entry.name in _INSTALLED:
                        self._leave_out(f"packages installed in {entry.path}")
                elif not entry.name.endswith(WRITTEN_SUFFIXES):
                    self._add_file(entry.path)

    def _add_link(self, path: str) -> None:
        target = os.path.realpath(path)
        if os.path.isdir(target):
            self.entries[path] = f"a link to the folder {target}"
            if not self._is_system(target) and not _is_around(target, path):
                self._try_folder(target)
        elif self._is_system(target):
            self.entries[path] = f"a link to {target}"
        else:
            self._add_file(path)

    def _add_file(self, path: str) -> None:
        if path in self.entries:
            return
        if len(self.entries) >= MOST_FILES:
            raise TooMuchError(f"there are more than {MOST_FILES} files")
        digest, size = _digest(path, MOST_BYTES - self._bytes)
        self._bytes += size
        self.entries[path] = f"{digest} {os.path.realpath(path)}"

    def _is_system(self, path: str) -> bool:
        """Return whether a path is a place for installed programs, where a project has nothing."""
        is_system = any(is_within(path, each) for each in _SYSTEM)
        return is_system and not (self._top and _is_inside(path, self._top))

    def _leave_out(self, what: str) -> None:
        self.uncovered[what] = None


def _digest(path: str, most: int) -> tuple[str, int]:
    """Return the digest of a file with its right to be run, and its size. Raises TooMuchError."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        return f"cannot be read: {error.errno}", 0
    with os.fdopen(handle, "rb", buffering=0) as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            return "not a file", 0
        found, size = sha256(), 0
        while piece := file.read(1024 * 1024):
            size += len(piece)
            if size > most:
                raise TooMuchError(f"there are more than {MOST_BYTES:,} bytes")
            found.update(piece)
        return f"{found.hexdigest()} {'x' if status.st_mode & 0o100 else '-'}", size


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as listing:
            yield from sorted(listing, key=lambda entry: entry.name)
    except OSError:
        return


def _is_around(folder: str, path: str) -> bool:
    """Return whether a folder is the project's own, or one above it, whose whole tree is no program."""
    folder, path = Path(folder).as_posix().rstrip("/"), path.rstrip("/")
    return folder == path or path.startswith(f"{folder}/") or folder == os.path.expanduser("~").rstrip("/")


def _is_inside(path: str, folder: str) -> bool:
    return path.startswith(f"{folder.rstrip('/')}/")
