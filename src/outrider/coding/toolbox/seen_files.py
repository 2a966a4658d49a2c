"""What the model has seen of files, so that it cannot overwrite what it has not seen.

A read counts once its result was sent to the model, which is when a later reply makes a call. A call in the same reply
as the read was written without its result.
"""

from __future__ import annotations

from pathlib import Path
from threading import Lock

import msgspec

from outrider.coding.toolbox.tool_errors import ToolCallError, printable
from outrider.tools.context import ToolContext


class UnreadError(ToolCallError):
    """The model has not seen anything of the file."""


class Stamp(msgspec.Struct, frozen=True):
    """A version of a file: enough to detect later changes."""

    sha256: str
    """Empty for a file that is too large to hash on each call."""
    size: int
    modified_ns: int = 0
    """The modification time, if there is no hash."""


class Part(msgspec.Struct, frozen=True):
    """The part of a file that a result shows: lines, pages or cells, counted from 1."""

    first: int
    last: int
    is_end: bool
    """Whether nothing follows the last one."""


ALL = Part(1, 1, is_end=True)
"""The whole file, shown at once."""
SOME = Part(0, 0, is_end=False)
"""Something of the file, but no part that is complete."""


class SeenFile(msgspec.Struct, frozen=True):
    """What one session has seen of one version of a file."""

    stamp: Stamp
    parts: tuple[Part, ...]

    @property
    def is_whole(self) -> bool:
        """Whether the parts are the whole file together."""
        reached = 0
        for part in sorted(self.parts, key=lambda part: part.first):
            if part.first > reached + 1:
                return False
            if part.is_end:
                return True
            reached = max(reached, part.last)
        return False


class _Read(msgspec.Struct, frozen=True):
    """A read whose result may not have been sent yet."""

    context: ToolContext
    path: Path
    seen: SeenFile


class SeenFiles:
    """The files that the model has read or written, by session and resolved path. Safe for threads."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, Path], SeenFile] = {}
        self._reads: list[_Read] = []
        self._lock = Lock()

    def add_read(self, context: ToolContext, path: Path, stamp: Stamp, part: Part) -> None:
        """Add what the result of a call shows of a file."""
        with self._lock:
            self._settle(context)
            self._reads.append(_Read(context, path, SeenFile(stamp, (part,))))

    def add_written(self, context: ToolContext, path: Path, stamp: Stamp, *, edited: bool = False) -> None:
        """Add what a call has written, which the model knows. Of an edited file it knows as much as before."""
        with self._lock:
            self._settle(context)
            before = self._seen.get((context.session, path))
            known = not edited or (before is not None and before.is_whole)
            self._seen[context.session, path] = SeenFile(stamp, (ALL if known else SOME,))

    def of(self, context: ToolContext, path: Path) -> SeenFile | None:
        """Return what a call may build on; None if nothing of the file was sent before."""
        with self._lock:
            self._settle(context)
            return self._seen.get((context.session, path))

    def check(self, context: ToolContext, path: Path, name: str, now: Stamp | None, *, whole: bool) -> None:
        """Raise ToolCallError unless the model has seen this version of the file; with `whole`, all of it."""
        seen = self.of(context, path)
        if seen is not None and seen.stamp == now and (seen.is_whole or not whole):
            return
        if self._is_unsent(context, path):
            raise ToolCallError(
                f"{printable(name)} was left as it is: it was read in the same reply, so this call was made without "
                "knowing its content. Look at what Read shows, then call again if it is still right."
            )
        if seen is None:
            raise UnreadError(f"{printable(name)} was not read in this session, so it was not changed. Read it first.")
        if seen.stamp != now:
            raise ToolCallError(
                f"{printable(name)} has changed since it was read, so it was left as it is. Read it again first."
            )
        raise ToolCallError(
            f"{printable(name)} was read only in part, and the rest would be lost, so it was left as it is. "
            "Read all of it first, or change a part of it with Edit."
        )

    def _is_unsent(self, context: ToolContext, path: Path) -> bool:
        with self._lock:
            return any(read.path == path and read.context.session == context.session for read in self._reads)

    def _settle(self, context: ToolContext) -> None:
        """Count the reads of earlier replies: their results were sent. Those of cancelled calls were not."""
        waiting = []
        for read in self._reads:
            if read.context.session == context.session and (not context.reply or read.context.reply != context.reply):
                if not read.context.cancelled:
                    self._merge((context.session, read.path), read.seen)
            else:
                waiting.append(read)
        self._reads = waiting

    def _merge(self, key: tuple[str, Path], seen: SeenFile) -> None:
        before = self._seen.get(key)
        same = before is not None and before.stamp == seen.stamp
        parts = (*before.parts, *seen.parts) if before and same else seen.parts
        self._seen[key] = SeenFile(seen.stamp, tuple(dict.fromkeys(parts)))
