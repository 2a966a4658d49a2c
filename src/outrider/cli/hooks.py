"""`outrider hooks`: list the hooks, where they come from, and which wait for consent."""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from pathlib import Path

from outrider.cli.list_command import list_parser, run_list_command
from outrider.coding.consent.item import waiting_note
from outrider.coding.extensions import find_extensions
from outrider.coding.hooks.hook_files import EVENTS, FoundHooks, HookCommand
from outrider.coding.listings import hook_lines
from outrider.coding.masking import mask_environment_secrets
from outrider.text.visible import safe_line

DESCRIPTION = f"""\
Hooks are programs that run at certain points of a session: {", ".join(list(EVENTS)[:5])},
{", ".join(list(EVENTS)[5:])}. Your own are in hooks.json beside your settings. Those in
.claude/settings.json, .agents/hooks.json and .outrider/hooks.json, of the project or of your home folder, run only
after `outrider trust`. They run in the sandbox, as the setting hooks.access says.
"""
EPILOG = """\
A hook reads the event as JSON. With exit code 2 it blocks, and what it prints on standard error is the reason. A hook
for PreToolUse or UserPromptSubmit that fails in any other way blocks as well.

exit codes: 0 done, 2 wrong usage or an invalid file
"""


make_parser = partial(list_parser, "hooks", DESCRIPTION, EPILOG)


def hooks(arguments: list[str]) -> int:
    """Run the command and return its exit code."""
    return run_list_command(make_parser(), arguments, lambda options: _list(find_extensions(Path.cwd()).hooks, options))


def _list(found: FoundHooks, options: argparse.Namespace) -> int:
    if options.json:
        rows = {"hooks": [_row(each) for each in found.hooks], "waiting": [each.name for each in found.waiting]}
        print(json.dumps({**rows, "notes": list(found.notes)}, indent=2, ensure_ascii=False))
        return 2 if found.notes else 0
    for line in hook_lines(found.hooks):
        print(line)
    if found.waiting:
        print(waiting_note(found.waiting))
    if not found.hooks and not found.waiting:
        print("No hooks. See docs/skills.md for their form.")
    for note in found.notes:
        print(safe_line(f"outrider hooks: {note}"), file=sys.stderr)
    return 2 if found.notes else 0


def _row(hook: HookCommand) -> dict[str, object]:
    shown = {"event": hook.event, "matcher": hook.matcher, "command": mask_environment_secrets(hook.command)}
    return {**shown, "timeout": hook.seconds, "origin": hook.origin}
