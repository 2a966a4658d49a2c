"""What the adapters to model APIs share: a key, a URL, retries, and errors that say what to do."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import aclosing
from functools import cached_property
from typing import Any, ClassVar
from urllib.parse import urlsplit

import msgspec

from outrider.errors import (
    AuthenticationError,
    ProviderError,
    RateLimitedError,
    RequestRefusedError,
    UnavailableError,
)
from outrider.events import Delta, Notice
from outrider.messages import Message, files_in
from outrider.provider import Reply, Request, StopReason
from outrider.providers.capabilities import Capabilities, capabilities_of
from outrider.providers.debugging import logger
from outrider.providers.prices import with_cost
from outrider.providers.render import Renderer
from outrider.providers.secrets import masked
from outrider.providers.stream import Incoming, ReplyParser, joined
from outrider.providers.transcript import Rendering, Transcript
from outrider.providers.transport import Refusal, Timeouts, Transport, retry_delay

LONGEST_WAIT = 120.0
"""Seconds that a server may ask to wait before the request is given up instead."""


class ApiProvider(ABC):
    """A model behind an HTTP API that streams server-sent events. Adapters fill in the abstract methods."""

    prefix: ClassVar[str]
    """The part of a model's name before the slash."""
    label: ClassVar[str]
    """What to call the API when speaking to a person."""
    key_variables: ClassVar[tuple[str, ...]]
    base_variable: ClassVar[str]
    default_base: ClassVar[str]
    key_required: ClassVar[bool] = True

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        capabilities: Capabilities | None = None,
        options: Mapping[str, Any] | None = None,
        timeouts: Timeouts | None = None,
        retries: int = 4,
    ) -> None:
        self.model = model
        self.name = f"{self.prefix}/{model}"
        self.capabilities = capabilities or capabilities_of(self.prefix, model)
        self.base_url = (base_url or os.environ.get(self.base_variable) or self.default_base).rstrip("/")
        """Where the API is."""
        self._api_key = api_key
        self._options = dict(options or {})
        """Fields of the request that the user sets, over ours."""
        self._retries = retries
        self._transport = Transport(timeouts)

    # What an adapter knows

    @abstractmethod
    def url(self) -> str:
        """Where a request goes."""

    @abstractmethod
    def headers(self, key: str) -> dict[str, str]:
        """The headers of a request, the key among them."""

    @abstractmethod
    def items(self, message: Message, previous: Message | None, renderer: Renderer) -> Iterable[Any]:
        """A message as the API's items. Pure: the same message always gives the same."""

    @abstractmethod
    def body(self, request: Request, transcript: Transcript) -> bytes:
        """The whole request around the rendered messages."""

    @abstractmethod
    def incoming(self, tools: Collection[str] = ()) -> Incoming:
        """What makes a reply of the events of an answer. `tools` are the names that the model may call."""

    # What they share

    @property
    def host(self) -> str:
        """The host of the base URL; empty if it is no URL, which the request will say."""
        try:
            return urlsplit(self.base_url).hostname or ""
        except ValueError:
            return ""

    @cached_property
    def _memory_key(self) -> str:
        """Under which name rendered messages are kept: whatever makes a difference to their bytes is part of it."""
        return f"{self.name} {self.base_url} {hash(self.capabilities)}"

    @property
    def key(self) -> str:
        """The key that was given, or that of the environment; empty if there is none."""
        found = self._api_key or next(filter(None, map(os.environ.get, self.key_variables)), "")
        return found.strip()  # a key that was read from a file ends with a line feed

    def render(self, request: Request) -> bytes:
        """The exact body that would be sent. Needs no key. If it were too large, the oldest files are left out."""
        rendering: Rendering = request.memory.setdefault(self._memory_key, Rendering())
        can = self.capabilities
        body = self._assembled(request, rendering)
        images = rendering.images(request.messages)
        while len(body) > can.request_bytes or images > can.images:
            # Down to half of what fits: the beginning changes, which costs the cache, and should do so seldom.
            surplus = len(body) - can.request_bytes // 2, images - can.images // 2
            if not rendering.leave_out(request.messages, *surplus):
                raise RequestRefusedError(
                    f"the request has {len(body):,} bytes and {self.label} takes {can.request_bytes:,}; "
                    "begin a new conversation with what matters of this one"
                )
            body = self._assembled(request, rendering)
            images = rendering.images(request.messages)
        return body

    def _assembled(self, request: Request, rendering: Rendering) -> bytes:
        renderer = Renderer(self.capabilities, request.store, rendering.left_out)

        def fragment(message: Message, previous: Message | None) -> bytes:
            before = renderer.images
            rendered = b",".join(map(msgspec.json.encode, self.items(message, previous, renderer)))
            if renderer.images > before:
                rendering.pictures[id(message)] = renderer.images - before
            return rendered

        rendering.transcript.update(request.messages, fragment)
        rendering.notices += renderer.notices
        return self.body(request, rendering.transcript)

    def tools_once(self, request: Request, describe: Callable[[Request], Iterable[Any]]) -> msgspec.Raw:
        """The tools as this API describes them, encoded once a session: there may be many, and they stay the same."""
        place = f"{self._memory_key} tools"
        known: tuple[Any, msgspec.Raw] | None = request.memory.get(place)
        if known is None or known[0] is not request.tools:
            known = request.tools, msgspec.Raw(msgspec.json.encode(list(describe(request))))
            request.memory[place] = known
        return known[1]

    async def stream(self, request: Request) -> AsyncIterator[Delta | Notice | Reply]:
        """Ask the model once, and again after a passing fault as long as nothing was shown."""
        key = self._required_key()
        body = await self._rendered(request)
        rendering: Rendering = request.memory[self._memory_key]
        while rendering.notices:
            yield Notice(rendering.notices.pop(0))
        names = {tool.name for tool in request.tools}
        for attempt in itertools.count(1):
            logger.debug("%s: request of %d bytes to %s, attempt %d", self.name, len(body), self.host, attempt)
            parser = ReplyParser(self.incoming(names), self.label)
            shown = False
            try:
                async with aclosing(self._answer(key, body)) as chunks:  # type: ignore[type-var]
                    async for chunk in chunks:
                        for item in joined(parser.feed(chunk)):
                            shown = True
                            yield self._ended(item, request) if isinstance(item, Reply) else item
                        if parser.ended:
                            return
                rest = parser.finish()
            except ProviderError as error:
                _guard(error, key)
                logger.debug("%s: %s: %s (status %s)", self.name, type(error).__name__, error, error.status)
                delay = None if shown else self._delay(error, attempt)
                if not parser.complete and delay is None:
                    _advise(error, attempt)
                    raise
                if not parser.complete:
                    yield Notice(f"{error}; trying again in {delay:.1f} s")
                    await asyncio.sleep(delay or 0)
                    continue
                rest = parser.finish()  # what failed came after the reply
            for item in rest:
                yield self._ended(item, request) if isinstance(item, Reply) else item
            return

    def _answer(self, key: str, body: bytes) -> AsyncIterator[bytes]:
        """The bytes of the API's answer."""
        return self._transport.post(self.url(), self.headers(key), body, lambda refusal: self.explain(refusal, key))

    def _ended(self, reply: Reply, request: Request) -> Reply:
        """The reply with what it costs. If it is an answer, a person speaks next, and the rendered bytes may rest."""
        has_real_calls = self.capabilities.tools or not request.tools  # else they are still words here
        if has_real_calls and not reply.message.tool_calls and reply.stop_reason is not StopReason.PAUSE:
            rendering: Rendering = request.memory[self._memory_key]
            rendering.rest()
        return msgspec.structs.replace(reply, usage=with_cost(self.prefix, self.model, reply.usage))

    async def _rendered(self, request: Request) -> bytes:
        """The body; files are read, encoded and scaled beside the event loop."""
        new = request.messages[-2:] if self._memory_key in request.memory else request.messages
        if not any(map(files_in, new)):
            return self.render(request)
        # On a copy: if whoever waits is cancelled, the thread goes on, and must not meet the session's next request.
        kept: Rendering = request.memory.get(self._memory_key) or Rendering()
        own = {**request.memory, self._memory_key: kept.copy()}
        body = await asyncio.to_thread(self.render, msgspec.structs.replace(request, memory=own))
        request.memory.update(own)
        return body

    def _required_key(self) -> str:
        variable, key = next(iter(self.key_variables), "api_key"), self.key
        if not key and self.key_required:
            raise AuthenticationError(f"there is no key for {self.label}; set {variable}, or pass api_key=")
        if not key.isascii() or not key.isprintable():
            raise AuthenticationError(f"the key for {self.label} has characters that no key has; check {variable}")
        return key

    def _delay(self, error: ProviderError, attempt: int) -> float | None:
        """Seconds until the next attempt; None if there is to be none."""
        if not error.retryable or attempt > self._retries:
            return None
        if error.retry_after is not None:
            return error.retry_after if error.retry_after <= LONGEST_WAIT else None
        from random import uniform  # what nobody needs before something fails

        return min(30.0, 0.5 * 2.0 ** (attempt - 1)) * uniform(0.75, 1.25)

    def explain(self, refusal: Refusal, key: str) -> ProviderError:
        """The error that an answer other than the expected one stands for."""
        kind, sentence = self._verdict(refusal.status, masked(_message_of(refusal), key))
        if _has_no_quota(refusal):
            said = masked(_message_of(refusal), key)
            sentence = f"there is no quota left with {self.label} for this key ({said}); check the plan and its billing"
        return kind(
            sentence,
            status=refusal.status,
            request_id=refusal.headers.get("request-id") or refusal.headers.get("x-request-id") or "",
            retryable=_is_retryable(refusal),
            retry_after=retry_delay(refusal.headers, time.time),
        )

    def _verdict(self, status: int, said: str) -> tuple[type[ProviderError], str]:
        """What kind of error a status is, and the sentence that says what to do."""
        if status in (401, 403):
            return AuthenticationError, f"{self.label} does not accept the key ({said}); check {self.key_variables[0]}"
        if status == 404:
            return RequestRefusedError, f"{self.label} does not know {self.model} ({said}); check its name"
        if status == 413:
            return (
                RequestRefusedError,
                f"the request is too large for {self.label} ({said}); send fewer or smaller files",
            )
        if status == 429:
            return RateLimitedError, f"{self.label} has had too many requests ({said})"
        if status >= 500 or status in (408, 409):
            return UnavailableError, f"{self.label} is not available: {status} ({said})"
        if status == 200:
            return ProviderError, f"{self.label} answered with a web page instead of a reply; check the URL and proxies"
        if 300 <= status < 400:
            return RequestRefusedError, f"{self.label} is not at this URL but sends one elsewhere; check the base URL"
        return RequestRefusedError, f"{self.label} refused the request: {said}; `outrider wire` shows what is sent"


def _guard(error: ProviderError, key: str) -> None:
    """Nothing that is raised has the key in it, nor the errors behind it, which know the headers of the request."""
    error.args = (masked(str(error), key),)
    error.request_id = masked(error.request_id, key)
    error.__context__ = None


def _advise(error: ProviderError, attempts: int) -> None:
    """What is left to do when it is not tried again by itself."""
    if error.retryable:
        tried = f"tried {attempts} times, " if attempts > 1 else ""
        wait = f"in {error.retry_after:.0f} s" if error.retry_after else "later"
        error.args = (f"{error}; {tried}try again {wait}",)


def _has_no_quota(refusal: Refusal) -> bool:
    return refusal.status == 429 and b"insufficient_quota" in refusal.body


def _is_retryable(refusal: Refusal) -> bool:
    if _has_no_quota(refusal):
        return False
    advice = refusal.headers.get("x-should-retry", "").lower()
    if advice in ("true", "false"):
        return advice == "true"
    return refusal.status in (408, 409, 429) or refusal.status >= 500


def _message_of(refusal: Refusal) -> str:
    """What the body says, whichever of the usual shapes it has."""
    if "html" in refusal.headers.get("content-type", "").lower():
        return "it answered with a web page"
    try:
        body = msgspec.json.decode(refusal.body)
    except (ValueError, RecursionError):
        return refusal.body[:300].decode("utf-8", "replace").strip() or f"status {refusal.status}"
    return error_message(body) or f"status {refusal.status}"


def error_message(body: Any) -> str:
    """The sentence in an error object: {"error": {"message": …}}, {"error": …}, {"message": …}, or a list of these."""
    if isinstance(body, list):
        body = body[0] if body else None
    if not isinstance(body, dict):
        return ""
    inner = body.get("error", body)
    if isinstance(inner, dict):
        inner = inner.get("message") or inner.get("type") or inner.get("code") or ""
    return str(inner)[:1000]
