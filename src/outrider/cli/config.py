"""`outrider config`: show the settings, their origins, and what a project's file requests; and change one."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from outrider.cli.command_parser import JSON_HELP, command_parser, reported
from outrider.cli.trust import item_lines
from outrider.coding.config.editing import set_setting, setting_lines, unset_setting
from outrider.coding.config.loading import Loaded, find_project_file, load
from outrider.coding.config.remembered import RememberedRules
from outrider.coding.config.settings import SETTINGS, flatten
from outrider.coding.masking import mask_secrets
from outrider.coding.permissions.question import access_table
from outrider.environment import config_file, data_folder
from outrider.text import counted
from outrider.text.visible import revealed_line, safe_line

DESCRIPTION = """\
Show every setting in effect in this folder, its value, and where the value comes from. API keys are not settings: they
stay in the environment and are never shown.
"""
EPILOG = """\
files, in this order: your own ~/.config/outrider/config.toml (OUTRIDER_CONFIG overrides the path), then the project's
.outrider/config.toml. Environment variables such as OUTRIDER_PERMISSIONS override both files, and flags override all.
Values in the project's file that allow more than your own settings apply only after `outrider trust`.
/etc/outrider/managed.toml says what is allowed at most on this machine.

examples:
  outrider config set limits.max_turns 100
  outrider config set permissions.allow 'Bash(git log:**)' 'Bash(make test)'
  outrider config unset limits.max_turns

exit codes: 0 done, 2 wrong usage or invalid settings
"""


def config(arguments: list[str]) -> int:
    options = make_parser().parse_args(arguments)
    action: Callable[[Path, argparse.Namespace], int] = options.action
    return reported("config", lambda: action(Path.cwd(), options))


def make_parser() -> argparse.ArgumentParser:
    parser = command_parser("config", DESCRIPTION, EPILOG)
    parser.set_defaults(action=_show)
    parser.add_argument("--json", action="store_true", help=JSON_HELP)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    change = commands.add_parser("set", help="write a setting to your own file, or to the project's")
    change.add_argument("key", metavar="KEY", help="as in limits.max_turns; `outrider config` lists them")
    change.add_argument("values", metavar="VALUE", nargs="+", help="the value; several words are the items of a list")
    unset = commands.add_parser("unset", help="remove a setting from your own file, or from the project's")
    unset.add_argument("key", metavar="KEY", help="the setting; its default applies again")
    unset.set_defaults(values=())
    for each in (change, unset):
        each.set_defaults(action=_change)
        each.add_argument("--project", action="store_true", help="change the project's .outrider/config.toml")
    forget = commands.add_parser("forget", help="remove the remembered rules of this project")
    forget.add_argument("rules", nargs="*", metavar="RULE", help="remove only these remembered rules")
    forget.set_defaults(action=_forget)
    path = commands.add_parser("path", help="print the paths of the settings files, whether they exist or not")
    path.set_defaults(action=_path)
    return parser


def _show(folder: Path, options: argparse.Namespace) -> int:
    loaded = load(folder, environment=os.environ)
    remembered = RememberedRules(data_folder(), folder).rules()
    if options.json:
        print(json.dumps(_as_json(loaded, remembered), indent=2, ensure_ascii=False))
        return 0
    notes = (f"\nnote: {safe_line(note)}" for note in loaded.notes)
    for line in (*setting_lines(loaded), *_access(loaded), *_files(loaded), *_rules(remembered), *notes):
        print(line)
    if loaded.waiting:
        print("\nnot in effect until you agree (outrider trust)")
        for line in (line for item in loaded.waiting for line in item_lines(item, folder)):
            print(f"  {line}")
    return 0


def _change(folder: Path, options: argparse.Namespace) -> int:
    key, values, project = options.key, options.values, options.project
    lines = set_setting(folder, key, values, project=project) if values else unset_setting(folder, key, project=project)
    for line in lines:
        print(line)
    return 0


def _forget(folder: Path, options: argparse.Namespace) -> int:
    rules = RememberedRules(data_folder(), folder)
    if options.rules:
        return _forget_rules(rules, options.rules)
    forgotten = rules.rules()
    rules.forget()
    for rule in forgotten:
        print(revealed_line(f"  {rule}"))
    print(f"Removed: {counted(len(forgotten), 'remembered rule')}. To take back consents: outrider trust --revoke")
    return 0


def _forget_rules(remembered: RememberedRules, rules: Sequence[str]) -> int:
    unknown = [rule for rule in rules if not remembered.remove(rule)]
    for rule in rules:
        print(revealed_line(f"{'Not remembered' if rule in unknown else 'Removed'}: {rule}"))
    return 1 if unknown else 0


def _path(folder: Path, options: argparse.Namespace) -> int:
    print(safe_line(str(config_file())))
    print(safe_line(str(find_project_file(folder))))
    return 0


def _access(loaded: Loaded) -> Iterator[str]:
    """Yield what happens to commands at each access level, in the mode in force."""
    mode, sandboxed = loaded.settings.permissions.mode, _is_sandboxed(loaded)
    yield f"\nshell commands in mode {mode}, {'in the sandbox' if sandboxed else 'without a sandbox'}"
    for level, (verdict, words) in access_table(mode, sandboxed=sandboxed).items():
        yield f"  {level:7}  {verdict:8}  {words}"


def _is_sandboxed(loaded: Loaded) -> bool:
    from outrider.coding.sandbox.available import find_sandbox

    folders = loaded.settings.permissions.working_folders(Path.cwd())
    return loaded.settings.sandbox.use != "off" and find_sandbox(folders=folders) is not None


def _files(loaded: Loaded) -> Iterator[str]:
    yield "\nfiles"
    width = max(map(len, loaded.files))
    for name, exists in loaded.files.items():
        keys = f", managed: {', '.join(loaded.managed[name])}" if name in loaded.managed else ""
        yield f"  {safe_line(name):{width}}  {'read' if exists else 'not found'}{keys}"


def _rules(remembered: tuple[str, ...]) -> Iterator[str]:
    yield "\nalways allowed in this project" + ("" if remembered else ": nothing")
    for rule in remembered:
        yield f"  {revealed_line(mask_secrets(rule))}"


def _as_json(loaded: Loaded, remembered: tuple[str, ...]) -> dict[str, Any]:
    values = flatten(loaded.settings)
    return {
        "settings": {key: {"value": _masked(values[key]), "origin": loaded.origins[key]} for key in SETTINGS},
        "access": {
            level: verdict
            for level, (verdict, _) in access_table(
                loaded.settings.permissions.mode, sandboxed=_is_sandboxed(loaded)
            ).items()
        },
        "files": loaded.files,
        "managed": loaded.managed,
        "remembered": _masked(remembered),
        "waiting": [{"key": item.name, "fields": _masked(item.fields)} for item in loaded.waiting],
        "notes": list(loaded.notes),
    }


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return mask_secrets(value)
    if isinstance(value, dict):
        return {name: _masked(item) for name, item in value.items()}
    return [_masked(item) for item in value] if isinstance(value, list | tuple) else value
