"""LiteLLM, the optional extra: any model that it has, as "litellm/PROVIDER/MODEL". It is imported on the first request.

LiteLLM takes messages in the form of Chat Completions and makes the vendor's own form of them; what it leaves out, such
as the error flag of a result, is said in words. Keys come from the vendors' usual variables, which it reads itself.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from importlib import import_module
from typing import Any, ClassVar

import msgspec

from outrider.errors import AuthenticationError, ProviderError
from outrider.providers.body import Body
from outrider.providers.openai_chat import LONGEST_ID, OpenAIChat
from outrider.providers.render import Family, Title, safe_id
from outrider.providers.secrets import configured, masked
from outrider.providers.transport import Refusal

INSTALL = "pip install 'outrider[litellm]'"


class LiteLLM(OpenAIChat):
    """A model through litellm.acompletion. A key or a base URL that is given here is handed on to it."""

    prefix = "litellm"
    label = "LiteLLM"
    key_variables: ClassVar[tuple[str, ...]] = ()
    base_variable = "LITELLM_BASE_URL"
    default_base = ""
    key_required = False
    titles: ClassVar[Mapping[Family, Title]] = {}  # not every vendor gets the name of a file from it

    @property
    def is_openai(self) -> bool:
        """LiteLLM speaks for many; each has its own rules."""
        return False

    reads_written_calls = False

    def url(self) -> str:
        """Where a request goes: a function, which knows the vendors' URLs."""
        return "litellm.acompletion"

    def headers(self, key: str) -> dict[str, str]:
        """None: LiteLLM makes them."""
        return {}

    def _id(self, call_id: str) -> str:
        # For Gemini, LiteLLM hides the signature of a call in its id and wants it back unchanged.
        return call_id if self.capabilities.signed_calls else safe_id(call_id, LONGEST_ID)

    async def _answer(self, key: str, body: Body) -> AsyncIterator[bytes]:
        """The chunks of a completion as a server would have sent them."""
        litellm = await asyncio.to_thread(_imported)
        arguments = {"num_retries": 0} | msgspec.json.decode(bytes(body))
        arguments |= {"api_key": key} if key else {}
        arguments |= {"base_url": self.base_url} if self.base_url else {}
        chunks: Any = None
        try:
            chunks = await litellm.acompletion(**arguments)
            async for chunk in chunks:
                yield b"data: %b\n\n" % _chunk_bytes(chunk)
        except Exception as error:  # noqa: BLE001 - LiteLLM's own, its vendors' and Python's: all mean that it failed
            raise self._explained(error, key) from None
        finally:
            if close := getattr(chunks, "aclose", None):
                await close()

    def _explained(self, error: Exception, key: str) -> ProviderError:
        said = masked(str(getattr(error, "message", None) or error), key, *configured())
        status = getattr(error, "status_code", None)
        if isinstance(status, int) and 400 <= status < 600:
            headers = getattr(getattr(error, "response", None), "headers", None) or {}
            lower = {str(name).lower(): str(value) for name, value in headers.items()}
            return self.explain(Refusal(status, lower, msgspec.json.encode({"error": {"message": said}})), key)
        return ProviderError(f"LiteLLM failed: {type(error).__name__}: {said}")

    def _verdict(self, status: int, said: str) -> tuple[type[ProviderError], str]:
        if status in (401, 403):
            vendor = self.model.partition("/")[0]
            return (
                AuthenticationError,
                f"{vendor} does not accept the key that LiteLLM has ({said}); check its variable",
            )
        return super()._verdict(status, said)


def provider(model: str) -> LiteLLM:
    """The adapter for a model's name."""
    return LiteLLM(model)


def _imported() -> Any:
    # Without this it fetches a list of prices from the network while it is imported.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    try:
        litellm: Any = import_module("litellm")
    except ImportError as error:
        raise ProviderError(f"LiteLLM cannot be imported ({error}); install it with {INSTALL}") from None
    litellm.suppress_debug_info = True  # otherwise it prints advice to standard output when a request fails
    return litellm


def _chunk_bytes(chunk: Any) -> bytes:
    plain: dict[str, Any] = chunk.model_dump(exclude_none=True, warnings=False)
    usage = plain.get("usage") or {}
    if written := usage.get("cache_creation_input_tokens"):
        usage["prompt_tokens_details"] = (usage.get("prompt_tokens_details") or {}) | {"cache_write_tokens": written}
    return msgspec.json.encode(plain, enc_hook=str)
