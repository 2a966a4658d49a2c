"""`outrider skills`: list the skills, where they come from, and what was refused."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from outrider.cli.list_command import ListRow, list_parser, print_found, run_list_command
from outrider.coding.extensions import find_extensions

DESCRIPTION = """\
Skills are folders with a SKILL.md (https://agentskills.io), which the model reads when a task needs one. They are found
in skills/ of .outrider, .agents and .claude: in the project, from its root to this folder, and in your home folder; and
in skills/ beside your settings. A nearer skill replaces one of the same name. A skill allows nothing by itself.
"""
EPILOG = "exit codes: 0 done, 2 wrong usage, or a skill was refused"


make_parser = partial(list_parser, "skills", DESCRIPTION, EPILOG)


def skills(arguments: list[str]) -> int:
    """Run the command and return its exit code."""
    return run_list_command(make_parser(), arguments, _list)


def _list(options: argparse.Namespace) -> int:
    found = find_extensions(Path.cwd()).skills
    rows = [
        ListRow(each.skill.name, each.skill.description, each.origin, str(each.skill.path), each.skill.remarks)
        for each in found.found
    ]
    empty = "No skills. To add one, write .agents/skills/NAME/SKILL.md; see docs/skills.md."
    code = print_found("skills", rows, found.refused, empty=empty, as_json=options.json)
    for note in () if options.json else found.replaced:
        print(f"replaced: {note}")
    return code
