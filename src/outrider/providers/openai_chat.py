"""OpenAI Chat Completions API, and the many servers that implement it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import msgspec

from outrider.conversation.messages import Message, ProviderState, ThinkingBlock, ToolUseBlock
from outrider.errors import ProviderError
from outrider.providers import prompted_tools
from outrider.providers.api import ApiProvider, BadCallError, error_message
from outrider.providers.base import ModelSettings, Reply, Request
from outrider.providers.body import Body
from outrider.providers.chat_stream import BAD_CALL, REASONING_FIELDS, IncomingReply, is_bad_call
from outrider.providers.deltas import Delta, Notice
from outrider.providers.render import (
    Family,
    File,
    Part,
    Result,
    Title,
    UserMessage,
    is_own,
    join_text,
    object_schema,
    reminder_text,
    safe_id,
    safe_name,
)
from outrider.providers.secrets import masked
from outrider.providers.stream import Incoming
from outrider.providers.transcript import Transcript
from outrider.providers.transport import ErrorResponse
from outrider.providers.written_calls import ReplyWithWrittenCalls

LONGEST_ID = 40
"""OpenAI refuses longer call ids. Other servers take them, and some keep state in the id that they want back."""

_AUDIO_FORMATS = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}
# Words in the type or code of an error in the stream, and the HTTP status that the error corresponds to.
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
    """A model behind the Chat Completions API. With `base_url`, a model of any server that implements it.

    Such a server may need no key.
    """

    prefix = "openai-chat"
    label = "OpenAI Chat"
    key_variables: ClassVar[tuple[str, ...]] = ("OPENAI_API_KEY",)
    base_variable = "OPENAI_BASE_URL"
    default_base = "https://api.openai.com/v1"
    titles: ClassVar[Mapping[Family, Title]] = {"pdf": "name"}

    def __init__(self, model: str, *, prompted_tools: bool = False, **settings: Any) -> None:
        """`prompted_tools`: describe the tools in the prompt, for a model or server without native tool calls."""
        super().__init__(model, **settings)
        self._has_other_server = settings.get("base_url") is not None and not self.is_openai
        if prompted_tools:
            self.capabilities = msgspec.structs.replace(self.capabilities, tools=False)

    @cached_property
    def is_openai(self) -> bool:
        """Whether the server is OpenAI itself."""
        return self.host == "openai.com" or self.host.endswith(".openai.com")

    @property
    def reads_written_calls(self) -> bool:
        """Whether calls written as text count as calls. Small models on local servers need it; else it is a risk."""
        return not self.is_openai

    def url(self) -> str:
        """Return the URL of a request."""
        return f"{self.base_url}/chat/completions"

    def headers(self, key: str) -> dict[str, str]:
        """Return the headers of a request."""
        headers = {"content-type": "application/json"}
        return headers | {"authorization": f"Bearer {key}"} if key else headers

    @property
    def key(self) -> str:
        """The key. An OpenAI key is not sent to a server that the caller chose with `base_url`."""
        return (self._api_key or "").strip() if self._has_other_server and self.prefix == "openai-chat" else super().key

    def _required_key(self) -> str:
        return super()._required_key() if self.is_openai or self.key else ""

    # The request

    def body(self, request: Request, transcript: Transcript) -> Body:
        """Return the request. The system message comes before the transcript, which has only the conversation."""
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

    def user_items(self, message: UserMessage) -> Iterable[Any]:
        """Yield a message for each result, and then one with the moved files and the user's content."""
        content = (*message.moved, *message.content)
        if self.capabilities.tools:
            yield from map(self._result, message.results)
        else:
            content = (*prompted_tools.result_parts(message.results), *content)
        if content:
            yield {"role": "user", "content": content_of(content)}

    def assistant_items(self, message: Message, *, prefix_changed: bool = False) -> Iterable[Any]:
        """Yield one message, or none if nothing of it can be replayed."""
        if not self.capabilities.tools:
            if text := prompted_tools.assistant_text(message):
                yield {"role": "assistant", "content": text}
            return
        rendered = {"role": "assistant", "content": message.text or None} | self._reasoning(message)
        if message.tool_calls:
            rendered["tool_calls"] = list(map(self._call, message.tool_calls))
        if rendered["content"] or message.tool_calls:
            yield rendered

    def _reasoning(self, message: Message) -> dict[str, Any]:
        """Return the model's own reasoning, in the field in which its server sent it."""
        for block in message.content:
            if isinstance(block, ThinkingBlock) and block.state and is_own(block.state, self.prefix, self.model):
                for field in REASONING_FIELDS:
                    if block.state.data == {"field": field}:
                        return {field: block.thinking}
        return {}

    def _call(self, call: ToolUseBlock) -> dict[str, Any]:
        # Arguments that were not a JSON object go back as an empty one: servers parse the history and fail on others.
        # The result tells the model what it had written.
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
        """Send the request."""
        items = super().stream(request)
        if not request.tools:
            return items
        if not self.capabilities.tools:
            return prompted_tools.extract_calls(items, request.tools)
        return items

    def incoming(self, tools: Collection[str] = ()) -> Incoming:
        """Return an object that builds the reply from the events. It also reads calls that are written as text."""
        origin = ProviderState(self.prefix, self.model, None)
        if tools and self.capabilities.tools and self.reads_written_calls:
            return ReplyWithWrittenCalls(tools, label=self.label, origin=origin, to_error=self._stream_error)
        return IncomingReply(self.label, origin, self._stream_error)

    def explain(self, response: ErrorResponse, key: str) -> ProviderError:
        """Return the error for a response that is not a reply."""
        error = super().explain(response, key)
        if response.status == 400 and BAD_CALL.encode() in response.body and _has_bad_call(response.body):
            return BadCallError(str(error), response.body)
        return error

    def _stream_error(self, error: Any) -> ProviderError:
        """Return the error for an error event in the stream."""
        if status := _status_of(error):
            return self.explain(ErrorResponse(status, {}, msgspec.json.encode({"error": error})), self.key)
        message = masked(error_message({"error": error}), self.key) or "an error without a message"
        return ProviderError(f"{self.label} ended the stream with an error: {message}")


def provider(model: str) -> OpenAIChat:
    """Return the adapter for a model name."""
    return OpenAIChat(model)


def content_of(parts: Sequence[Part]) -> str | list[dict[str, Any]]:
    """Return the content of a message. Without files it is a plain string, because some servers take nothing else."""
    if any(isinstance(part, File) for part in parts):
        return [_part(part) for part in parts]
    return join_text(parts)


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
        return {"type": "input_audio", "input_audio": {"data": file.base64, "format": known}}
    note = f"[{file.name} ({file.mime_type}) cannot be shown: this API takes only wav and mp3]"
    return {"type": "text", "text": note}


def _tools(request: Request) -> Iterator[dict[str, Any]]:
    for spec in request.tools:
        function = {"name": spec.name, "description": spec.description, "parameters": object_schema(spec.parameters)}
        yield {"type": "function", "function": function}


def _has_bad_call(body: bytes) -> bool:
    try:
        value = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and is_bad_call(value.get("error"))


def _status_of(error: Any) -> int | None:
    """Return the HTTP status that an error in the stream corresponds to, or None if it is not known."""
    if not isinstance(error, dict):
        return None
    code = str(error.get("code") or error.get("status") or "")
    if code.isdecimal() and 400 <= int(code) < 600:
        return int(code)
    kind = f"{error.get('type')} {code}".lower()
    return next((status for word, status in _STATUSES.items() if word in kind), None)
