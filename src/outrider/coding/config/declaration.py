"""Declarations of settings, and which of their values need the user's consent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, get_type_hints

import msgspec

from outrider.coding.config.value_types import ValueType, value_type_of
from outrider.coding.protected_paths import SECRETS
from outrider.providers.base import EFFORTS
from outrider.providers.catalogue.tiers import TIERS
from outrider.providers.catalogue.vendors import qualified


class Setting(msgspec.Struct, frozen=True):
    """What a setting needs besides its type and its default. Annotate the field with it, and with a consent rule."""

    help: str
    """One line in Markdown, for docs/configuration.md."""
    users_only: bool = False
    """Whether a project's file cannot set it."""
    managed_only: bool = False
    """Whether only a managed file can set it."""
    variable: str = ""
    """The environment variable that sets it, if there is one."""
    flag: str = ""
    """The command-line flag that sets it, if there is one."""
    unset: str = "none"
    """How `outrider config` shows None."""


class DeclaredSetting(Setting, frozen=True, kw_only=True):
    """A setting with what its field adds to the declaration."""

    consent: ConsentRule
    """Which values of a project need the user's consent."""
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
        rules = [each for each in metadata if isinstance(each, ConsentRule)] or [FREE] * setting.managed_only
        if len(rules) != 1:
            raise TypeError(f"the setting {prefix}{name} needs one consent rule, or FREE")
        more = {"consent": rules[0], "value_type": value_type_of(hints[name]), "default": default}
        yield f"{prefix}{name}", DeclaredSetting(**msgspec.structs.asdict(setting), **more)


class ConsentRule(msgspec.Struct, frozen=True):
    """Which values of a project need consent, and why."""

    why: str
    """What the value would allow, for the person who is asked."""
    widens: Callable[[Any, Any], bool]
    """Takes the user's value and the project's. Returns whether the project's value allows more."""
    has_order: bool = True
    """Whether values can be stricter than others, and not only other ones."""


FREE = ConsentRule("", lambda user, project: False, has_order=False)
"""A project may set any value."""


def if_looser(*order: str, why: str) -> ConsentRule:
    """Need consent for a value that comes later in the order, which goes from strict to loose."""
    return ConsentRule(why, lambda user, project: order.index(project) > order.index(user))


def _rule(widens: Callable[[Any, Any], bool], *, has_order: bool = True) -> Callable[[str], ConsentRule]:
    return lambda why: ConsentRule(why, widens, has_order)


def _adds(user: tuple[str, ...], project: tuple[str, ...]) -> bool:
    return not set(project) <= set(user)


def _exposes_secrets(user: tuple[str, ...] | None, project: tuple[str, ...] | None) -> bool:
    hidden = SECRETS if user is None else user
    project = SECRETS if project is None else project
    added = project[len(hidden) :]
    return project[: len(hidden)] != hidden or any(pattern.startswith("!") for pattern in added)


def _is_other_provider(user: str | None, project: str | None) -> bool:
    if project == user or project is None:
        return project != user  # without a model, any provider that has a key
    provider = qualified(project).partition("/")[0].lower()
    if project.lower().startswith(("http:", "https:")) or provider == "litellm":
        return True
    if user is None or user in TIERS or provider == "demo":
        return False
    return provider != qualified(user).partition("/")[0].lower()


_EFFORTS: dict[str | None, int] = {effort: place for place, effort in enumerate(EFFORTS)}
_EFFORTS[None] = _EFFORTS["high"]  # the provider's default, which most call high

if_more_effort = _rule(lambda user, project: _EFFORTS[project] > _EFFORTS[user])
"""Need consent for an effort above the user's."""
if_adds = _rule(_adds)
"""Need consent for items that the user's list does not have."""
if_adds_hosts = _rule(lambda user, project: bool(user) and (not project or _adds(user, project)))
"""Need consent for hosts that the user's list does not have. An empty list is all hosts."""
if_on = _rule(lambda user, project: project and not user)
"""Need consent to switch on what the user has off."""
if_off = _rule(lambda user, project: user and not project)
"""Need consent to switch off what the user has on."""
if_set = _rule(lambda user, project: bool(project) and project != user, has_order=False)
"""Need consent for any value other than the user's or none."""
if_higher = _rule(lambda user, project: user is not None and (project is None or project > user))
"""Need consent for a number above the user's. None is no limit."""
if_adds_tools = _rule(lambda user, project: user is not None and (project is None or _adds(user, project)))
"""Need consent for tools that the user has left out. None is all tools."""
if_exposes_secrets = _rule(_exposes_secrets)
"""Need consent unless the list begins with the user's patterns, in order, and adds none that takes one back."""
if_other_provider = _rule(_is_other_provider)
"""Need consent for a model that sends the conversation to a provider the user did not choose."""
