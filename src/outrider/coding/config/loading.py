"""All settings for a folder: defaults, the user's file, the project's, the environment, and the command line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from outrider.coding.config import layers
from outrider.coding.config.consent import Consent, Consents
from outrider.coding.config.files import SettingsFile, read, regular_content
from outrider.coding.config.layers import Layer
from outrider.coding.config.settings import Settings, nested
from outrider.coding.config.widening import Widening, widenings
from outrider.environment import config_file, data_folder

PROJECT_FILE = Path(".outrider", "config.toml")
LARGEST_TOOL_FILE = 20 * 1024 * 1024


class Loaded(msgspec.Struct, frozen=True):
    """The settings, and how they came about."""

    settings: Settings
    origins: dict[str, str]
    """For each dotted key where its value comes from, in words."""
    waiting: Consent | None = None
    """What the project's file would widen, if the user has not agreed to it yet. Until then it does not count."""
    notes: tuple[str, ...] = ()
    """What else the user should know."""
    files: dict[str, bool] = {}
    """The files that were looked for, as a person would call them, and whether they are there."""
    project_file: Path | None = None
    """The project's file, if there is one."""


def load(folder: Path, *, environment: Mapping[str, str], flags: Mapping[str, Any] = {}) -> Loaded:
    """The settings that hold in a folder. Raises ConfigError, which says where and what to do."""
    folder = Path(folder).resolve()
    users, looked_at = _users(environment)
    path = find_project_file(folder)
    label = os.path.relpath(path, folder)
    file = None if looked_at and _same(path, config_file(environment)) else read(path, label)
    projects, waiting = _projects(file, path, folder, users, environment) if file else (Layer(), None)
    whole = layers.laid_over(
        [users, projects, layers.from_environment(environment, folder), layers.from_flags(flags, folder)]
    )
    return Loaded(
        nested(whole.values),
        whole.origins,
        waiting,
        tuple(layers.mistyped_variables(environment)),
        looked_at | {label: file is not None},
        path if file else None,
    )


def find_project_file(folder: Path) -> Path:
    """The nearest `.outrider/config.toml`: in the folder, else upwards within the repository; the folder's if none."""
    above = [folder, *folder.parents]
    roots = [number for number, each in enumerate(above) if os.path.lexists(each / ".git")]
    for each in above[: roots[0] + 1] if roots else [folder]:
        if os.path.lexists(each / PROJECT_FILE):
            return each / PROJECT_FILE
    return folder / PROJECT_FILE


def label_of(path: Path) -> str:
    """A path as a person would write it."""
    home = Path("~").expanduser()
    return f"~{os.sep}{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def _users(environment: Mapping[str, str]) -> tuple[Layer, dict[str, bool]]:
    """What the user's own file says, and whether there is one."""
    try:
        path = config_file(environment)
    except RuntimeError:  # nobody's home is known, so there is no such file
        return Layer(), {}
    file = read(path, label_of(path))
    return layers.from_file(file, None) if file else Layer(), {label_of(path): file is not None}


def _projects(
    file: SettingsFile, path: Path, folder: Path, users: Layer, environment: Mapping[str, str]
) -> tuple[Layer, Consent | None]:
    """What counts of a project's file, and what waits for the user."""
    root = path.parent.parent
    layer = layers.from_file(file, root)
    if root != folder:
        layer = layer.counted_from(root)
    wider = widenings(layers.laid_over([users]).values, layer.values)
    if not wider:
        return layer, None
    content = file.content + _also_agreed_to(layer, wider)
    if Consents(data_folder(environment)).is_given(path, content):
        return layer, None
    return layer.without(each.key for each in wider), Consent(path, content, wider)


def _also_agreed_to(layer: Layer, wider: Iterable[Widening]) -> bytes:
    """What else is agreed to: which keys count, where folders are, and what the programs of tools say.

    A user who becomes stricter later, a link that leads elsewhere and a program that was changed ask again.
    """
    keys = sorted(each.key for each in wider)
    folders = layer.values.get("permissions.folders", ())
    programs = [(file, _digest(Path(file))) for file in layer.values.get("tool_files", ())]
    return b"\0" + repr((keys, folders, programs)).encode(errors="backslashreplace")


def _digest(file: Path) -> str:
    try:
        return sha256(regular_content(file, LARGEST_TOOL_FILE)).hexdigest()
    except (OSError, ValueError):
        return "cannot be read"


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
