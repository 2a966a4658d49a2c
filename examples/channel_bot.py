"""A bot for a chat service: one durable session for each channel, many at once.

A message to a channel whose agent still works is delivered to the run that goes on. Sessions are in a log, so that a
restart of the bot loses nothing.
"""

import asyncio
import tempfile
from collections import defaultdict
from collections.abc import Awaitable, Callable

from outrider import Agent, Log, Session
from outrider.errors import ConversationError

Say = Callable[[str, str], Awaitable[None]]
"""Post a text to a channel."""


class Bot:
    """Holds the sessions of all channels."""

    def __init__(self, agent: Agent, log: Log, say: Say) -> None:
        self._agent, self._log, self._say = agent, log, say
        self._sessions: dict[str, Session] = {}
        self._runs: dict[str, asyncio.Task[None]] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def receive(self, channel: str, user: str, text: str) -> None:
        """Take a message of a user. Returns at once; the answer is posted later."""
        async with self._locks[channel]:  # messages of one channel are taken in order
            session = await self._session_of(channel)
            running = self._runs.get(channel)
            if running and not running.done():
                try:
                    await session.steer(f"{user}: {text}")
                    return
                except ConversationError:  # the run has not begun, or is just ending
                    await running
            self._runs[channel] = asyncio.create_task(self._answer(channel, session, f"{user}: {text}"))

    async def _answer(self, channel: str, session: Session, prompt: str) -> None:
        result = await session.run(prompt)
        await self._say(channel, result.text if result.status == "done" else f"Sorry: {result.error or result.status}")

    async def _session_of(self, channel: str) -> Session:
        if channel not in self._sessions:
            # The id of a session is the channel's: after a restart the conversation goes on.
            self._sessions[channel] = await Session.open(self._log, channel, self._agent, create=True)
        return self._sessions[channel]

    async def close(self) -> None:
        """Finish the answers under way, and release the sessions."""
        await asyncio.gather(*self._runs.values())
        for session in self._sessions.values():
            await session.aclose()


async def main() -> None:
    async def say(channel: str, text: str) -> None:
        print(f"#{channel}: {text}")

    with Log(tempfile.mkdtemp()) as log:  # use a permanent folder in your own program
        for question in ("What is 2+2?", "What is 3+3?"):  # the second time is after a restart
            bot = Bot(Agent("demo", system="Answer in the channel, briefly."), log, say)
            for channel in ("general", "random", "help"):
                await bot.receive(channel, "ann", question)
            await bot.close()
        for summary in log.sessions():
            print(summary.id, len(list(log.records(summary.id))), "entries")


asyncio.run(main())
