"""Sub-agent profiles in Markdown files of users and projects: fields at the top, instructions below."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from outrider.coding.project_texts import ProjectText, as_list, project_texts, split_fields, texts_of
from outrider.runtime.limits import Limits
from outrider.subagents.profile import Profile

FOLDERS = (".claude/agents", ".outrider/agents")
"""The folders of a project's profiles; a later one wins if two have the same name."""
MOST_FILES, LONGEST_DESCRIPTION = 100, 1_000
"""Files in each folder, and characters of each description: all descriptions are in the system prompt."""
_ALIASES = {"TodoWrite": "Todo", "MultiEdit": "Edit", "LS": "Glob", "NotebookRead": "Read", "NotebookEdit": "Edit"}
"""Names of the tools in other programs that read such files."""
_TIERS = {"haiku": "fast", "sonnet": "balanced", "opus": "powerful", "inherit": ""}
_FIELDS = ("name", "description", "tools", "disallowedTools", "model", "tier", "limits", "schemas", "isolation")
_NO = ("false", "no", "off", "0")
_YES = ("true", "yes", "on", "1")


class FoundProfiles(msgspec.Struct, frozen=True):
    """The profiles of a folder, and notes about files that cannot be used."""

    profiles: tuple[Profile, ...]
    notes: tuple[str, ...] = ()
    files: dict[str, Path] = {}
    """The file of each profile by its name. Built-in ones have none."""


def find_profiles(
    folder: Path,
    users: Sequence[Path],
    built_in: Iterable[Profile],
    *,
    tools: Iterable[str],
    home: Path | None = None,
    plugins: Sequence[Path] = (),
) -> FoundProfiles:
    """Return the built-in profiles, those of plugins, of the user's folders and of the project; later ones win."""
    profiles = {profile.name: profile for profile in built_in}
    notes: list[str] = []
    paths: dict[str, Path] = {}
    known = frozenset(tools)
    foreign = project_texts(folder, _names, home=home)
    own = [text for each in users for text in texts_of(each, _markdown_names(each))]
    own_paths = {text.path.resolve() for text in own}
    files = [(text, True) for each in plugins for text in texts_of(each, _markdown_names(each))]
    files += [(text, False) for text in own]
    files += [(text, True) for text in foreign if text.path.resolve() not in own_paths]
    for text, is_foreign in files:
        try:
            profile, remarks = read_profile(text, known, is_foreign=is_foreign)
        except (ValueError, TypeError) as error:
            notes.append(f"{text.path}: {error}; the file is ignored")
        else:
            if is_foreign and profile.name in profiles:
                notes.append(f"{text.path}: it replaces the profile {profile.name}")
            profiles[profile.name], paths[profile.name] = profile, text.path
            notes += [f"{text.path}: {remark}" for remark in remarks]
    return FoundProfiles(tuple(profiles.values()), tuple(notes), paths)


def _names(folder: Path) -> Iterator[str]:
    for each in FOLDERS:
        yield from (f"{each}/{name}" for name in _markdown_names(folder / each))


def _markdown_names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir() if path.suffix == ".md")[:MOST_FILES]
    except OSError:
        return []


def read_profile(file: ProjectText, tools: frozenset[str], *, is_foreign: bool = False) -> tuple[Profile, list[str]]:
    """Return the profile in a file, and remarks about parts that are ignored. Raises ValueError."""
    fields, text = split_fields(file.text)
    if not fields:
        raise ValueError("there are no fields at the top, between two lines of ---")
    remarks: list[str] = []
    if ".outrider" in file.path.parts and (unknown := fields.keys() - set(_FIELDS)):
        remarks.append(f"unknown field {sorted(unknown)[0]!r}; a profile has the fields {', '.join(_FIELDS)}")
    model = str(fields.get("model") or fields.get("tier") or "")
    profile = Profile(
        name=str(fields.get("name") or file.path.stem),
        description=str(fields.get("description", ""))[:LONGEST_DESCRIPTION],
        prompt=text,
        tools=_remove_denied(fields.get("disallowedTools"), _tools(fields.get("tools"), tools, remarks), tools),
        model=_TIERS.get(model, model),
        limits=_limits(fields.get("limits")),
        schemas=_boolean("schemas", str(fields.get("schemas", "true"))),
        isolation=str(fields.get("isolation") or ""),
        may_raise_limits=not is_foreign,
        from_project=is_foreign,
    )
    return profile, remarks


def _tools(value: Any, known: frozenset[str], remarks: list[str]) -> tuple[str, ...] | None:
    """Return the named tools that exist. A tool with a pattern, as in `Bash(ls)`, is left out."""
    if value is None or value in ("*", ["*"], ""):
        return None
    names = [_ALIASES.get(name, name) for name in as_list(value)]
    if unknown := [name for name in names if not _is_known(name, known) and name != "Task"]:
        remarks.append(f"unknown tools are left out: {', '.join(unknown)}")
    return tuple(dict.fromkeys(name for name in names if _is_known(name, known)))


def _is_known(name: str, known: frozenset[str]) -> bool:
    """Return whether there may be such a tool. Which tools the MCP servers have is known only when they run."""
    return name in known or name.startswith("mcp__")


def _remove_denied(value: Any, names: tuple[str, ...] | None, known: frozenset[str]) -> tuple[str, ...] | None:
    """Return the tools without the denied ones. A tool denied by a pattern, as in `Bash(rm)`, is left out whole."""
    denied = {_ALIASES.get(name, name) for name in (each.partition("(")[0] for each in as_list(value or ""))}
    if not denied:
        return names
    if "*" in denied:
        return ()
    if names is None:
        # Which tools the servers have is not known here: all of them stay, or none if the profile denies one.
        names = (*sorted(known), *(() if any(name.startswith("mcp__") for name in denied) else ("mcp__*",)))
    return tuple(name for name in names if name not in denied)


def _limits(value: Any) -> Mapping[str, Any]:
    if value in (None, ""):
        return {}
    if not isinstance(value, dict):
        raise ValueError("limits must give a number for each name, as in `limits: {max_turns: 20}`")
    return {name: _number(name, text) for name, text in value.items()}


def _number(name: str, text: Any) -> float | None:
    if text == "none":
        return None
    try:
        number = float(text)
    except (ValueError, TypeError):
        raise ValueError(f"the limit {name} must be a number or none, not {text!r}") from None
    if number.is_integer():
        return int(number)
    if name in Limits.__struct_fields__ and name not in ("max_cost", "max_seconds", "tool_seconds"):
        raise ValueError(f"the limit {name} must be a whole number or none, not {text!r}")
    return number


def _boolean(name: str, text: str) -> bool:
    if text.lower() not in (*_YES, *_NO):
        raise ValueError(f"{name} must be true or false, not {text!r}")
    return text.lower() in _YES
