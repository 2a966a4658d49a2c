"""The declaration of a setting, and what is derived from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_type_hints

import msgspec

from outrider.coding.config.consent_rules import ConsentRule
from outrider.coding.config.value_types import ValueType, value_type_of


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What a setting needs besides its type and its default. Annotate the field with it."""

    help: str
    """One line in Markdown, for docs/configuration.md."""
    consent: ConsentRule | None
    """Which values of a project need the user's consent; None if a project may set any value."""
    users_only: bool = False
    """Whether a project's file cannot set it."""
    variable: str = ""
    """The environment variable that sets it, if there is one."""
    flag: str = ""
    """The command-line flag that sets it, if there is one."""
    unset: str = "none"
    """How `outrider config` shows None."""


class DeclaredSetting(Setting, frozen=True, kw_only=True):
    """A setting with what its field adds to the declaration."""

    value_type: ValueType
    default: Any


def declared_settings(struct: msgspec.Struct, prefix: str = "") -> Iterator[tuple[str, DeclaredSetting]]:
    """Yield each annotated field of a struct and of its sections, by dotted key. The values are the defaults.

    A section that is declared elsewhere is annotated with the struct that declares it.
    """
    hints = get_type_hints(type(struct), include_extras=True)
    for name in struct.__struct_fields__:
        default = getattr(struct, name)
        metadata = getattr(hints[name], "__metadata__", ())
        if isinstance(default, msgspec.Struct):
            yield from declared_settings(metadata[0] if metadata else default, f"{name}.")
            continue
        (setting,) = (each for each in metadata if isinstance(each, Setting))
        value_type = value_type_of(hints[name])
        yield (
            f"{prefix}{name}",
            DeclaredSetting(**msgspec.structs.asdict(setting), value_type=value_type, default=default),
        )
