"""`outrider sessions import`: store exported sessions, and those of Claude Code and Codex."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from outrider.cli.command_parser import stdin_bytes
from outrider.cli.live_region import LiveRegion
from outrider.errors import OutriderError
from outrider.log.foreign.importing import LONGEST_LINE, ImportedFile, import_file
from outrider.log.log import Log
from outrider.text import counted
from outrider.text.visible import safe_line

NAMES = {"claude-code": "Claude Code", "codex": "Codex"}
SHOWN = 5
"""Damaged lines, and missing files, that are named."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        *("places",),
        nargs="*",
        metavar="FILE",
        help="files, or folders whose .jsonl files are read, such as ~/.claude/projects (default: standard input)",
    )


def import_sessions(log: Log, options: argparse.Namespace) -> int:
    """Import all files; name those that cannot be read, and go on. Print the ids of the new sessions."""
    if options.places in ([], ["-"]):
        _tell(log, import_file(log, _lines(stdin_bytes())))
        return 0
    paths = [path for place in map(Path, options.places) for path in _files(place)]
    if len(paths) == 1:
        with paths[0].open("rb") as file:
            _tell(log, import_file(log, _lines(file)))
        return 0
    work = _Work(log, len(paths))
    try:
        work.take_all(paths)
    finally:
        work.close()
    print(work.summary(), file=sys.stderr)
    return 1 if work.failed else 0


class _Work:
    """An import of many files."""

    def __init__(self, log: Log, total: int) -> None:
        self._log, self._total, self._done = log, total, 0
        self._counts: Counter[str] = Counter()
        self._empty = 0
        self._unknown: Counter[str] = Counter()
        self._region = LiveRegion(sys.stderr) if sys.stderr.isatty() else None
        self.failed = 0

    def take_all(self, paths: list[Path]) -> None:
        """Import the files: first the sessions, then those of their sub-agents, which belong to them."""
        for defer in (True, False):
            later: list[Path] = []
            for path in paths:
                if self._region:
                    self._region.draw([f"{self._done} of {counted(self._total, 'file')} · {safe_line(path.name)}"])
                if self._take(path, defer=defer):
                    self._done += 1
                else:
                    later.append(path)
            paths = later

    def _take(self, path: Path, *, defer: bool) -> bool:
        """Import one file, unless it has to wait."""
        try:
            with path.open("rb") as file:
                found = import_file(self._log, _lines(file), defer=defer)
        except (OutriderError, OSError) as error:
            self.failed += 1
            self._say(f"{path}: {error.strerror if isinstance(error, OSError) else error}")
            return True
        if found.damaged:
            self._say(f"{path}: skipped {_damage(found.damaged)}")
        self._unknown += found.unknown
        self._empty += not found.sessions and not found.is_deferred
        for session in found.sessions:
            self._counts[session.outcome] += 1
            if session.outcome != "known":
                self.close()
                print(session.id, flush=True)
        return not found.is_deferred

    def summary(self) -> str:
        """Return what was done, in one line."""
        counts = self._counts
        parts = [f"Imported {counted(counts['imported'], 'session')}"]
        parts += [f"{counts['grown']:,} had grown"] if counts["grown"] else []
        parts += [f"{counts['known']:,} were here already"] if counts["known"] else []
        parts += [f"{counted(self._empty, 'file')} had no messages"] if self._empty else []
        parts += [f"{counted(self.failed, 'file')} could not be read"] if self.failed else []
        return "; ".join(parts) + f".{_unknown(self._unknown)}"

    def close(self) -> None:
        """Remove the line that shows how far it is."""
        if self._region:
            self._region.clear()

    def _say(self, line: str) -> None:
        self.close()
        print(safe_line(f"outrider sessions: {line}"), file=sys.stderr)


def _tell(log: Log, found: ImportedFile) -> None:
    """Print what one file had. Raises OutriderError if that is nothing."""
    if not found.sessions:
        raise OutriderError("there is nothing to import: nobody says anything in it")
    for session in found.sessions:
        print(session.id)
        title = safe_line(f"“{log.session(session.id).title}”")
        author = f" of {NAMES[found.agent]}" if found.agent in NAMES else ""
        new = f"Imported {counted(session.entries, 'line')} of {title}{author}."
        print(f"{title} was imported before." if session.outcome == "known" else new, file=sys.stderr)
    if found.damaged:
        print(f"Skipped: {_damage(found.damaged)}", file=sys.stderr)
    if note := _unknown(found.unknown):
        print(note.strip(), file=sys.stderr)
    if found.missing:
        names = safe_line(", ".join(found.missing[:SHOWN]))
        print(f"Its files are missing: {names}. To include them, export with --attachments.", file=sys.stderr)


def _files(place: Path) -> list[Path]:
    """Return the file, or the session files of a folder, the oldest first."""
    if not place.is_dir():
        return [place]
    found = sorted(place.rglob("*.jsonl"), key=lambda path: (path.stat().st_mtime, path))
    if not found:
        raise OutriderError(f"{place}: there are no .jsonl files in it")
    return found


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines. One that is too long to be one comes in parts, which are then damaged."""
    return iter(lambda: file.readline(LONGEST_LINE + 1), b"")


def _damage(lines: list[int]) -> str:
    named = ", ".join(map(str, lines[:SHOWN])) + (", …" if len(lines) > SHOWN else "")
    return f"{counted(len(lines), 'damaged line')} ({named})"


def _unknown(forms: Counter[str]) -> str:
    if not forms:
        return ""
    named = ", ".join(f"{kind} {count}" for kind, count in forms.most_common(SHOWN))
    return f" Kept as text: {counted(forms.total(), 'part')} of unknown form ({safe_line(named)})."
