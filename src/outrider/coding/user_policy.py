"""The permissions of a session: the rules of the user, those that "always" has stored, and files that decide."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from outrider.coding.config.remembered import RememberedRules
from outrider.coding.config.settings import Settings
from outrider.coding.own_places import own_places
from outrider.coding.permissions.policy import Policy
from outrider.coding.permissions.question import narrower
from outrider.coding.permissions.rules import Rule
from outrider.coding.protected_paths import SECRETS
from outrider.coding.repository import repository_of
from outrider.coding.toolbox.search import ripgrep
from outrider.coding.toolbox.workspace import Workspace
from outrider.coding.wildcards import escaped
from outrider.environment import config_file, data_folder
from outrider.errors import ConfigError
from outrider.processes.programs import ENVIRONMENTS, Programs

NOWHERE = Path(os.devnull) / "elsewhere"
"""A folder that cannot exist here, in place of one that is elsewhere."""


def user_policy(
    settings: Settings, workspace: Workspace, remembered: RememberedRules | None, obeyed: Sequence[str] = ()
) -> Policy:
    """Return the user's policy, with read access to the output of commands and Outrider's own files protected.

    `obeyed` are the files and folders of programs that hooks and MCP servers run.
    """
    wanted, folder = settings.permissions, workspace.folder
    printed = Rule("Read", f"{escaped(str(workspace.temporary_path))}/**")
    kept = [Rule("Edit", escaped(str(path))) for path in protected_files(settings, folder)]
    folders = wanted.working_folders(folder)[1:]
    # Rules of the user that are locked are so, too, if they come from answers.
    is_locked = "permissions.allow" in settings.managed.locked
    answered, shared = (remembered.own, remembered.shared) if remembered and not is_locked else ((), ())
    return Policy(
        mode=narrower(wanted.mode, settings.managed.max_mode),
        max_mode=settings.managed.max_mode,
        folder=folder,
        folders=folders,
        repository=remembered.repository if remembered else repository_of(folder),
        allow=(*map(Rule.parse, (*wanted.allow, *answered)), printed),
        ask=tuple(map(Rule.parse, wanted.ask)),
        deny=(*map(Rule.parse, wanted.deny), Rule("Edit", "./.outrider/**"), *kept),
        secrets=secret_patterns(settings),
        obeyed=tuple(obeyed),
        own=own_places([folder, *folders]),
    ).allowing(shared, shared=True)


def policy_elsewhere(settings: Settings, remembered: RememberedRules) -> Policy:
    """Return the policy of a session whose files are elsewhere. No file here is inside of its folder."""
    wanted = settings.permissions
    answered = () if "permissions.allow" in settings.managed.locked else remembered.own
    return Policy(
        mode=narrower(wanted.mode, settings.managed.max_mode),
        max_mode=settings.managed.max_mode,
        folder=NOWHERE,
        allow=tuple(map(Rule.parse, (*wanted.allow, *answered))),
        ask=tuple(map(Rule.parse, wanted.ask)),
        deny=tuple(map(Rule.parse, wanted.deny)),
        secrets=secret_patterns(settings),
        own=own_places([]),
    )


def secret_patterns(settings: Settings) -> tuple[str, ...]:
    """Return the patterns of files that are never opened, shown to commands or stored in snapshots."""
    given = settings.permissions.secrets
    return SECRETS if given is None else tuple(given)


def protected_files(settings: Settings, folder: Path) -> Iterator[Path]:
    """Yield files that decide about permissions or run without approval: only the user may change them."""
    # A project may hold the environment that runs Outrider, with the sandbox itself.
    prefixes = set(map(Path, ENVIRONMENTS.values()))
    yield from sorted(each for each in prefixes if not folder.is_relative_to(each))
    yield config_file().resolve()
    yield from (config_file().parent.resolve() / name for name in ("mcp.json", "hooks.json", "plugins"))
    yield data_folder().resolve()
    yield from (Path(file).resolve() for file in (*settings.tool_files, *settings.hooks.files))
    package = Path(__file__).resolve().parents[1]
    is_bundle = (package.parent / "__main__.py").is_file()
    if is_bundle or "site-packages" in package.parts:  # in a checkout of Outrider itself, it may be changed
        yield package
    if search := ripgrep.find(Programs(settings.permissions.working_folders(folder))):
        yield search.resolve()


class SessionRules:
    """The rules of a folder here or, if there is one, of a place elsewhere, which are kept under its name."""

    def __init__(self, settings: Settings, workspace: Workspace, place: str, tell: Callable[[str], None]) -> None:
        """`tell` tells the user what was stored."""
        self._settings, self._workspace, self._place, self._tell = settings, workspace, place, tell
        self._remembered = RememberedRules(data_folder(), NOWHERE / place.strip("/") if place else workspace.folder)

    def policy(self, obeyed: Callable[[], Sequence[str]]) -> Policy:
        """Return the policy that a session begins with. `obeyed` returns what programs of hooks and servers run."""
        if self._place:
            return policy_elsewhere(self._settings, self._remembered)
        return user_policy(self._settings, self._workspace, self._remembered, obeyed())

    def remember(self, rules: Sequence[str]) -> None:
        """Store the rules of an "always", and tell the user where they are and how to remove them."""
        remembered = self._remembered
        try:
            remembered.add(rules)
            file, is_repository = remembered.path_for(rules), remembered.is_for_repository(rules)
            self._tell(_stored_sentence(rules, file, is_repository=is_repository))
        except ConfigError as error:  # such as a full disk
            self._tell(f"Not stored, allowed for this session only: {error}")


def _stored_sentence(rules: Sequence[str], file: Path, *, is_repository: bool) -> str:
    """Return which rules an "always" has stored, where, and how to remove them."""
    scope = "this repository, with its subfolders and worktrees" if is_repository else "this folder"
    undo = shlex.join(("outrider", "config", "forget", *rules))
    return (
        f"Stored for {scope}: {', '.join(rules)} (in {file}). "
        f"To undo it: {undo} (an open session keeps it until it ends)."
    )
