"""`outrider sessions`: what is stored, and what can be done with it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from outrider.cli.plain import plain
from outrider.cli.session_lines import described, listed, told
from outrider.cli.session_tree import tree_of
from outrider.cli.standard_input import agreed, given
from outrider.errors import OutriderError, UnknownSessionError
from outrider.log.log import Log
from outrider.log.recovery import recover
from outrider.log.transfer import Imported, export, import_conversation, import_session
from outrider.sync import default_log
from outrider.text import counted, human_size

DESCRIPTION = """\
List the stored sessions, the one that was opened last first; or look at one, copy it, take it elsewhere, remove it.
An ID is what the list shows, or any beginning of it that no other session has.
"""
EXAMPLES = """\
examples:
  outrider sessions
  outrider sessions show 3f2a
  outrider sessions export 3f2a --attachments > session.jsonl
  outrider sessions import session.jsonl
  outrider sessions fork 3f2a --at 17
  outrider --resume 3f2a "And now?"

Sessions are kept in the data folder (OUTRIDER_HOME overrides), as they were said, readable by you alone.

exit codes: 0 done, 1 an error, 2 wrong usage or an unknown session
"""
LISTED, SHOWN = 30, 60


def sessions(arguments: list[str]) -> int:
    """Do what is asked."""
    options = _parser().parse_args(arguments)
    log = default_log()
    if log.warning:
        print(f"outrider: {log.warning}", file=sys.stderr)
    action: Callable[[Log, argparse.Namespace], None] = options.action
    try:
        action(log, options)
    except OutriderError as error:
        print(plain(f"outrider sessions: {error}"), file=sys.stderr)
        return 2 if isinstance(error, UnknownSessionError) else 1
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        print(f"outrider sessions: {error.filename or 'the output'}: {error.strerror}", file=sys.stderr)
        return 1
    finally:
        log.close()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="outrider sessions",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(action=_list)
    _add_listing(parser)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    def command(name: str, action: Callable[[Log, argparse.Namespace], None], help: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=help, description=f"{help[0].upper()}{help[1:]}.")
        added.set_defaults(action=action)
        return added

    _add_looking(command)
    _add_moving(command)
    _add_changing(command)
    return parser


Adding = Callable[[str, Callable[[Log, argparse.Namespace], None], str], argparse.ArgumentParser]


def _add_listing(parser: argparse.ArgumentParser, default: Any = False) -> None:
    every = f"all of them, not only the newest {LISTED}"
    parser.add_argument("--all", action="store_true", default=default, help=every)
    parser.add_argument("--json", action="store_true", default=default, help="one JSON object a line")


def _add_looking(command: Adding) -> None:
    listing = command("list", _list, "list the sessions; the same as no command")
    _add_listing(listing, argparse.SUPPRESS)  # what stands before the word `list` counts as well
    show = command("show", _show, "show a session: who answered, what it cost, what was said")
    show.add_argument("id", metavar="ID")
    show.add_argument("--all", action="store_true", help=f"every entry, not only the newest {SHOWN}")
    show.add_argument("--full", action="store_true", help="long texts whole")


def _add_moving(command: Adding) -> None:
    out = command("export", _export, "write a session as JSON lines to standard output")
    out.add_argument("id", metavar="ID")
    out.add_argument("--attachments", action="store_true", help="with the bytes of its files")
    into = command("import", _import, "store a session that was exported, or a conversation that dumps() wrote")
    into.add_argument("file", nargs="?", default="-", metavar="FILE", help="standard input if left out")
    fork = command("fork", _fork, "copy a session, to go on differently")
    fork.add_argument("id", metavar="ID")
    fork.add_argument("--at", type=int, metavar="SEQ", help="only up to this entry; `show` has the numbers")


def _add_changing(command: Adding) -> None:
    rename = command("rename", _rename, "give a session another title")
    rename.add_argument("id", metavar="ID")
    rename.add_argument("title", metavar="TITLE")
    delete = command("delete", _delete, "remove sessions for good")
    delete.add_argument("ids", nargs="+", metavar="ID")
    delete.add_argument("--yes", action="store_true", help="do not ask")
    command("gc", _gc, "remove the files that no session refers to any more")
    recovering = command("recover", _recover, "look at every entry; if the log is damaged, save all that is whole")
    recovering.add_argument("folder", nargs="?", metavar="FOLDER", help="the folder of a Log that is kept elsewhere")


def _list(log: Log, options: argparse.Namespace) -> None:
    found = log.sessions(None if options.all or options.json else LISTED + 1)
    if options.json:
        for summary in found:
            sys.stdout.write(f"{msgspec.json.encode(summary).decode()}\n")
        return
    for line in listed(found if options.all else found[:LISTED]):
        print(line)
    if not found:
        print(f"There are no sessions yet in {log.folder}.", file=sys.stderr)
    elif len(found) > LISTED and not options.all:
        print("There are more: outrider sessions list --all", file=sys.stderr)


def _show(log: Log, options: argparse.Namespace) -> None:
    summary = log.session(options.id)
    for line in described(tree_of(log, summary.id)):
        print(line)
    records = log.records(summary.id) if options.all else log.newest(summary.id, SHOWN)
    if not options.all and summary.last > SHOWN:
        print(f"… {counted(summary.last - SHOWN, 'earlier entry', 'earlier entries')}: --all shows them")
    for record in records:
        for line in told(record, full=options.full):
            print(line)


def _export(log: Log, options: argparse.Namespace) -> None:
    if sys.stdout.isatty():
        print("This goes to the terminal; to keep it, put > FILE after the command.", file=sys.stderr)
    if children := log.children(options.id):
        print(f"The sessions of its {counted(len(children), 'sub-agent')} do not come along.", file=sys.stderr)
    for line in export(log, options.id, attachments=options.attachments):
        sys.stdout.buffer.write(line)


def _import(log: Log, options: argparse.Namespace) -> None:
    if options.file == "-":
        imported = _read(log, given())
    else:
        with Path(options.file).open("rb") as file:
            imported = _read(log, file)
    print(imported.id)
    print(f"{counted(imported.entries, 'line')} of {_title(log, imported.id)} came in.", file=sys.stderr)
    if imported.missing:
        names = plain(", ".join(imported.missing[:5]))
        print(f"Without its files: {names}. To bring them along, export with --attachments.", file=sys.stderr)


def _read(log: Log, lines: Iterable[bytes]) -> Imported:
    lines = iter(lines)
    first = next(lines, b"")
    if first.lstrip().startswith(b"["):
        return import_conversation(log, b"".join([first, *lines]))
    return import_session(log, _all([first], lines))


def _all(*parts: Iterable[bytes]) -> Iterable[bytes]:
    for part in parts:
        yield from part


def _fork(log: Log, options: argparse.Namespace) -> None:
    print(log.fork(options.id, options.at))


def _rename(log: Log, options: argparse.Namespace) -> None:
    log.rename(options.id, options.title)


def _delete(log: Log, options: argparse.Namespace) -> None:
    found = [log.session(name) for name in options.ids]  # first look whether all of them are there
    for summary in {each.id: each for each in found}.values():
        name = plain(f"{summary.id[:8]} “{summary.title}”, {counted(summary.turns, 'turn')}")
        otherwise = "say --yes to remove without being asked"
        if not options.yes and not agreed(f"Remove {name} for good? [y/N] ", otherwise):
            print(f"{name} stays.", file=sys.stderr)
            continue
        log.delete(summary.id)
        print(f"{name} is gone. Its files go, after an hour, with: outrider sessions gc", file=sys.stderr)


def _gc(log: Log, options: argparse.Namespace) -> None:
    count, size = log.remove_unreferenced_files()
    print(f"{counted(count, 'file')} removed, {human_size(size)}.")
    print("What came within the last hour stays for now.", file=sys.stderr)


def _recover(log: Log, options: argparse.Namespace) -> None:
    found = recover(Log(options.folder).folder if options.folder else log.folder)
    saved = f"{counted(found.sessions, 'session')} with {counted(found.entries, 'entry', 'entries')}"
    if found.backup is None:
        print(f"Nothing is wrong: {saved}, all of them whole.")
        return
    print(f"Saved: {saved}. The damaged file is in {found.backup}.")
    for name, count in found.lost.items():
        print(f"  {name[:8]} lost {count:,} of its entries")
    if not found.lost:
        print("  no entry was lost")


def _title(log: Log, name: str) -> str:
    return plain(f"“{log.session(name).title}”")
