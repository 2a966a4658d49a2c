"""The facts about models: `models.json`, read once. They are as old as its date."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from outrider.struct_types import described


class _Row(msgspec.Struct, frozen=True, array_like=True):
    """A pattern of a provider's model names, the profile of these models, and fields that differ from it."""

    provider: str
    pattern: str
    profile: str
    changes: dict[str, Any] = {}


class _AnyServer(msgspec.Struct, frozen=True):
    text_only: tuple[str, ...]
    vision: tuple[str, ...]


class _Efforts(msgspec.Struct, frozen=True):
    scales: dict[str, dict[str, dict[str, Any]]]  # for each scale and level, the fields that a request gets
    models: tuple[tuple[str, str, str], ...]
    """A provider, a pattern of the model name, and its scale, which may be empty. The first match counts."""


class _Temperatures(msgspec.Struct, frozen=True):
    models: tuple[tuple[str, str, str], ...]
    """A provider, a pattern of the model name, and whether such a model takes a temperature. The first match counts."""


class KnownModels(msgspec.Struct, frozen=True):
    date: str
    profiles: dict[str, dict[str, Any]]
    models: tuple[_Row, ...]
    """The first match counts. `{text_only}` is any name in the list of that name."""
    same_as: dict[str, tuple[str, ...]]  # providers that have the models of other providers
    any_server: _AnyServer
    defaults: dict[str, str]
    hosts: dict[str, dict[str, Any] | str]
    efforts: _Efforts
    temperatures: _Temperatures

    def profile(self, provider: str, name: str) -> dict[str, Any]:
        """Return the fields of a model's profile that differ from the safe one. The name is in lower case."""
        for row in self.models:
            if row.provider in self._owners(provider) and self._matches(name, row.pattern):
                return _without_note({**self._fields(row.profile), **row.changes})
        default = self.defaults.get(provider)
        if default is None:
            return {}
        own_name = name.rpartition("/")[2]
        if any_match(own_name, self.any_server.text_only):
            return self._fields("local")
        return self._fields("local-vision" if any_match(own_name, self.any_server.vision) else default)

    def knows(self, provider: str, name: str) -> bool:
        """Return whether the file says anything about a model. The name is in lower case."""
        rows = (row for row in self.models if row.provider in self._owners(provider))
        if any(self._matches(name, row.pattern) for row in rows):
            return True
        own_name = name.rpartition("/")[2]
        lists = (self.any_server.text_only, self.any_server.vision)
        return provider in self.defaults and any(any_match(own_name, patterns) for patterns in lists)

    def settings(self, provider: str, name: str) -> dict[str, str]:
        """Return a model's effort scale, or "" if it has none, and whether it takes a temperature."""
        effort = self._first(self.efforts.models, provider, name) or ""
        return {"effort": effort, "temperature": self._first(self.temperatures.models, provider, name) or "yes"}

    def _first(self, rows: Iterable[tuple[str, str, str]], provider: str, name: str) -> str | None:
        owners = self._owners(provider)
        return next((found for owner, pattern, found in rows if owner in owners and _match(name, pattern)), None)

    def limits(self, url: str) -> dict[str, Any]:
        """Return the limits of a server, by its URL in lower case."""
        found = (limits for host, limits in self.hosts.items() if f"://{host}/" in url)
        return next((limits for limits in found if isinstance(limits, dict)), {})

    def _owners(self, provider: str) -> tuple[str, ...]:
        return (provider, *self.same_as.get(provider, ()))

    def _matches(self, name: str, pattern: str) -> bool:
        return any_match(name, self.any_server.text_only) if pattern == "{text_only}" else _match(name, pattern)

    def _fields(self, profile: str) -> dict[str, Any]:
        found = self.profiles[profile]
        like = self._fields(found["like"]) if "like" in found else {}
        return _without_note({**like, **{name: value for name, value in found.items() if name != "like"}})


def any_match(name: str, patterns: Iterable[str]) -> bool:
    return any(_match(name, pattern) for pattern in patterns)


def _match(name: str, pattern: str) -> bool:
    """Return whether a name matches a pattern. The many patterns whose letters it lacks are not compiled."""
    is_simple = "?" not in pattern and "[" not in pattern
    return not (is_simple and any(part not in name for part in pattern.split("*"))) and fnmatchcase(name, pattern)


def _without_note(fields: dict[str, Any]) -> dict[str, Any]:
    fields.pop("note", None)
    return fields


@cache
def known_models() -> KnownModels:
    return msgspec.json.decode(Path(__file__).with_name("models.json").read_bytes(), type=described(KnownModels))
