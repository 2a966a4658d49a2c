"""Read settings from each source as a layer, and merge the layers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from outrider.coding.config.remembered import Choice
from outrider.coding.config.settings import DEFAULTS, FORMER_VARIABLES, SECTIONS, SETTINGS, VARIABLES, advice
from outrider.coding.config.value_types import InvalidValueError
from outrider.coding.masking import describe_type, quoted
from outrider.coding.settings_files import SettingsFile
from outrider.errors import ConfigError

DEFAULT = "the default"
CHOSEN = {"model": "/model in the chat", "effort": "/effort in the chat"}
"""The origins of what the user has chosen in the chat, for people."""


class Layer(msgspec.Struct, frozen=True):
    """The checked values of one source by dotted key, and the origin of each for people."""

    values: dict[str, Any] = {}
    origins: dict[str, str] = {}

    def without(self, keys: Iterable[str]) -> Layer:
        left_out = set(keys)
        kept = {key: value for key, value in self.values.items() if key not in left_out}
        return Layer(kept, {key: self.origins[key] for key in kept})

    def with_rules_from(self, root: Path) -> Layer:
        """Return the layer with the relative paths in its rules made absolute, starting at the root."""
        lists = ("permissions.allow", "permissions.ask", "permissions.deny")
        moved = {key: tuple(absolute_rule(rule, root) for rule in self.values.get(key, ())) for key in lists}
        return Layer(self.values | {key: rules for key, rules in moved.items() if rules}, self.origins)


def from_file(file: SettingsFile, base: Path | None, *, managed: bool = False) -> Layer:
    """Read the settings of a file. Relative paths start at the base. Raises ConfigError with the line."""
    found = [*_walk(file.tables(), "", file)]
    for key, _ in () if managed else found:
        if SETTINGS[key].managed_only:
            raise ConfigError(f"{file.where(key)}: only the managed file of this machine can set {key}; remove it")
    values = {key: _check(key, value, base, f"{file.where(key)}: {key}") for key, value in found}
    return Layer(values, dict.fromkeys(values, file.label))


def from_environment(environment: Mapping[str, str], base: Path) -> Layer:
    """Read the settings of environment variables. An empty one is not set. Raises ConfigError with the variable."""
    for former, variable in FORMER_VARIABLES.items():
        if environment.get(former, "").strip():
            raise ConfigError(f"{former} is called {variable} now; rename the variable")
    origins = {key: variable for variable, key in VARIABLES.items() if environment.get(variable, "").strip()}
    values = {
        key: _check(key, SETTINGS[key].value_type.parse(environment[variable].strip()), base, variable)
        for key, variable in origins.items()
    }
    return Layer(values, origins)


def from_flags(flags: Mapping[str, Any], base: Path) -> Layer:
    """Read the settings of flags by dotted key. None is a flag that was not given. Raises ConfigError."""
    given = {key: value for key, value in flags.items() if value is not None}
    for key in given:
        if key not in SETTINGS or SETTINGS[key].managed_only:
            raise ConfigError(f"there is no setting {quoted(key)}; {advice(key)}")
    values = {key: _check(key, value, base, SETTINGS[key].flag or key) for key, value in given.items()}
    return Layer(values, {key: SETTINGS[key].flag or "the command line" for key in given})


def from_choice(choice: Choice) -> Layer:
    """Return what the user has chosen in the chat. A value that is not known any more is left out."""
    values: dict[str, Any] = {}
    for key in CHOSEN:
        with suppress(ConfigError):
            if (value := getattr(choice, key)) is not None:
                values[key] = _check(key, value, None, CHOSEN[key])
    return Layer(values, {key: CHOSEN[key] for key in values})


def merge(layers: Iterable[Layer]) -> Layer:
    """Merge layers over the defaults. Lists of rules and paths are joined; other values are replaced."""
    values, origins = dict(DEFAULTS), dict.fromkeys(DEFAULTS, DEFAULT)
    for layer in layers:
        for key, value in layer.values.items():
            if SETTINGS[key].value_type.accumulates and values[key]:
                values[key] = tuple(dict.fromkeys((*values[key], *value)))
                origins[key] = f"{origins[key]} and {layer.origins[key]}" if value else origins[key]
            else:
                values[key], origins[key] = value, layer.origins[key]
    return Layer(values, origins)


def mistyped_variables(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a note for each variable whose name is almost that of a setting."""
    for name in environment:
        if name.startswith("OUTRIDER_") and name not in VARIABLES:
            from difflib import get_close_matches

            close = get_close_matches(name, VARIABLES, 1, 0.9)
            if close:
                yield f"the variable {name} is ignored; did you mean {close[0]}?"


def _walk(table: Mapping[str, Any], prefix: str, file: SettingsFile) -> Iterator[tuple[str, Any]]:
    """Yield the dotted keys of a table with their values. Raises ConfigError for an unknown key."""
    for name, value in table.items():
        key = f"{prefix}{name}"
        if not prefix and name in SECTIONS:
            if not isinstance(value, dict):
                found = describe_type(value)
                raise ConfigError(f"{file.where(key)}: {key} is a section, [{key}], with its own keys, not {found}")
            yield from _walk(value, f"{key}.", file)
        elif "." in name or key not in SETTINGS:
            raise _unknown_key(key, value, file)
        else:
            yield key, value


def _unknown_key(key: str, value: Any, file: SettingsFile) -> ConfigError:
    if key in SETTINGS:
        return ConfigError(f"{file.where(key)}: write the key {key} without quotes")
    while isinstance(value, dict) and value:  # name the key in full, not only its table
        name, value = next(iter(value.items()))
        key = f"{key}.{name}"
    hint = advice(key, is_text=isinstance(value, str))
    return ConfigError(f"{file.where(key)}: there is no setting {quoted(key)}; {hint}")


def _check(key: str, value: Any, base: Path | None, subject: str) -> Any:
    try:
        return SETTINGS[key].value_type.check(value, base)
    except InvalidValueError as error:
        raise ConfigError(f"{subject} {error}") from None


def absolute_rule(rule: str, root: Path) -> str:
    """Return the rule with its relative path made absolute, starting at the root. Other rules stay as they are.

    >>> absolute_rule("Read(private/**)", Path("/repo")), absolute_rule("Read(*.pem)", Path("/repo"))
    ('Read(/repo/private/**)', 'Read(*.pem)')
    """
    from outrider.coding.permissions.rules import PATH_TOOLS, Rule
    from outrider.coding.wildcards import escaped

    parsed = Rule.parse(rule)
    pattern = parsed.pattern or ""
    if parsed.tool not in PATH_TOOLS or pattern.startswith(("/", "~")) or "/" not in pattern.rstrip("/"):
        return rule
    while pattern.startswith(("./", "../")):
        root = root.parent if pattern.startswith("../") else root
        pattern = pattern.partition("/")[2]
    return f"{parsed.tool}({escaped(str(root)).rstrip('/')}/{pattern})"
