"""Tools that the model's API runs itself: a web search, reading pages, running code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from outrider.errors import ToolDefinitionError

ServerToolName: TypeAlias = Literal["web_search", "web_fetch", "code_execution"]


def _domains(field: str, given: Any) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ToolDefinitionError(f"{field} is {given!r}; it must be a list of domains")
    domains = tuple(given)
    for each in domains:
        if not isinstance(each, str) or not each.strip() or "://" in each:
            raise ToolDefinitionError(f"{field} has {each!r}; write a domain such as example.com")
    return domains


class ServerTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that the model's API runs, with its options. Calling it returns a copy with other options.

    >>> web_search(max_uses=3, allowed_domains=["python.org"]).allowed_domains
    ('python.org',)
    """

    name: ServerToolName
    allowed_domains: tuple[str, ...] = ()
    """Only these domains are used, with their sub-domains."""
    blocked_domains: tuple[str, ...] = ()
    """These domains are not used."""
    max_uses: int | None = None
    """How often the tool may be used for one request."""
    options: Mapping[str, Any] = {}
    """More fields of the tool, as the provider's API has them. They win over everything else."""

    def __post_init__(self) -> None:
        if self.name not in get_args(ServerToolName):
            raise ToolDefinitionError(
                f"{self.name!r} is not a server tool; they are {', '.join(get_args(ServerToolName))}"
            )
        for field in ("allowed_domains", "blocked_domains"):
            msgspec.structs.force_setattr(self, field, _domains(field, getattr(self, field)))
        if self.allowed_domains and self.blocked_domains:
            raise ToolDefinitionError(f"{self.name} has allowed_domains and blocked_domains; APIs take one of them")
        if self.max_uses is not None and (type(self.max_uses) is not int or self.max_uses < 1):
            raise ToolDefinitionError(f"max_uses of {self.name} is {self.max_uses!r}; it must be a number over 0")

    def __call__(self, **options: Any) -> ServerTool:
        """Return a copy with these options."""
        return msgspec.structs.replace(self, **options)

    @property
    def given(self) -> tuple[str, ...]:
        """The names of the options that are set, those of one API apart."""
        names = ("allowed_domains", "blocked_domains", "max_uses")
        return tuple(name for name in names if getattr(self, name))


web_search = ServerTool(name="web_search")
"""Let the model search the web. Its API runs the searches and charges for them."""
web_fetch = ServerTool(name="web_fetch")
"""Let the model read pages that the conversation names."""
code_execution = ServerTool(name="code_execution")
"""Let the model run code in a container of its provider."""


def separate(tools: Iterable[Any]) -> tuple[list[Any], list[ServerTool]]:
    """Return the functions and tools of a list, and its server tools. Of two with the same name the last counts."""
    functions, served = [], {}
    for each in tools:
        if isinstance(each, ServerTool):
            served[each.name] = each
        else:
            functions.append(each)
    return functions, list(served.values())
