"""`outrider trust`: show all that a project wants and that needs your consent, and agree to it or not."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from outrider.cli.command_parser import YES_HELP, command_parser, confirm, reported
from outrider.coding.consent.item import ConsentItem, Consents, shown_path
from outrider.coding.extensions import ProjectTrust, find_trust, revoke_trust
from outrider.coding.masking import mask_environment_secrets
from outrider.environment import data_folder
from outrider.errors import ConfigError
from outrider.text import counted
from outrider.text.visible import revealed_line, safe_line

DESCRIPTION = """\
Show all that a project wants and that needs your consent: settings that allow more than your own, hooks, MCP servers,
and the programs of plugins. Nothing of it is used until you agree. You agree to what is there now: if a value or a
covered file changes, that part is not used until you agree again.
"""
EPILOG = """\
examples:
  outrider trust                             show what waits, and ask
  outrider trust --list                      show what waits and what you have agreed to
  outrider trust --yes --send GITHUB_TOKEN   agree without a prompt; a server may read this variable
  outrider trust --revoke                    take back what you have agreed to in this folder

exit codes: 0 done, 1 something was not agreed to, 2 wrong usage or an invalid file
"""
_MOST_FILES_SHOWN = 20


def trust(arguments: list[str]) -> int:
    options = make_parser().parse_args(arguments)

    def run() -> int:
        folder = Path(options.folder)
        if not folder.is_dir():
            raise ConfigError(f"there is no folder {options.folder}")
        return _run(find_trust(folder), options)

    return reported("trust", run)


def make_parser() -> argparse.ArgumentParser:
    parser = command_parser("trust", DESCRIPTION, EPILOG)
    parser.add_argument("folder", metavar="FOLDER", nargs="?", default=".", help="the project; this folder by default")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--yes", action="store_true", help=YES_HELP)
    action.add_argument("--list", action="store_true", help="show everything, and ask nothing")
    action.add_argument("--revoke", action="store_true", help="take back every consent")
    sending = "let the project read this variable, which looks like a secret; may be repeated"
    parser.add_argument("--send", action="append", default=[], metavar="NAME", help=sending)
    parser.add_argument("--json", action="store_true", help="print one JSON object, and ask nothing")
    return parser


def _run(found: ProjectTrust, options: argparse.Namespace) -> int:
    for note in found.notes:
        print(safe_line(f"outrider trust: {note}"), file=sys.stderr)
    if options.revoke:
        return _revoke(found)
    unknown = [name for name in options.send if not any(name in item.secrets for item in found.waiting)]
    if unknown:
        raise ConfigError(f"--send {unknown[0]}: nothing that waits reads this variable as a secret")
    if options.json and not options.yes:
        print(json.dumps(_as_json(found), indent=2, ensure_ascii=False))
        return 2 if found.notes else 0
    if options.list:
        return _list(found)
    return _agree(found, options)


def _agree(found: ProjectTrust, options: argparse.Namespace) -> int:
    if not found.waiting:
        print("Nothing to agree to: the project wants nothing more, or you have agreed to it.")
        return 2 if found.notes else 0
    for item in found.waiting:
        _print_item(item, found.folder)
    if not options.yes and not confirm("Agree? [y/N] ", "check the lines above, then add --yes"):
        print("Nothing was changed; none of this is used.", file=sys.stderr)
        return 1
    sent = [*options.send] if options.yes else _confirmed(found.waiting, options.send)
    given = [item for item in found.waiting if set(item.secrets) <= set(sent)]
    Consents(data_folder()).give(given, sent)
    if given:
        print(f"Agreed to {counted(len(given), 'thing')} as they are now. If one changes, agree to it again.")
    for item in found.waiting:
        if item not in given:
            missing = " ".join(f"--send {name}" for name in item.secrets if name not in sent)
            print(safe_line(f"Not agreed to: {item.title} reads a secret. To allow it: outrider trust {missing}"))
    return 0 if len(given) == len(found.waiting) else 1


def _confirmed(items: Sequence[ConsentItem], sent: Sequence[str]) -> list[str]:
    """Return the secrets whose names the user has given or types now."""
    confirmed = list(sent)
    for name in dict.fromkeys(name for item in items for name in item.secrets if name not in sent):
        print(safe_line(f"{name} looks like a secret. To let the project read it, type its name: "), end="", flush=True)
        if sys.stdin.readline().strip() == name:
            confirmed.append(name)
    return confirmed


def _list(found: ProjectTrust) -> int:
    for heading, items in (("waiting for your consent", found.waiting), ("agreed to", found.agreed)):
        print(heading + ("" if items else ": nothing"))
        for item in items:
            _print_item(item, found.folder)
    return 2 if found.notes else 0


def _revoke(found: ProjectTrust) -> int:
    revoked = revoke_trust(found)
    for item in revoked:
        print(safe_line(f"  {item.title}"))
    print(f"Revoked: {counted(len(revoked), 'consent')}.")
    return 0


def _print_item(item: ConsentItem, folder: Path) -> None:
    for line in item_lines(item, folder):
        print(line)
    print()


def item_lines(item: ConsentItem, folder: Path) -> Iterator[str]:
    """Yield all that an item wants, and what a consent covers, as lines that are safe for a terminal."""
    yield _safe(f"{item.title}  ({shown_path(str(item.file), folder)})")
    width = max((len(name) for name, _ in item.fields), default=0)
    for name, value in item.fields:
        yield _safe(f"  {name:{width}}  {value}")
    for name in item.secrets:
        yield _safe(f"  {name} looks like a secret: to allow it, confirm its name (--send {name})")
    files = [shown_path(path, folder) for path in item.coverage.entries]
    for path in files[:_MOST_FILES_SHOWN]:
        yield _safe(f"  covers  {path}")
    if len(files) > _MOST_FILES_SHOWN:
        yield f"  covers  {len(files) - _MOST_FILES_SHOWN} more files; all of them: outrider trust --json"
    for what in item.coverage.uncovered:
        yield _safe(f"  does NOT cover  {what}")
    changes = Consents(data_folder()).changes(item)
    for path in (changes or ())[:_MOST_FILES_SHOWN]:
        yield _safe(f"  changed since you agreed  {shown_path(path, folder)}")


def _safe(text: str) -> str:
    return revealed_line(mask_environment_secrets(text))


def _as_json(found: ProjectTrust) -> dict[str, Any]:
    return {
        "folder": str(found.folder),
        "waiting": [_item_json(item) for item in found.waiting],
        "agreed": [_item_json(item) for item in found.agreed],
        "notes": list(found.notes),
    }


def _item_json(item: ConsentItem) -> dict[str, Any]:
    return {
        "kind": item.kind,
        "name": item.name,
        "file": str(item.file),
        "fields": [{"name": name, "value": mask_environment_secrets(value)} for name, value in item.fields],
        "secrets": list(item.secrets),
        "covers": list(item.coverage.entries),
        "does_not_cover": list(item.coverage.uncovered),
        "changed": Consents(data_folder()).changes(item),
        "digest": item.digest,
    }
