"""The backend of a chat page: durable sessions of many users, and their events as server-sent events for browsers.

    OUTRIDER_MODEL=demo python web_backend.py 8080
    curl -H 'X-User: ada' -d 'What is 2+2?' localhost:8080/chats/first
    curl -H 'X-User: ada' -N localhost:8080/chats/first/events

A message to a chat that works joins its run. After a restart, also after a kill, each run goes on where it was.
"""

import asyncio
import os
import sys
from pathlib import Path

from aiohttp import web

from outrider import Agent, Log, Session, tool
from outrider.errors import ConversationError
from outrider.events import Event, encode_json
from outrider.types import SessionFilter


@tool(effect="read")
def read_note(path: str) -> str:
    """Read a note."""
    return Path(path).read_text()


class Chat:
    """An open session, its run, and the browsers that watch it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.watchers: set[asyncio.Queue[Event | None]] = set()
        self.run: asyncio.Task[object] | None = None
        self._lock = asyncio.Lock()  # messages are taken in order
        session.observe(self._tell)

    def _tell(self, event: Event | None) -> None:
        for watcher in self.watchers:
            watcher.put_nowait(event)

    async def say(self, text: str) -> None:
        """Deliver a message to the run that goes on, or begin one."""
        async with self._lock:
            if self.run and not self.run.done():
                try:
                    await self.session.steer(text)
                    return
                except ConversationError:  # the run has not begun, or is just ending
                    await self.run
            self.run = asyncio.create_task(self.session.run(text))

    async def close(self) -> None:
        """Stop as a kill would, so that the next start goes on, and let the browsers go."""
        await self.session.suspend()
        self._tell(None)


class Backend:
    """Holds the chats that are in use."""

    def __init__(self, log: Log, agent: Agent) -> None:
        self._log, self._agent = log, agent
        self._chats: dict[str, Chat] = {}
        self._lock = asyncio.Lock()

    def app(self) -> web.Application:
        """Return the application, which other routes can join."""
        app = web.Application()
        app.add_routes([web.get("/chats", self.names), web.post("/chats/{name}", self.post)])
        app.add_routes([web.get("/chats/{name}/events", self.events)])
        app.on_startup.append(self._go_on)
        app.on_shutdown.append(self._stop)
        return app

    async def _go_on(self, app: web.Application) -> None:
        for each in await asyncio.to_thread(self._log.sessions, where=SessionFilter(unfinished=True)):
            chat = await self._chat(each.owner, each.metadata["name"])
            chat.run = asyncio.create_task(chat.session.run())

    async def _stop(self, app: web.Application) -> None:
        await asyncio.gather(*(chat.close() for chat in self._chats.values()))

    async def _chat(self, user: str, name: str) -> Chat:
        """Return a chat of a user. The user is a part of its id, so that nobody reaches the chats of another."""
        named = f"{user}.{name}"
        async with self._lock:
            if named not in self._chats:
                session = Session.open(self._log, named, self._agent, create=True, owner=user, metadata={"name": name})
                self._chats[named] = Chat(await session)
            return self._chats[named]

    async def names(self, request: web.Request) -> web.Response:
        found = await asyncio.to_thread(self._log.sessions, where=SessionFilter(owner=user_of(request)))
        return web.json_response([{"name": each.metadata["name"], "title": each.title} for each in found])

    async def post(self, request: web.Request) -> web.Response:
        chat = await self._chat(user_of(request), request.match_info["name"])
        await chat.say(await request.text())
        return web.Response(status=202)

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Stream the conversation so far, and then each event as it happens."""
        chat = await self._chat(user_of(request), request.match_info["name"])
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        await response.prepare(request)
        news: asyncio.Queue[Event | None] = asyncio.Queue()
        chat.watchers.add(news)
        try:
            await response.write(b"event: history\ndata: %b\n\n" % encode_json(chat.session.messages))
            while event := await news.get():
                await response.write(b"data: %b\n\n" % encode_json(event))
        finally:
            chat.watchers.discard(news)
        return response


def user_of(request: web.Request) -> str:
    """Return who asks. Use your own login here."""
    user = request.headers.get("X-User", "")
    if not user.isalnum():
        raise web.HTTPUnauthorized
    return user


if __name__ == "__main__":
    agent = Agent(os.environ.get("OUTRIDER_MODEL", "balanced"), tools=[read_note])
    web.run_app(Backend(Log("chats"), agent).app(), host="127.0.0.1", port=int(sys.argv[1]))
