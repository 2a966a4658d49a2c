"""`outrider config`: what is set, where it was set, and what a project asks for."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from outrider.cli.plain import exact, plain
from outrider.cli.standard_input import agreed
from outrider.coding.config.consent import ConsentRequest, Consents
from outrider.coding.config.loading import Loaded, find_project_file, load
from outrider.coding.config.masking import mask_environment_secrets, mask_secrets
from outrider.coding.config.registry import SETTINGS
from outrider.coding.config.remembered import RememberedRules
from outrider.coding.config.settings import flatten
from outrider.environment import config_file, data_folder
from outrider.errors import ConfigError, OutriderError
from outrider.text import counted

DESCRIPTION = """\
Show every setting that holds in this folder, its value, and where the value comes from. Keys are never shown: they are
no settings, and stay in the environment.
"""
EPILOG = """\
files, in this order: your own ~/.config/outrider/config.toml (OUTRIDER_CONFIG names another), then the project's
.outrider/config.toml; variables such as OUTRIDER_PERMISSIONS and flags go before both. What the project's file would
widen counts only after `outrider config trust`.

exit codes: 0 done, 1 you have not agreed, 2 wrong usage or settings that cannot be used
"""


def config(arguments: list[str]) -> int:
    """Do what is asked."""
    options = _parser().parse_args(arguments)
    action: Callable[[Path, argparse.Namespace], int] = options.action
    try:
        return action(Path.cwd(), options)
    except (OutriderError, RuntimeError) as error:
        print(plain(f"outrider config: {error}"), file=sys.stderr)
        return 2 if isinstance(error, ConfigError | RuntimeError) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="outrider config",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(action=_show)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    trust = commands.add_parser("trust", help="agree to what the project's file would widen, as it is now")
    trust.add_argument("--yes", action="store_true", help="agree without being asked, as where there is no terminal")
    trust.set_defaults(action=_trust)
    forget = commands.add_parser("forget", help="drop what was agreed to and allowed for good in this project")
    forget.set_defaults(action=_forget)
    path = commands.add_parser("path", help="print where the settings files are, or would be")
    path.set_defaults(action=_path)
    return parser


def _show(folder: Path, options: argparse.Namespace) -> int:
    loaded = load(folder, environment=os.environ)
    remembered = RememberedRules(data_folder(), folder).rules()
    if options.json:
        print(json.dumps(_as_json(loaded, remembered), indent=2, ensure_ascii=False))
        return 0
    for line in (*_settings(loaded), *_files(loaded), *_rules(remembered), *_notes(loaded)):
        print(line)
    if loaded.waiting:
        print("\nwaiting for you to agree (outrider config trust)")
        for line in widening_lines(loaded.waiting):
            print(f"  {line}")
    return 0


def _trust(folder: Path, options: argparse.Namespace) -> int:
    loaded = load(folder, environment=os.environ)
    if not loaded.waiting:
        print("Nothing waits: " + ("the project's file asks for nothing more." if loaded.project_file else "no file."))
        return 0
    print(plain(f"{loaded.waiting.project_file} asks for more than your own settings allow:"))
    for line in widening_lines(loaded.waiting):
        print(f"  {line}")
    if not options.yes and not agreed("Agree? [y/N] ", "look at the lines above, then add --yes"):
        print("Nothing was changed; these values do not count.", file=sys.stderr)
        return 1
    Consents(data_folder()).give(loaded.waiting.project_file, loaded.waiting.content)
    print("Agreed, for this file as it is now. If it changes, you are asked again.")
    return 0


def _forget(folder: Path, options: argparse.Namespace) -> int:
    rules = RememberedRules(data_folder(), folder)
    forgotten = rules.rules()
    rules.forget()
    for rule in forgotten:
        print(plain(f"  {rule}"))
    consented = Consents(data_folder()).forget(find_project_file(folder))
    rules_gone, consent = counted(len(forgotten), "remembered rule"), "the" if consented else "no"
    print(f"Forgotten: {rules_gone}, {consent} consent to the project's file.")
    return 0


def _path(folder: Path, options: argparse.Namespace) -> int:
    print(plain(str(config_file())))
    print(plain(str(find_project_file(folder))))
    return 0


def widening_lines(waiting: ConsentRequest) -> Iterator[str]:
    """What a project's file asks for and what that means, safe for a terminal."""
    for each in waiting.widenings:
        yield f"{each.key}: {each.why}"
        value, instead = _whole(each.key, each.value), _whole(each.key, each.instead)
        yield from (f"    + {item}" for item in value if item not in instead)
        if not SETTINGS[each.key].value_type.accumulates:
            yield from (f"    - {item}" for item in instead if item not in value)


def _whole(key: str, value: Any) -> list[str]:
    """The value as lines, all but the user's own keys: nobody agrees to what they cannot see."""
    if not isinstance(value, tuple):
        return _shown(key, value)
    return [exact(mask_environment_secrets(each)).replace("\n", "⏎") for each in value] or ["none"]


def _settings(loaded: Loaded) -> Iterator[str]:
    """The table: a line for each value, those of a list below one another."""
    values = flatten(loaded.settings)
    rows = [(key, _shown(key, values[key]), plain(loaded.origins[key])) for key in SETTINGS]
    key_width = max(len(key) for key, _, _ in rows)
    value_width = min(max(len(text) for _, texts, _ in rows for text in texts), 50)
    for key, texts, origin in rows:
        yield f"{key:{key_width}}  {texts[0]:{value_width}}  {origin}".rstrip()
        for text in texts[1:]:
            yield f"{'':{key_width}}  {text}"


def _files(loaded: Loaded) -> Iterator[str]:
    yield "\nfiles"
    width = max(map(len, loaded.files))
    for name, there in loaded.files.items():
        yield f"  {plain(name):{width}}  {'read' if there else 'not there'}"


def _rules(remembered: tuple[str, ...]) -> Iterator[str]:
    yield "\nallowed for good in this project" + ("" if remembered else ": nothing")
    for rule in remembered:
        yield f"  {plain(mask_secrets(rule))}"


def _notes(loaded: Loaded) -> Iterator[str]:
    for note in loaded.notes:
        yield f"\nnote: {plain(note)}"


def _shown(key: str, value: Any) -> list[str]:
    """The value as lines without secrets, at least one."""
    if isinstance(value, tuple):
        return [plain(mask_secrets(each)) for each in value] or ["none"]
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if value is None:
        return [SETTINGS[key].unset]
    if isinstance(value, int | float):
        return [f"{value:,}" if isinstance(value, int) else f"{value:g}"]
    return [plain(mask_secrets(value))]


def _as_json(loaded: Loaded, remembered: tuple[str, ...]) -> dict[str, Any]:
    values = flatten(loaded.settings)
    return {
        "settings": {key: {"value": _masked(values[key]), "origin": loaded.origins[key]} for key in SETTINGS},
        "files": loaded.files,
        "remembered": _masked(remembered),
        "waiting": _masked(msgspec.to_builtins(loaded.waiting.widenings)) if loaded.waiting else [],
        "notes": list(loaded.notes),
    }


def _masked(value: Any) -> Any:
    """Plain data without anything secret."""
    if isinstance(value, str):
        return mask_secrets(value)
    if isinstance(value, dict):
        return {name: _masked(item) for name, item in value.items()}
    return [_masked(item) for item in value] if isinstance(value, list | tuple) else value
