"""The rules of a session: those of the settings, and those that "always" has stored for its project."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from outrider.coding import sentences
from outrider.coding.config.remembered import RememberedRules
from outrider.coding.config.settings import Settings
from outrider.coding.permissions.policy import Policy
from outrider.coding.toolbox.workspace import Workspace
from outrider.coding.user_policy import NOWHERE, policy_elsewhere, user_policy
from outrider.environment import data_folder
from outrider.errors import ConfigError


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
            self._tell(sentences.stored_rules(rules, file, is_repository=is_repository))
        except ConfigError as error:  # such as a full disk
            self._tell(f"Not stored, allowed for this session only: {error}")
