"""The connection of a session to its hands: started on first use, and again when it was lost.

It lives in a thread with an event loop of its own, as a session may be used in several loops, and by threads.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Generic, NamedTuple, TypeVar, cast

from msgspec.structs import replace

from outrider.coding.hands.link import Exchange, Link, LinkLostError
from outrider.coding.hands.protocol import PREAMBLE, VERSION, Commands, CommandState, Hello, Welcome
from outrider.coding.hands.requests import Request, Setup, Stance
from outrider.coding.hands.starter import Starter
from outrider.errors import HandsError, HandsLostError
from outrider.text.visible import safe_line

START_SECONDS = 60.0
"""How long the hands may take to start. A container may have to be fetched from a slow disk."""
RECONNECT_SECONDS = 60.0
"""How long a lost connection is tried again before a call fails."""
CHECK = "check the place, and that `outrider hands` can be started there"
UNKNOWN = "whether the call did its work is unknown, and what it started has ended: check before you repeat it"
MOST_SENDS = 3
"""How often a request is sent that can be repeated: it may be what ends the hands."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 8.0
CLOSE_SECONDS = 5.0
MOST_COMMANDS = 1_000

T = TypeVar("T")


class Begun(NamedTuple, Generic[T]):
    """A request that was begun, and what will be its answer."""

    exchange: Exchange[T]
    submitted: Future[Exchange[T]]


class HandsConnection:
    """A connection that is made when it is needed. Every method is safe from any thread."""

    def __init__(
        self,
        starter: Starter,
        setup: Setup,
        stance: Callable[[], Stance],
        *,
        notice: Callable[[str], None] = lambda _: None,
        patience: float = RECONNECT_SECONDS,
    ) -> None:
        """`stance` returns the session's permissions now. `notice` is told about lost connections, in sentences."""
        self.starter = starter
        self.commands: tuple[CommandState, ...] = ()
        """The background commands, as the hands said last."""
        self.commands_at = 0.0
        """When they said so, on the monotonic clock."""
        self._setup, self._stance = setup, stance
        self._notice, self._patience = notice, patience
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._link: Link | None = None
        self._welcome: Welcome | None = None
        self._linking = asyncio.Lock()
        self._next_command = 1

    @property
    def place(self) -> str:
        """Where the hands are, for people."""
        return self.starter.describe()

    def open(self) -> Welcome:
        """Connect, unless that was done, and return what the hands said first. Blocks. Raises HandsError."""
        if self._welcome is None:
            self._submit(self._linked()).result()
        assert self._welcome
        return self._welcome

    async def ask(
        self, request: Request, kind: type[T], *, repeats: bool = True, progress: Callable[[Any], None] | None = None
    ) -> Exchange[T]:
        """Return the answer to a request, with its files. Raises as `answered` does."""
        return await self.answered(self.begin(request, kind, repeats=repeats, progress=progress))

    def begin(
        self, request: Request, kind: type[T], *, repeats: bool = True, progress: Callable[[Any], None] | None = None
    ) -> Begun[T]:
        """Send a request, after those that were begun before, and do not wait. Raises HandsError if it is closed."""
        exchange: Exchange[T] = Exchange(request, kind, progress)
        return Begun(exchange, self._submit(self._exchanged(exchange, repeats)))

    async def answered(self, begun: Begun[T]) -> Exchange[T]:
        """Return the answer to a request that was begun, with its files.

        If the connection is lost, a request that `repeats` is sent again. Cancelling lets the hands end it, and its
        answer is still returned if there is one. Raises HandsError, and HandsLostError for one that does not repeat.
        """
        future = asyncio.wrap_future(begun.submitted)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            if future.done():
                raise
            self.cancel(begun)
            return await future

    def cancel(self, begun: Begun[Any]) -> None:
        """Let the hands end a request that was begun."""
        self._call(lambda: self._cancel(begun))

    def _cancel(self, begun: Begun[Any]) -> None:
        if begun.exchange.was_sent and self._link:
            self._link.cancel(begun.exchange)
        else:
            begun.submitted.cancel()

    def ask_now(self, request: Request, kind: type[T], *, repeats: bool = True, seconds: float | None = None) -> T:
        """Return the answer to a request, from a thread without an event loop. Raises HandsError."""
        return self.exchange_now(request, kind, repeats=repeats, seconds=seconds).value

    def exchange_now(
        self, request: Request, kind: type[T], *, repeats: bool = True, seconds: float | None = None
    ) -> Exchange[T]:
        """Return the answer to a request with its files, as `ask_now` does."""
        future = self._submit(self._exchanged(Exchange(request, kind, None), repeats))
        try:
            return future.result(seconds)
        except TimeoutError:
            future.cancel()
            raise HandsError(f"the hands {self.where} did not answer in time") from None

    def send(self, request: Request) -> None:
        """Send a request whose answer nobody needs, if there is a connection."""
        self._call(lambda: self._link and self._link.is_alive and asyncio.ensure_future(self._sent(request)))

    async def _sent(self, request: Request) -> None:
        with suppress(HandsError, LinkLostError):
            if self._link:
                await self._link.exchange(Exchange(request, type(None), None))

    @property
    def where(self) -> str:
        """Where the hands are, to go on a sentence."""
        return f"in {safe_line(self.place)}"

    def close(self) -> None:
        """End the hands, with everything that they run."""
        with self._lock:
            was_open, self._is_closed = not self._is_closed and self._loop is not None, True
        if was_open and self._loop and self._thread:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(CLOSE_SECONDS)

    # In the event loop of the connection

    async def _exchanged(self, exchange: Exchange[T], repeats: bool) -> Exchange[T]:
        sent = 0
        while True:
            link = await self._linked()
            link.use_stance(self._stance())
            try:
                return await link.exchange(exchange)
            except LinkLostError as error:
                sent += exchange.was_sent
                if sent >= (MOST_SENDS if repeats else 1):
                    lost = f"the connection to the hands {self.where} was lost: {error}"
                    raise (
                        HandsError(f"{lost}; try again") if repeats else HandsLostError(f"{lost}; {UNKNOWN}")
                    ) from None
                exchange.reset()

    async def _linked(self) -> Link:
        """Return the connection, made anew if it was lost. Raises HandsError once its time is over."""
        async with self._linking:
            if self._link and self._link.is_alive:
                return self._link
            if self._is_closed:
                raise self._closed()
            if self._link:
                await self._link.close()
                self._link = None
                # They end with their hands.
                self.commands = tuple(replace(each, running=False) for each in self.commands)
            began, pause = time.monotonic(), _FIRST_PAUSE
            while True:
                try:
                    self._link = await self._connected()
                    return self._link
                except (HandsError, OSError) as error:
                    # The first start is not tried again: a wrong name stays wrong.
                    is_late = time.monotonic() - began + pause > self._patience
                    if self._welcome is None or is_late:
                        raise HandsError(
                            f"the hands {self.where} cannot be reached: {_reason(error)}; {CHECK}"
                        ) from None
                if pause == _FIRST_PAUSE:
                    self._notice(f"The connection to the hands {self.where} was lost; trying again …")
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    async def _connected(self) -> Link:
        streams = await self.starter.start()
        try:
            async with asyncio.timeout(START_SECONDS):
                await _skip_banner(streams.reader)
                hello = Hello(VERSION, self._setup, stance := self._stance(), self._next_command)
                link = Link(streams, stance, self._use_commands)
                welcome = await link.greet(hello)
        except TimeoutError:
            await streams.close()
            raise HandsError(f"they did not answer within {START_SECONDS:g} seconds") from None
        except BaseException as error:
            await streams.close()
            if isinstance(error, HandsError) and (said := streams.said()):
                raise HandsError(f"{error} ({said})") from None
            raise
        if self._welcome and welcome.folder != self._welcome.folder:
            await streams.close()
            raise HandsError(f"the folder is {safe_line(welcome.folder)} now, and was {self._welcome.folder}")
        self._welcome = welcome
        return link

    def _use_commands(self, said: Commands) -> None:
        self.commands, self.commands_at = said.commands[-MOST_COMMANDS:], time.monotonic()
        self._next_command = 1 + max((each.number for each in said.commands), default=self._next_command - 1)

    async def _end(self) -> None:
        """End what waits, and the connection, also one that was made at the last moment."""
        if self._link:
            await self._link.close()  # which tells what waits why it ends
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=CLOSE_SECONDS)

    def _closed(self) -> HandsError:
        return HandsError(f"the hands {self.where} were closed")

    # From other threads

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        with self._lock:
            if self._is_closed:
                work.close()
                raise self._closed()
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._serve, name="outrider-hands", daemon=True)
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _call(self, function: Callable[[], object]) -> None:
        with self._lock, suppress(RuntimeError):
            if self._loop and not self._is_closed:
                self._loop.call_soon_threadsafe(function)

    def _serve(self) -> None:
        loop = cast(asyncio.AbstractEventLoop, self._loop)
        try:
            loop.run_forever()
        finally:
            loop.run_until_complete(self._end())
            loop.close()


async def _skip_banner(reader: asyncio.StreamReader) -> None:
    """Read up to the first bytes of the hands. Raises HandsError if they do not come."""
    try:
        await reader.readuntil(PREAMBLE)
    except asyncio.LimitOverrunError:  # the limit of a stream, 64 kB
        raise HandsError("they said too much before the first line of `outrider hands`") from None
    except asyncio.IncompleteReadError as end:
        heard = safe_line(end.partial[-300:].decode(errors="replace"))
        raise HandsError(f"they ended at once{f', and said: {heard}' if heard else ''}") from None


def _reason(error: HandsError | OSError) -> str:
    return str(error) if isinstance(error, HandsError) else error.strerror or str(error)
