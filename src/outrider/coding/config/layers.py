"""Settings from one place each, and how they are laid over one another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from outrider.coding.config.files import SettingsFile
from outrider.coding.config.keys import DEFAULTS, KEYS, SECTIONS, VARIABLES, advice
from outrider.coding.config.kinds import MismatchError
from outrider.coding.config.rule_paths import absolute
from outrider.coding.config.showing import kind_of, quoted
from outrider.errors import ConfigError

DEFAULT = "the default"


class Layer(msgspec.Struct, frozen=True):
    """The values that one place gives, under their dotted keys, checked; and the place of each, in words."""

    values: dict[str, Any] = {}
    origins: dict[str, str] = {}

    def without(self, keys: Iterable[str]) -> Layer:
        """The same, but for these keys."""
        left_out = set(keys)
        kept = {key: value for key, value in self.values.items() if key not in left_out}
        return Layer(kept, {key: self.origins[key] for key in kept})

    def counted_from(self, root: Path) -> Layer:
        """The same, but with rules whose paths count from the root wherever one works in it."""
        lists = ("permissions.allow", "permissions.ask", "permissions.deny")
        moved = {key: tuple(absolute(rule, root) for rule in self.values.get(key, ())) for key in lists}
        return Layer(self.values | {key: rules for key, rules in moved.items() if rules}, self.origins)


def from_file(file: SettingsFile, base: Path | None) -> Layer:
    """What a file says. Its relative paths count from the base. Raises ConfigError with the line."""
    leaves = _leaves(file.tables(), "", file)
    values = {key: _checked(key, value, base, f"{file.where(key)}: {key}") for key, value in leaves}
    return Layer(values, dict.fromkeys(values, file.label))


def from_environment(environment: Mapping[str, str], base: Path) -> Layer:
    """What the variables say; an empty one says nothing. Raises ConfigError with the variable."""
    origins = {key: variable for variable, key in VARIABLES.items() if environment.get(variable, "").strip()}
    values = {
        key: _checked(key, KEYS[key].kind.read(environment[variable].strip()), base, variable)
        for key, variable in origins.items()
    }
    return Layer(values, origins)


def from_flags(flags: Mapping[str, Any], base: Path) -> Layer:
    """What the command line says, under dotted keys; None is a flag that was not given. Raises ConfigError."""
    given = {key: value for key, value in flags.items() if value is not None}
    for key in given:
        if key not in KEYS:
            raise ConfigError(f"there is no setting {quoted(key)}; {advice(key)}")
    values = {key: _checked(key, value, base, KEYS[key].flag or key) for key, value in given.items()}
    return Layer(values, {key: KEYS[key].flag or "the command line" for key in given})


def laid_over(layers: Iterable[Layer]) -> Layer:
    """All settings: the defaults, and over them each layer. Lists of rules and paths add up, the rest is replaced."""
    values, origins = dict(DEFAULTS), dict.fromkeys(DEFAULTS, DEFAULT)
    for layer in layers:
        for key, value in layer.values.items():
            if KEYS[key].kind.adds_up and values[key]:
                values[key] = tuple(dict.fromkeys((*values[key], *value)))
                origins[key] = f"{origins[key]} and {layer.origins[key]}" if value else origins[key]
            else:
                values[key], origins[key] = value, layer.origins[key]
    return Layer(values, origins)


def mistyped_variables(environment: Mapping[str, str]) -> Iterator[str]:
    """Notes on variables that look like ours and are not."""
    from difflib import get_close_matches

    for name in environment:
        if name.startswith("OUTRIDER_") and name not in VARIABLES:
            close = get_close_matches(name, VARIABLES, 1, 0.9)
            if close:
                yield f"the variable {name} is not heeded; did you mean {close[0]}?"


def _leaves(table: Mapping[str, Any], prefix: str, file: SettingsFile) -> Iterator[tuple[str, Any]]:
    """The keys of a table with their values. Raises ConfigError for one that there is not."""
    for name, value in table.items():
        key = f"{prefix}{name}"
        if not prefix and name in SECTIONS:
            if not isinstance(value, dict):
                found = kind_of(value)
                raise ConfigError(f"{file.where(key)}: {key} is a section, [{key}], with keys of its own, not {found}")
            yield from _leaves(value, f"{key}.", file)
        elif "." in name or key not in KEYS:
            raise _unknown(key, value, file)
        else:
            yield key, value


def _unknown(key: str, value: Any, file: SettingsFile) -> ConfigError:
    if key in KEYS:
        return ConfigError(f"{file.where(key)}: write {key} without quotes around the whole of it")
    while isinstance(value, dict) and value:  # the name of the table alone says less than the whole
        name, value = next(iter(value.items()))
        key = f"{key}.{name}"
    what_to_do = advice(key, is_text=isinstance(value, str))
    return ConfigError(f"{file.where(key)}: there is no setting {quoted(key)}; {what_to_do}")


def _checked(key: str, value: Any, base: Path | None, subject: str) -> Any:
    try:
        return KEYS[key].kind.take(value, base)
    except MismatchError as error:
        raise ConfigError(f"{subject} {error}") from None
