"""`outrider sessions`: list, show, audit, export, import, fork, rewind, rename and delete sessions."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from outrider.cli.audit_command import add_options as add_audit_options
from outrider.cli.audit_command import audit
from outrider.cli.command_parser import YES_HELP, command_parser, confirm
from outrider.cli.import_command import add_options as add_import_options
from outrider.cli.import_command import import_sessions
from outrider.cli.questions import AddCommand, add_question_commands
from outrider.cli.session_format import context_lines, format_entry, format_header, format_list, tree_of
from outrider.coding.rewind_points import outcome_lines, point_lines, preview_lines
from outrider.coding.session_lists import SessionList
from outrider.environment import LOG_HELP
from outrider.errors import LogError, OutriderError, RewindConflictError, UnknownSessionError
from outrider.log.log import Log
from outrider.log.session_id import shown_id
from outrider.log.sqlite.recovery import recover
from outrider.log.transfer import export
from outrider.sync import default_log
from outrider.text import counted, human_size
from outrider.text.visible import safe_line, safe_lines

if TYPE_CHECKING:
    from outrider.log.journal import Journal
    from outrider.log.rewinding import Rewinder, RewindPreview

DESCRIPTION = """\
List your chats, those of this repository first, the most recently used at the top; or show, audit, export, import,
copy, rewind, rename or delete one, answer its questions and let it go on. An ID is what the list shows, or any
unique prefix of it.
"""
EXAMPLES = """\
examples:
  outrider sessions
  outrider sessions show 3f2a
  outrider sessions audit 3f2a --verify
  outrider sessions export 3f2a --attachments > session.jsonl
  outrider sessions import session.jsonl
  outrider sessions import ~/.claude/projects ~/.codex/sessions
  outrider sessions fork 3f2a --at 17
  outrider sessions rewind 3f2a --to 2
  outrider sessions questions
  outrider sessions answer 9c41 yes
  outrider sessions --log postgresql://ann@db.example/outrider
  outrider --resume 3f2a "And now?"

Sessions are stored in the data folder (OUTRIDER_HOME overrides it), unencrypted, readable only by you; or where --log
or OUTRIDER_LOG says.

exit codes: 0 done, 1 error, 2 wrong usage or unknown session
"""
LISTED, SHOWN = 30, 60
_MORE = "To list all sessions, also of -p, batches and programs: outrider sessions --all"
_ALL = f"list also sessions of -p, batches and programs, and those without an answer; not only the first {LISTED}"


def sessions(arguments: list[str]) -> int:
    options = make_parser().parse_args(arguments)
    action: Action = options.action
    try:
        with default_log() as log:
            if log.warning:
                print(f"outrider: {log.warning}", file=sys.stderr)
            return action(log, options) or 0
    except OutriderError as error:
        print(safe_line(f"outrider sessions: {error}"), file=sys.stderr)
        return 2 if isinstance(error, UnknownSessionError) else 1
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        print(f"outrider sessions: {error.filename or 'the output'}: {error.strerror}", file=sys.stderr)
        return 1


def make_parser() -> argparse.ArgumentParser:
    parser = command_parser("sessions", DESCRIPTION, EXAMPLES)
    parser.set_defaults(action=_list)
    _add_listing(parser)
    parser.add_argument("--log", metavar="PLACE", help=LOG_HELP)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    def command(name: str, action: Action, help: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=help, description=f"{help[0].upper()}{help[1:]}.")
        added.set_defaults(action=action)
        return added

    _add_show_commands(command)
    _add_transfer_commands(command)
    _add_edit_commands(command)
    add_question_commands(command)
    return parser


Action = Callable[[Log, argparse.Namespace], int | None]
"""Does what a command says. Returns its exit code; None is 0."""


def _add_listing(parser: argparse.ArgumentParser, default: Any = False) -> None:
    parser.add_argument("--all", action="store_true", default=default, help=_ALL)
    parser.add_argument("--json", action="store_true", default=default, help="print one JSON array")


def _add_show_commands(command: AddCommand) -> None:
    listing = command("list", _list, "list the sessions (the default)")
    _add_listing(listing, argparse.SUPPRESS)  # so that flags before the word `list` count too
    show = command("show", _show, "show a session: model, cost and messages")
    show.add_argument("id", metavar="ID")
    show.add_argument("--all", action="store_true", help=f"show every entry, not only the newest {SHOWN}")
    show.add_argument("--full", action="store_true", help="do not shorten long texts")
    add_audit_options(command("audit", audit, "list who allowed which calls; or prove that no entry was changed"))


def _add_transfer_commands(command: AddCommand) -> None:
    out = command("export", _export, "write a session as JSON lines to standard output")
    out.add_argument("id", metavar="ID")
    out.add_argument("--attachments", action="store_true", help="include the attached files")
    out.add_argument(
        *("--format",),
        choices=("jsonl", "atif"),
        default="jsonl",
        help="jsonl, which `import` reads (the default), or atif: a trajectory for Harbor and other tools",
    )
    whose = "store exported sessions, conversations written by dumps(), and sessions of Claude Code and Codex"
    add_import_options(command("import", import_sessions, whose))
    fork = command("fork", _fork, "copy a session, to continue it in another way")
    fork.add_argument("id", metavar="ID")
    fork.add_argument("--at", type=int, metavar="SEQ", help="copy only up to this entry; `show` prints the numbers")


def _add_edit_commands(command: AddCommand) -> None:
    add_options(command("rewind", rewind, "go back to an earlier message: the conversation, the files, or both"))
    rename = command("rename", _rename, "change the title of a session")
    rename.add_argument("id", metavar="ID")
    rename.add_argument("title", metavar="TITLE")
    delete = command("delete", _delete, "delete sessions permanently")
    delete.add_argument("ids", nargs="+", metavar="ID")
    delete.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    command("gc", _gc, "delete attachments and snapshots that no session uses any more")
    recovery = command("recover", _recover, "check every entry; if the log is damaged, save the intact entries")
    recovery.add_argument("folder", nargs="?", metavar="FOLDER", help="the log's folder (default: the data folder)")


def _list(log: Log, options: argparse.Namespace) -> None:
    listed = SessionList(log)
    found = listed.page(None if options.all or options.json else LISTED, every=options.all)
    if options.json:
        print(msgspec.json.encode(found).decode())
        return
    for line in format_list(found, listed.is_here):
        print(line)
    if len(log.sessions(len(found) + 1)) > len(found):
        print(f"{'' if found else 'There are no chats yet. '}{_MORE}", file=sys.stderr)
    elif not found:
        print(f"There are no sessions yet in {log.location}.", file=sys.stderr)


def _show(log: Log, options: argparse.Namespace) -> None:
    summary = log.session(options.id)
    for line in format_header(tree_of(log, summary.id), context_lines(log, summary)):
        print(line)
    records = log.records(summary.id) if options.all else log.newest(summary.id, SHOWN)
    if not options.all and summary.last > SHOWN:
        print(f"… {counted(summary.last - SHOWN, 'earlier entry', 'earlier entries')}; to show all: --all")
    for record in records:
        for line in format_entry(record, full=options.full):
            print(line)


def _export(log: Log, options: argparse.Namespace) -> None:
    if sys.stdout.isatty():
        print("Writing to the terminal; to save it, add > FILE to the command.", file=sys.stderr)
    if options.format == "atif":
        from outrider.log.atif import trajectory

        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(trajectory(log, options.id)), indent=2) + b"\n")
        return
    if children := log.children(options.id):
        print(f"The sessions of its {counted(len(children), 'sub-agent')} are not included.", file=sys.stderr)
    for line in export(log, options.id, attachments=options.attachments):
        sys.stdout.buffer.write(line)


def _fork(log: Log, options: argparse.Namespace) -> None:
    print(log.fork(options.id, options.at))


def _rename(log: Log, options: argparse.Namespace) -> None:
    log.rename(options.id, options.title)


def _delete(log: Log, options: argparse.Namespace) -> None:
    found = [log.session(name) for name in options.ids]  # fail before deleting if one is unknown
    for summary in {each.id: each for each in found}.values():
        name = safe_line(f"{shown_id(summary.id)} “{summary.title}”, {counted(summary.turns, 'turn')}")
        otherwise = "add --yes to delete without confirmation"
        if not options.yes and not confirm(f"Delete {name} permanently? [y/N] ", otherwise):
            print(f"Kept {name}.", file=sys.stderr)
            continue
        log.delete(summary.id)
        print(f"Deleted {name}. To delete its files, run after an hour: outrider sessions gc", file=sys.stderr)


def _gc(log: Log, options: argparse.Namespace) -> None:
    count, size = log.remove_unreferenced_files()
    print(f"Deleted {counted(count, 'file')}, {human_size(size)}.")
    print("Files of the last hour are kept for now.", file=sys.stderr)


def _recover(log: Log, options: argparse.Namespace) -> None:
    if not options.folder and log.location != str(log.folder):
        raise LogError(f"{log.location} is a database: only a log in a folder is recovered; restore a backup instead")
    found = recover(Log(options.folder).folder if options.folder else log.folder)
    saved = f"{counted(found.sessions, 'session')} with {counted(found.entries, 'entry', 'entries')}"
    if found.backup is None:
        print(f"The log is intact: {saved}.")
        return
    print(f"Saved: {saved}. The damaged file is in {found.backup}.")
    for name, count in found.lost.items():
        print(f"  {shown_id(name)} lost {count:,} of its entries")
    if found.unverified:
        print("  The list of sessions was damaged, so the newest entries of a session may be lost as well.")
    elif not found.lost:
        print("  No entry was lost.")


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
        parts = {"files": not options.conversation, "conversation": not options.files}
        for line in preview_lines(preview, **parts):
            print(safe_lines(line))
        force = _agreed(preview, options)
        done = rewinder.undo(force=force) if options.undo else rewinder.rewind(options.to, force=force, **parts)
        for line in outcome_lines(done):
            print(safe_lines(line), file=sys.stderr)
        if not options.undo:
            print(f"To take it back: outrider sessions rewind {shown_id(journal.id)} --undo", file=sys.stderr)
    finally:
        journal.close()


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
