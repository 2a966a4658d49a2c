"""OpenAI Chat Completions API, and the many servers that implement it."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import aclosing
from copy import copy
from functools import cached_property
from typing import Any, ClassVar

import msgspec

from outrider.conversation.messages import AttachmentBlock, Message, RawBlock, ThinkingBlock
from outrider.conversation.store import AttachmentStore
from outrider.errors import ProviderError, RequestRefusedError
from outrider.providers.adapters import chat_items, model_lookup
from outrider.providers.api import NO_TOOLS, ApiProvider
from outrider.providers.base import ModelSettings, Reply, Request, ToolSpec
from outrider.providers.catalogue.capabilities import is_overridden
from outrider.providers.catalogue.known_models import known_models
from outrider.providers.catalogue.prices import context_tokens
from outrider.providers.catalogue.vendors import Quirks, quirks_of
from outrider.providers.credentials.keys import KEY_VARIABLES
from outrider.providers.credentials.secrets import masked
from outrider.providers.deltas import Delta, Notice
from outrider.providers.rendering.message_parts import Family, File, Result, Title, UserMessage, reminder_text
from outrider.providers.rendering.output_schemas import OPENAI, OUTPUT_NAME
from outrider.providers.rendering.transcript import Rendering, Transcript
from outrider.providers.rendering.wire_names import safe_id, short_id
from outrider.providers.streams.chat_stream import BAD_CALL, IncomingReply, is_bad_call
from outrider.providers.streams.stream import Incoming
from outrider.providers.text_calls import decoded_calls, prompted_tools
from outrider.providers.text_calls.written_calls_stream import ReplyWithWrittenCalls
from outrider.providers.transport.api_errors import BadCallError, error_message
from outrider.providers.transport.http import Body, ErrorResponse

REPLY_TOKENS = 8_192  # the longest reply of a local server whose context window is not known
BYTES_A_TOKEN = 3  # bytes of a request for each token, at least about so many
_SCHEMA_WORDS = re.compile(r"response_?format|json_?schema|grammar|structured|guided", re.IGNORECASE)
"""Words in the error of a server that does not take a schema."""
LONGEST_ID = 40
"""OpenAI refuses longer call ids. Other servers take them, and some keep state in the id that they want back."""
_WINDOW = re.compile(rb'(?:maximum context length is|"n_ctx"\s*:|context size \(|context window of)\s*(\d{3,9})')
"""The context window in the errors of vLLM, llama.cpp, LM Studio and others."""
# HTTP statuses, and words in the type or code of errors in the stream that correspond to them.
_STATUSES = {
    429: ("rate_limit", "too_many", "quota"),
    503: ("overloaded", "unavailable"),
    504: ("timeout",),
    500: ("server", "internal", "api_error"),
    401: ("api_key", "authentication"),
    400: ("invalid", "bad", "context_length"),
}


class OpenAIChat(ApiProvider):
    """A model behind the Chat Completions API. With `base_url`, a model of any server that implements it.

    Such a server may need no key.
    """

    prefix = "openai-chat"
    label = "OpenAI Chat"
    key_variables: ClassVar[tuple[str, ...]] = KEY_VARIABLES["openai"]
    base_variable = "OPENAI_BASE_URL"
    default_base = "https://api.openai.com/v1"
    endpoint = "/chat/completions"
    titles: ClassVar[Mapping[Family, Title]] = {"pdf": "name"}
    dialect = OPENAI
    can_look_up: ClassVar[bool] = False
    """Whether the server is asked about a model that is not known."""

    def __init__(self, model: str, *, prompted_tools: bool = False, **settings: Any) -> None:
        """`prompted_tools`: describe the tools in the prompt, for a model or server without native tool calls."""
        super().__init__(model, **settings)
        self._looked_up = not self.can_look_up or is_overridden(self.prefix, model, settings.get("base_url") or "")
        self._refuses_schemas = False  # whether the server has refused a schema
        self._first: tuple[str, ...] = ()
        self._has_other_server = settings.get("base_url") is not None and not self.is_openai
        if prompted_tools:
            self.capabilities = msgspec.structs.replace(self.capabilities, tools=False)

    def with_prompted_tools(self, *, first: tuple[str, ...] = ()) -> OpenAIChat:
        """Return a copy that describes the tools in the prompt and lets the server decode the calls by their schemas.

        `first`: the tools of which one is called where a call has to be made, if there are any.
        Only local servers do so: a model of another one is returned as it is.
        """
        if not self.decodes_schemas or not self.capabilities.tools:
            return self
        other = copy(self)
        other.capabilities = msgspec.structs.replace(self.capabilities, tools=False)
        other._first = first
        return other

    @cached_property
    def is_openai(self) -> bool:
        return self.host == "openai.com" or self.host.endswith(".openai.com")

    @property
    def route(self) -> str:
        """The host, if it is not the default: state is sent back only to the server that made it."""
        return "" if self.base_url == self.default_base else self.host

    @cached_property
    def quirks(self) -> Quirks:
        return quirks_of(self.prefix, self.host)

    @property
    def is_local(self) -> bool:
        """Whether the server is one of the user's own, by prefix or URL, not a vendor's."""
        return not self.is_openai and self.prefix in ("openai-chat", "openai-compatible", "ollama")

    @property
    def decodes_schemas(self) -> bool:
        """Whether the server can hold a reply to a JSON Schema, as local servers do."""
        return self.is_local and not self._refuses_schemas

    @property
    def reads_written_calls(self) -> bool:
        """Whether calls written as text count as calls. Small models on local servers need it; else it is a risk."""
        return not self.is_openai

    def headers(self, key: str) -> dict[str, str]:
        headers = {"content-type": "application/json"}
        return headers | {"authorization": f"Bearer {key}"} if key else headers

    @property
    def key(self) -> str:
        """The key. An OpenAI key is not sent to a server that the caller chose with `base_url`."""
        return (self._api_key or "").strip() if self._has_other_server and self.prefix == "openai-chat" else super().key

    def required_key(self) -> str:
        return super().required_key() if self.is_openai or self.key else ""

    def body(self, request: Request, transcript: Transcript) -> Body:
        """Return the request. The system message comes before the transcript, which has only the conversation."""
        head: dict[str, Any] = {"model": self.model, "stream": True}
        if self.quirks.usage_option:
            head["stream_options"] = {"include_usage": True}
        system = request.system
        if tool := self._decoded_tool(request):
            head["response_format"] = decoded_calls.response_format(tool)
            reminder = "\n\n".join(filter(None, (request.reminder, decoded_calls.instruction(tool))))
            request = msgspec.structs.replace(request, reminder=reminder)
        elif request.server_tools or (request.tools and self.capabilities.tools):
            head["tools"] = self.tools_once(request, chat_items.tool_items)
        elif request.tools:
            if not self._refuses_schemas:
                required = request.settings.tool_choice == "required"
                tools = [tool for tool in request.tools if required and tool.name in self._first] or request.tools
                head["response_format"] = prompted_tools.response_format(
                    tools, required=required, messages=request.messages
                )
            system = prompted_tools.system_prompt(system, request.tools)
        if schema := self.output_schema(request):
            given = {"name": OUTPUT_NAME, "strict": True, "schema": schema}
            head["response_format"] = {"type": "json_schema", "json_schema": given}
        if self.is_local and "response_format" in head:
            head["temperature"] = 0  # data, not prose: sampling only makes a small model err
        head |= self._settings(request.settings) | self._longest_reply(request, transcript.size + len(system))
        if tool:
            head.pop("tool_choice", None)
        head |= self._options | request.settings.options
        extra = b",".join(map(msgspec.json.encode, self._reminder_items(request)))
        before = msgspec.json.encode(head)[:-1] + b',"messages":['
        if system:
            comma = b"," if transcript.size or extra else b""
            before += msgspec.json.encode({"role": "system", "content": system}) + comma
        return transcript.enclosed(before, b"]}", extra)

    def _decoded_tool(self, request: Request) -> ToolSpec | None:
        """Return the tool whose call the server decodes by its schema, if the request leaves only that one."""
        tool = decoded_calls.only_call(request)
        return tool if tool and self.decodes_schemas else None

    def _longest_reply(self, request: Request, size: int) -> dict[str, int]:
        """Return the limit of a reply from a local server, beside `size` bytes: a small model may write on."""
        if request.settings.max_tokens or not self.is_local:
            return {}
        window = self.capabilities.context_tokens
        if window is None:
            return {self.quirks.tokens_field: REPLY_TOKENS}
        if request.tools and self.capabilities.tools:
            size += len(bytes(self.tools_once(request, chat_items.tool_items)))
        longest = min(self.capabilities.output_tokens, window // 4, window - size // BYTES_A_TOKEN)
        return {self.quirks.tokens_field: max(longest, window // 16)}

    def _reminder_items(self, request: Request) -> Iterator[dict[str, Any]]:
        if request.reminder:
            if self.quirks.reply_after_results and request.messages and request.messages[-1].tool_results:
                yield {"role": "assistant", "content": self.quirks.reply_after_results}
            yield {"role": "user", "content": reminder_text(request.reminder)}

    def _settings(self, settings: ModelSettings) -> dict[str, Any]:
        fields = self.setting_fields(settings, self.quirks.tokens_field)
        if (choice := settings.tool_choice) and self.capabilities.tools:
            is_mode = choice in ("auto", "required", "none")
            fields["tool_choice"] = choice if is_mode else {"type": "function", "function": {"name": choice}}
        return fields

    def user_items(self, message: UserMessage) -> Iterable[Any]:
        """Yield a message for each result, and then one with the moved files and the user's content."""
        content = (*message.moved, *message.content)
        if self.capabilities.tools:
            yield from map(self._result, message.results)
        else:
            content = (*prompted_tools.result_parts(message.results), *content)
        if content and message.results and self.quirks.reply_after_results and self.capabilities.tools:
            yield {"role": "assistant", "content": self.quirks.reply_after_results}
        if content:
            yield {"role": "user", "content": chat_items.content_of(content)}

    def assistant_items(self, message: Message, files: Mapping[str, File], prefix_changed: bool) -> Iterable[Any]:
        if not self.capabilities.tools:
            if text := prompted_tools.assistant_text(message, self.is_own):
                yield {"role": "assistant", "content": text}
            return
        rendered = {"role": "assistant", "content": message.text or None} | self._reasoning(message)
        own = (self.own_data(block.state) for block in message.content if isinstance(block, RawBlock))
        if kept := [data["part"] for data in own if data.get("part")]:
            rendered["content"] = [*chat_items.parts_of(rendered["content"]), *kept]
        if calls := message.tool_calls:
            rendered["tool_calls"] = [
                {"id": self._id(call.id), **chat_items.call_of(call, self.own_data(call.state))} for call in calls
            ]
        if files:
            rendered["images"] = [chat_items.part_of(file) for file in files.values()]
        if rendered["content"] or calls or files:
            yield rendered

    def replays(self, block: AttachmentBlock) -> bool:
        return self.quirks.reply_images and self.capabilities.tools and self.is_own(block.state)

    def _reasoning(self, message: Message) -> dict[str, Any]:
        """Return the model's own reasoning, in the form in which its server sent it."""
        for block in message.content:
            if type(block) is ThinkingBlock and block.state and self.is_own(block.state):
                return chat_items.replayed_reasoning(block.thinking, block.state.data, message.text)
        return {}

    def _result(self, result: Result) -> dict[str, Any]:
        content = chat_items.content_of(result.flagged_parts) if result.files else result.flagged_text
        return {"role": "tool", "tool_call_id": self._id(result.call_id), "content": content}

    def _id(self, call_id: str) -> str:
        if self.quirks.id_length:
            return short_id(call_id, self.quirks.id_length)
        return safe_id(call_id, LONGEST_ID) if self.is_openai else call_id

    async def _prepare(self, request: Request) -> tuple[Body, Rendering]:
        if not self._looked_up:
            self._looked_up = True
            await self.look_up()
        return await super()._prepare(request)

    def look_up_now(self) -> None:
        """Learn what the server says about the model, before the first request: a local one is asked, others were."""
        if self._looked_up:
            return
        if self.is_local and model_lookup.is_on():
            self._looked_up = True
            asking = threading.Thread(target=lambda: asyncio.run(self.look_up(anew=True)), daemon=True)
            asking.start()  # in a thread, because a loop may run here
            asking.join()
        elif facts := model_lookup.known(self.base_url, self.model):
            self.capabilities = facts.applied_to(self.capabilities)

    async def look_up(self, *, anew: bool = False) -> None:
        """Ask the server about a model that is not known, unless the user has said what it can do.

        `anew`: also if it has said it lately, because a local server may run with another window now.
        """
        if not model_lookup.is_on() or known_models().knows(self.prefix, self.model.lower()):
            return
        if context_tokens(self.prefix, self.model) and not self.quirks.lists_modalities:
            return
        facts = await model_lookup.look_up(
            *(self.base_url, self.model, self.headers(self.required_key())),
            is_ollama=self.prefix == "ollama",
            anew=anew,
        )
        if facts:
            self.capabilities = facts.applied_to(self.capabilities)

    def stream(self, request: Request) -> AsyncIterator[Delta | Notice | Reply]:
        has_schema = self._decoded_tool(request) or (request.tools and not self.capabilities.tools)
        return self._decoded(request) if has_schema and self.decodes_schemas else self._once(request)

    def _once(self, request: Request) -> AsyncGenerator[Delta | Notice | Reply, None]:
        """Send the request. A call that is decoded, or written because the tools are in the prompt, is made a call."""
        items = super().stream(request)
        if tool := self._decoded_tool(request):
            return decoded_calls.as_call(items, tool)
        if not request.tools or self.capabilities.tools:
            return items  # type: ignore[return-value]  # it is a generator
        return prompted_tools.extract_calls(items, request.tools, self.origin)

    async def _decoded(self, request: Request) -> AsyncIterator[Delta | Notice | Reply]:
        """Send the request, again without a schema if the server does not take one."""
        try:
            async with aclosing(self._once(request)) as items:
                async for item in items:
                    yield item
            return
        except RequestRefusedError as error:
            if error.status not in (400, 422, 501) or not _SCHEMA_WORDS.search(str(error)):
                raise
        self._refuses_schemas = True
        async with aclosing(self._once(request)) as items:
            async for item in items:
                yield item

    def incoming(
        self, tools: Mapping[str, Mapping[str, Any]] = NO_TOOLS, store: AttachmentStore | None = None
    ) -> Incoming:
        """Return an object that builds the reply from the events. It also reads calls that are written as text."""
        settings: dict[str, Any] = {
            "label": self.label,
            "origin": self.origin,
            "to_error": self._stream_error,
            "store": store,
            "inline_thinking": not self.is_openai,
            "reports_cost": self.quirks.reports_cost,
        }
        if tools and self.capabilities.tools and self.reads_written_calls:
            return ReplyWithWrittenCalls(tools, **settings)
        return IncomingReply(**settings)

    def explain(self, response: ErrorResponse, key: str) -> ProviderError:
        """Return the error for a response that is not a reply. It may say how large the window is."""
        error = super().explain(response, key)
        if response.status in (400, 413, 500) and (window := stated_window(response.body)):
            self.capabilities = msgspec.structs.replace(self.capabilities, context_tokens=window)
        if response.status == 400 and BAD_CALL.encode() in response.body and has_bad_call(response.body):
            return BadCallError(str(error), response.body)
        return error

    def _stream_error(self, error: Any) -> ProviderError:
        if status := status_of(error):
            return self.explain(ErrorResponse(status, {}, msgspec.json.encode({"error": error})), self.key)
        message = masked(error_message({"error": error}), self.key) or "an error without a message"
        return ProviderError(f"{self.label} ended the stream with an error: {message}")


def stated_window(body: bytes) -> int | None:
    """Return the context window in tokens that the error of a server states.

    >>> stated_window(b'{"error": {"message": "This model\\'s maximum context length is 16384 tokens."}}')
    16384
    """
    found = _WINDOW.search(body[:5_000])
    return model_lookup.window_in(int(found[1])) if found else None


def has_bad_call(body: bytes) -> bool:
    try:
        value = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and is_bad_call(value.get("error"))


def status_of(error: Any) -> int | None:
    """Return the HTTP status that an error in the stream corresponds to, or None if it is not known."""
    if not isinstance(error, dict):
        return None
    code = str(error.get("code") or error.get("status") or "")
    if code.isdecimal() and 400 <= int(code) < 600:
        return int(code)
    kind = f"{error.get('type')} {code}".lower()
    return next((status for status, words in _STATUSES.items() if any(word in kind for word in words)), None)
