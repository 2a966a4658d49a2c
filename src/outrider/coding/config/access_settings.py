"""The settings that say what agents may do: permissions, sandbox, web and hooks."""

# No `from __future__ import annotations`: evaluating the annotations from strings takes twice as long.
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import msgspec

from outrider.coding.access import Access
from outrider.coding.config.declaration import Setting, if_adds, if_adds_hosts, if_exposes_secrets, if_looser, if_on
from outrider.coding.config.value_types import Folders, Hosts, JsonFiles, PathPatterns, Rules, TextList
from outrider.coding.permissions.question import Mode

SandboxUse: TypeAlias = Literal["auto", "off", "require"]
WebSearchUse: TypeAlias = Literal["ask", "on", "off"]


class PermissionSettings(msgspec.Struct, frozen=True):
    """Which calls run, need approval, or are denied."""

    mode: Annotated[
        Mode,
        Setting(
            variable="OUTRIDER_PERMISSIONS",
            flag="--permissions",
            help='`"plan"`, `"ask"`, `"edits"` or `"all"` ([modes](permissions.md))',
            consent=if_looser("plan", "ask", "edits", "all", why="more is done without asking you"),
        ),
    ] = "ask"
    allow: Annotated[
        Rules,
        Setting(
            flag="--allow",
            help="rules for calls that run without asking",
            consent=if_adds("these calls run without asking you"),
        ),
    ] = ()
    ask: Annotated[Rules, Setting(help="rules for calls that ask even if another rule allows them", consent=None)] = ()
    deny: Annotated[Rules, Setting(help="rules for calls that are denied, above all others", consent=None)] = ()
    folders: Annotated[
        Folders, Setting(help="more working folders", consent=if_adds("these folders count as part of the project"))
    ] = ()
    secrets: Annotated[
        PathPatterns | None,
        Setting(
            help="patterns of files hidden from the model, instead of the built-in ones",
            unset="built in",
            consent=if_exposes_secrets("the model may read files that are hidden now"),
        ),
    ] = None

    def working_folders(self, folder: Path) -> tuple[Path, ...]:
        """Return the project's folder and those that are set, resolved."""
        folder = folder.resolve()
        return (folder, *((folder / Path(each).expanduser()).resolve() for each in self.folders))


class SandboxSettings(msgspec.Struct, frozen=True):
    """How shell commands are sandboxed."""

    use: Annotated[
        SandboxUse,
        Setting(
            variable="OUTRIDER_SANDBOX",
            help='`"auto"` runs commands in a sandbox where there is one; `"require"` runs none without; `"off"`',
            consent=if_looser("require", "auto", "off", why="commands may run without a sandbox"),
        ),
    ] = "auto"
    pass_env: Annotated[
        tuple[str, ...],
        TextList("names of variables"),
        Setting(
            help="variables that commands see although they look like secrets, such as `GITHUB_TOKEN`",
            consent=if_adds("commands see these variables, which may hold keys"),
        ),
    ] = ()
    allow_hosts: Annotated[
        Hosts,
        Setting(
            help="the only hosts that commands with access `network` reach; empty for all",
            consent=if_adds_hosts("commands with access `network` reach more hosts"),
        ),
    ] = ()


class WebSettings(msgspec.Struct, frozen=True):
    """What WebFetch may fetch, and whether the model may search."""

    private_addresses: Annotated[
        bool,
        Setting(
            variable="OUTRIDER_PRIVATE_ADDRESSES",
            help="let WebFetch reach this machine and the local network",
            consent=if_on("WebFetch may reach this machine and the local network"),
        ),
    ] = False
    search: Annotated[
        WebSearchUse,
        Setting(
            variable="OUTRIDER_WEB_SEARCH",
            help='web search by the model\'s API, at its price: `"ask"` (once a session), `"on"` or `"off"`',
            consent=if_looser("off", "ask", "on", why="the model searches the web without asking you, at a price"),
        ),
    ] = "ask"


class HookSettings(msgspec.Struct, frozen=True):
    """How hooks run."""

    access: Annotated[
        Access,
        Setting(
            variable="OUTRIDER_HOOKS_ACCESS",
            help='the access of hooks in the sandbox: `"read"`, `"write"`, `"network"`; `"full"` is outside of it',
            consent=None,
            users_only=True,
        ),
    ] = "write"
    files: Annotated[
        JsonFiles,
        Setting(help="more JSON files with hooks", consent=if_adds("the programs in these files run on their own")),
    ] = ()
