"""Managed settings: a file of the machine's administrator, which the user and projects cannot widen.

What it sets is the most that is allowed: other sources may be stricter, by the rules with which projects need consent.
Lists of rules and files are joined, what it locks is exactly so, and the rest are defaults. A file that cannot be read,
is wrong, or could be changed by another than root means that nothing starts.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from outrider.coding.config import layers
from outrider.coding.config.layers import Layer
from outrider.coding.config.settings import DEFAULTS, SETTINGS, advice
from outrider.coding.masking import quoted
from outrider.coding.permissions.question import narrower
from outrider.coding.settings_files import read_settings_file
from outrider.errors import ConfigError

MANAGED_FILE = Path("/etc/outrider/managed.toml")
FURTHER = "OUTRIDER_MANAGED"
"""The variable that names a further file. It applies as well, never instead: whoever sets it can only narrow."""
ADMINISTRATORS = (0,)
NOBODY = 65_534
"""The owner of root's files in a user namespace that does not know root."""


class Managed(msgspec.Struct, frozen=True):
    """A managed file."""

    label: str
    layer: Layer
    locked: tuple[str, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """What it sets or locks."""
        return tuple(dict.fromkeys((*self.layer.values, *self.locked)))

    @property
    def exact(self) -> dict[str, Any]:
        """The values that nothing else changes."""
        values = {key: self.layer.values.get(key, DEFAULTS[key]) for key in self.locked}
        own = {key: value for key, value in self.layer.values.items() if SETTINGS[key].managed_only}
        if "permissions.mode" in self.layer.values:
            own["managed.max_mode"] = narrower(
                own.get("managed.max_mode", "all"), self.layer.values["permissions.mode"]
            )
        if own.get("managed.own_hooks") is False:
            values["hooks.files"] = self.layer.values.get("hooks.files", ())
        return values | own

    @property
    def defaults(self) -> Layer:
        """What holds where no other source says anything: nothing that is looser than the default."""
        is_list = {key: SETTINGS[key].value_type.accumulates for key in self.layer.values}
        return self.layer.without(
            key for key, value in self.layer.values.items() if not is_list[key] and _is_looser(key, value)
        )


def read_managed(environment: Mapping[str, str]) -> tuple[list[Managed], dict[str, bool]]:
    """Return the managed files, the system's last, and whether each exists. Raises ConfigError."""
    found, files = [], {}
    further = environment.get(FURTHER, "").strip()
    for path, owners in ((Path(further), (*ADMINISTRATORS, os.getuid())), (MANAGED_FILE, ADMINISTRATORS)):
        if path == Path(further) and not further:
            continue
        managed = _read(path, owners)
        if managed is None and path != MANAGED_FILE:
            raise ConfigError(f"{path} is not there, but {FURTHER} names it")
        if managed:
            files[str(path)] = True
            found.append(managed)
    return found, files


def _read(path: Path, owners: Sequence[int]) -> Managed | None:
    label = str(path)
    if not path.is_absolute():
        raise ConfigError(f"{FURTHER} must be an absolute path, not {quoted(label)}")
    file = read_settings_file(path, label)
    if file is None:
        return None
    _check_safe(path, owners)
    layer = layers.from_file(file, None, managed=True)
    locked = layer.values.get("managed.locked", ())
    for key in locked:
        if key not in SETTINGS:
            raise ConfigError(f"{file.where('managed.locked')}: there is no setting {quoted(key)}; {advice(key)}")
    return Managed(label, layer, locked)


def _check_safe(path: Path, owners: Sequence[int]) -> None:
    """Raise ConfigError if another than the owners could change the file, or replace it or a folder above it."""
    real = Path(os.path.realpath(path))
    for each in (real, *real.parents):
        status = os.stat(each)
        is_sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
        group = stat.S_IWGRP if status.st_gid else 0
        is_foreign = status.st_uid not in owners and (status.st_uid != NOBODY or os.access(each, os.W_OK))
        if is_foreign or (status.st_mode & (group | stat.S_IWOTH) and not is_sticky):
            raise ConfigError(
                f"{path} is not used, and nothing starts: {each} could be changed by other users. As root: "
                f"chown root {each} && chmod go-w {each}"
            )


def bounded(merged: Layer, managed: Sequence[Managed]) -> tuple[Layer, list[str]]:
    """Return the settings within what is allowed, and a note for each value that was not."""
    values, origins = dict(merged.values), dict(merged.origins)
    notes = []
    for each in managed:
        for key, value, is_exact in _limits(each, values):
            if values[key] == value:
                continue
            if origins[key] not in (layers.DEFAULT, each.label) and not SETTINGS[key].managed_only:
                wanted = "sets it" if is_exact else "allows no more"
                notes.append(f"{key} from {origins[key]} is not used: {each.label} {wanted}")
            values[key], origins[key] = value, each.label
    if values["permissions.mode"] != (mode := narrower(values["permissions.mode"], values["managed.max_mode"])):
        notes.append(f"the permission mode is {mode}: {managed[-1].label} allows no more")
        values["permissions.mode"], origins["permissions.mode"] = mode, managed[-1].label
    return Layer(values, origins), notes


def _limits(managed: Managed, values: Mapping[str, Any]) -> Iterator[tuple[str, Any, bool]]:
    """Yield the keys that must have another value, that value, and whether nothing else is allowed."""
    exact = managed.exact
    yield from ((key, value, True) for key, value in exact.items())
    for key, value in managed.layer.values.items():
        if key not in exact and not SETTINGS[key].value_type.accumulates and _widens(key, value, values[key]):
            yield key, value, False


def _widens(key: str, bound: Any, value: Any) -> bool:
    """Return whether a value allows more than the bound."""
    return SETTINGS[key].consent.widens(bound, value)


def _is_looser(key: str, value: Any) -> bool:
    """Return whether a value is looser than the default, and not only another one."""
    rule, default = SETTINGS[key].consent, DEFAULTS[key]
    return rule.has_order and not rule.widens(value, default) and rule.widens(default, value)
