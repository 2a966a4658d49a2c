"""OpenAI Chat Completions, and the many servers that speak it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import msgspec

from outrider.conversation.messages import Message, ProviderState, ThinkingBlock, ToolUseBlock
from outrider.errors import ProviderError
from outrider.providers import prompted_tools
from outrider.providers.api import ApiProvider, error_message
from outrider.providers.base import ModelSettings, Reply, Request
from outrider.providers.body import Body
from outrider.providers.chat_stream import REASONING_FIELDS, IncomingReply
from outrider.providers.deltas import Delta, Notice
from outrider.providers.render import (
    Family,
    File,
    Part,
    Renderer,
    Result,
    Title,
    is_own,
    object_schema,
    reminder_text,
    safe_id,
    safe_name,
    words_of,
)
from outrider.providers.secrets import masked
from outrider.providers.stream import Incoming
from outrider.providers.transcript import Transcript
from outrider.providers.transport import Refusal
from outrider.providers.written_calls import ReplyWithWrittenCalls

LONGEST_ID = 40
"""OpenAI refuses calls with longer ids; other servers take them, and some hide in the id what they want back."""

_AUDIO_FORMATS = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}
# What the type or code of an error has in it, and the status that it would have had at the start of the answer.
_STATUSES = {
    "rate_limit": 429,
    "too_many": 429,
    "quota": 429,
    "overloaded": 503,
    "unavailable": 503,
    "timeout": 504,
    "server": 500,
    "internal": 500,
    "api_error": 500,
    "api_key": 401,
    "authentication": 401,
    "invalid": 400,
    "bad": 400,
    "context_length": 400,
}


class OpenAIChat(ApiProvider):
    """A model behind the Chat Completions API. With `base_url`, any server that speaks it; it may need no key."""

    prefix = "openai-chat"
    label = "OpenAI Chat"
    key_variables: ClassVar[tuple[str, ...]] = ("OPENAI_API_KEY",)
    base_variable = "OPENAI_BASE_URL"
    default_base = "https://api.openai.com/v1"
    titles: ClassVar[Mapping[Family, Title]] = {"pdf": "name"}

    def __init__(self, model: str, *, prompted_tools: bool = False, **settings: Any) -> None:
        """`prompted_tools`: describe the tools in the prompt, for a model or server that has no place for them."""
        super().__init__(model, **settings)
        self._is_elsewhere = settings.get("base_url") is not None and not self.is_openai
        if prompted_tools:
            self.capabilities = msgspec.structs.replace(self.capabilities, tools=False)

    @cached_property
    def is_openai(self) -> bool:
        """Whether this is OpenAI itself, and not another server that speaks its language."""
        return self.host == "openai.com" or self.host.endswith(".openai.com")

    @property
    def reads_written_calls(self) -> bool:
        """Whether text that is a call counts as one: small models on local servers need it; elsewhere it is a risk."""
        return not self.is_openai

    def url(self) -> str:
        """Where a request goes."""
        return f"{self.base_url}/chat/completions"

    def headers(self, key: str) -> dict[str, str]:
        """The headers of a request."""
        headers = {"content-type": "application/json"}
        return headers | {"authorization": f"Bearer {key}"} if key else headers

    @property
    def key(self) -> str:
        """The key. One for OpenAI is not sent to a server that the program names."""
        return (self._api_key or "").strip() if self._is_elsewhere and self.prefix == "openai-chat" else super().key

    def _required_key(self) -> str:
        return super()._required_key() if self.is_openai or self.key else ""

    # The request

    def body(self, request: Request, transcript: Transcript) -> Body:
        """The request. The system message stands before the transcript, which has the conversation alone."""
        head: dict[str, Any] = {"model": self.model, "stream": True, "stream_options": {"include_usage": True}}
        system = request.system
        if request.tools and self.capabilities.tools:
            head["tools"] = self.tools_once(request, _tools)
        elif request.tools:
            head["response_format"] = prompted_tools.response_format(request.tools)
            system = prompted_tools.system_prompt(system, request.tools)
        head |= self._settings(request.settings) | self._options | request.settings.options
        extra = b""
        if request.reminder:
            extra = msgspec.json.encode({"role": "user", "content": reminder_text(request.reminder)})
        before = msgspec.json.encode(head)[:-1] + b',"messages":['
        if system:
            comma = b"," if transcript.size or extra else b""
            before += msgspec.json.encode({"role": "system", "content": system}) + comma
        return transcript.enclosed(before, b"]}", extra)

    def _settings(self, settings: ModelSettings) -> dict[str, Any]:
        """Return the settings as fields of a request."""
        fields: dict[str, Any] = {}
        if settings.effort:
            fields["reasoning_effort"] = settings.effort
        if settings.temperature is not None:
            fields["temperature"] = settings.temperature
        if settings.max_tokens:  # OpenAI's reasoning models refuse the older name, which is all that other servers know
            fields["max_completion_tokens" if self.is_openai else "max_tokens"] = settings.max_tokens
        if (choice := settings.tool_choice) and self.capabilities.tools:
            is_mode = choice in ("auto", "required", "none")
            fields["tool_choice"] = choice if is_mode else {"type": "function", "function": {"name": choice}}
        return fields

    def items(self, message: Message, previous: Message | None, renderer: Renderer) -> Iterable[Any]:
        """The message; results are messages of their own, and what they could not hold follows after all of them."""
        if message.role == "assistant":
            yield from self._assistant(message)
            return
        user = renderer.user(message, previous)
        said = (*user.moved, *user.said)
        if self.capabilities.tools:
            yield from map(self._result, user.results)
        else:
            said = (*prompted_tools.results(user.results), *said)
        if said:
            yield {"role": "user", "content": content_of(said)}

    def _assistant(self, message: Message) -> Iterator[dict[str, Any]]:
        if not self.capabilities.tools:
            if text := prompted_tools.written(message):
                yield {"role": "assistant", "content": text}
            return
        rendered = {"role": "assistant", "content": message.text or None} | self._reasoning(message)
        if message.tool_calls:
            rendered["tool_calls"] = list(map(self._call, message.tool_calls))
        if rendered["content"] or message.tool_calls:
            yield rendered

    def _reasoning(self, message: Message) -> dict[str, Any]:
        """The model's own reasoning, under the name that its server gave it."""
        for block in message.content:
            if isinstance(block, ThinkingBlock) and block.state and is_own(block.state, self.prefix, self.model):
                for field in REASONING_FIELDS:
                    if block.state.data == {"field": field}:
                        return {field: block.thinking}
        return {}

    def _call(self, call: ToolUseBlock) -> dict[str, Any]:
        # Arguments that were no JSON object go back as an empty one: servers parse the history and fail on the rest.
        # What the model had written stands in the result.
        arguments = msgspec.json.encode(call.input).decode()
        return {
            "id": self._id(call.id),
            "type": "function",
            "function": {"name": safe_name(call.name), "arguments": arguments},
        }

    def _result(self, result: Result) -> dict[str, Any]:
        content: Any = result.flagged_text
        if result.files:
            content = content_of(result.flagged_parts)
        return {"role": "tool", "tool_call_id": self._id(result.call_id), "content": content}

    def _id(self, call_id: str) -> str:
        return safe_id(call_id, LONGEST_ID) if self.is_openai else call_id

    # The reply

    def stream(self, request: Request) -> AsyncIterator[Delta | Notice | Reply]:
        """Ask the model once."""
        items = super().stream(request)
        if not request.tools:
            return items
        if not self.capabilities.tools:
            return prompted_tools.with_real_calls(items, request.tools)
        return items

    def incoming(self, tools: Collection[str] = ()) -> Incoming:
        """What makes a reply of the events of an answer. Calls that come as text are made real."""
        origin = ProviderState(self.prefix, self.model, None)
        if tools and self.capabilities.tools and self.reads_written_calls:
            return ReplyWithWrittenCalls(tools, label=self.label, origin=origin, broke_off=self._broke_off)
        return IncomingReply(self.label, origin, self._broke_off)

    def _broke_off(self, error: Any) -> ProviderError:
        """An error that comes after the answer had begun well."""
        if status := _status_of(error):
            return self.explain(Refusal(status, {}, msgspec.json.encode({"error": error})), self.key)
        said = masked(error_message({"error": error}), self.key) or "an error without a message"
        return ProviderError(f"{self.label} broke off: {said}")


def provider(model: str) -> OpenAIChat:
    """The adapter for a model's name."""
    return OpenAIChat(model)


def content_of(parts: Sequence[Part]) -> str | list[dict[str, Any]]:
    """The content of a message: a plain string where there are no files, for some servers take nothing else."""
    if any(isinstance(part, File) for part in parts):
        return [_part(part) for part in parts]
    return words_of(parts)


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    match part.family:
        case "image":
            return {"type": "image_url", "image_url": {"url": part.data_url}}
        case "text":
            return {"type": "text", "text": part.text}
        case "audio":
            return _audio(part)
    return {"type": "file", "file": {"filename": part.filename, "file_data": part.data_url}}


def _audio(file: File) -> dict[str, Any]:
    if known := _AUDIO_FORMATS.get(file.mime_type):
        return {"type": "input_audio", "input_audio": {"data": file.json, "format": known}}
    note = f"[{file.name} ({file.mime_type}) cannot be shown: this API takes wav and mp3 alone]"
    return {"type": "text", "text": note}


def _tools(request: Request) -> Iterator[dict[str, Any]]:
    for spec in request.tools:
        function = {"name": spec.name, "description": spec.description, "parameters": object_schema(spec.parameters)}
        yield {"type": "function", "function": function}


def _status_of(error: Any) -> int | None:
    """The status that an error in the middle of a stream stands for, if that can be told."""
    if not isinstance(error, dict):
        return None
    code = str(error.get("code") or error.get("status") or "")
    if code.isdecimal() and 400 <= int(code) < 600:
        return int(code)
    kind = f"{error.get('type')} {code}".lower()
    return next((status for word, status in _STATUSES.items() if word in kind), None)
