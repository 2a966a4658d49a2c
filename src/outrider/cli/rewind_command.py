"""`outrider sessions rewind`: go back to an earlier message of a session."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from outrider.cli.command_parser import YES_HELP
from outrider.cli.stdin import confirm
from outrider.coding.rewind_points import outcome_lines, point_lines, preview_lines
from outrider.errors import OutriderError, RewindConflictError
from outrider.log.log import Log
from outrider.text import counted
from outrider.text.visible import safe_lines

if TYPE_CHECKING:
    from outrider.log.journal import Journal
    from outrider.log.rewinding import Rewinder, RewindPreview, Rewound


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--to", type=int, metavar="N", help="the message of yours to go back to, from 1")
    where.add_argument("--undo", action="store_true", help="take back the last rewind")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--files", action="store_true", help="restore only the files of the working folder")
    what.add_argument("--conversation", action="store_true", help="restore only the conversation")
    parser.add_argument("--yes", action="store_true", help=YES_HELP)
    parser.add_argument("--force", action="store_true", help="overwrite files that someone else changed since")


def rewind(log: Log, options: argparse.Namespace) -> None:
    """Show what a rewind does, ask, and do it. Without --to and --undo, list the messages."""
    journal = log.open(options.id)
    try:
        rewinder = _rewinder(log, journal, options)
        if options.to is None and not options.undo:
            for line in point_lines(rewinder.points()):
                print(safe_lines(line))
            print("To go back to before one of them: --to N", file=sys.stderr)
            return
        preview = rewinder.preview_undo() if options.undo else rewinder.preview(options.to)
        for line in preview_lines(preview, files=not options.conversation, conversation=not options.files):
            print(safe_lines(line))
        force = _agreed(preview, options)
        done = rewinder.undo(force=force) if options.undo else _done(rewinder, options, force)
        for line in outcome_lines(done):
            print(safe_lines(line), file=sys.stderr)
        if not options.undo:
            print(f"To take it back: outrider sessions rewind {journal.id[:8]} --undo", file=sys.stderr)
    finally:
        journal.close()


def _done(rewinder: Rewinder, options: argparse.Namespace, force: bool) -> Rewound:
    return rewinder.rewind(options.to, files=not options.conversation, conversation=not options.files, force=force)


def _rewinder(log: Log, journal: Journal, options: argparse.Namespace) -> Rewinder:
    from outrider.coding.config.loading import load
    from outrider.coding.placeholder_keeper import remove_unused
    from outrider.coding.sandbox.sandbox import Confinement
    from outrider.coding.snapshots.folder import FolderSnapshots
    from outrider.coding.user_policy import secret_patterns
    from outrider.log.rewinding import Rewinder

    if options.conversation:
        return Rewinder(log, journal, None)
    if not journal.settings.cwd:
        raise OutriderError(
            "the session was imported, or written elsewhere: its files are not restored; add --conversation"
        )
    folder = Path(journal.settings.cwd)
    if not folder.is_dir():
        raise OutriderError(
            f"the session's folder {str(folder)!r} does not exist; to rewind without its files, add --conversation"
        )
    remove_unused(Confinement(folder=folder, cwd=folder, temporary=folder).protected)
    secrets = secret_patterns(load(folder, environment=os.environ).settings)
    return Rewinder(log, journal, FolderSnapshots(folder, log, journal.id, secrets=secrets))


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
