"""What a server says about a model that the table does not know: its context window, and whether it takes pictures.

Servers are asked once. What they say is kept in a private file of the data folder, with the date, for a week. A server
that does not answer, or does not say, changes nothing. `OUTRIDER_MODEL_LOOKUP=off` turns this off.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import Any

import msgspec

from outrider.environment import data_folder
from outrider.errors import ProviderError
from outrider.filesystem import replace_private
from outrider.providers.catalogue.capabilities import Capabilities
from outrider.providers.transport.http import ErrorResponse, Timeouts, Transport
from outrider.providers.transport.network import without_password
from outrider.struct_types import described

SWITCH = "OUTRIDER_MODEL_LOOKUP"
FILE = "models-seen.json"
SECONDS_KEPT = 7 * 24 * 3600.0
TIMEOUTS = Timeouts(connect=2.0, read=3.0, total=4.0)
LARGEST_WINDOW = 100_000_000
_WINDOWS = ("context_length", "context_window", "max_context_length", "max_model_len")
"""Fields of a list of models for the context window: OpenRouter and Together, Groq, Mistral, vLLM."""
_NUM_CTX = re.compile(r"^num_ctx\s+(\d+)", re.MULTILINE)


class Facts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a server said about one model. None for what it did not say."""

    date: float  # when it was asked, in seconds since 1970
    context_tokens: int | None = None
    image: bool | None = None
    tools: bool | None = None

    def applied_to(self, capabilities: Capabilities) -> Capabilities:
        changes: dict[str, Any] = {}
        if self.context_tokens:
            changes["context_tokens"] = self.context_tokens
        if self.image is not None and capabilities.image in ("no", "moved"):
            changes["image"] = "moved" if self.image else "no"
        if self.tools is False:
            changes["tools"] = False
        return msgspec.structs.replace(capabilities, **changes)


def is_on() -> bool:
    return os.environ.get(SWITCH, "").lower() not in ("off", "0", "no", "false")


def known(base_url: str, model: str) -> Facts | None:
    """Return what the server said about a model within the last week, or None."""
    found = _read().get(f"{without_password(base_url)}#{model}")
    return found if found is not None and abs(time.time() - found.date) < SECONDS_KEPT else None


async def look_up(
    base_url: str, model: str, headers: dict[str, str], *, is_ollama: bool = False, anew: bool = False
) -> Facts | None:
    """Return what the server says about a model, or said earlier, or None. `anew`: it may run with another window."""
    earlier = known(base_url, model)
    if earlier and not anew:
        return earlier
    ask = _ask_ollama if is_ollama else _ask_server
    try:
        found = await ask(Transport(TIMEOUTS), base_url, model, headers)
    except (ProviderError, ValueError, RecursionError):
        return earlier
    if found is not None:
        with contextlib.suppress(OSError):  # a folder that cannot be written: the server is asked again next time
            _write(_read() | {f"{without_password(base_url)}#{model}": found})
    return found


async def _ask_ollama(transport: Transport, base_url: str, model: str, headers: dict[str, str]) -> Facts | None:
    url = f"{base_url.removesuffix('/v1')}/api/show"
    body = msgspec.json.encode({"model": model})
    answer = b"".join([chunk async for chunk in transport.post(url, headers, body, _refused)])
    shown = _object(msgspec.json.decode(answer))
    sizes = [value for name, value in _object(shown.get("model_info")).items() if name.endswith(".context_length")]
    chosen = _NUM_CTX.search(str(shown.get("parameters") or ""))
    can = shown.get("capabilities")
    return Facts(
        time.time(),
        window_in(int(chosen[1]) if chosen else next(iter(sizes), None)),
        "vision" in can if isinstance(can, list) else None,
        "tools" in can if isinstance(can, list) else None,
    )


async def _ask_server(transport: Transport, base_url: str, model: str, headers: dict[str, str]) -> Facts | None:
    """Ask for the list of models, and if that has no window for the properties that llama.cpp's server tells."""
    listed = _object(msgspec.json.decode(await transport.get(f"{base_url}/models", headers, _refused)))
    data = listed.get("data")
    entries = [_object(each) for each in (data if isinstance(data, list) else ())]
    entries = [each for each in entries if each.get("id") == model]
    window = next((found for each in entries for name in _WINDOWS if (found := window_in(each.get(name)))), None)
    image = next((found for each in entries if (found := _takes_images(each)) is not None), None)
    if window is None and image is None:
        url = f"{base_url.removesuffix('/v1')}/props"
        props = _object(msgspec.json.decode(await transport.get(url, headers, _refused)))
        window = window_in(_object(props.get("default_generation_settings")).get("n_ctx"))
        vision = _object(props.get("modalities")).get("vision")
        image = vision if isinstance(vision, bool) else None
    return Facts(time.time(), window, image) if window or image is not None else None


def _takes_images(entry: dict[str, Any]) -> bool | None:
    """Return whether a model of a list takes pictures: OpenRouter names modalities, Mistral capabilities."""
    modalities = _object(entry.get("architecture")).get("input_modalities")
    if isinstance(modalities, list):
        return "image" in modalities
    vision = _object(entry.get("capabilities")).get("vision")
    return vision if isinstance(vision, bool) else None


def _refused(response: ErrorResponse) -> ProviderError:
    return ProviderError(f"status {response.status}", status=response.status)


def window_in(value: Any) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 < value <= LARGEST_WINDOW else None


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _read() -> dict[str, Facts]:
    try:
        return msgspec.json.decode((data_folder() / FILE).read_bytes(), type=described(dict[str, Facts]))
    except (OSError, ValueError, RecursionError):
        return {}


def _write(facts: dict[str, Facts]) -> None:
    now = time.time()
    kept = {name: each for name, each in facts.items() if abs(now - each.date) < SECONDS_KEPT}
    replace_private(data_folder() / FILE, msgspec.json.encode(kept))
