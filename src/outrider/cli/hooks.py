"""`outrider hooks`: list the hooks, where they come from, and approve those of a project."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from outrider.cli.stdin import confirm
from outrider.cli.trust_command import run_trust_command
from outrider.coding.config.masking import mask_environment_secrets
from outrider.coding.extensions import find_extensions
from outrider.coding.hooks.finding import FoundHooks
from outrider.coding.hooks.hook_command import EVENTS, HookCommand
from outrider.visible_text import revealed_line, safe_line

DESCRIPTION = f"""\
Hooks are programs that run at certain points of a session: {", ".join(list(EVENTS)[:5])},
{", ".join(list(EVENTS)[5:])}. Your own are in hooks.json beside your settings. Those in
.claude/settings.json, .agents/hooks.json and .outrider/hooks.json, of the project or of your home folder, run only
after `outrider hooks trust`. They run in the sandbox, as the setting hooks.access says.
"""
EPILOG = """\
A hook reads the event as JSON. With exit code 2 it blocks, and what it prints on standard error is the reason.

exit codes: 0 done, 1 not confirmed, 2 wrong usage or an invalid file
"""


def hooks(arguments: list[str]) -> int:
    """Run the command and return its exit code."""
    return run_trust_command(
        "hooks",
        DESCRIPTION,
        EPILOG,
        arguments,
        show=lambda options: _list(find_extensions(Path.cwd()).hooks, options),
        trust=lambda options: _trust(find_extensions(Path.cwd()).hooks, options),
        trust_help="show the hooks that wait for your consent, and approve them or not",
    )


def _list(found: FoundHooks, options: argparse.Namespace) -> int:
    waiting = [hook for each in found.waiting for hook in each.hooks]
    if options.json:
        rows = {"hooks": [_row(each) for each in found.hooks], "waiting": [_row(each) for each in waiting]}
        print(json.dumps({**rows, "notes": list(found.notes)}, indent=2, ensure_ascii=False))
        return 2 if found.notes else 0
    for line in hook_lines(found.hooks):
        print(line)
    if waiting:
        print("\nnot run until you agree (outrider hooks trust)" if found.hooks else "not run until you agree:")
        for line in hook_lines(waiting):
            print(f"  {line}")
    if not found.hooks and not waiting:
        print("No hooks. See docs/skills.md for their form.")
    for note in found.notes:
        print(safe_line(f"outrider hooks: {note}"), file=sys.stderr)
    return 2 if found.notes else 0


def _row(hook: HookCommand) -> dict[str, object]:
    shown = {"event": hook.event, "matcher": hook.matcher, "command": mask_environment_secrets(hook.command)}
    return {**shown, "timeout": hook.seconds, "origin": hook.origin}


def _trust(found: FoundHooks, options: argparse.Namespace) -> int:
    if not found.waiting:
        print("Nothing to approve: there are no other hooks, or you have approved them.")
        return 0
    for waiting in found.waiting:
        print(safe_line(f"{waiting.file} has these hooks:"))
        for line in hook_lines(waiting.hooks):
            print(f"  {line}")
    print("They run on their own, in the sandbox if there is one and hooks.access is not full.")
    if not options.yes and not confirm("Approve? [y/N] ", "check the lines above, then add --yes"):
        print("Nothing was changed; these hooks do not run.", file=sys.stderr)
        return 1
    for waiting in found.waiting:
        waiting.give()
    print("Approved: these files as they are now. If one changes, approve it again.")
    return 0


def hook_lines(found: Sequence[HookCommand]) -> list[str]:
    """Return a line for each hook, in full, safe for a terminal."""
    return [
        revealed_line(
            f"{each.event}{f' {each.matcher}' if each.matcher else ''}: "
            f"{mask_environment_secrets(each.command)}  ({each.origin}, at most {each.seconds:g} s)"
        )
        for each in found
    ]
