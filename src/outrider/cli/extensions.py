"""`outrider skills`, `commands`, `hooks` and `plugins`: what was found, where it comes from, and what was refused."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from outrider.cli.command_parser import JSON_HELP, command_parser, reported
from outrider.cli.styles import fit
from outrider.coding.consent.item import waiting_note
from outrider.coding.extensions import Extensions, find_extensions
from outrider.coding.hooks.hook_files import EVENTS, HookCommand
from outrider.coding.listings import hook_lines
from outrider.coding.masking import mask_environment_secrets
from outrider.coding.plugins import Plugin
from outrider.text import counted
from outrider.text.visible import revealed_line, safe_line

SKILLS = """\
Skills are folders with a SKILL.md (https://agentskills.io), which the model reads when a task needs one. They are found
in skills/ of .outrider, .agents and .claude: in the project, from its root to this folder, and in your home folder; and
in skills/ beside your settings. A nearer skill replaces one of the same name. A skill allows nothing by itself.
"""
COMMANDS = """\
Commands are Markdown files whose text is sent when you write /NAME in the chat, in an editor, or as the prompt of -p.
They are found in commands/ of .outrider, .agents and .claude, in the project and in your home folder, and beside your
settings. $ARGUMENTS and $1 stand for what follows the name, @file attaches a file, and !`command` runs a shell command,
with the permissions and in the sandbox that the model has.
"""
COMMANDS_EPILOG = """\
examples:
  outrider -p "/init"
  outrider -p "/review src"

exit codes: 0 done, 2 wrong usage, or a command was refused
"""
HOOKS = f"""\
Hooks are programs that run at certain points of a session: {", ".join(list(EVENTS)[:5])},
{", ".join(list(EVENTS)[5:])}. Your own are in hooks.json beside your settings. Those in
.claude/settings.json, .agents/hooks.json and .outrider/hooks.json, of the project or of your home folder, run only
after `outrider trust`. They run in the sandbox, as the setting hooks.access says.
"""
HOOKS_EPILOG = """\
A hook reads the event as JSON. With exit code 2 it blocks, and what it prints on standard error is the reason. A hook
for PreToolUse or UserPromptSubmit that fails in any other way blocks as well.

exit codes: 0 done, 2 wrong usage or an invalid file
"""
PLUGINS = """\
Plugins are folders with a plugin.json (https://agent-plugins.org, version 1.0.0), found in plugins/ of .outrider,
.agents and .claude, in the project and in your home folder, and beside your settings. One brings skills/ and mcp.json,
and here also commands/, agents/ and hooks/hooks.json. Its MCP servers and hooks are used only after
`outrider trust`.
"""
_TEXTS = {
    "skills": (SKILLS, "exit codes: 0 done, 2 wrong usage, or a skill was refused"),
    "commands": (COMMANDS, COMMANDS_EPILOG),
    "hooks": (HOOKS, HOOKS_EPILOG),
    "plugins": (PLUGINS, "exit codes: 0 done, 2 wrong usage, or a plugin was refused"),
}
_LEAST_WIDTH = 20


class Listing(NamedTuple):
    """What a command prints."""

    data: dict[str, Any]
    """For programs."""
    lines: Iterable[str]
    """For people."""
    notes: Sequence[str]
    """What was refused, and why."""


class Row(msgspec.Struct, frozen=True):
    """One thing that was found."""

    name: str
    description: str
    origin: str
    path: str = ""
    remarks: tuple[str, ...] = ()


def _parser(name: str) -> argparse.ArgumentParser:
    parser = command_parser(name, *_TEXTS[name])
    parser.add_argument("--json", action="store_true", help=JSON_HELP)
    return parser


def _run(name: str, list_found: Callable[[Extensions], Listing], arguments: list[str]) -> int:
    options = _parser(name).parse_args(arguments)

    def work() -> int:
        found = list_found(find_extensions(Path.cwd()))
        if options.json:
            print(json.dumps({**found.data, "notes": list(found.notes)}, indent=2, ensure_ascii=False))
        else:
            for line in found.lines:
                print(line)
            for note in found.notes:
                print(safe_line(f"outrider {name}: {note}"), file=sys.stderr)
        return 2 if found.notes else 0

    return reported(name, work)


def _row_lines(rows: Sequence[Row]) -> Iterator[str]:
    width = min(max((len(row.name) for row in rows), default=0), 40)
    columns = max(shutil.get_terminal_size((100, 24)).columns, 60) if sys.stdout.isatty() else 200
    for row in rows:
        origin = f"({row.origin})"
        room = max(columns - width - len(origin) - 4, _LEAST_WIDTH)
        yield f"{safe_line(row.name):{width}}  {fit(safe_line(row.description), room)}  {safe_line(origin)}"
        yield from (f"{'':{width}}  note: {safe_line(remark)}" for remark in row.remarks)


def _skills(extensions: Extensions) -> Listing:
    found = extensions.skills
    skills = [(each.skill, each.origin) for each in found.found]
    rows = [Row(each.name, each.description, origin, str(each.path), each.remarks) for each, origin in skills]
    empty = [] if rows else ["No skills. To add one, write .agents/skills/NAME/SKILL.md; see docs/skills.md."]
    replaced = [f"replaced: {note}" for note in found.replaced]
    return Listing({"skills": msgspec.to_builtins(rows)}, [*_row_lines(rows), *empty, *replaced], found.refused)


def _commands(extensions: Extensions) -> Listing:
    found, rows = extensions.commands, []
    for each in found.commands:
        runs = [f"runs `{line}`" for line in each.shell_commands]
        described = f"{each.description}{f' — {each.hint}' if each.hint else ''}"
        rows.append(Row(f"/{each.name}", described, each.origin, str(each.path or ""), (*runs, *each.remarks)))
    lines = [*_row_lines(rows)] or ["No commands."]
    return Listing({"commands": msgspec.to_builtins(rows)}, lines, found.refused)


def _hooks(extensions: Extensions) -> Listing:
    found = extensions.hooks
    lines = [*hook_lines(found.hooks), *([waiting_note(found.waiting)] if found.waiting else [])]
    data = {"hooks": [_hook(each) for each in found.hooks], "waiting": [each.name for each in found.waiting]}
    return Listing(data, lines or ["No hooks. See docs/skills.md for their form."], found.notes)


def _hook(hook: HookCommand) -> dict[str, object]:
    shown = {"event": hook.event, "matcher": hook.matcher, "command": mask_environment_secrets(hook.command)}
    return {**shown, "timeout": hook.seconds, "origin": hook.origin}


def _plugins(extensions: Extensions) -> Listing:
    found = extensions.plugins
    lines = [line for plugin in found.plugins for line in _plugin_lines(plugin, extensions)]
    empty = "No plugins. To add one, put its folder into .agents/plugins; see docs/skills.md."
    return Listing({"plugins": [_plugin(each) for each in found.plugins]}, lines or [empty], found.refused)


def _plugin(plugin: Plugin) -> dict[str, object]:
    manifest = plugin.manifest
    about = {"name": manifest.name, "version": manifest.version, "description": manifest.description}
    programs = [mask_environment_secrets(each) for each in plugin.programs]
    state = {"programs": programs, "waiting": plugin.is_waiting, "remarks": list(plugin.remarks)}
    return {**about, "path": str(plugin.place.path), **state}


def _plugin_lines(plugin: Plugin, extensions: Extensions) -> Iterator[str]:
    manifest, prefix = plugin.manifest, f"{plugin.manifest.name}:"
    version = f" {manifest.version}" if manifest.version else ""
    about = f": {manifest.description}" if manifest.description else ""
    yield safe_line(f"{manifest.name}{version}{about}  ({plugin.place.label})")
    skills = [each for each in extensions.skills.skills if each.name.startswith(prefix)]
    commands = [each for each in extensions.commands.commands if each.name.startswith(prefix)]
    yield f"  {counted(len(skills), 'skill')}, {counted(len(commands), 'command')}"
    yield from (f"  {revealed_line(mask_environment_secrets(each))}" for each in plugin.programs)
    if plugin.is_waiting:
        yield "  its servers and hooks are not used until you agree: outrider trust"
    yield from (f"  note: {safe_line(remark)}" for remark in plugin.remarks)


skills, commands = partial(_run, "skills", _skills), partial(_run, "commands", _commands)
hooks, plugins = partial(_run, "hooks", _hooks), partial(_run, "plugins", _plugins)
skills_parser, commands_parser = partial(_parser, "skills"), partial(_parser, "commands")
hooks_parser, plugins_parser = partial(_parser, "hooks"), partial(_parser, "plugins")
