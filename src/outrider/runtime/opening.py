"""Opening something in a thread, with `async with`, `await` or `with`: `Session.open` returns it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar


class Closable(Protocol):
    """What is opened here can be closed, with and without a loop."""

    def close(self) -> None:
        """Close it, blocking."""
        ...

    async def aclose(self) -> None:
        """Close it without blocking the loop."""
        ...


SessionT = TypeVar("SessionT", bound=Closable)


class SessionOpening(Generic[SessionT]):
    """A session that is about to be opened. `async with` and `await` open it in a thread, so the loop is not blocked.

    In sync code use `with`, or `now()`.
    """

    def __init__(self, open_session: Callable[[], SessionT]) -> None:
        self._open_session = open_session
        self._session: SessionT | None = None

    if not TYPE_CHECKING:  # a type checker names the mistake itself

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"the session is not open yet, so it has no {name!r}: use `async with Session.open(…) as session:`, "
                "or in sync code Session.open(…).now()"
            )

    def now(self) -> SessionT:
        """Open the session and return it. Blocks for some milliseconds."""
        return self._open_session()

    def __await__(self) -> Generator[Any, None, SessionT]:
        return self._opened().__await__()

    async def _opened(self) -> SessionT:
        opening = asyncio.ensure_future(asyncio.to_thread(self._open_session))
        try:
            await asyncio.wait([opening])  # on Python 3.14 a shield logs an abandoned error
            return opening.result()
        except asyncio.CancelledError:
            opening.add_done_callback(_close_unwanted)
            raise

    async def __aenter__(self) -> SessionT:
        self._session = await self._opened()
        return self._session

    async def __aexit__(self, *_: object) -> None:
        assert self._session is not None  # __aenter__ has opened it
        await self._session.aclose()

    def __enter__(self) -> SessionT:
        self._session = self.now()
        return self._session

    def __exit__(self, *_: object) -> None:
        assert self._session is not None  # __enter__ has opened it
        self._session.close()


def _close_unwanted(opening: asyncio.Future[SessionT]) -> None:
    """Close a session whose opener was cancelled."""
    if not opening.cancelled() and not opening.exception():
        opening.result().close()
