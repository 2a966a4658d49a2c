"""What the chat and `-p` take on the command line in the same way, and which settings it stands for."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from outrider.coding.permissions.question import MODES
from outrider.errors import (
    AttachmentError,
    ConfigError,
    SchemaError,
    ToolDefinitionError,
    UnknownModelError,
    UnknownSessionError,
)

NO_TOOLS = "none"
_FILES = (".py", ".json")


class UsageError(Exception):
    """What is wrong with the command line, in a sentence."""


WRONG_INPUT = (
    AttachmentError,
    ConfigError,
    SchemaError,
    ToolDefinitionError,
    UnknownModelError,
    UnknownSessionError,
    UsageError,
)
"""What the person who typed the command can put right: it ends with the exit code 2."""


class Parser(argparse.ArgumentParser):
    """A parser that raises what is wrong instead of ending the program, and knows the options that both have."""

    def __init__(self, *, usage: str, description: str, epilog: str) -> None:
        form = argparse.RawDescriptionHelpFormatter
        super().__init__("outrider", usage, description, epilog, formatter_class=form, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Leave it to the caller to say so, in the format that was asked for."""
        raise UsageError(f"{message}{self._advice(message)}")

    def _advice(self, message: str) -> str:
        prefix = "unrecognized arguments: "
        if not message.startswith(prefix):
            return ""
        first = message.removeprefix(prefix).split()[0]
        if not first.startswith("-"):
            return '; put the whole prompt in quotes, as in outrider -p "What is 2+2?"'
        close = get_close_matches(first.partition("=")[0], self._option_string_actions, 1, 0.8)
        return f"; did you mean {close[0]}?" if close else "; see outrider --help and outrider -p --help"

    def add_shared(self, *, prompt: str, permissions: str) -> None:
        """Take the options that both have; two of them mean something of their own to each."""
        add = self.add_argument
        add("prompt", nargs="?", metavar="PROMPT", help=prompt)
        add("-c", "--continue", dest="latest", action="store_true", help="go on with the last session, in its folder")
        add("-r", "--resume", metavar="ID", help="go on with this session; `outrider sessions` lists them")
        add("-m", "--model", metavar="MODEL", help="who answers; `outrider models` lists them")
        add("--attach", action="append", default=[], metavar="FILE", help="a file to send along; may be repeated")
        add("--max-turns", metavar="N", help="stop after N replies of the model (50 unless set)")
        add("--max-cost", metavar="DOLLARS", help="stop when a run has cost so much; not kept where no price is known")
        add(
            *("--tools",),
            action="append",
            default=[],
            metavar="TOOLS",
            help="the built-in tools that may be used, also by sub-agents, as in Read,Grep (all unless given), or "
            "none; or a Python file whose @tool functions may be called as well; may be repeated",
        )
        add("--permissions", metavar="MODE", help=f"{', '.join(MODES)}: {permissions}")
        add("--cwd", metavar="DIR", help="work in this folder; other files are still named from the current one")

    def parsed(self, arguments: Sequence[str]) -> argparse.Namespace:
        """The options. Raises UsageError; --help prints and raises SystemExit."""
        options = self.parse_args(arguments)
        if options.resume is not None and not options.resume.strip():
            raise UsageError("--resume needs the id of a session; `outrider sessions` lists them")
        if options.resume and options.latest:
            raise UsageError("--continue is for the last session and --resume for another: give one of them")
        if options.cwd is not None and not os.path.isdir(options.cwd):
            raise UsageError(f"--cwd: there is no folder {options.cwd!r}")
        return options


def flags_of(options: argparse.Namespace) -> dict[str, Any]:
    """The options that are settings as well, under the keys of the settings, which check them."""
    from outrider.coding.config.registry import SETTINGS  # brings all of the settings, which --help should not wait for

    names, files = _tools(options.tools)
    numbers = {"limits.turns": options.max_turns, "limits.cost": options.max_cost}
    given = {key: SETTINGS[key].value_type.parse(text) for key, text in numbers.items() if text is not None}
    if options.model is not None:
        given["model"] = options.model
    if options.permissions is not None:
        given["permissions.mode"] = options.permissions
    if names is not None:
        given["tools"] = names
    return given | ({"tool_files": files} if files else {})


def _tools(values: Sequence[str]) -> tuple[list[str] | None, list[str]]:
    """The names of built-in tools, None if all are wanted; and the files with others."""
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
        raise UsageError(f"--tools: {path} can only describe tools; give a Python file, whose @tool functions can run")
    return str(Path(path).absolute())
