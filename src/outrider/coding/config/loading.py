"""Load the settings of a folder: defaults, managed ones, the user's file, the project's, the environment, and flags."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from outrider.coding.config import layers
from outrider.coding.config.claude_settings import read_claude_settings
from outrider.coding.config.layers import Layer
from outrider.coding.config.managed import bounded, read_managed
from outrider.coding.config.remembered import Choice
from outrider.coding.config.settings import SETTINGS, Settings, unflatten
from outrider.coding.consent.command_line import project_line
from outrider.coding.consent.item import ConsentItem, Consents, secrets_among
from outrider.coding.settings_files import MAX_BYTES, SettingsFile, nearest, read_regular_file, read_settings_file
from outrider.environment import config_file, data_folder

PROJECT_FILE = Path(".outrider", "config.toml")


class Loaded(msgspec.Struct, frozen=True):
    """The settings of a folder, and where they come from."""

    settings: Settings
    origins: dict[str, str]
    """The source of each value by dotted key, for people."""
    waiting: tuple[ConsentItem, ...] = ()
    """The project's values that need the user's consent. Each is ignored until the user agrees."""
    agreed: tuple[ConsentItem, ...] = ()
    """The project's values that the user has agreed to."""
    notes: tuple[str, ...] = ()
    """Warnings for the user."""
    files: dict[str, bool] = {}
    """The settings files by their names for people, and whether each exists."""
    managed: dict[str, tuple[str, ...]] = {}
    """The keys that each managed file sets or locks, by its path."""


def load(
    folder: Path, *, environment: Mapping[str, str], flags: Mapping[str, Any] = {}, choice: Choice | None = None
) -> Loaded:
    """Load the settings of a folder. Raises ConfigError, which says where and what to do.

    `choice` is what the user has chosen in a chat there: it counts more than the files.
    """
    folder = Path(folder).resolve()
    managed, managed_files = read_managed(environment)
    user, found = _user_layer(environment)
    path = find_project_file(folder)
    label = os.path.relpath(path, folder)
    file = None if found and is_same_file(path, config_file(environment)) else read_settings_file(path, label)
    base = [each.defaults for each in managed]
    project = _read_project(file, path, folder, [*base, user], environment) if file else _Project()
    claude = read_claude_settings(folder, label_of)
    given = layers.from_environment(environment, folder), layers.from_flags(flags, folder)
    chosen = layers.from_choice(choice) if choice else Layer()
    merged = layers.merge([*base, user, project.layer, *claude.layers, chosen, *given])
    merged, limited = bounded(merged, managed)
    return Loaded(
        unflatten(merged.values),
        merged.origins,
        project.waiting,
        project.agreed,
        (*limited, *project.notes, *layers.mistyped_variables(environment), *claude.notes),
        managed_files | found | {label: file is not None} | claude.files,
        {each.label: each.keys for each in managed},
    )


def find_project_file(folder: Path) -> Path:
    """Return the nearest `.outrider/config.toml` upwards within the repository, or the folder's own if none exists."""
    return nearest(PROJECT_FILE, folder)


def label_of(path: Path) -> str:
    """Return a path for people, with `~` for the home folder."""
    home = Path("~").expanduser()
    return f"~{os.sep}{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def _user_layer(environment: Mapping[str, str]) -> tuple[Layer, dict[str, bool]]:
    """Read the user's own file. Return its settings, and whether it exists."""
    try:
        path = config_file(environment)
    except RuntimeError:  # the home folder is unknown, so there is no such file
        return Layer(), {}
    file = read_settings_file(path, label_of(path))
    return layers.from_file(file, None) if file else Layer(), {label_of(path): file is not None}


class _Project(msgspec.Struct, frozen=True):
    layer: Layer = Layer()
    waiting: tuple[ConsentItem, ...] = ()
    agreed: tuple[ConsentItem, ...] = ()
    notes: tuple[str, ...] = ()


def _read_project(
    file: SettingsFile, path: Path, folder: Path, users: Sequence[Layer], environment: Mapping[str, str]
) -> _Project:
    """Read a project's file. Return the values that apply, and those that need consent."""
    root = path.parent.parent
    layer = layers.from_file(file, root)
    if root != folder:
        layer = layer.with_rules_from(root)
    users_only = [key for key in layer.values if SETTINGS[key].users_only]
    notes = tuple(f"{file.where(key)}: {key} is ignored: a project does not set it" for key in users_only)
    layer = layer.without(users_only)
    consents = Consents(data_folder(environment))
    items = {
        each.key: setting_item(each, path, root, environment)
        for each in find_widenings(layers.merge(users).values, layer.values)
    }
    given = {key: consents.is_given(item) for key, item in items.items()}
    return _Project(
        layer.without(key for key, is_given in given.items() if not is_given),
        tuple(item for key, item in items.items() if not given[key]),
        tuple(item for key, item in items.items() if given[key]),
        notes,
    )


def setting_item(widening: Widening, file: Path, root: Path, environment: Mapping[str, str]) -> ConsentItem:
    """Return what the user agrees to: a value, and the programs in the files that it names."""
    key, value = widening.key, widening.value
    names = value if key == "sandbox.pass_env" else ()
    return ConsentItem(
        kind="setting",
        name=key,
        file=file,
        declaration=value,
        fields=(
            *(("value", each) for each in _shown(value)),
            *(("instead of", each) for each in _shown(widening.instead)),
            ("allows", widening.why),
            *(
                (f"reads {name}", "from your environment, and gives it to commands that the model runs")
                for name in names
            ),
        ),
        lines=tuple(project_line(texts, root) for texts in _programs_of(key, value)),
        secrets=secrets_among(names, environment),
    )


def _programs_of(key: str, value: Any) -> list[tuple[str, ...]]:
    """Return the command lines that a setting brings: of files with tools, and of files with hooks."""
    match key:
        case "tool_files":
            return [("python", each) for each in value]
        case "hooks.files":
            return [_texts_in(Path(each)) for each in value]
        case "chat.status_command" if value:
            return [(value,)]
    return []


def _shown(value: Any) -> list[str]:
    """Return the items of a value, for people."""
    if isinstance(value, tuple):
        return list(map(str, value)) or ["none"]
    return [str(value).lower() if isinstance(value, bool) else "none" if value is None else str(value)]


def _texts_in(file: Path) -> tuple[str, ...]:
    """Return a file with hooks, and every text in it: the commands are among them."""
    try:
        waiting = [json.loads(read_regular_file(file, MAX_BYTES).decode("utf-8-sig"))]
    except (OSError, ValueError, RecursionError):
        waiting = []
    texts = [f"source {shlex.quote(str(file))}"]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, dict | list):
            waiting += value.values() if isinstance(value, dict) else value
    return tuple(texts)


def is_same_file(one: Path, other: Path) -> bool:
    """Return whether both paths lead to one file. False if one is missing."""
    try:
        return one.samefile(other)
    except OSError:
        return False


class Widening(msgspec.Struct, frozen=True):
    """One value that allows more than the user's own."""

    key: str
    value: Any
    """The value in the project's file."""
    instead: Any
    """The value that applies without consent."""
    why: str
    """What the value would allow, in a few words."""


def find_widenings(user: Mapping[str, Any], project: Mapping[str, Any]) -> tuple[Widening, ...]:
    """Return the project's values that allow more than the user's. The user's values are complete."""
    return tuple(
        Widening(key, value, user[key], rule.why)
        for key, value in project.items()
        if (rule := SETTINGS[key].consent).widens(user[key], value)
    )
