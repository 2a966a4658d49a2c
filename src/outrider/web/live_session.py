"""One session that works in this process: what is said to it, and what happens in it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from outrider.coding.permissions.question import Mode
from outrider.errors import ConversationError, OutriderError
from outrider.providers.debugging import logger
from outrider.runtime.events import (
    Event,
    MessageAdded,
    ReplyDiscarded,
    RunFinished,
    SteeringQueued,
    TurnStarted,
    encode_json,
)
from outrider.runtime.goal import goal_message
from outrider.web.opener import SERVE, Opened

Json = dict[str, Any]
_STEPS = (TurnStarted, MessageAdded, ReplyDiscarded, RunFinished)
PLACE = "on the web page"
"""Where an answer was given, as the terminal and the editor say it."""
MOST_UNREAD = 10_000
"""Events that may wait for a watcher. Then it is dropped, and reads the log."""


class Message:
    """What was said, until it is in the log."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(self, error: Exception | None = None) -> None:
        """Tell the sender that it is stored, or why it is not."""
        if self.stored.done():
            return
        if error is None:
            self.stored.set_result(None)
        else:
            self.stored.set_exception(error)
            self.stored.exception()  # the sender may be gone


class LiveSession:
    """A session that works until nothing more was said to it."""

    def __init__(self, opened: Opened, front: ServerFront, owner: str, last: int = 0) -> None:
        """`last` is the newest entry of the session."""
        self._opened = opened
        self.owner = owner
        self._entry = last
        """The newest entry that observers know."""
        self.session = opened.session
        self._said: deque[Message] = deque()
        self._beginning: Message | None = None
        self._has_more = asyncio.Event()
        self._passing_on = asyncio.Lock()
        self._recent: list[Event] = []
        """The events of the step that goes on, which the log does not have yet."""
        self._watchers: set[asyncio.Queue[Event | None]] = set()
        self.task: asyncio.Task[None] | None = None
        front.live = self
        self.session.observe(self._observe)
        self.on_end: Callable[[], object] = lambda: None
        """Called whenever it has nothing more to do. What is said afterwards lets it work again."""

    @property
    def has_ended(self) -> bool:
        """Whether it works no more."""
        return self.task is None or self.task.done()

    @property
    def has_dialogue(self) -> bool:
        """Whether a run waits for the answer to a question. Without a dialogue it ends, and goes on later."""
        return self._opened.bench is not None

    def say(self, text: str, mode: Mode | None = None) -> asyncio.Future[None]:
        """Send a message: the run that goes on takes it, or another one follows. The future ends when it is stored."""
        message = Message(text)
        self._said.append(message)
        self._has_more.set()
        if self.has_ended:
            if mode:
                self.use_mode(mode)
            self.task = asyncio.get_running_loop().create_task(self._work())
            self.task.add_done_callback(lambda _: self.on_end())
        return message.stored

    def set_goal(self, command: str) -> asyncio.Future[None] | None:
        """Set the goal, and let the session work for it; "" ends it. The future ends when the message is stored."""
        if not self._opened.bench:
            raise ConversationError("a goal is a command, which only sessions of the coding agent run")
        self.session.set_goal(command)
        return self.say(goal_message(command)) if command else None

    def stop(self) -> None:
        for message in self._said:
            message.end(ConversationError("the session was stopped before it took the message"))
        self._said.clear()
        self.session.cancel()

    async def leave(self) -> None:
        """End because the server does: what the API has begun goes on later, what the page has begun is cancelled."""
        if self._opened.origin == SERVE:
            self.session.freeze()
        elif self._opened.bench:
            self._opened.bench.keep_question(self.session)
        self.stop()
        if self.task:
            await asyncio.wait([self.task])

    def use_mode(self, mode: Mode) -> None:
        if self._opened.bench:
            self._opened.bench.use_mode(mode, self.session)

    async def close(self) -> None:
        """Release the session, so that other programs can open it."""
        await self._opened.aclose()
        for watcher in self._watchers:
            watcher.put_nowait(None)

    # Runs

    async def _work(self) -> None:
        while self._said:
            self._beginning = message = self._said.popleft()
            steering = asyncio.ensure_future(self._steer())
            try:
                await self.session.run(message.text)
                message.end()
            except OutriderError as error:
                logger.debug("a run on the server failed", exc_info=True)
                message.end(error)
            finally:
                message.end(ConversationError("the run ended before it took the message"))
                async with self._passing_on:  # what is being passed on is not lost
                    steering.cancel()

    async def _steer(self) -> None:
        """Pass on what is said while a run goes on. What comes too late begins the next run."""
        while True:
            self._has_more.clear()
            await self._has_more.wait()
            async with self._passing_on:
                await self._pass_on()

    async def _pass_on(self) -> None:
        while self._said:
            message = self._said.popleft()
            try:
                await self.session.steer(message.text)
                message.end()
            except ConversationError:
                self._said.appendleft(message)
                break
            except OutriderError as error:  # such as a hook that blocks it
                message.end(error)

    # Events

    def _observe(self, event: Event) -> None:
        if self._beginning and isinstance(event, MessageAdded | SteeringQueued):
            self._beginning.end()
            self._beginning = None
        self._entry = getattr(event, "entry", None) or self._entry
        if isinstance(event, _STEPS):
            self._recent.clear()
        else:
            self._recent.append(event)
        for watcher in list(self._watchers):
            try:
                watcher.put_nowait(event)
            except asyncio.QueueFull:
                self._watchers.discard(watcher)

    def events(self) -> AsyncIterator[Json]:
        """Watch from now on: the session, the events of the step that goes on, and then each until it is closed."""
        queue: asyncio.Queue[Event | None] = asyncio.Queue(MOST_UNREAD)
        for event in self._recent[-MOST_UNREAD // 2 :]:
            queue.put_nowait(event)
        self._watchers.add(queue)
        return self._watched(queue, {"type": "session", "session": self.session.id, "entry": self._entry})

    async def _watched(self, queue: asyncio.Queue[Event | None], first: Json) -> AsyncIterator[Json]:
        try:
            yield first
            while queue in self._watchers or not queue.empty():
                if (event := await queue.get()) is None:
                    return
                yield plain(event)
        finally:
            self._watchers.discard(queue)


def plain(event: Event) -> Json:
    found: Json = msgspec.json.decode(encode_json(event))
    return found


class ServerFront:
    """The front end of a session on a server: it has no dialogue of its own, the inbox asks. Implements `Front`."""

    place = PLACE

    def __init__(self) -> None:
        self.live: LiveSession | None = None

    def answered(self, text: str) -> None:
        """The page shows answers as it shows those of all sessions."""

    def use_mode(self, mode: Mode) -> None:
        if self.live:
            self.live.use_mode(mode)

    async def say(self, text: str) -> None:
        """Send a message of another process."""
        if self.live:
            await self.live.say(text)
            if self.live.task:
                await asyncio.wait([self.live.task])

    def stop(self) -> None:
        if self.live:
            self.live.stop()
