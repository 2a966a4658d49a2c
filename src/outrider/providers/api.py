"""The base class of the adapters to model APIs: key, URL, rendering, and errors that say what to do."""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any, ClassVar

import msgspec

from outrider.conversation.messages import AttachmentBlock, Message, ProviderState, files_in
from outrider.conversation.store import AttachmentStore
from outrider.conversation.usage import Usage
from outrider.errors import AuthenticationError, MissingKeyError, ProviderError
from outrider.providers.base import CacheLifetime, ModelSettings, Reply, Request, StopReason
from outrider.providers.catalogue.capabilities import Capabilities, capabilities_of, is_overridden
from outrider.providers.catalogue.efforts import effort_fields, temperature_fields
from outrider.providers.catalogue.prices import context_tokens, with_cost
from outrider.providers.credentials.keys import found_key
from outrider.providers.credentials.secrets import masked
from outrider.providers.debugging import logger
from outrider.providers.deltas import Delta, Notice
from outrider.providers.refusals import PreparedRequest
from outrider.providers.rendering.encoding import Rendered, encode_items
from outrider.providers.rendering.message_parts import Family, File, Title, UserMessage, reminder_text
from outrider.providers.rendering.output_schemas import Dialect, expressed
from outrider.providers.rendering.render import Renderer
from outrider.providers.rendering.server_tools import check_server_tools, portable
from outrider.providers.rendering.transcript import Rendering, Transcript
from outrider.providers.streams.stream import Incoming, ReplyParser, merge_deltas
from outrider.providers.transport import api_errors
from outrider.providers.transport.http import Body, ErrorResponse, Timeouts, Transport
from outrider.providers.transport.network import host_name

NO_TOOLS: Mapping[str, Mapping[str, Any]] = {}
NO_GROUPS: Mapping[str, str] = {}


class ApiProvider(ABC):
    """A model behind an HTTP API that streams server-sent events. Adapters implement the abstract methods."""

    prefix: ClassVar[str]
    """The part of a model name before the slash."""
    label: ClassVar[str]
    """The name of the API in messages to the user."""
    key_variables: ClassVar[tuple[str, ...]]
    base_variable: ClassVar[str]
    default_base: ClassVar[str]
    endpoint: ClassVar[str] = ""
    """The path of requests below the base URL."""
    key_required: ClassVar[bool] = True
    titles: ClassVar[Mapping[Family, Title]] = {}
    """Kinds of files for which a request has a field for the name, or for the name and description."""
    errors_hold_files: ClassVar[bool] = True
    """Whether the result of a failed call may have files."""
    dialect: ClassVar[Dialect]
    """The part of JSON Schema that the API takes for structured output."""

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        capabilities: Capabilities | None = None,
        options: Mapping[str, Any] | None = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        self.model = model
        self.name = f"{self.prefix}/{model}"
        self.capabilities = capabilities or capabilities_of(self.prefix, model)
        self.base_url = (base_url or os.environ.get(self.base_variable) or self.default_base).rstrip("/")
        """The base URL of the API."""
        self._api_key = api_key
        self._options = dict(options or {})
        """Fields of the request that the user sets. They override ours."""
        self._transport = Transport(timeouts)
        self._cached_key: tuple[Capabilities | None, str] = None, ""

    # For adapters to implement

    @abstractmethod
    def headers(self, key: str) -> dict[str, str]:
        """Return the headers of a request, including the key."""

    @abstractmethod
    def user_items(self, message: UserMessage) -> Iterable[Any]:
        """Return a user message as the API's items. Pure: the same message always gives the same items."""

    @abstractmethod
    def assistant_items(self, message: Message, files: Mapping[str, File], prefix_changed: bool) -> Iterable[Any]:
        """Return a model's message as the API's items. Pure, like `user_items`.

        `files` are the pictures for which `replays` is true, by their hash. `prefix_changed`: files of earlier messages
        are no longer sent, so state that is bound to them is invalid.
        """

    @abstractmethod
    def body(self, request: Request, transcript: Transcript) -> Body:
        """Return the whole request around the rendered messages."""

    @abstractmethod
    def incoming(
        self, tools: Mapping[str, Mapping[str, Any]] = NO_TOOLS, store: AttachmentStore | None = None
    ) -> Incoming:
        """Return an object that builds the reply from the events. `tools` have the schemas of their arguments."""

    def replays(self, block: AttachmentBlock) -> bool:
        """Return whether a picture that the model made goes back in its own message, not in the user's next one."""
        return False

    # Shared by the adapters

    def url(self) -> str:
        """Return the URL of a request."""
        return f"{self.base_url}{self.endpoint}"

    def is_own(self, state: ProviderState | None) -> bool:
        """Return whether opaque state is this model's and may be sent back to it."""
        return state is not None and (state.provider, state.model, state.route) == (self.prefix, self.model, self.route)

    def own_data(self, state: ProviderState | None) -> dict[str, Any]:
        """Return the data of opaque state if it is this model's, else nothing: it must not be sent to another one."""
        return state.data if state and self.is_own(state) and isinstance(state.data, dict) else {}

    @property
    def origin(self) -> ProviderState:
        """Opaque state of this model, without its data."""
        return ProviderState(self.prefix, self.model, None, self.route)

    @property
    def route(self) -> str:
        """How the model is reached, if state is valid only there."""
        return ""

    @property
    def host(self) -> str:
        """The host of the base URL. Empty if that is not a URL; the request will report it."""
        return host_name(self.base_url)

    @property
    def searches_tools(self) -> bool:
        """Whether the API searches deferred tools itself. Servers that only resemble it drop such tools silently."""
        return self.capabilities.tool_search and self.is_vendor("tool_search")

    def cache_seconds(self, cache: CacheLifetime | None) -> float | None:
        """Return how long the API keeps the prompt cache after a request; None if it does not promise a time."""
        return None

    def is_vendor(self, capability: str) -> bool:
        """Return whether requests go to the vendor, or the user said that this server has a capability as well."""
        is_default = self.host == host_name(self.default_base)
        return is_default or is_overridden(self.prefix, self.model, self.base_url, capability)

    @property
    def window(self) -> int | None:
        """The context window of the model in tokens, or None if it is unknown. What the user says counts most."""
        said = self.capabilities.context_tokens
        if said and is_overridden(self.prefix, self.model, self.base_url):
            return said
        return context_tokens(self.prefix, self.model) or said

    @property
    def reply_tokens(self) -> int:
        """The longest reply in tokens, if the agent sets no limit: at most a quarter of the context window."""
        longest, window = self.capabilities.output_tokens, self.capabilities.context_tokens
        return min(longest, window // 4) if window else longest

    @property
    def _memory_key(self) -> str:
        """The key for rendered messages in the session's memory. It contains all that their bytes depend on."""
        if self._cached_key[0] is not self.capabilities:
            self._cached_key = self.capabilities, f"{self.name} {self.base_url} {hash(self.capabilities)}"
        return self._cached_key[1]

    @property
    def key(self) -> str:
        """The key that was passed, the one in the environment, or the stored one. Empty if there is none."""
        return (self._api_key or found_key(self.key_variables)).strip()

    def render(self, request: Request) -> bytes:
        """Return the exact body of the request. Needs no key. If it is too large, the oldest files are left out."""
        return bytes(self._fit(request, self._memory_key))

    def _fit(self, request: Request, name: str) -> Body:
        """Return a body within the limits of the API. The rendered messages are kept under the name."""
        rendering: Rendering | None = request.memory.get(name)
        if rendering is None:
            rendering = request.memory[name] = Rendering()
        assemble = partial(self._assemble, request, rendering)
        return rendering.fitting(assemble, self.capabilities, self.label, request.messages)

    def _assemble(self, request: Request, rendering: Rendering) -> Body:
        check_server_tools(self.capabilities, request, self.name)
        left_out, groups = rendering.left_out, self.call_groups(request)
        renderer = Renderer(
            self.capabilities, request.store, left_out, self.titles, self.replays, self.errors_hold_files
        )

        def render(message: Message, previous: Message | None, text_bytes: int) -> Rendered:
            """Render one message: place its files, turn it into the API's items, encode these."""
            if message.role == "assistant":
                files, shown = renderer.pictures(message)
                message = portable(message, self.is_own)
                message = self.grouped(message, groups) if groups else message
                return encode_items(self.assistant_items(message, files, bool(left_out)), shown)
            user = renderer.user(message, previous, text_bytes)
            if previous is None and request.situation:
                user = user.with_first(f"{reminder_text(request.situation)}\n")
            return encode_items(self.user_items(user), user.shown, user.text_bytes, user.notices)

        rendering.depend_on(groups, request.situation)
        rendering.update(request.messages, render)
        return self.body(request, rendering.transcript)

    def call_groups(self, request: Request) -> Mapping[str, str]:
        """Return the groups of deferred tools by tool, if calls in the history must name them."""
        return NO_GROUPS

    def grouped(self, message: Message, groups: Mapping[str, str]) -> Message:
        return message

    def tools_once(
        self, request: Request, describe: Callable[[Request], Iterable[Any]], found: tuple[str | bool, ...] = ()
    ) -> msgspec.Raw:
        """Return the tools as this API describes them, encoded once a session. `found`: what else they depend on."""
        name = f"{self._memory_key} tools"
        known: tuple[Any, Any, Any, msgspec.Raw] | None = request.memory.get(name)
        if known is None or known[0] is not request.tools or known[1:3] != (request.server_tools, found):
            encoded = msgspec.Raw(msgspec.json.encode(list(describe(request))))
            request.memory[name] = known = request.tools, request.server_tools, found, encoded
        return known[3]

    def setting_fields(self, settings: ModelSettings, tokens_field: str) -> dict[str, Any]:
        """Return the fields for the effort, the temperature and the longest reply. Raise RequestRefusedError."""
        fields = effort_fields(self.capabilities, settings.effort, self.name)
        fields = fields | temperature_fields(self.capabilities, settings)
        return fields | ({tokens_field: settings.max_tokens} if settings.max_tokens else {})

    def _left_out(self, request: Request) -> Iterator[str]:
        """Yield what the user should know about settings that are not sent, once a session."""
        settings = request.settings
        if settings.temperature is None or temperature_fields(self.capabilities, settings):
            return
        if (name := f"{self._memory_key} temperature") not in request.memory:
            request.memory[name] = True
            beside = " together with an effort" if self.capabilities.temperature == "without_effort" else ""
            yield f"{self.name} does not take a temperature{beside}; it was left out"

    def enforces(self, schema: Mapping[str, Any], *, with_tools: bool) -> bool:
        offered = self.capabilities.structured_output
        if offered == "no" or (with_tools and offered == "alone"):
            return False
        return expressed(schema, self.dialect) is not None

    def output_schema(self, request: Request) -> dict[str, Any] | None:
        """Return the schema of the answer as the API takes it, or None if the request has none."""
        if request.output_schema is None or not self.enforces(request.output_schema, with_tools=bool(request.tools)):
            return None
        return expressed(request.output_schema, self.dialect)

    async def stream(self, request: Request) -> AsyncIterator[Delta | Notice | Reply]:
        """Send the request once, and again only without files or tools that the API refused. Raise ProviderError."""
        key = self.required_key()
        prepared = PreparedRequest(*await self._prepare(request))
        while True:
            for notice in (*self._left_out(request), *prepared.rendering.take_notices()):
                yield Notice(notice)
            logger.debug("%s: request of %d bytes to %s", self.name, len(prepared.body), self.host)
            parser = self._parser(request)
            shown = False
            try:
                response = self._response(key, prepared.body, request.idle_seconds)
                async with aclosing(response) as chunks:  # type: ignore[type-var]
                    async for chunk in chunks:
                        for item in merge_deltas(parser.feed(chunk)):
                            shown = True
                            yield self._finished(item, request, prepared.rendering)
                        if parser.ended:
                            return
                rest = parser.finish()
            except (ProviderError, asyncio.CancelledError, GeneratorExit) as failure:
                error = self._failure(failure, key, request, parser)
                if isinstance(error, api_errors.BadCallError):
                    rest = parser.feed(error.body) + parser.finish()
                elif not parser.complete:
                    error.usage = self._used(parser)
                    yield Notice(
                        await self._without_refused(api_errors.too_long(error) or error, request, prepared, shown)
                    )
                    continue
                else:
                    rest = parser.finish()  # the failure came after the reply
            for item in rest:
                yield self._finished(item, request, prepared.rendering)
            return

    def _parser(self, request: Request) -> ReplyParser:
        tools = {tool.name: tool.parameters for tool in request.tools}
        return ReplyParser(self.incoming(tools, request.store), self.label, request.idle_seconds)

    def _failure(self, error: BaseException, key: str, request: Request, parser: ReplyParser) -> ProviderError:
        """Return an error without the key in its text. Raise a cancel again, after telling what the reply has used."""
        if not isinstance(error, ProviderError):
            if request.on_cancel and not parser.ended and (used := self._used(parser)):
                request.on_cancel(used)
            raise error
        api_errors.mask_key(error, key)
        logger.debug("%s: %s: %s (status %s)", self.name, type(error).__name__, error, error.status)
        return error

    def _used(self, parser: ReplyParser) -> Usage | None:
        """Return what a reply has used so far, if the API has said so."""
        usage = parser.usage
        return with_cost(self.prefix, self.model, usage) if usage else None

    async def _without_refused(
        self, error: ProviderError, request: Request, prepared: PreparedRequest, shown: bool
    ) -> str:
        """Prepare the request without what the API refused: files, new tools. Raise the error if that is no cause."""
        notice = "" if shown else prepared.fall_back(self, error, request)
        if not notice:
            prepared.restore()
            raise api_errors.too_large(error)
        try:
            prepared.body, prepared.rendering = await self._prepare(request)
        except BaseException:
            prepared.restore()
            raise
        return notice

    def _response(self, key: str, body: Body, idle_seconds: float) -> AsyncIterator[bytes]:
        explain = partial(self.explain, key=key)
        return self._transport.post(self.url(), self.headers(key), body, explain, idle_seconds)

    def older_server_tools(self, error: ProviderError, request: Request) -> bool:
        """Use older versions of server tools if the API refused the newest ones. Return whether it did."""
        return False

    def _finished(self, reply: Delta | Reply, request: Request, rendering: Rendering) -> Delta | Reply:
        """Return a reply with its cost. If the user is next, release the cached bytes. A delta stays as it is."""
        if not isinstance(reply, Reply):
            return reply
        has_real_calls = self.capabilities.tools or not request.tools  # prompted calls are still text here
        if has_real_calls and not reply.message.has_tool_calls and reply.stop_reason is not StopReason.PAUSE:
            rendering.drop_cache()
        usage = with_cost(self.prefix, self.model, reply.usage)
        return reply if usage is reply.usage else msgspec.structs.replace(reply, usage=usage)

    async def _prepare(self, request: Request) -> tuple[Body, Rendering]:
        """Return the body and its rendering. Files are read, encoded and scaled in a thread."""
        name = self._memory_key
        new = request.messages[-2:] if name in request.memory else request.messages
        if not any(map(files_in, new)):
            return self._fit(request, name), request.memory[name]
        # On a copy: if the caller is cancelled, the thread goes on, and must not disturb the session's next request.
        kept: Rendering = request.memory.get(name) or Rendering()
        own = {**request.memory, name: kept.copy()}
        body = await asyncio.to_thread(self._fit, msgspec.structs.replace(request, memory=own), name)
        request.memory.update(own)
        return body, own[name]

    def required_key(self) -> str:
        """Return the key. Raises MissingKeyError."""
        variable, key = next(iter(self.key_variables), "api_key"), self.key
        if not key and self.key_required:
            names = " or ".join(self.key_variables) or variable
            raise MissingKeyError(
                f"there is no key for {self.label}; set {names}, run `outrider login {self.prefix}`, or pass api_key="
            )
        if not key.isascii() or not key.isprintable():
            raise AuthenticationError(f"the key for {self.label} has invalid characters; check {variable}")
        return key

    def explain(self, response: ErrorResponse, key: str) -> ProviderError:
        """Return the error for a response that is not a reply."""
        message = masked(api_errors.message_of(response), key)
        kind, sentence = self._classify(response.status, message)
        if api_errors.has_no_quota(response):
            sentence = f"this key has no quota left with {self.label} ({message}); check the plan and its billing"
        return api_errors.explained(response, kind, sentence)

    def _classify(self, status: int, message: str) -> tuple[type[ProviderError], str]:
        """Return the error class for a status, and a sentence that says what to do."""
        variable = next(iter(self.key_variables), "api_key")
        return api_errors.classified(status, message, label=self.label, model=self.model, key_variable=variable)
