"""`outrider sessions rewind`: go back to an earlier message of a session."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from outrider.cli.sanitize import safe_line, safe_lines
from outrider.cli.stdin import confirm
from outrider.errors import OutriderError, RewindConflictError
from outrider.log.log import Log
from outrider.text import counted

if TYPE_CHECKING:
    from outrider.log.journal import Journal
    from outrider.runtime.rewinding import Rewinder, RewindPoint, RewindPreview, Rewound

DIFF_LINES = 400
"""The most lines of diffs that a preview shows."""
TITLE_CHARACTERS = 70


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("id", metavar="ID")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--to", type=int, metavar="N", help="the message of yours to go back to, from 1")
    where.add_argument("--undo", action="store_true", help="take back the last rewind")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--files", action="store_true", help="restore only the files of the working folder")
    what.add_argument("--conversation", action="store_true", help="restore only the conversation")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    parser.add_argument("--force", action="store_true", help="overwrite files that someone else changed since")


def rewind(log: Log, options: argparse.Namespace) -> None:
    """Show what a rewind does, ask, and do it. Without --to and --undo, list the messages."""
    journal = log.open(options.id)
    try:
        rewinder = _rewinder(log, journal, options)
        if options.to is None and not options.undo:
            for line in point_lines(rewinder.points()):
                print(line)
            print("To go back to before one of them: --to N", file=sys.stderr)
            return
        preview = rewinder.preview_undo() if options.undo else rewinder.preview(options.to)
        for line in preview_lines(preview, files=not options.conversation, conversation=not options.files):
            print(line)
        force = _agreed(preview, options)
        done = rewinder.undo(force=force) if options.undo else _done(rewinder, options, force)
        for line in outcome_lines(done):
            print(line, file=sys.stderr)
        if not options.undo:
            print(f"To take it back: outrider sessions rewind {journal.id[:8]} --undo", file=sys.stderr)
    finally:
        journal.close()


def _done(rewinder: Rewinder, options: argparse.Namespace, force: bool) -> Rewound:
    return rewinder.rewind(options.to, files=not options.conversation, conversation=not options.files, force=force)


def _rewinder(log: Log, journal: Journal, options: argparse.Namespace) -> Rewinder:
    from outrider.coding.snapshots.folder import FolderSnapshots
    from outrider.runtime.rewinding import Rewinder

    if options.conversation:
        return Rewinder(log, journal, None)
    folder = Path(journal.settings.cwd or "")
    if not journal.settings.cwd or not folder.is_dir():
        raise OutriderError(
            f"the session's folder {str(folder)!r} does not exist; to rewind without its files, add --conversation"
        )
    return Rewinder(log, journal, FolderSnapshots(folder, log, journal.id))


def _agreed(preview: RewindPreview, options: argparse.Namespace) -> bool:
    """Ask what is not answered by the options. Return whether files that others changed are overwritten."""
    conflicts = () if options.conversation else preview.conflicts
    if conflicts and not options.force:
        if options.yes:
            raise RewindConflictError(conflicts)
        question = f"Overwrite {counted(len(conflicts), 'file')} that someone else changed since? [y/N] "
        if not confirm(question, "add --force to overwrite the files that someone else changed"):
            raise OutriderError("nothing was changed")
        return True
    if not options.yes and not confirm("Go back? [y/N] ", "add --yes to rewind without confirmation"):
        raise OutriderError("nothing was changed")
    return bool(options.force)


def point_lines(points: list[RewindPoint]) -> Iterator[str]:
    """Yield the messages of the user with their numbers."""
    for point in points:
        yield f"{point.number:>4}  {title(point.message.text)}"
    if not points:
        yield "There are no messages yet."


def title(text: str) -> str:
    """Return the beginning of a message in one line."""
    words = safe_line(" ".join(text.split())) or "(no text)"
    return words if len(words) <= TITLE_CHARACTERS else f"{words[: TITLE_CHARACTERS - 1]}…"


def preview_lines(preview: RewindPreview, *, files: bool = True, conversation: bool = True) -> Iterator[str]:
    """Yield what a rewind would do."""
    if preview.message is None:
        yield f"Takes back the rewind to message {preview.to}."
    else:
        yield f"Back to before message {preview.to}: {title(preview.message.text)}"
        if conversation:
            yield f"The conversation loses {counted(preview.messages, 'message')}. The log keeps them."
    if not files:
        return
    yield f"{counted(len(preview.files), 'file')} would change." if preview.files else "No file would change."
    for file in preview.files:
        remark = " (changed by someone else since)" if file.is_conflict else ""
        remark += "" if file.is_kept else " (not kept: it stays as it is)"
        yield f"  {file.action:<7} {safe_line(file.path)}{remark}"
    lines = [line for file in preview.files for line in file.diff.splitlines()]
    yield from map(safe_lines, lines[:DIFF_LINES])
    if len(lines) > DIFF_LINES:
        yield f"… {counted(len(lines) - DIFF_LINES, 'more line')}"


def outcome_lines(done: Rewound) -> Iterator[str]:
    """Yield what a rewind did."""
    parts = ["Took back the rewind" if done.message is None else f"Went back to before message {done.to}"]
    if done.files:
        parts.append(f"restored {counted(len(done.files), 'file')}")
    yield f"{'; '.join(parts)}."
    for path, reason in done.not_restored.items():
        yield f"Not restored: {safe_line(path)} ({safe_line(reason)})"
