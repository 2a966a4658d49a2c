"""Read the tasks of a batch from a file, one JSON object a line. Every bad line is reported with its number."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from outrider.batches.task import Task, make_task
from outrider.errors import OutriderError

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
