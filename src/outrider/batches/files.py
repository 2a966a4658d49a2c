"""The files of a batch, one JSON object a line: its tasks, and its results, each on disk before the next."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from outrider.batches.task import ANSWERED, Task, TaskResult, make_task
from outrider.errors import OutriderError
from outrider.filesystem import make_private, sync_folder, try_lock
from outrider.struct_types import described

MAX_SHOWN = 10
"""Bad lines that an error names."""


class TaskFileError(OutriderError, ValueError):
    """Lines of a task file that cannot be used. Nothing was started."""

    def __init__(self, name: str, problems: list[tuple[int, str]]) -> None:
        self.problems = problems
        """The number of each bad line, and what is wrong with it."""
        shown = [f"{name}:{number}: {problem}" for number, problem in problems[:MAX_SHOWN]]
        if len(problems) > MAX_SHOWN:
            shown.append(f"and {len(problems) - MAX_SHOWN} more bad lines")
        super().__init__("\n".join([*shown, "nothing was started; fix these lines and start again"]))


def read_tasks(
    lines: Iterable[bytes],
    name: str,
    defaults: Mapping[str, Any] = {},
    check: Callable[[Task], None] = lambda task: None,
) -> list[Task]:
    """Return the tasks of all lines. Blank lines are skipped. `defaults` fills the fields that a line leaves out.

    Raises TaskFileError, which names every bad line, also those for which `check` raises. Limits are merged one by one.
    """
    tasks: list[Task] = []
    problems: list[tuple[int, str]] = []
    first: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            task = make_task(_with_defaults(_decoded(line, number), defaults), number)
            if task.id in first:
                raise ValueError(f"line {first[task.id]} has the same id {task.id!r}")
            check(task)
        except (ValueError, TypeError, OutriderError) as error:
            problems.append((number, str(error)))
            continue
        first[task.id] = number
        tasks.append(task)
    if problems:
        raise TaskFileError(name, problems)
    return tasks


def _decoded(line: bytes, number: int) -> dict[str, Any]:
    try:
        fields = json.loads(line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f'not JSON ({error}); a line is an object, as in {{"id": "a", "prompt": "…"}}') from None
    if not isinstance(fields, dict):
        raise ValueError(f'a line is a JSON object, as in {{"id": "a", "prompt": "…"}}, not {_kind(fields)}')
    return fields


def _kind(value: object) -> str:
    names = {list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}
    return names.get(type(value), "null")


def _with_defaults(fields: dict[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**defaults, **fields}
    if fields.get("repository") and not fields.get("cwd"):
        merged.pop("cwd", None)
    own = fields.get("limits")
    if "limits" in defaults and isinstance(own, dict):
        merged["limits"] = {**defaults["limits"], **own}
    return merged


class ResultsFileError(OutriderError, ValueError):
    """The results file cannot be used; the message says why."""


_BEGINNING = b'{"id":'


class _Line(msgspec.Struct):
    id: str
    status: str = ""


def is_torn(line: bytes) -> bool:
    """Return whether this is the beginning of a result, which a kill left unfinished."""
    return not line.endswith(b"\n") and (line.startswith(_BEGINNING) or _BEGINNING.startswith(line))


class ResultsFile:
    """A results file, open for appending, locked against other batches. A torn last line is removed.

    The file itself says which results it has: whatever was killed when, each result is in it once.
    """

    def __init__(self, path: str | os.PathLike[str], *, resume: bool = False) -> None:
        self.path = Path(path).absolute()
        try:
            make_private(self.path.parent)
            self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        except OSError as error:
            raise ResultsFileError(f"{path} cannot be written: {error.strerror}") from None
        try:
            if not try_lock(self._handle):
                raise ResultsFileError(f"{path} is being written by another batch; wait for it or name another file")
            self.ids: set[str] = set()
            """The ids of the tasks whose results the file has."""
            self.failed: set[str] = set()
            """Those of them that have no answer."""
            self._read()
            if self.ids and not resume:
                raise ResultsFileError(
                    f"{path} has {len(self.ids)} results already; add --resume to continue this batch, or name another "
                    "file with --output"
                )
            sync_folder(self.path.parent)
        except BaseException:
            os.close(self._handle)
            raise

    def append(self, results: Iterable[TaskResult]) -> int:
        """Append the results that the file does not have yet. Return how many when they are on disk."""
        new = [each for each in results if each.id not in self.ids]
        if new:
            data = b"".join(msgspec.json.encode(each) + b"\n" for each in new)
            view = memoryview(data)
            while view:
                view = view[os.write(self._handle, view) :]
            os.fsync(self._handle)
            self.ids.update(each.id for each in new)
        return len(new)

    def close(self) -> None:
        """Close the file and release its lock."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def __enter__(self) -> ResultsFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self) -> None:
        """Note the ids in the file, and cut off a line that a kill left unfinished."""
        end = 0
        with open(os.dup(self._handle), "rb") as file:
            for number, line in enumerate(file, 1):
                if is_torn(line):
                    break  # only the last line can be torn: each append is on disk before the next
                with suppress(msgspec.DecodeError):
                    found = msgspec.json.decode(line, type=described(_Line))
                    self.ids.add(found.id)
                    self.failed |= {found.id} if found.status not in ANSWERED else set()
                    end += len(line)
                    continue
                raise ResultsFileError(f"{self.path}:{number} is not a result of a batch; name another file")
        os.ftruncate(self._handle, end)
        os.lseek(self._handle, end, os.SEEK_SET)
