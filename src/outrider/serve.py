"""The server of sessions as an ASGI app, for FastAPI, Starlette and others: `app(log, agent, owner=…)`.

The app has the routes of `outrider serve`: sessions below `/api/v1`, AG-UI at `/ag-ui/run`, and the document of all at
`/openapi.json`. Each session belongs to an owner, and no owner sees another's.
"""

from __future__ import annotations

from outrider.log.log import Log
from outrider.tools.approval import Approver
from outrider.web.asgi import App as App
from outrider.web.asgi import Owner as Owner
from outrider.web.opener import AgentOf as AgentOf
from outrider.web.opener import AgentOpener, CodingOpener
from outrider.web.owners import ServerLimits as ServerLimits
from outrider.web.server import Server

__all__ = ["AgentOf", "App", "Owner", "ServerLimits", "app"]


def app(
    log: Log,
    agent: AgentOf | None,
    *,
    owner: Owner,
    approve: Approver | None = None,
    limits: ServerLimits | None = None,
) -> App:
    """Return an ASGI app that serves the sessions of a log.

    `agent` answers in all sessions: an Agent, or a function that returns that of an owner. None is the coding agent, in
    the folder that a new session names: for owners that may run commands here. `owner` takes the ASGI scope and returns
    who sends the request, from your own login; "" refuses it. `approve` decides about calls, as in `Session.open`: a
    `Defer` becomes a question that the owner answers. `limits` hold for each owner.

    Sessions that were killed or suspended go on when the app starts.
    """
    opener = CodingOpener(log) if agent is None else AgentOpener(log, agent, approve)
    return App(Server(log, opener, limits or ServerLimits(), is_shared=True), owner)
