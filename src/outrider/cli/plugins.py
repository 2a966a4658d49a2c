"""`outrider plugins`: list the plugins, what they bring, and which wait for consent."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from outrider.cli.list_command import list_parser, run_list_command
from outrider.coding.extensions import Extensions, find_extensions
from outrider.coding.masking import mask_environment_secrets
from outrider.coding.plugins.found_plugins import Plugin
from outrider.text import counted
from outrider.text.visible import revealed_line, safe_line

DESCRIPTION = """\
Plugins are folders with a plugin.json (https://agent-plugins.org, version 1.0.0), found in plugins/ of .outrider,
.agents and .claude, in the project and in your home folder, and beside your settings. One brings skills/ and mcp.json,
and here also commands/, agents/ and hooks/hooks.json. Its MCP servers and hooks are used only after
`outrider trust`.
"""
EPILOG = "exit codes: 0 done, 2 wrong usage, or a plugin was refused"


make_parser = partial(list_parser, "plugins", DESCRIPTION, EPILOG)


def plugins(arguments: list[str]) -> int:
    """Run the command and return its exit code."""
    return run_list_command(make_parser(), arguments, lambda options: _list(find_extensions(Path.cwd()), options))


def _list(extensions: Extensions, options: argparse.Namespace) -> int:
    found = extensions.plugins
    if options.json:
        rows = [_row(each) for each in found.plugins]
        print(json.dumps({"plugins": rows, "notes": list(found.refused)}, indent=2, ensure_ascii=False))
        return 2 if found.refused else 0
    for plugin in found.plugins:
        print(safe_line(_described(plugin)))
        for line in _parts(plugin, extensions):
            print(f"  {line}")
    if not found.plugins:
        print("No plugins. To add one, put its folder into .agents/plugins; see docs/skills.md.")
    for note in found.refused:
        print(safe_line(f"outrider plugins: {note}"), file=sys.stderr)
    return 2 if found.refused else 0


def _row(plugin: Plugin) -> dict[str, object]:
    manifest = plugin.manifest
    about = {"name": manifest.name, "version": manifest.version, "description": manifest.description}
    programs = [mask_environment_secrets(each) for each in plugin.programs]
    state = {"programs": programs, "waiting": plugin.is_waiting, "remarks": list(plugin.remarks)}
    return {**about, "path": str(plugin.place.path), **state}


def _described(plugin: Plugin) -> str:
    manifest = plugin.manifest
    version = f" {manifest.version}" if manifest.version else ""
    about = f": {manifest.description}" if manifest.description else ""
    return f"{manifest.name}{version}{about}  ({plugin.place.label})"


def _parts(plugin: Plugin, extensions: Extensions) -> Iterator[str]:
    prefix = f"{plugin.manifest.name}:"
    skills = [each for each in extensions.skills.skills if each.name.startswith(prefix)]
    commands = [each for each in extensions.commands.commands if each.name.startswith(prefix)]
    yield f"{counted(len(skills), 'skill')}, {counted(len(commands), 'command')}"
    yield from (revealed_line(mask_environment_secrets(each)) for each in plugin.programs)
    if plugin.is_waiting:
        yield "its servers and hooks are not used until you agree: outrider trust"
    yield from (f"note: {safe_line(remark)}" for remark in plugin.remarks)
