"""Load the settings of a folder: defaults, the user's file, the project's, the environment, and the command line."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from outrider.coding.config import layers
from outrider.coding.config.claude_settings import read_claude_settings
from outrider.coding.config.consent import ConsentRequest, Consents
from outrider.coding.config.files import SettingsFile, nearest, read_regular_file, read_settings_file
from outrider.coding.config.layers import Layer
from outrider.coding.config.settings import Settings, unflatten
from outrider.coding.config.widening import Widening, find_widenings
from outrider.environment import config_file, data_folder

PROJECT_FILE = Path(".outrider", "config.toml")
LARGEST_TOOL_FILE = 20 * 1024 * 1024


class Loaded(msgspec.Struct, frozen=True):
    """The settings of a folder, and where they come from."""

    settings: Settings
    origins: dict[str, str]
    """The source of each value by dotted key, for people."""
    waiting: ConsentRequest | None = None
    """The project's values that need the user's consent. They are ignored until the user agrees."""
    notes: tuple[str, ...] = ()
    """Warnings for the user."""
    files: dict[str, bool] = {}
    """The settings files by their names for people, and whether each exists."""
    project_file: Path | None = None
    """The project's file, if there is one."""


def load(folder: Path, *, environment: Mapping[str, str], flags: Mapping[str, Any] = {}) -> Loaded:
    """Load the settings of a folder. Raises ConfigError, which says where and what to do."""
    folder = Path(folder).resolve()
    user, found = _user_layer(environment)
    path = find_project_file(folder)
    label = os.path.relpath(path, folder)
    file = None if found and is_same_file(path, config_file(environment)) else read_settings_file(path, label)
    project, waiting = _project_layer(file, path, folder, user, environment) if file else (Layer(), None)
    claude = read_claude_settings(folder, label_of)
    merged = layers.merge(
        [user, project, *claude.layers, layers.from_environment(environment, folder), layers.from_flags(flags, folder)]
    )
    return Loaded(
        unflatten(merged.values),
        merged.origins,
        waiting,
        (*layers.mistyped_variables(environment), *claude.notes),
        found | {label: file is not None} | claude.files,
        path if file else None,
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


def _project_layer(
    file: SettingsFile, path: Path, folder: Path, user: Layer, environment: Mapping[str, str]
) -> tuple[Layer, ConsentRequest | None]:
    """Read a project's file. Return the values that apply, and those that need consent."""
    root = path.parent.parent
    layer = layers.from_file(file, root)
    if root != folder:
        layer = layer.with_rules_from(root)
    widenings = find_widenings(layers.merge([user]).values, layer.values)
    if not widenings:
        return layer, None
    content = file.content + _fingerprint(layer, widenings, root)
    if Consents(data_folder(environment)).is_given(path, content):
        return layer, None
    return layer.without(each.key for each in widenings), ConsentRequest(path, content, widenings)


def _fingerprint(layer: Layer, widenings: Iterable[Widening], root: Path) -> bytes:
    """Return what else the consent covers: the keys, the resolved folders, and the content of tool and hook files.

    The user is asked again after stricter settings of their own, a changed link, a changed file, or a changed program
    that a file with hooks names.
    """
    keys = sorted(each.key for each in widenings)
    folders = layer.values.get("permissions.folders", ())
    hook_files = layer.values.get("hooks.files", ())
    programs = [(file, digest_of(Path(file))) for file in (*layer.values.get("tool_files", ()), *hook_files)]
    named = digests_of((word for file in hook_files for word in _words_in(Path(file))), root)
    return b"\0" + repr((keys, folders, programs)).encode(errors="backslashreplace") + named


def _words_in(file: Path) -> list[str]:
    """Return the words of a file that may be paths in the project, as in `"$OUTRIDER_PROJECT_DIR"/check.sh`."""
    try:
        text = read_regular_file(file, LARGEST_TOOL_FILE).decode(errors="replace")
    except (OSError, ValueError):
        return []
    return [word.lstrip("/") for word in re.split(r"[^\w./+-]+", text)]


def digest_of(file: Path) -> str:
    """Return the digest of a program of a project, whose content a consent covers."""
    try:
        return sha256(read_regular_file(file, LARGEST_TOOL_FILE)).hexdigest()
    except (OSError, ValueError):
        return "cannot be read"


def digests_of(words: Iterable[str], root: Path) -> bytes:
    """Return the digests of the project's files that the words of commands name, as a part of what a consent covers."""
    digests = sorted((word, digest_of(root / word)) for word in set(words) if _is_file(root / word, root))
    return b"\0" + repr(digests).encode(errors="backslashreplace") if digests else b""


def _is_file(path: Path, root: Path) -> bool:
    try:
        return path.is_file() and path.resolve().is_relative_to(root.resolve())
    except (OSError, ValueError):
        return False


def is_same_file(one: Path, other: Path) -> bool:
    """Return whether both paths lead to one file. False if one is missing."""
    try:
        return one.samefile(other)
    except OSError:
        return False
