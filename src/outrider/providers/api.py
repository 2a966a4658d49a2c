"""What the adapters to model APIs share: a key, a URL, retries, and errors that say what to do."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import aclosing
from typing import Any, ClassVar
from urllib.parse import urlsplit

import msgspec

from outrider.conversation.messages import Message, files_in
from outrider.errors import (
    AuthenticationError,
    ProviderError,
    RateLimitedError,
    RequestRefusedError,
    UnavailableError,
)
from outrider.providers.base import Reply, Request, StopReason
from outrider.providers.body import Body, Fragment, fragment
from outrider.providers.capabilities import Capabilities, capabilities_of
from outrider.providers.debugging import logger
from outrider.providers.deltas import Delta, Notice
from outrider.providers.prices import with_cost
from outrider.providers.refused_pictures import fault_of
from outrider.providers.render import Family, Renderer, Title
from outrider.providers.secrets import masked
from outrider.providers.stream import Incoming, ReplyParser, joined
from outrider.providers.transcript import Rendering, Transcript
from outrider.providers.transport import Refusal, Timeouts, Transport, retry_delay

MOST_WITHOUT_PICTURES = 2
"""How often one request is sent again with fewer pictures."""
LONGEST_WAIT = 120.0
"""Seconds that a server may ask to wait before the request is given up instead."""


class _Sent:
    """A request on its way."""

    __slots__ = ("body", "rendering", "undo")

    def __init__(self, body: Body, rendering: Rendering) -> None:
        self.body = body
        self.rendering = rendering
        self.undo: list[Callable[[Rendering], None]] = []
        """How to take back what was left out, should it not have helped."""


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
    titles: ClassVar[Mapping[Family, Title]] = {}
    """Kinds of files whose name, or name and description, have a place of their own in a request."""

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
        self._keyed: tuple[Capabilities | None, str] = None, ""

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
    def body(self, request: Request, transcript: Transcript) -> Body:
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

    @property
    def _memory_key(self) -> str:
        """Under which name rendered messages are kept: whatever makes a difference to their bytes is part of it."""
        can, key = self._keyed
        if can is not self.capabilities:
            can = self.capabilities
            key = f"{self.name} {self.base_url} {hash(can)}"
            self._keyed = can, key
        return key

    @property
    def key(self) -> str:
        """The key that was given, or that of the environment; empty if there is none."""
        found = self._api_key or next(filter(None, map(os.environ.get, self.key_variables)), "")
        return found.strip()  # a key that was read from a file ends with a line feed

    def render(self, request: Request) -> bytes:
        """The exact body that would be sent. Needs no key. If it were too large, the oldest files are left out."""
        return bytes(self._fitted(request, self._memory_key))

    def _fitted(self, request: Request, name: str) -> Body:
        """The body within the limits of the API. What is rendered is kept under the name."""
        rendering: Rendering = request.memory.setdefault(name, Rendering())
        can = self.capabilities
        body = self._assembled(request, rendering)
        while len(body) > can.request_bytes or rendering.transcript.images > can.images:
            # Down to half of what fits: the beginning changes, which costs the cache, and should do so seldom.
            surplus = len(body) - can.request_bytes // 2, rendering.transcript.images - can.images // 2
            if not rendering.leave_out(request.messages, *surplus):
                raise RequestRefusedError(
                    f"the request has {len(body):,} bytes and {self.label} takes {can.request_bytes:,}; "
                    "begin a new conversation with what matters of this one"
                )
            body = self._assembled(request, rendering)
        return body

    def _assembled(self, request: Request, rendering: Rendering) -> Body:
        renderer = Renderer(self.capabilities, request.store, rendering.left_out, self.titles)
        transcript = rendering.transcript

        def rendered(message: Message, previous: Message | None) -> Fragment:
            images, words = renderer.images, transcript.words
            renderer.words = words
            made = fragment(self.items(message, previous, renderer))
            if renderer.images == images and renderer.words == words:
                return made
            return msgspec.structs.replace(made, images=renderer.images - images, words=renderer.words - words)

        transcript.update(request.messages, rendered)
        rendering.tell(renderer.notices)
        return self.body(request, transcript)

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
        sent = _Sent(*await self._rendered(request))
        names = {tool.name for tool in request.tools}
        for attempt in itertools.count(1):
            for notice in sent.rendering.news():
                yield Notice(notice)
            logger.debug("%s: request of %d bytes to %s, attempt %d", self.name, len(sent.body), self.host, attempt)
            parser = ReplyParser(self.incoming(names), self.label)
            shown = False
            try:
                async with aclosing(self._answer(key, sent.body)) as chunks:  # type: ignore[type-var]
                    async for chunk in chunks:
                        for item in joined(parser.feed(chunk)):
                            shown = True
                            yield self._ended(item, request, sent.rendering) if isinstance(item, Reply) else item
                        if parser.ended:
                            return
                rest = parser.finish()
            except ProviderError as error:
                _guard(error, key)
                logger.debug("%s: %s: %s (status %s)", self.name, type(error).__name__, error, error.status)
                if not parser.complete:
                    notice, delay = await self._again(error, request, sent, attempt, shown)
                    yield Notice(notice)
                    await asyncio.sleep(delay)
                    continue
                rest = parser.finish()  # what failed came after the reply
            for item in rest:
                yield self._ended(item, request, sent.rendering) if isinstance(item, Reply) else item
            return

    async def _again(
        self, error: ProviderError, request: Request, sent: _Sent, attempt: int, shown: bool
    ) -> tuple[str, float]:
        """What to say before the next attempt, and how long to wait. Raises the error if there is to be none."""
        if not shown and (told := self._without_pictures(error, request, sent)):
            sent.body, sent.rendering = await self._rendered(request)
            return told, 0.0
        delay = None if shown else self._delay(error, attempt)
        if delay is None:
            for restore in sent.undo:  # it was not about the pictures after all
                restore(sent.rendering)
            _advise(error, attempt)
            raise error
        return f"{error}; trying again in {delay:.1f} s", delay

    def _answer(self, key: str, body: Body) -> AsyncIterator[bytes]:
        """The bytes of the API's answer."""
        return self._transport.post(self.url(), self.headers(key), body, lambda refusal: self.explain(refusal, key))

    def _without_pictures(self, error: ProviderError, request: Request, sent: _Sent) -> str:
        """Give up pictures if the request was refused because of them, and say so; else return an empty string."""
        rendering = sent.rendering
        if not rendering.transcript.images or len(sent.undo) >= MOST_WITHOUT_PICTURES:
            return ""
        fault = fault_of(error.status, str(error).replace(self.model, ""))
        if fault == "model":
            known = self.capabilities
            self.capabilities = msgspec.structs.replace(known, image="no")
            sent.undo.append(lambda _: setattr(self, "capabilities", known))
            for name in [name for name, kept in request.memory.items() if kept is rendering]:
                del request.memory[name]
            return f"{error}; {self.name} is asked again without pictures, and gets no more of them"
        if fault == "picture" and rendering.leave_out_newest_images(request.messages, f"{self.label} refused it"):
            sent.undo.append(Rendering.show_again)
            return f"{error}; {self.name} is asked again without the newest pictures"
        return ""

    def _ended(self, reply: Reply, request: Request, rendering: Rendering) -> Reply:
        """The reply with what it costs. If it is an answer, a person speaks next, and the rendered bytes may rest."""
        has_real_calls = self.capabilities.tools or not request.tools  # else they are still words here
        if has_real_calls and not reply.message.tool_calls and reply.stop_reason is not StopReason.PAUSE:
            rendering.rest()
        return msgspec.structs.replace(reply, usage=with_cost(self.prefix, self.model, reply.usage))

    async def _rendered(self, request: Request) -> tuple[Body, Rendering]:
        """The body, and what is kept of it; files are read, encoded and scaled beside the event loop."""
        name = self._memory_key
        new = request.messages[-2:] if name in request.memory else request.messages
        if not any(map(files_in, new)):
            return self._fitted(request, name), request.memory[name]
        # On a copy: if whoever waits is cancelled, the thread goes on, and must not meet the session's next request.
        kept: Rendering = request.memory.get(name) or Rendering()
        own = {**request.memory, name: kept.copy()}
        body = await asyncio.to_thread(self._fitted, msgspec.structs.replace(request, memory=own), name)
        request.memory.update(own)
        return body, own[name]

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
