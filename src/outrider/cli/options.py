"""The options that the chat and `-p` have in common, and the settings that they change."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from outrider import errors
from outrider.cli.command_parser import UsageError as UsageError
from outrider.cli.command_parser import add_tools_option
from outrider.environment import LOG_HELP, WORKSPACE_HELP

NO_TOOLS = "none"
_FILES = (".py", ".json")


WRONG_INPUT = (
    errors.AttachmentError,
    errors.ConfigError,
    errors.RequestRefusedError,
    errors.SchemaError,
    errors.ToolDefinitionError,
    errors.UnknownModelError,
    errors.UnknownSessionError,
    UsageError,
)
"""Errors that the user can fix on the command line; they end with exit code 2."""


class Parser(argparse.ArgumentParser):
    """A parser that raises UsageError instead of exiting, with the options that the chat and `-p` share."""

    def __init__(self, *, usage: str, description: str, epilog: str, has_picker: bool = False) -> None:
        self._has_picker = has_picker
        """Whether the user can choose a session from a list."""
        # Each option is formatted when it is added. A formatter without a width imports `shutil` to look for one.
        form = partial(argparse.RawDescriptionHelpFormatter, width=80)
        super().__init__("outrider", usage, description, epilog, formatter_class=form, allow_abbrev=False)

    def format_help(self) -> str:
        """Return the help, as wide as the terminal."""
        self.formatter_class = argparse.RawDescriptionHelpFormatter
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        """Raise UsageError, so that the caller can print it in the requested format."""
        raise UsageError(f"{message}{self._advice(message)}")

    def _advice(self, message: str) -> str:
        prefix = "unrecognized arguments: "
        if not message.startswith(prefix):
            return ""
        first = message.removeprefix(prefix).split()[0]
        if not first.startswith("-"):
            return '; put the whole prompt in quotes, as in outrider -p "What is 2+2?"'
        from difflib import get_close_matches

        close = get_close_matches(first.partition("=")[0], self._option_string_actions, 1, 0.8)
        return f"; did you mean {close[0]}?" if close else "; see outrider --help and outrider -p --help"

    def add_common_options(self, *, prompt: str, permissions: str) -> None:
        """Add the shared options; the help of the prompt and of the permissions differs."""
        choose = "without an ID, choose from a list" if self._has_picker else "`outrider sessions` lists them"
        optional: dict[str, Any] = {"nargs": "?", "const": ""} if self._has_picker else {}
        resume = f"resume this session; {choose}"
        add = self.add_argument
        add("prompt", nargs="?", metavar="PROMPT", help=prompt)
        add("-c", "--continue", dest="latest", action="store_true", help="continue the last session of this folder")
        add("-r", "--resume", metavar="ID", help=resume, **optional)
        add("-m", "--model", metavar="MODEL", help="the model to use; `outrider models` lists them")
        add(
            *("--effort",),
            metavar="LEVEL",
            help="how much the model thinks: none, low, medium, high or max; `outrider models MODEL` lists what it has",
        )
        add("--temperature", metavar="T", help="the sampling temperature, from 0 to 2 (default: the provider's)")
        add("--lean", action="store_true", help="a short prompt and few tools, for models with a small context window")
        add("--attach", action="append", default=[], metavar="FILE", help="attach a file; may be repeated")
        add("--max-turns", metavar="N", help="stop after N model replies (default: no limit)")
        add("--max-cost", metavar="DOLLARS", help="stop when a run has cost this much; ignored if the price is unknown")
        add_tools_option(
            self,
            "TOOLS",
            "built-in tools to offer, also to sub-agents, as in Read,Grep (default: all), or none; or a Python "
            "file with @tool functions to add; may be repeated",
        )
        add("--permissions", metavar="MODE", help=permissions)
        add(
            *("--allow",),
            action="append",
            default=[],
            metavar="RULE",
            help="let these calls run without asking, as in 'Bash(git log:**)'; may be repeated",
        )
        add("--log", metavar="PLACE", help=LOG_HELP)
        add("--in", dest="workspace", metavar="PLACE", help=WORKSPACE_HELP)
        add("--cwd", metavar="DIR", help="work in this folder; paths of other options are relative to the current one")

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Return the options. Raises UsageError; --help prints and raises SystemExit."""
        options = self.parse_args(arguments)
        if options.resume is not None and not options.resume.strip() and not self._has_picker:
            raise UsageError("--resume needs the id of a session; `outrider sessions` lists them")
        if options.resume is not None and options.latest:
            raise UsageError("give either --continue, for the last session, or --resume ID, for another; not both")
        if options.cwd is not None and not os.path.isdir(options.cwd):
            raise UsageError(f"--cwd: no such folder: {options.cwd!r}")
        return options


def settings_from(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options that are also settings, by setting key; loading the settings validates them."""
    from outrider.coding.config.settings import SETTINGS  # imported late, so that --help stays fast

    names, files = tools_and_files(options.tools)
    numbers = {
        "limits.max_turns": options.max_turns,
        "limits.max_cost": options.max_cost,
        "temperature": options.temperature,
    }
    given = {key: SETTINGS[key].value_type.parse(text) for key, text in numbers.items() if text is not None}
    given |= {
        "model": options.model,
        "effort": options.effort,
        "lean": "on" if options.lean else None,
        "permissions.mode": options.permissions,
        "permissions.allow": options.allow or None,
        "tools": names,
        "tool_files": files or None,
        "workspace": options.workspace,
    }
    return {key: value for key, value in given.items() if value is not None}


def resume_command(session: str, place: str | None) -> str:
    """Return the command line that resumes a session in the place where its tools worked."""
    import shlex

    from outrider.log.session_id import shown_id

    return f"outrider --resume {shown_id(session)}" + (f" --in {shlex.quote(place)}" if place else "")


def tools_and_files(values: Sequence[str]) -> tuple[list[str] | None, list[str]]:
    """Return the names of built-in tools, None for all, and the files with other tools."""
    names: list[str] | None = None
    files: list[str] = []
    for value in values:
        for word in [value] if os.path.isfile(value) else value.split(","):
            word = word.strip()
            if _is_file(word):
                files.append(_python(word))
            else:
                names = [*(names or []), *([word] if word and word != NO_TOOLS else [])]
    return names, files


def _is_file(word: str) -> bool:
    return word.endswith(_FILES) or os.sep in word or os.path.isfile(word)


def _python(path: str) -> str:
    if path.endswith(".json"):
        raise UsageError(f"--tools: {path} only describes tools; to run them, give a Python file with @tool functions")
    return str(Path(path).absolute())
