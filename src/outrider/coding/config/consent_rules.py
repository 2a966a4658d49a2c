"""When a project's value allows more than the user's own, so that it needs the user's consent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from outrider.coding.protected_paths import SECRETS
from outrider.providers.base import EFFORTS
from outrider.providers.names import qualified
from outrider.providers.tiers import TIERS


class ConsentRule(msgspec.Struct, frozen=True):
    """Which values of a project need consent, and why."""

    why: str
    """What the value would allow, for the person who is asked."""
    widens: Callable[[Any, Any], bool]
    """Takes the user's value and the project's. Returns whether the project's value allows more."""


def if_looser(*order: str, why: str) -> ConsentRule:
    """Need consent for a value that comes later in the order, which goes from strict to loose."""
    return ConsentRule(why, lambda user, project: order.index(project) > order.index(user))


def if_more_effort(why: str) -> ConsentRule:
    """Need consent for an effort above the user's. None is the provider's default, which most call high."""
    order: dict[str | None, int] = {effort: place for place, effort in enumerate(EFFORTS)}
    order[None] = order["high"]
    return ConsentRule(why, lambda user, project: order[project] > order[user])


def if_adds(why: str) -> ConsentRule:
    """Need consent for items that the user's list does not have."""
    return ConsentRule(why, _adds)


def if_adds_hosts(why: str) -> ConsentRule:
    """Need consent for hosts that the user's list does not have. An empty list is all hosts."""
    return ConsentRule(why, lambda user, project: bool(user) and (not project or _adds(user, project)))


def if_on(why: str) -> ConsentRule:
    """Need consent to switch on what the user has off."""
    return ConsentRule(why, lambda user, project: project and not user)


def if_off(why: str) -> ConsentRule:
    """Need consent to switch off what the user has on."""
    return ConsentRule(why, lambda user, project: user and not project)


def if_set(why: str) -> ConsentRule:
    """Need consent for any value other than the user's or none."""
    return ConsentRule(why, lambda user, project: bool(project) and project != user)


def if_higher(why: str) -> ConsentRule:
    """Need consent for a number above the user's. None is no limit."""
    return ConsentRule(why, lambda user, project: user is not None and (project is None or project > user))


def if_adds_tools(why: str) -> ConsentRule:
    """Need consent for tools that the user has left out. None is all tools."""
    return ConsentRule(why, lambda user, project: user is not None and _adds(user, project))


def if_exposes_secrets(why: str) -> ConsentRule:
    """Need consent unless the list begins with the user's patterns, in order, and adds none that takes one back."""
    return ConsentRule(why, _exposes_secrets)


def if_other_provider(why: str) -> ConsentRule:
    """Need consent for a model that sends the conversation to a provider the user did not choose."""
    return ConsentRule(why, _is_other_provider)


def _adds(user: tuple[str, ...], project: tuple[str, ...]) -> bool:
    return not set(project) <= set(user)


def _exposes_secrets(user: tuple[str, ...] | None, project: tuple[str, ...]) -> bool:
    hidden = SECRETS if user is None else user
    added = project[len(hidden) :]
    return project[: len(hidden)] != hidden or any(pattern.startswith("!") for pattern in added)


def _is_other_provider(user: str | None, project: str) -> bool:
    if project == user:
        return False
    provider = qualified(project).partition("/")[0].lower()
    if project.lower().startswith(("http:", "https:")) or provider == "litellm":
        return True
    if user is None or user in TIERS or provider == "demo":
        return False
    return provider != qualified(user).partition("/")[0].lower()
