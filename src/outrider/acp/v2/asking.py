"""A permission question in version 2: what is asked stands beside the call that it is about."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from outrider.acp.asking import EditorAsker, options_of
from outrider.acp.client import Client
from outrider.acp.schema.client_requests import Permission
from outrider.acp.updates.engine import Engine
from outrider.acp.updates.state import CallState
from outrider.acp.v1 import ReadFile
from outrider.acp.v2.schema import CallFields, CallSubject, CommandSubject, RequestPermission
from outrider.acp.v2.state import Foreground
from outrider.coding.permissions.question import Question


class DraftAsker(EditorAsker):
    """Asks the person through the editor. An Ask."""

    def __init__(
        self,
        client: Client,
        session: Callable[[], str],
        engine: Callable[[], Engine],
        folder: Path,
        read: ReadFile,
        shown_id: Callable[[str], str],
        foreground: Callable[[], Foreground],
        cwd: Callable[[], Path],
    ) -> None:
        super().__init__(client, session, engine, folder, read, shown_id)
        self._foreground = foreground
        self._cwd = cwd
        """Where commands are run."""

    async def _permission(self, call: CallState, question: Question) -> Permission:
        request = RequestPermission(
            self._session(),
            f"Allow {call.title}?",
            question.reason,
            self._subject(call, question),
            options_of(question),
        )
        with self._foreground().asking(for_subagent=bool(question.asker)):
            return await self._client.connection.request("session/request_permission", request, Permission)

    def _subject(self, call: CallState, question: Question) -> CallSubject | CommandSubject:
        """A command of the agent's own as such; else the call, of which the editor knows everything already."""
        command = question.input.get("command")
        if question.tool == "Bash" and isinstance(command, str) and not question.asker:
            return CommandSubject(command, str(self._cwd()), call.id)
        return CallSubject(CallFields(tool_call_id=call.id))
