"""Gemini API: Google's models. `_part` encodes text and files; `render.py` chooses where each file goes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, ClassVar

from outrider.conversation.messages import (
    AttachmentBlock,
    Message,
    RawBlock,
    ServerToolResultBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from outrider.conversation.store import AttachmentStore
from outrider.errors import ProviderError
from outrider.providers.api import ApiProvider
from outrider.providers.base import Request, ToolSpec
from outrider.providers.credentials.keys import KEY_VARIABLES
from outrider.providers.rendering import tool_schemas
from outrider.providers.rendering.message_parts import File, Part, Result, UserMessage, reminder_text
from outrider.providers.rendering.output_schemas import GEMINI
from outrider.providers.rendering.server_tools import described
from outrider.providers.rendering.transcript import Transcript
from outrider.providers.rendering.wire_names import safe_name
from outrider.providers.streams.gemini_chunks import Chunk, decode_chunks
from outrider.providers.streams.gemini_stream import IncomingReply
from outrider.providers.streams.stream import Incoming
from outrider.providers.transport.http import Body, ErrorResponse
from outrider.tools.schema import inline_references

NO_SIGNATURE = "skip_thought_signature_validator"
"""The API takes this instead of a signature for calls that this model did not make."""

_SERVER_TOOLS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "web_search": ({"googleSearch": {}}, ()),
    "web_fetch": ({"urlContext": {}}, ()),
    "code_execution": ({"codeExecution": {}}, ()),
}
_RETRY_DELAY = re.compile(rb'"retryDelay"\s*:\s*"(\d+(?:\.\d+)?)s"')


class Gemini(ApiProvider):
    """Gemini through Google's developer API."""

    prefix = "gemini"
    label = "Gemini"
    key_variables: ClassVar[tuple[str, ...]] = KEY_VARIABLES["gemini"]
    base_variable = "GOOGLE_GEMINI_BASE_URL"
    default_base = "https://generativelanguage.googleapis.com"
    dialect = GEMINI

    @property
    def route(self) -> str:
        """The host, if it is not the default: signatures are valid only on the host that made them."""
        return "" if self.base_url == self.default_base else self.host

    def url(self) -> str:
        return f"{self.base_url}/v1beta/models/{self.model}:streamGenerateContent?alt=sse"

    def headers(self, key: str) -> dict[str, str]:
        return {"x-goog-api-key": key, "content-type": "application/json"}

    def body(self, request: Request, transcript: Transcript) -> Body:
        """Return the request. The user's `generationConfig` is merged with ours."""
        head: dict[str, Any] = {}
        if request.system:
            head["systemInstruction"] = {"parts": [{"text": request.system}]}
        tools: list[Any] = described(request.server_tools, self.label, _SERVER_TOOLS)
        if request.tools:
            tools.append({"functionDeclarations": self.tools_once(request, lambda _: map(_declaration, request.tools))})
        if tools:
            head["tools"] = tools
        options = self._options | request.settings.options
        settings = self.setting_fields(request.settings, "maxOutputTokens")
        config = {"maxOutputTokens": self.reply_tokens} | settings
        if schema := self.output_schema(request):
            config |= {"responseMimeType": "application/json", "responseJsonSchema": schema}
        head |= _tool_config(request) | options
        head["generationConfig"] = config | options.get("generationConfig", {})
        # The API takes consecutive user contents, so the reminder can be a content of its own.
        reminder = {"role": "user", "parts": [{"text": reminder_text(request.reminder)}]}
        return transcript.request(head, "contents", [reminder] if request.reminder else ())

    def user_items(self, message: UserMessage) -> Iterable[Any]:
        """Yield one content with all results, and then one with the moved files and the user's content."""
        if message.results:
            states = [self.own_data(each.call.state if each.call else None) for each in message.results]
            yield {"role": "user", "parts": [_result(*each) for each in zip(message.results, states, strict=True)]}
        if message.moved or message.content:
            yield {"role": "user", "parts": [*map(_part, message.moved), *map(_part, message.content)]}

    def assistant_items(self, message: Message, files: Mapping[str, File], prefix_changed: bool) -> Iterable[Any]:
        if parts := list(self._assistant_parts(message, files)):
            yield {"role": "model", "parts": parts}

    def replays(self, block: AttachmentBlock) -> bool:
        return self.is_own(block.state)

    def _assistant_parts(self, message: Message, files: Mapping[str, File]) -> Iterator[dict[str, Any]]:
        # The API requires a signature on the first call of a reply, also if another model made the call.
        substitute = NO_SIGNATURE if self.capabilities.signed_calls else None
        for block in message.content:
            match block:
                case TextBlock(text=text, state=state):
                    yield _signed({"text": text}, self.own_data(state).get("thoughtSignature"))
                case ThinkingBlock(thinking=thinking, state=state):
                    own = self.own_data(state)
                    part = {"text": own["text"]} if "text" in own else {"text": thinking, "thought": True}
                    if signature := own.get("thoughtSignature"):
                        yield _signed(part, signature)
                case ServerToolUseBlock(state=state) | ServerToolResultBlock(state=state) | RawBlock(state=state):
                    if isinstance(kept := self.own_data(state).get("part"), dict):
                        yield kept
                case AttachmentBlock(sha256=name, state=state) if name in files:
                    yield _signed(_part(files[name]), self.own_data(state).get("thoughtSignature"))
                case ToolUseBlock():
                    own = self.own_data(block.state)
                    call = _identified({"name": safe_name(block.name), "args": block.input}, own.get("id"))
                    yield _signed({"functionCall": call}, own.get("thoughtSignature") or substitute)
                    substitute = None

    def incoming(self, tools: Collection[str] = (), store: AttachmentStore | None = None) -> Incoming:
        return IncomingReply(self.origin, self._chunks, store)

    def _chunks(self, data: bytes) -> Iterator[Chunk]:
        """Yield the chunks of an event: one, or a list. Raise the error that a chunk reports."""
        if not data or data == b"[DONE]":
            return
        for chunk in decode_chunks(data):
            if chunk.error is not None:
                raise self.explain(ErrorResponse(_status(chunk.error), {}, data), self.key)
            yield chunk

    def explain(self, response: ErrorResponse, key: str) -> ProviderError:
        """Return the error for a response that is not a reply. This API says in the body how long to wait."""
        error = super().explain(response, key)
        if error.retry_after is None and (seconds := _RETRY_DELAY.search(response.body)):
            error.retry_after = float(seconds[1])
        return error

    def _classify(self, status: int, message: str) -> tuple[type[ProviderError], str]:
        # This API reports a wrong key as a bad request.
        if status == 400 and "api key" in message.lower():
            status = 401
        return super()._classify(status, message)


def _tool_config(request: Request) -> dict[str, Any]:
    """Return the choice of a tool as a field of the request, and what it takes to have both kinds of tools."""
    config: dict[str, Any] = {}
    if choice := request.settings.tool_choice:
        modes = {"auto": "AUTO", "required": "ANY", "none": "NONE"}
        mode = {"mode": modes[choice]} if choice in modes else {"mode": "ANY", "allowedFunctionNames": [choice]}
        config["functionCallingConfig"] = mode
    if request.tools and request.server_tools:
        config["includeServerSideToolInvocations"] = True
    return {"toolConfig": config} if config else {}


def _declaration(spec: ToolSpec) -> dict[str, Any]:
    spec = tool_schemas.accepted(spec, tool_schemas.GEMINI)
    parameters = inline_references(spec.parameters)
    return {"name": spec.name, "description": spec.description, "parametersJsonSchema": parameters}


def _result(result: Result, own: dict[str, Any]) -> dict[str, Any]:
    # Always a string: in an object, the API would read {"$ref": …} as a reference to one of the parts.
    text = "\n".join(_result_lines(result))
    outcome = {"error" if result.is_error else "output": text}
    response: dict[str, Any] = {"name": safe_name(result.tool), "response": outcome}
    if blobs := [_part(file) for file in result.files if file.family != "text"]:
        response["parts"] = blobs
    return {"functionResponse": _identified(response, own.get("id"))}


def _result_lines(result: Result) -> Iterator[str]:
    """Yield the text of a result. Files have no names in the API, so each is numbered below the line with its name."""
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
        return {"text": part.text}  # not as bytes: the API knows few types of text
    return {"inlineData": {"mimeType": part.mime_type, "data": part.base64}}


def _signed(part: dict[str, Any], signature: str | None) -> dict[str, Any]:
    return part | {"thoughtSignature": signature} if signature else part


def _identified(call: dict[str, Any], call_id: str | None) -> dict[str, Any]:
    return {"id": call_id} | call if call_id else call


def _status(error: Any) -> int:
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) and code >= 400 else 500
