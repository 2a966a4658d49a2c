"""An editor on the official Python SDK, which offers the agent nothing of its own unless told so."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from acp.schema import AllowedOutcome, ClientCapabilities, Implementation, RequestPermissionResponse

import acp
from tests.interop.driving import PLAY, Json


def plain(model: Any) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


class Editor(acp.Client):
    """One connection: what it was told, by session, and how it answers questions."""

    connection: Any
    introduced: Json

    def __init__(self) -> None:
        self.told: dict[str, list[Json]] = {}
        self.permissions: list[Json] = []
        self.answer = "allow_once"
        self.forms: list[Json] = []
        self.form: Json = {"action": "decline"}
        self.watch: Callable[[Json], object] = lambda update: None

    # What the agent says

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.told.setdefault(session_id, []).append(plain(update))
        self.watch(plain(update))

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **_: Any) -> Any:
        self.permissions.append({"toolCall": plain(tool_call), "options": [plain(option) for option in options]})
        option = next(option for option in options if option.kind == self.answer)
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=option.option_id))

    async def create_elicitation(self, message: str, mode: Any, **_: Any) -> Any:
        self.forms.append({"message": message, **plain(mode)})
        return self.form

    def on_connect(self, conn: Any) -> None:
        pass

    # What it asks

    async def open(self, folder: str, servers: Any = (), **meta: Any) -> Json:
        return plain(await self.connection.new_session(cwd=folder, mcp_servers=list(servers), **meta))  # type: ignore[no-any-return]

    async def load(self, session: str, folder: str, **meta: Any) -> Json:
        return plain(await self.connection.load_session(cwd=folder, session_id=session, **meta))  # type: ignore[no-any-return]

    async def fork(self, session: str, folder: str, **meta: Any) -> str:
        return (await self.connection.fork_session(session_id=session, cwd=folder, **meta)).session_id  # type: ignore[no-any-return]

    async def configure(self, session: str, option: str, value: str) -> list[Json]:
        """Set an option; all of them as they are then."""
        changed = await self.connection.set_config_option(config_id=option, session_id=session, value=value)
        return plain(changed)["configOptions"]  # type: ignore[no-any-return]

    async def prompt(self, session: str, *blocks: Any) -> Json:
        """A turn: what was told from the prompt to its end, and how it ended."""
        before = len(self.told.get(session, []))
        said = [acp.text_block(block) if isinstance(block, str) else block for block in blocks]
        ended = await self.connection.prompt(session_id=session, prompt=said)
        return {"stop": ended.stop_reason, "updates": self.told[session][before:]}


@asynccontextmanager
async def connected(**capabilities: Any) -> AsyncIterator[Editor]:
    """An editor while its agent runs."""
    editor = Editor()
    options = {"stderr": None, "limit": 16 * 1024 * 1024}
    agent = acp.spawn_agent_process(
        editor, *PLAY["agent"], env=dict(os.environ), transport_kwargs=options, use_unstable_protocol=True
    )
    async with agent as (editor.connection, _):
        offered = ClientCapabilities.model_validate(capabilities)
        info = Implementation(name="interop", version="1")
        editor.introduced = plain(await editor.connection.initialize(acp.PROTOCOL_VERSION, offered, info))
        yield editor
