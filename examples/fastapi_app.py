"""Agents for the users of a FastAPI app: each has sessions of their own, which survive a restart and a kill.

    OUTRIDER_MODEL=demo uvicorn fastapi_app:web --port 8080
    curl -H 'Authorization: Bearer ada-secret' -H 'Content-Type: application/json' \\
        -d '{"text": "What is 2+2?"}' localhost:8080/agent/api/v1/sessions
    curl -H 'Authorization: Bearer ada-secret' -N localhost:8080/agent/api/v1/sessions/ID/events

The routes are described at /agent/openapi.json. After a restart, each run goes on where it was.
"""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI

from outrider import Agent, Log, tool
from outrider.serve import ServerLimits, app

USERS = dict(each.split("=") for each in os.environ.get("SHOP_USERS", "ada-secret=ada grace-secret=grace").split())
"""The user of each token. Use your own login here."""


@tool(effect="read")
def opening_hours(day: str) -> str:
    """Return the opening hours of the shop on a day of the week."""
    return "closed" if day.lower() == "sunday" else "9 to 18 h"


def owner(scope: Any) -> str:
    """Return who sends a request; "" refuses it."""
    header = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
    return USERS.get(header.removeprefix("Bearer "), "")


log = Log(os.environ.get("SHOP_LOG", "sessions"))
agent = Agent(os.environ.get("OUTRIDER_MODEL", "balanced"), system="You help in a shop.", tools=[opening_hours])
sessions = app(log, agent, owner=owner, limits=ServerLimits(sessions=5, prompts=30))


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncGenerator[None, None]:
    await sessions.start()  # runs that were cut go on
    yield
    await sessions.close()
    log.close()


web = FastAPI(lifespan=lifespan)
web.mount("/agent", sessions)
