"""The hooks of a session. They come from its folder, run in the sandbox, and hear of questions to the user."""

from __future__ import annotations

import asyncio
from functools import cached_property

from outrider.coding.access import Access
from outrider.coding.extensions import Extensions
from outrider.coding.permissions.approver import PermissionApprover
from outrider.coding.session_tools import SessionTools
from outrider.coding.toolbox.workspace import Workspace
from outrider.runtime.hooks import NO_HOOKS, HookResult, Hooks, Notification, run_hooks


class SessionHooks:
    """The hooks for the agent of a session and its sub-agents. Close it to end what they still run."""

    def __init__(
        self,
        extensions: Extensions,
        workspace: Workspace,
        tools: SessionTools,
        permissions: PermissionApprover,
        access: Access,
    ) -> None:
        """`access` is the access level of their programs."""
        self._extensions = extensions
        self._agents_workspace = workspace
        self._tools = tools
        self._permissions = permissions
        self._access = access
        self._notifying: set[asyncio.Future[HookResult]] = set()
        self.session = ""
        """The id of the session that was opened last."""

    @cached_property
    def hooks(self) -> Hooks:
        """The hooks of the user, and those of the project that the user has agreed to."""
        if not self._extensions.hooks.hooks:
            return NO_HOOKS
        from outrider.coding.hooks.hook_runner import HookRunner  # most folders have no hooks

        shell = self._tools.shell(self._workspace, for_hooks=True)
        runner = HookRunner(shell, self._tools.environment, self._access, lambda: self._permissions.mode)
        return runner.hooks(self._extensions.hooks.hooks)

    @cached_property
    def _workspace(self) -> Workspace:
        """A workspace of their own: hooks run in the folder, wherever the shell of the agent is."""
        return self._agents_workspace.for_subagent()

    def notify(self, message: str) -> None:
        """Tell the hooks that a question waits for the person."""
        if not self.hooks.notification:
            return
        event = Notification(session=self.session, cwd=self._agents_workspace.folder, message=message)
        telling = asyncio.ensure_future(run_hooks(self.hooks.notification, event, lambda _: None))
        self._notifying.add(telling)
        telling.add_done_callback(self._notifying.discard)

    def close(self) -> None:
        if "_workspace" in vars(self):
            self._workspace.close()
