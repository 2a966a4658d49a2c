"""What each model takes: one table by provider and model name, and a safe profile for unknown models."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from outrider.conversation.documents import kinds
from outrider.errors import ProviderError

Placement: TypeAlias = Literal["native", "moved", "text", "no"]
"""Where a file of a tool result goes: into the result, into a user message after it, into text, or nowhere."""

IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
MEGABYTE = 1024 * 1024


class Capabilities(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a model takes, and where. A file that it does not take becomes a note."""

    image: Placement = "no"
    pdf: Placement = "text"
    text_file: Placement = "text"
    audio: Placement = "no"
    document: Placement = "text"
    """Office documents, books and notebooks. They are sent as text, unless the API takes the type itself."""
    document_types: tuple[str, ...] = (kinds.DOCX, kinds.XLSX, kinds.PPTX, kinds.DOC, kinds.XLS, kinds.PPT)
    """The document types that the API takes, if it takes any."""
    image_types: tuple[str, ...] = IMAGES
    tools: bool = True
    """Whether the model calls tools natively. If not, they are described in the prompt."""
    signed_calls: bool = False
    """Whether the model requires a signature on calls that it did not make itself."""
    request_bytes: int = 32 * MEGABYTE
    """The size limit of a request."""
    image_bytes: int = 5 * MEGABYTE
    """The size limit of an image, encoded. A larger one is scaled down."""
    pdf_bytes: int = 32 * MEGABYTE
    """The size limit of a PDF, encoded."""
    pdf_pages: int = 100
    text_characters: int = 10_000_000
    images: int = 100
    """The number of images that one request may have."""
    pixels: int = 8000
    """The limit for the longer side of an image."""
    context_tokens: int | None = None
    output_tokens: int = 32_000
    """The limit to request where the API requires one."""
    reasoning: bool = False
    """Whether the model reasons. Its encrypted reasoning is then sent back, if the API offers that."""


SAFE = Capabilities()
"""For models that are not in the table: text results, no images, PDF as text."""

_CLAUDE = Capabilities(
    image="native",
    pdf="native",
    text_file="native",
    pixels=2000,  # the limit for requests with more than 20 images; the API scales larger ones down anyway
    context_tokens=200_000,
)
_RESPONSES = Capabilities(
    image="native",
    pdf="native",
    document="native",
    request_bytes=512 * MEGABYTE,
    image_bytes=20_971_520,
    pdf_bytes=73_400_320,
    text_characters=10_485_760,
    images=500,
    context_tokens=400_000,
    reasoning=True,
)
_CHAT_VISION = Capabilities(
    image="moved",
    pdf="moved",
    request_bytes=512 * MEGABYTE,
    image_bytes=20_971_520,
    pdf_bytes=32 * MEGABYTE,
    images=500,
    context_tokens=400_000,
)
_GEMINI_3 = Capabilities(
    image="native",
    pdf="native",
    text_file="native",
    audio="moved",
    image_types=("image/jpeg", "image/png", "image/webp"),
    signed_calls=True,
    request_bytes=20 * MEGABYTE,
    image_bytes=14 * MEGABYTE,
    pdf_bytes=19 * MEGABYTE,
    pdf_pages=1000,
    images=3000,
    context_tokens=1_000_000,
    output_tokens=64_000,
)
_GEMINI_2 = msgspec.structs.replace(_GEMINI_3, image="moved", pdf="moved", text_file="moved", signed_calls=False)
_LOCAL = Capabilities(image_bytes=20 * MEGABYTE, images=20, pixels=2048)
_LOCAL_VISION = msgspec.structs.replace(_LOCAL, image="moved")
_TEXT_RESPONSES = msgspec.structs.replace(_RESPONSES, image="no", pdf="text")

# Models by name, on any server: those with vision, and before them those of the same families without. A name matches
# with and without the vendor before it ("openai/gpt-4o"). If a server offers a listed model without vision, its error
# says so, and the request is sent again without images.
_TEXT_ONLY = (
    "gemma3:1b*", "gemma-3-1b*", "o1-mini*", "o1-preview*", "o3-mini*", "gpt-4", "gpt-4-0*", "gpt-4-32k*",
    "gpt-4-1106*", "claude-2*", "claude-instant*", "mistral-small-24*", "mistral-small-2501*",
    "mistral-medium-2312*", "mistral-large-24*", "magistral-*-2506*", "magistral-*-2507*",
)  # fmt: skip
_VISION = (
    # any vendor
    "*vision*", "*-vl*", "*vl", "*vl:*", "*vl-*", "*vlm*", "*multimodal*", "*-omni*",
    # closed models, behind servers with a Chat Completions API
    "gpt-4*", "gpt-5*", "gpt-6*", "chatgpt-4o*", "chatgpt-5*", "o1*", "o3*", "o4*", "claude-*",
    "anthropic.claude-*", "gemini-*", "grok-4*", "nova-lite*", "nova-pro*", "nova-premier*", "amazon.nova-lite*",
    "amazon.nova-pro*",
    # open models
    "*llava*", "*pixtral*", "llama4*", "llama-4*", "gemma3*", "gemma-3*", "gemma4*", "gemma-4*", "paligemma*",
    "mistral-small*", "mistral-medium*", "mistral-large-25*", "mistral-large-latest", "magistral*", "ministral-3*",
    "minicpm-v*", "minicpm-o*", "moondream*", "molmo*", "qvq*", "internvl*", "glm-4v*", "glm-4.?v*", "glm-5v*",
    "kimi-k2.5*", "idefics*", "ui-tars*", "deepseek-ocr*",
)  # fmt: skip
_ANY_SERVER = (
    *((pattern, _LOCAL) for pattern in _TEXT_ONLY),
    *((pattern, _LOCAL_VISION) for pattern in _VISION),
)

# Provider, pattern of the model name, profile. The first match counts.
_TABLE: tuple[tuple[str, str, Capabilities], ...] = (
    ("anthropic", "claude-3*", msgspec.structs.replace(_CLAUDE, output_tokens=4_096)),
    ("anthropic", "*claude-*", _CLAUDE),
    ("openai", "o1-mini*", _TEXT_RESPONSES),
    ("openai", "o3-mini*", _TEXT_RESPONSES),
    ("openai", "ft:gpt-4*", msgspec.structs.replace(_RESPONSES, reasoning=False)),
    ("openai", "chatgpt-4o*", msgspec.structs.replace(_RESPONSES, reasoning=False)),
    ("openai", "gpt-4*", msgspec.structs.replace(_RESPONSES, reasoning=False)),
    ("openai", "gpt-*-chat*", msgspec.structs.replace(_RESPONSES, reasoning=False)),
    ("openai", "gpt-[56]*", _RESPONSES),
    ("openai", "o[134]*", _RESPONSES),
    ("openai", "codex-*", _RESPONSES),
    *(("openai-chat", pattern, SAFE) for pattern in _TEXT_ONLY),
    ("openai-chat", "gpt-[456]*", _CHAT_VISION),
    ("openai-chat", "ft:gpt-[456]*", _CHAT_VISION),
    ("openai-chat", "chatgpt-*", _CHAT_VISION),
    ("openai-chat", "o[134]*", _CHAT_VISION),
    ("gemini", "gemini-2*", _GEMINI_2),
    ("gemini", "gemini-1*", _GEMINI_2),
    ("gemini", "gemini-*", _GEMINI_3),
    ("litellm", "anthropic/claude-*", msgspec.structs.replace(_CLAUDE, text_file="text")),
    ("litellm", "gemini/gemini-*", msgspec.structs.replace(_GEMINI_3, text_file="text", audio="no")),
    ("litellm", "vertex_ai/gemini-*", msgspec.structs.replace(_GEMINI_3, text_file="text", audio="no")),
    ("litellm", "openai/gpt-[456]*", _CHAT_VISION),
    ("litellm", "gpt-[456]*", _CHAT_VISION),
    ("litellm", "azure/gpt-[456]*", _CHAT_VISION),
    ("litellm", "*claude-*", msgspec.structs.replace(_CLAUDE, text_file="text")),
    # Ollama has its own version names: these versions are older than the vision models of their families.
    ("ollama", "mistral-small", _LOCAL),
    ("ollama", "mistral-small:*", _LOCAL),
    ("ollama", "magistral*", _LOCAL),
    ("ollama", "gemma3n*", _LOCAL),
)
_DEFAULTS = {"openai-chat": SAFE, "litellm": SAFE, "ollama": _LOCAL, "openai-compatible": _LOCAL}
"""Providers that serve models of any vendor, with the profile for an unknown model."""

_HOSTS = {
    "api.groq.com": {"images": 5, "request_bytes": 4 * MEGABYTE, "image_bytes": 3 * MEGABYTE},
    "api.mistral.ai": {"images": 8, "image_bytes": 10 * MEGABYTE},
}
"""Servers with lower limits than their models have elsewhere."""


def capabilities_of(provider: str, model: str, url: str = "") -> Capabilities:
    """Return what a model takes. The file in `OUTRIDER_CAPABILITIES` overrides the table.

    `url` is the name of a model that was named by the URL of its server. The file may use that name as well.

    >>> capabilities_of("openai-chat", "gpt-5.6").image, capabilities_of("openai-chat", "unheard-of").image
    ('moved', 'no')
    """
    known = _known(provider, model.lower())
    for host, limits in _HOSTS.items():
        if f"://{host}/" in url.lower():
            known = msgspec.structs.replace(known, **limits)
    names = (f"{provider}/{model}".lower(), url.lower())
    for pattern, changes in _overrides().items():
        if pattern.lower() in names or any(fnmatchcase(name, pattern.lower()) for name in names):
            return msgspec.convert({**msgspec.to_builtins(known), **changes}, Capabilities)
    return known


def _known(provider: str, name: str) -> Capabilities:
    for owner, pattern, found in _TABLE:
        if owner == provider and fnmatchcase(name, pattern):
            return found
    if provider not in _DEFAULTS:
        return SAFE
    own_name = name.rpartition("/")[2]
    for pattern, found in _ANY_SERVER:
        if fnmatchcase(own_name, pattern):
            return found
    return _DEFAULTS[provider]


def _overrides() -> dict[str, dict[str, Any]]:
    """Read JSON such as {"ollama/my-model*": {"image": "moved"}}: fields of the profile by model name.

    A model of a compatible server is named "http://localhost:8000/v1#qwen3", or "*#qwen3" for any server.
    """
    path = os.environ.get("OUTRIDER_CAPABILITIES")
    if not path:
        return {}
    try:
        found = msgspec.json.decode(Path(path).expanduser().read_bytes(), type=dict[str, dict[str, Any]])
        for changes in found.values():
            msgspec.convert({**msgspec.to_builtins(SAFE), **changes}, Capabilities)
    except (OSError, ValueError) as error:
        raise ProviderError(f"the file in OUTRIDER_CAPABILITIES ({path}) cannot be used: {error}") from None
    return found
