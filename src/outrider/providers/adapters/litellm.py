"""LiteLLM, an optional extra: any of its models as "litellm/PROVIDER/MODEL". It is imported on the first request.

LiteLLM takes messages in the form of Chat Completions and converts them for the vendor. What it does not convert, such
as the error flag of a result, is sent as text. It reads keys from the vendors' usual environment variables.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from importlib import import_module
from typing import Any, ClassVar

import msgspec

from outrider.errors import AuthenticationError, ProviderError, install_extra
from outrider.providers.adapters.openai_chat import LONGEST_ID, OpenAIChat
from outrider.providers.credentials.secrets import configured, masked
from outrider.providers.rendering.message_parts import Family, Title
from outrider.providers.rendering.wire_names import safe_id
from outrider.providers.transport.http import Body, ErrorResponse


class LiteLLM(OpenAIChat):
    """A model through litellm.acompletion. A key or a base URL that is passed here is passed on to it."""

    prefix = "litellm"
    label = "LiteLLM"
    key_variables: ClassVar[tuple[str, ...]] = ()
    base_variable = "LITELLM_BASE_URL"
    default_base = ""
    key_required = False
    titles: ClassVar[Mapping[Family, Title]] = {}  # LiteLLM does not pass the name of a file to every vendor

    is_openai = False  # it serves many vendors with their own rules
    reads_written_calls = False

    def url(self) -> str:
        """Return the name of the function that is called. It knows the vendors' URLs."""
        return "litellm.acompletion"

    def headers(self, key: str) -> dict[str, str]:
        """Return no headers: LiteLLM makes them."""
        return {}

    def _id(self, call_id: str) -> str:
        # For Gemini, LiteLLM keeps the signature of a call in its id and wants it back unchanged.
        return call_id if self.capabilities.signed_calls else safe_id(call_id, LONGEST_ID)

    async def _response(self, key: str, body: Body, idle_seconds: float) -> AsyncIterator[bytes]:
        """Yield the chunks of a completion in the form in which a server sends them."""
        litellm = await asyncio.to_thread(_import_litellm)
        arguments = {"num_retries": 0} | msgspec.json.decode(bytes(body))
        arguments |= {"api_key": key} if key else {}
        arguments |= {"base_url": self.base_url} if self.base_url else {}
        chunks: Any = None
        try:
            chunks = await litellm.acompletion(**arguments)
            async for chunk in chunks:
                yield b"data: %b\n\n" % _chunk_bytes(chunk)
        except Exception as error:  # noqa: BLE001 - LiteLLM raises its own errors, its vendors' and Python's
            raise self._to_error(error, key) from None
        finally:
            if close := getattr(chunks, "aclose", None):
                await close()

    def _to_error(self, error: Exception, key: str) -> ProviderError:
        message = masked(str(getattr(error, "message", None) or error), key, *configured())
        status = getattr(error, "status_code", None)
        if isinstance(status, int) and 400 <= status < 600:
            headers = getattr(getattr(error, "response", None), "headers", None) or {}
            lower = {str(name).lower(): str(value) for name, value in headers.items()}
            return self.explain(ErrorResponse(status, lower, msgspec.json.encode({"error": {"message": message}})), key)
        return ProviderError(f"LiteLLM failed: {type(error).__name__}: {message}")

    def _classify(self, status: int, message: str) -> tuple[type[ProviderError], str]:
        if status in (401, 403):
            vendor = self.model.partition("/")[0]
            sentence = f"{vendor} does not accept the key that LiteLLM has ({message}); check its variable"
            return AuthenticationError, sentence
        return super()._classify(status, message)


def _import_litellm() -> Any:
    # Without this variable, the import fetches a price list from the network.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    try:
        litellm: Any = import_module("litellm")
    except ImportError as error:
        raise ProviderError(f"LiteLLM cannot be imported ({error}); install it: {install_extra('litellm')}") from None
    litellm.suppress_debug_info = True  # otherwise it prints advice to standard output when a request fails
    return litellm


def _chunk_bytes(chunk: Any) -> bytes:
    plain: dict[str, Any] = chunk.model_dump(exclude_none=True, warnings=False)
    usage = plain.get("usage") or {}
    if written := usage.get("cache_creation_input_tokens"):
        usage["prompt_tokens_details"] = (usage.get("prompt_tokens_details") or {}) | {"cache_write_tokens": written}
    return msgspec.json.encode(plain, enc_hook=str)
