"""Gemini API: Google's models."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import msgspec

from outrider.conversation.messages import Message, ProviderState, TextBlock, ThinkingBlock, ToolUseBlock
from outrider.errors import IncompleteStreamError, ProviderError
from outrider.providers.api import ApiProvider
from outrider.providers.base import ModelSettings, Request, ToolSpec
from outrider.providers.body import Body
from outrider.providers.gemini_stream import Chunk, IncomingReply, decode_chunks
from outrider.providers.render import Part, Renderer, Result, is_own, object_schema, reminder_text, safe_name
from outrider.providers.stream import Incoming
from outrider.providers.transcript import Transcript
from outrider.providers.transport import Refusal
from outrider.tools.schema import inline_references

NO_SIGNATURE = "skip_thought_signature_validator"
"""What the API takes in the place of a signature for calls that this model did not make."""

_RETRY_DELAY = re.compile(rb'"retryDelay"\s*:\s*"(\d+(?:\.\d+)?)s"')


class Gemini(ApiProvider):
    """Gemini through Google's developer API."""

    prefix = "gemini"
    label = "Gemini"
    key_variables = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    base_variable = "GOOGLE_GEMINI_BASE_URL"
    default_base = "https://generativelanguage.googleapis.com"

    @property
    def route(self) -> str:
        """The host, where it is not the usual one: signatures hold only where they were made."""
        return "" if self.base_url == self.default_base else self.host

    def url(self) -> str:
        """Where a request goes."""
        return f"{self.base_url}/v1beta/models/{self.model}:streamGenerateContent?alt=sse"

    def headers(self, key: str) -> dict[str, str]:
        """The headers of a request."""
        return {"x-goog-api-key": key, "content-type": "application/json"}

    def body(self, request: Request, transcript: Transcript) -> Body:
        """The request. What the user set in `generationConfig` stands beside what we set there."""
        head: dict[str, Any] = {}
        if request.system:
            head["systemInstruction"] = {"parts": [{"text": request.system}]}
        if request.tools:
            head["tools"] = [{"functionDeclarations": self.tools_once(request, _declarations)}]
        options = self._options | request.settings.options
        config = {"maxOutputTokens": self.capabilities.output_tokens} | _generation_config(request.settings)
        head |= _tool_config(request.settings) | options
        head["generationConfig"] = config | options.get("generationConfig", {})
        # Consecutive user contents are taken, so the reminder need not be put into the last.
        extra = b""
        if request.reminder:
            extra = msgspec.json.encode({"role": "user", "parts": [{"text": reminder_text(request.reminder)}]})
        return transcript.enclosed(msgspec.json.encode(head)[:-1] + b',"contents":[', b"]}", extra)

    def items(self, message: Message, previous: Message | None, renderer: Renderer) -> Iterable[Any]:
        """The contents of a message. Results stand in one of their own, so that nothing comes between them."""
        if message.role == "assistant":
            if parts := list(self._assistant(message)):
                yield {"role": "model", "parts": parts}
            return
        user = renderer.user(message, previous)
        if user.results:
            ids = {call.id: self._own(call.state).get("id") for call in previous.tool_calls} if previous else {}
            yield {"role": "user", "parts": [_result(result, ids.get(result.call_id)) for result in user.results]}
        if parts := [_part(part) for part in (*user.moved, *user.said)]:
            yield {"role": "user", "parts": parts}

    def _assistant(self, message: Message) -> Iterator[dict[str, Any]]:
        # The API asks for a signature on the first call of a reply, whoever made that.
        substitute = NO_SIGNATURE if self.capabilities.signed_calls else None
        for block in message.content:
            match block:
                case TextBlock(text=text, state=state):
                    yield _signed({"text": text}, self._own(state).get("thoughtSignature"))
                case ThinkingBlock(thinking=thinking, state=state):
                    own = self._own(state)
                    part = {"text": own["text"]} if "text" in own else {"text": thinking, "thought": True}
                    if signature := own.get("thoughtSignature"):
                        yield _signed(part, signature)
                case ToolUseBlock():
                    own = self._own(block.state)
                    call = _identified({"name": safe_name(block.name), "args": block.input}, own.get("id"))
                    yield _signed({"functionCall": call}, own.get("thoughtSignature") or substitute)
                    substitute = None

    def _own(self, state: ProviderState | None) -> dict[str, Any]:
        """The state that may be sent back: what this model gave us on this route."""
        if state is None or not is_own(state, self.prefix, self.model, self.route):
            return {}
        return state.data if isinstance(state.data, dict) else {}

    def incoming(self, tools: Collection[str] = ()) -> Incoming:
        """What makes a reply of the events of an answer."""
        state = ProviderState(self.prefix, self.model, None, self.route)
        return IncomingReply(lambda data: msgspec.structs.replace(state, data=data), self._chunks)

    def _chunks(self, data: bytes) -> Iterator[Chunk]:
        """What an event holds: a chunk, or a list of them. Raises the error that it may stand for."""
        if not data or data == b"[DONE]":
            return
        try:
            chunks = decode_chunks(data)
        except msgspec.ValidationError as error:
            raise ProviderError(f"Gemini sent an event that cannot be understood: {error}") from None
        except (ValueError, RecursionError) as error:
            raise IncompleteStreamError(f"Gemini sent an event that is not JSON: {error}", retryable=True) from None
        for chunk in chunks:
            if chunk.error is not None:
                raise self.explain(Refusal(_status(chunk.error), {}, data), self.key)
            yield chunk

    def explain(self, refusal: Refusal, key: str) -> ProviderError:
        """The error that a refusal stands for. This API says in the body how long to wait."""
        error = super().explain(refusal, key)
        if error.retry_after is None and (said := _RETRY_DELAY.search(refusal.body)):
            error.retry_after = float(said[1])
        return error

    def _verdict(self, status: int, said: str) -> tuple[type[ProviderError], str]:
        # A wrong key is a bad request to this API.
        if status == 400 and "api key" in said.lower():
            status = 401
        return super()._verdict(status, said)


def provider(model: str) -> Gemini:
    """The adapter for a model's name."""
    return Gemini(model)


def _generation_config(settings: ModelSettings) -> dict[str, Any]:
    """Return the settings that stand in `generationConfig`."""
    fields: dict[str, Any] = {}
    if settings.effort:
        fields["thinkingConfig"] = {"thinkingLevel": settings.effort}
    if settings.temperature is not None:
        fields["temperature"] = settings.temperature
    if settings.max_tokens:
        fields["maxOutputTokens"] = settings.max_tokens
    return fields


def _tool_config(settings: ModelSettings) -> dict[str, Any]:
    """Return the choice of a tool as a field of the request."""
    if not (choice := settings.tool_choice):
        return {}
    modes = {"auto": "AUTO", "required": "ANY", "none": "NONE"}
    config = {"mode": modes[choice]} if choice in modes else {"mode": "ANY", "allowedFunctionNames": [choice]}
    return {"toolConfig": {"functionCallingConfig": config}}


def _declarations(request: Request) -> Iterator[dict[str, Any]]:
    return map(_declaration, request.tools)


def _declaration(spec: ToolSpec) -> dict[str, Any]:
    parameters = inline_references(object_schema(spec.parameters))
    return {"name": spec.name, "description": spec.description, "parametersJsonSchema": parameters}


def _result(result: Result, call_id: str | None) -> dict[str, Any]:
    # Always a string: in an object, {"$ref": …} would be read as a reference to one of the parts.
    words = "\n".join(_words(result))
    response: dict[str, Any] = {
        "name": safe_name(result.tool),
        "response": {"error" if result.is_error else "output": words},
    }
    if blobs := [_part(file) for file in result.files if file.family != "text"]:
        response["parts"] = blobs
    return {"functionResponse": _identified(response, call_id)}


def _words(result: Result) -> Iterator[str]:
    """A result in words. Its other parts have no names there, so each is counted below the line that names it."""
    several = sum(file.family != "text" for file in result.files) > 1
    attached = 0
    for part in result.parts:
        if isinstance(part, str):
            yield part
        elif part.family == "text":
            yield part.text
        else:
            attached += 1
            yield f"[attached as file {attached}]" if several else "[attached]"


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, str):
        return {"text": part}
    if part.family == "text":
        return {"text": part.text}  # not as bytes: the API wants text as text, and knows few types of it
    return {"inlineData": {"mimeType": part.mime_type, "data": part.json}}


def _signed(part: dict[str, Any], signature: str | None) -> dict[str, Any]:
    return part | {"thoughtSignature": signature} if signature else part


def _identified(call: dict[str, Any], call_id: str | None) -> dict[str, Any]:
    return {"id": call_id} | call if call_id else call


def _status(error: Any) -> int:
    """The HTTP status that an error in the stream stands for."""
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) and code >= 400 else 500
