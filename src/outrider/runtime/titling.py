"""The title of a session, made from its first exchange in the background: a part of `Session` in its own file."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from outrider.conversation.messages import Message
from outrider.conversation.store import MemoryStore
from outrider.conversation.usage import Usage
from outrider.conversation.user_messages import first_text
from outrider.errors import BudgetError, LogError, ProviderError
from outrider.log.entries import TitleEntry
from outrider.prompts import prompt as prompt_text
from outrider.providers.base import ModelSettings, Provider, Request
from outrider.providers.catalogue.efforts import levels_for
from outrider.runtime.events import Event, MessageAdded, RunFinished
from outrider.runtime.receiver import Receiver
from outrider.runtime.retry import Retry
from outrider.text import clean

if TYPE_CHECKING:
    from outrider.runtime.session import Session

SECONDS = 30.0
"""How long a request for a title may take."""
LONGEST_TITLE = 80
_SENT_CHARACTERS = 2_000
"""How much of each text is sent."""
_MOST_TOKENS = 1_000
"""The longest reply: some models think before they answer."""
_DECORATION = " \t\"'`*_#“”„«».…"


class Titler:
    """Observes a new session, and asks a model for its title when the first answer is there. A failure changes nothing.

    `model_of` returns the model that writes the title, or None if none should: then the session keeps the beginning of
    its first prompt. A title that a person has set is never replaced.
    """

    def __init__(self, session: Session, model_of: Callable[[Provider], Provider | None]) -> None:
        self._session = session
        self._model_of = model_of
        self._prompt = ""
        self._task: asyncio.Task[None] | None = None
        self._is_done = session.history.last is not None
        """Whether no title is to be made any more: an older session has the one that it had."""

    def __call__(self, event: Event) -> None:
        """Start making the title after the first answer. It delays nothing."""
        if self._is_done:
            return
        if isinstance(event, MessageAdded) and event.message.role == "user" and not self._prompt:
            self._prompt = first_text(event.message).strip()
        if isinstance(event, RunFinished) and event.text.strip():
            self._is_done = True
            with suppress(RuntimeError):  # the event loop has ended
                self._task = asyncio.get_running_loop().create_task(self._make(event.text.strip()))

    def close(self) -> None:
        """Stop making the title."""
        self._is_done = True
        if task := self._task:
            with suppress(RuntimeError):  # the event loop has ended
                task.get_loop().call_soon_threadsafe(task.cancel)

    async def _make(self, answer: str) -> None:
        record = self._session._record
        provider = self._model_of(self._session.provider)
        if provider is None or not self._prompt or record.state.settings.title is not None:
            return
        with suppress(BudgetError, ProviderError, LogError, TimeoutError):
            await self._session._loop.model.admit()
            text, usage = await self._ask(provider, answer)
            await record.append(TitleEntry(as_title(text), usage, provider.name))

    async def _ask(self, provider: Provider, answer: str) -> tuple[str, Usage]:
        texts = {"user": self._prompt[:_SENT_CHARACTERS], "answer": answer[:_SENT_CHARACTERS]}
        levels = levels_for(provider)
        settings = ModelSettings(effort=levels[0] if levels else None, max_tokens=_MOST_TOKENS)
        request = Request((Message.user(prompt_text("title").format(**texts)),), MemoryStore(), settings=settings)
        receiver = Receiver(provider, lambda event: None, Retry(seconds=0), self._session._record.append)
        async with asyncio.timeout(SECONDS):
            reply = await receiver.receive(request)
        return reply.message.text, reply.usage


def as_title(text: str) -> str:
    """Return a model's answer as a title, or "" if it is none.

    >>> as_title('**"Fix the login test."**'), as_title("Sure! Here is what I think: " + "word " * 50)
    ('Fix the login test', '')
    """
    lines = [line.strip(_DECORATION) for line in clean(text).splitlines()]
    line = next(filter(None, lines), "")
    line = " ".join(
        re.sub(
            r"[^\w\s]", lambda found: found[0] if found[0].isprintable() else "", line.removeprefix("Title:")
        ).split()
    )
    return line if len(line) <= LONGEST_TITLE else ""
