"""All commands, options and their values as plain data, from the parsers: for shell completion and the man page."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from outrider.cli import COMMANDS, module_of

MOST_CHARACTERS = 70
"""Of a description."""
ROOT, PRINT = "outrider", "-p"
_KINDS = {
    **dict.fromkeys(("ID",), "sessions"),
    **dict.fromkeys(("SERVER",), "servers"),
    **dict.fromkeys(("VALUE",), "values"),
    **dict.fromkeys(("FILE", "TASKS.jsonl", "CONVERSATION", "TOOLS"), "files"),
    **dict.fromkeys(("DIR", "FOLDER", "PLACE"), "folders"),
}
"""What stands for a value that only the moment of the Tab knows, by the name in the help."""


def parsers() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield the parser of the chat, that of `-p`, and those of the commands."""
    yield ROOT, import_module("outrider.cli.chat").make_parser()
    yield PRINT, import_module("outrider.cli.prompt").make_parser()
    for name in COMMANDS:
        module = module_of(name)
        yield name, (getattr(module, f"{name}_parser", None) or module.make_parser)()


def subcommands(parser: argparse.ArgumentParser) -> dict[str, tuple[str, argparse.ArgumentParser]]:
    """Return the help and the parser of each command below a command."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {each.dest: each.help or "" for each in action._choices_actions}
            return {name: (helps.get(name, ""), below) for name, below in action.choices.items()}
    return {}


def shown_actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the options and arguments of a command that its help shows."""
    hidden = (argparse._SubParsersAction,)
    return [each for each in parser._actions if each.help != argparse.SUPPRESS and not isinstance(each, hidden)]


def metavar_of(action: argparse.Action) -> str:
    """Return the name of a value in the help; empty for a flag."""
    if action.nargs == 0:
        return ""
    if action.metavar is None and action.choices:
        return "|".join(map(str, action.choices))
    return str(action.metavar or action.dest.upper())


def command_tree() -> dict[str, Any]:
    """Return everything that Tab completes, except what changes from one Tab to the next. Imports every command."""
    words = _words()
    found = {name: _node(parser, words) for name, parser in parsers()}
    root, printing = found.pop(ROOT), found.pop(PRINT)
    for name, does in COMMANDS.items():
        found[name]["help"] = does
    root["options"] = {**{name: printing["options"][name] for name in ("-p", "--print")}, **root["options"]}
    return {**root, "commands": found, "print": printing, "values": _setting_values()}


def _node(parser: argparse.ArgumentParser, words: Mapping[str, Mapping[str, str]], help: str = "") -> dict[str, Any]:
    options: dict[str, Any] = {}
    arguments = []
    for action in shown_actions(parser):
        value = _value(action, words)
        for name in action.option_strings:
            options[name] = {"help": _one_line(action.help), "value": value}
        if not action.option_strings:
            arguments.append({**(value or {}), "many": action.nargs in ("*", "+")})
    below = {name: _node(child, words, text) for name, (text, child) in subcommands(parser).items()}
    return {"help": help, "options": options, "arguments": arguments, "commands": below}


def _value(action: argparse.Action, words: Mapping[str, Mapping[str, str]]) -> dict[str, Any] | None:
    if action.nargs == 0:
        return None
    if action.choices:
        return {"words": {str(each): "" for each in action.choices}}
    name = metavar_of(action)
    return {"kind": _KINDS.get(name, ""), "words": words.get(name, {})}


def _one_line(text: str | None) -> str:
    """Return the beginning of a help, short enough for a list."""
    first = re.split(r"; |\. ", text or "")[0].replace("%%", "%").replace("`", "")
    return first if len(first) <= MOST_CHARACTERS else f"{first[: MOST_CHARACTERS - 1].rstrip()}…"


def _words() -> dict[str, dict[str, str]]:
    """Return the values that are known beforehand, by their name in the help."""
    from outrider.cli.models import HOSTED, OTHERS
    from outrider.coding.config.settings import SETTINGS
    from outrider.coding.permissions.question import MODE_WORDS
    from outrider.coding.toolbox import ALL_NAMES
    from outrider.providers.base import EFFORTS
    from outrider.providers.catalogue import tiers

    prefixes = (*HOSTED, *OTHERS)
    models = {f"{prefix}/{model}": tier for prefix in prefixes for tier, model in tiers.models_of(prefix).items()}
    named = {f"{prefix}/{tier}": "" for prefix in prefixes for tier in tiers.models_of(prefix)}
    return {
        "MODEL": {"demo": "a few rules, not an LLM", **dict.fromkeys(tiers.TIERS, ""), **named, **models},
        "MODE": {str(mode): does for mode, does in MODE_WORDS.items()},
        "LEVEL": dict.fromkeys(EFFORTS, ""),
        "PROVIDER": dict.fromkeys(prefixes, ""),
        "TOOLS": dict.fromkeys(ALL_NAMES, ""),
        "KEY": {key: _one_line(setting.help) for key, setting in SETTINGS.items()},
    }


def _setting_values() -> dict[str, list[str]]:
    """Return the values of the settings that have few."""
    from outrider.coding.config.settings import SETTINGS
    from outrider.coding.config.value_types import Boolean, Choice

    kinds = {key: setting.value_type for key, setting in SETTINGS.items()}
    chosen = {key: list(kind.options) for key, kind in kinds.items() if isinstance(kind, Choice)}
    return chosen | {key: ["true", "false"] for key, kind in kinds.items() if isinstance(kind, Boolean)}
