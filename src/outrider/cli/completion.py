"""`outrider completion`: a script for a shell, and the words that the script asks for when the user presses Tab.

Tab is answered from a list in the data folder, which is made from the parsers once for each version: importing all
commands takes too long. For the same reason this module imports little.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outrider.environment import config_file, data_folder, log_place
from outrider.log.session_id import shown_id
from outrider.version import __version__

if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Print a script that completes commands, options and their values, session ids, models, settings and MCP servers.
"""
EPILOG = """\
bash:  echo 'eval "$(outrider completion bash)"' >> ~/.bashrc
zsh:   echo 'eval "$(outrider completion zsh)"' >> ~/.zshrc      (after compinit)
fish:  outrider completion fish > ~/.config/fish/completions/outrider.fish

exit codes: 0 done, 2 wrong usage
"""
SCRIPTS = Path(__file__).with_name("completion_scripts")
SHELLS = ("bash", "zsh", "fish")
MOST_SESSIONS = 50
_SAFE = re.compile(r"[\w.:@/+-]+")
"""Words that a shell takes as they are. Others come from a project or a model, and are left out."""
_BREAKS = re.compile(r".*[:=]")
"""Bash replaces only what follows one of these."""


def make_parser() -> argparse.ArgumentParser:
    from outrider.cli.command_parser import command_parser

    parser = command_parser("completion", DESCRIPTION, EPILOG)
    parser.add_argument("shell", choices=SHELLS, help="the shell")
    return parser


def completion(arguments: list[str]) -> int:
    """Print a script, or what may follow the words of a command line."""
    if arguments[:1] == ["words"]:
        for line in _answer(arguments[1], arguments[2:]):
            print(line)
        return 0
    shell = make_parser().parse_args(arguments).shell
    print((SCRIPTS / f"outrider.{shell}").read_text(), end="")
    return 0


def _answer(shell: str, words: list[str]) -> Iterator[str]:
    """Yield what kind of words may follow, then each with its description. The last word is being typed."""
    if shell == "bash":
        words = _split(words[0])[1:]
    current = words[-1] if words else ""
    kind, found = complete(known_tree(), words[:-1], current)
    cut = len(broken[0]) if shell == "bash" and (broken := _BREAKS.match(current)) else 0
    yield kind or "words"
    for word, description in found.items():
        if word.startswith(current):
            yield f"{word[cut:]}\t{description}"


def _split(line: str) -> list[str]:
    """Split the line up to the cursor, whose last word may be empty or have an open quote."""
    for end in ("", "'", '"'):
        try:
            words = shlex.split(line + end)
        except ValueError:
            continue
        return words if words and not line.endswith((" ", "\t")) else [*words, ""]
    return line.split(" ")


def complete(tree: dict[str, Any], before: list[str], current: str) -> tuple[str, dict[str, str]]:
    """Return what may follow the words: `files`, `folders` or "", and words with their descriptions."""
    node, at, value, key = tree, 0, None, ""
    if any(re.fullmatch(r"-[cq]*p|--print", word) for word in before):
        node = tree["print"]
    for word in before:
        if value is not None:
            value = None
        elif word == "--":
            return "files", {}
        elif word.startswith("-") and len(word) > 1:
            value = None if "=" in word else node["options"].get(word, {}).get("value")
        elif at == 0 and word in node["commands"]:
            node = node["commands"][word]
        else:
            at, key = at + 1, word if at == 0 else key
    name, equals, _ = current.partition("=")
    if value is None and equals and (option := node["options"].get(name)):
        kind, found = _values(tree, option["value"] or {}, key)
        return kind, {f"{name}={word}": text for word, text in found.items()}
    if value is None and current.startswith("-"):
        return "", {name: option["help"] for name, option in node["options"].items()}
    below = {name: child["help"] for name, child in node["commands"].items()} if at == 0 and value is None else {}
    if value is None:
        value = _argument(node["arguments"], at)
    kind, found = _values(tree, value, key)
    return kind, {**below, **found}


def _argument(arguments: list[dict[str, Any]], at: int) -> dict[str, Any]:
    if at < len(arguments):
        return arguments[at]
    return arguments[-1] if arguments and arguments[-1]["many"] else {}


def _values(tree: dict[str, Any], value: dict[str, Any], key: str) -> tuple[str, dict[str, str]]:
    """Return the values of an option or argument. `key` is the setting that a value is for."""
    match value.get("kind", ""):
        case "sessions":
            return "", _sessions()
        case "servers":
            return "", dict.fromkeys(_servers(), "")
        case "values":
            return "", dict.fromkeys(tree["values"].get(key, ()), "")
        case kind:
            return kind, value.get("words", {})


def _sessions() -> dict[str, str]:
    """Return the newest sessions of a log in a folder. One in Postgres takes too long to ask."""
    from outrider.cli.log_option import use_log_setting
    from outrider.log.sqlite.titles import newest_titles
    from outrider.text.visible import safe_line

    use_log_setting()
    place = log_place()
    if isinstance(place, str) and place.startswith(("postgres://", "postgresql://")):
        return {}
    found = newest_titles(Path(place), MOST_SESSIONS)
    return {shown_id(name): safe_line(title)[:60] for name, title in found if _SAFE.fullmatch(name)}


def _servers() -> Iterator[str]:
    """Yield the names in the user's file and the project's."""
    here = Path.cwd()
    for path in (config_file().with_name("mcp.json"), *(folder / ".mcp.json" for folder in (here, *here.parents))):
        try:
            names = json.loads(path.read_bytes())["mcpServers"]
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            continue
        yield from (name for name in names if isinstance(name, str) and _SAFE.fullmatch(name))


def known_tree() -> dict[str, Any]:
    """Return all commands, from the data folder if they are there for this version."""
    path = data_folder() / "completion.json"
    stamp = f"{__version__} {os.stat(Path(__file__).parent).st_mtime_ns}"
    try:
        stored = json.loads(path.read_bytes())
        if stored["stamp"] == stamp:
            tree: dict[str, Any] = stored["tree"]
            return tree
    except (OSError, ValueError, LookupError, TypeError):
        pass
    from outrider.cli.command_tree import command_tree
    from outrider.filesystem import replace_private

    tree = command_tree()
    with suppress(OSError):  # completed nevertheless, each time anew
        replace_private(path, json.dumps({"stamp": stamp, "tree": tree}).encode())
    return tree
