"""What can be set, with its defaults. docs/configuration.md has the same as a table."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from outrider.coding.permissions.question import Mode
from outrider.runtime.limits import Limits

SandboxUse: TypeAlias = Literal["auto", "off", "require"]


class PermissionSettings(msgspec.Struct, frozen=True):
    """What may run without a question, with one, or not at all."""

    mode: Mode = "ask"
    allow: tuple[str, ...] = ()
    """Rules for calls that may run, such as `Bash(git status)`."""
    ask: tuple[str, ...] = ()
    """Rules for calls that are asked about, also where they would be allowed."""
    deny: tuple[str, ...] = ()
    """Rules for calls that are refused, whatever else is said."""
    folders: tuple[str, ...] = ()
    """Folders besides the project's own that may be worked in: absolute paths, links resolved."""
    secrets: tuple[str, ...] | None = None
    """Patterns of files that are refused by default, instead of the built-in ones; None for those."""


class SandboxSettings(msgspec.Struct, frozen=True):
    """How shell commands are fenced in."""

    use: SandboxUse = "auto"
    """`auto` where there is a sandbox, `require` one for every command, `off`."""
    network: bool = True
    """Whether commands in the sandbox reach the network."""


class WebSettings(msgspec.Struct, frozen=True):
    """What may be fetched."""

    private_addresses: bool = False
    """Whether WebFetch may reach this machine and the local network."""


class SubagentSettings(msgspec.Struct, frozen=True):
    """How sub-agents answer."""

    result_characters: int = 10_000
    """What the model that sent one out gets to read of its answer; the whole is stored."""


class ChatSettings(msgspec.Struct, frozen=True):
    """How the chat looks."""

    show_thinking: bool = False
    """Whether the model's thinking is shown whole instead of folded."""


class AcpSettings(msgspec.Struct, frozen=True):
    """How editors are told things."""

    full_updates: tuple[str, ...] = ()
    """Names of editors that want each update of a call whole, because they forget what is left out; `*` for all."""
    update_interval: float = 0.05
    """Seconds that a change of a call waits for others to go out with it; 0 sends each at once."""


class Settings(msgspec.Struct, frozen=True):
    """Everything that can be set."""

    model: str | None = None
    """Who answers; None for a balanced model of the first provider that has a key."""
    tools: tuple[str, ...] | None = None
    """The built-in tools that may be used; None for all."""
    tool_files: tuple[str, ...] = ()
    """Python files whose @tool functions may be called: absolute paths, links resolved. Loading them runs them."""
    permissions: PermissionSettings = PermissionSettings()
    sandbox: SandboxSettings = SandboxSettings()
    web: WebSettings = WebSettings()
    limits: Limits = Limits()
    subagents: SubagentSettings = SubagentSettings()
    chat: ChatSettings = ChatSettings()
    acp: AcpSettings = AcpSettings()


def flattened(settings: Settings) -> dict[str, Any]:
    """Each value under its dotted key.

    >>> flattened(Settings())["limits.turns"]
    50
    """
    flat: dict[str, Any] = {}
    for name in settings.__struct_fields__:
        value = getattr(settings, name)
        if isinstance(value, msgspec.Struct):
            flat |= {f"{name}.{field}": getattr(value, field) for field in value.__struct_fields__}
        else:
            flat[name] = value
    return flat


def nested(values: dict[str, Any]) -> Settings:
    """Settings of values under their dotted keys; the default where there is none. The values are known to be right."""
    sections: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        section, _, name = key.rpartition(".")
        sections.setdefault(section, {})[name] = value
    top = sections.pop("", {})
    defaults = Settings()
    return Settings(**top, **{name: type(getattr(defaults, name))(**given) for name, given in sections.items()})
