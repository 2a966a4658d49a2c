"""The agent for editors of which some speak version 2: they say so when they introduce themselves."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outrider.acp.agent import EditorAgent
from outrider.acp.refusals import as_wire_error
from outrider.acp.schema.base import Meta
from outrider.acp.schema.client_requests import OfTerminal
from outrider.acp.schema.requests import (
    ClientCapabilities,
    Implementation,
    Initialized,
    ListSessions,
    NewSession,
    Nothing,
    OfSession,
    Prompt,
    SetConfigOption,
)
from outrider.acp.v2.schema import (
    DRAFT,
    Accepted,
    ConfigOptions,
    Introduced,
    Introduction,
    OfCall,
    Opened,
    Resume,
    SetOption,
)
from outrider.acp.v2.words import config_options
from outrider.acp.wire import NOT_FOUND, Method, WireError
from outrider.version import __version__

if TYPE_CHECKING:
    from outrider.acp.editor_session import EditorSession
    from outrider.acp.v2.editor_session import DraftEditorSession
    from outrider.coding.config.settings import Settings
    from outrider.tools.tool import Tool

UNSUPPORTED_VERSION = -32022
_CAPABILITIES: Meta = {
    "session": {"prompt": {"image": {}, "embeddedContext": {}}, "delete": {}, "additionalDirectories": {}},
}


class DraftAgent(EditorAgent):
    """Answers one editor, in version 2 if it offers that, else in version 1."""

    _is_draft = False
    """Whether version 2 is spoken."""
    _is_asked = False
    """Whether it was asked for anything in version 2."""

    def _requests(self) -> dict[str, Method]:
        self._methods = super()._requests()
        self._methods["initialize"] = Method(Introduction, self._introduce)
        return self._methods

    def _draft_requests(self) -> dict[str, Method]:
        methods = {
            "session/new": Method(NewSession, self._new_draft),
            "session/resume": Method(Resume, self._resume_draft),
            "session/list": Method(ListSessions, self._list),
            "session/delete": Method(OfSession, self._delete),
            "session/close": Method(OfSession, self._close_draft),
            "session/prompt": Method(Prompt, self._begin),
            "session/set_config_option": Method(SetOption, self._set_option),
            "tool_call/cancel": Method(OfCall, self._cancel_part),
            "terminal/cancel": Method(OfTerminal, self._cancel_part),
        }
        return {name: Method(method.params, self._noting(method.run)) for name, method in methods.items()}

    def _noting(self, run: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """A session that is not there is named in the error, as version 2 wants it."""

        async def noted(asked: Any) -> Any:
            self._is_asked = True
            try:
                result = run(asked)
                return await result if inspect.isawaitable(result) else result
            except WireError as error:
                if error.code == NOT_FOUND and hasattr(asked, "session_id"):
                    error.data = {"sessionId": asked.session_id}
                raise

        return noted

    # Who is there

    def _introduce(self, asked: Introduction) -> Initialized | Introduced:
        """The highest version that both speak."""
        wanted = asked.protocol_version
        if wanted < 1:
            supported = {"requested": wanted, "supported": [1, DRAFT]}
            raise WireError(UNSUPPORTED_VERSION, f"there is no version {wanted}: ask for 1 or {DRAFT}", supported)
        if self._is_draft and (wanted < DRAFT or self._is_asked):
            raise WireError.invalid_request(f"version {DRAFT} is spoken here already: initialize comes first, and once")
        if wanted < DRAFT:
            return self._initialize(asked)
        return self._introduce_draft(asked)

    def _introduce_draft(self, asked: Introduction) -> Introduced:
        if self._held:
            raise WireError.invalid_request("sessions are open in version 1: close them, and begin anew")
        self._client.introduce(ClientCapabilities(), asked.info or asked.client_info)
        self._is_draft = True
        for name in [name for name in self._methods if name != "initialize"]:
            del self._methods[name]
        self._methods.update(self._draft_requests())
        return Introduced(DRAFT, Implementation("outrider", __version__, "Outrider"), _CAPABILITIES)

    # Sessions

    async def _new_draft(self, asked: NewSession) -> Opened:
        return self._open_draft(asked, None).ready(with_id=True)

    async def _resume_draft(self, asked: Resume) -> Opened:
        cursor = asked.replay_from
        if cursor and cursor.type != "start":
            raise WireError.invalid_params(f"a replay begins at the start, not at {cursor.type!r}")
        held = self._open_draft(asked, self._id_of(asked.session_id))
        try:
            if cursor:
                await held.replay()
            else:
                held.pass_over()
        except BaseException:  # or nobody could try again
            await self._close_held(held.id)
            raise
        held.foreground.repeat()
        return held.ready(with_id=False)

    def _open_draft(self, asked: NewSession | Resume, id: str | None) -> DraftEditorSession:
        if asked.mcp_servers:
            raise WireError.invalid_params("MCP servers are not supported yet: leave mcpServers empty")
        return self._draft(self._open(asked, id))

    def _hold(self, settings: Settings, folder: Path, tools: Sequence[Tool], id: str | None) -> EditorSession:
        if not self._is_draft:
            return super()._hold(settings, folder, tools, id)
        from outrider.acp.v2.editor_session import DraftEditorSession

        return DraftEditorSession(self._client, self._log, settings, folder, tools, id)

    async def _close_draft(self, asked: OfSession) -> Nothing:
        await self._close_held(asked.session_id)
        return Nothing()

    async def _begin(self, asked: Prompt) -> Accepted:
        with as_wire_error():
            return Accepted(await self._draft(self._of(asked.session_id)).begin(asked.prompt))

    def _set_option(self, asked: SetOption) -> ConfigOptions:
        if asked.type != "id" or not isinstance(asked.value, str):
            raise WireError.invalid_params(f"the option {asked.config_id!r} takes the id of one of its values")
        changed = self._set_config_option(SetConfigOption(asked.session_id, asked.config_id, asked.value))
        return ConfigOptions(config_options(changed.config_options))

    def _cancel_part(self, asked: OfCall | OfTerminal) -> Nothing:
        self._of(asked.session_id)
        raise WireError.invalid_params("this cannot be cancelled by itself: cancel the work of the session")

    def _draft(self, held: EditorSession) -> DraftEditorSession:
        from outrider.acp.v2.editor_session import DraftEditorSession

        assert isinstance(held, DraftEditorSession)
        return held
