"""What each model API takes, by provider, API and model: one table, and the safe profile for whom it does not know."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from outrider.documents import kinds
from outrider.errors import ProviderError

Placement: TypeAlias = Literal["native", "moved", "text", "no"]
"""Where a file of a tool result goes: into the result, into a user message after all results, into text, nowhere."""

IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
MEGABYTE = 1024 * 1024


class Capabilities(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What may be sent to a model, and in which place. A file that has no place becomes a note that says so."""

    image: Placement = "no"
    pdf: Placement = "text"
    text_file: Placement = "text"
    audio: Placement = "no"
    document: Placement = "text"
    """Office documents, books and notebooks: their text, unless the API takes the type itself."""
    document_types: tuple[str, ...] = (kinds.DOCX, kinds.XLSX, kinds.PPTX, kinds.DOC, kinds.XLS, kinds.PPT)
    """Those that it takes, where it takes any."""
    image_types: tuple[str, ...] = IMAGES
    tools: bool = True
    """Whether the model calls tools natively; otherwise they are described in the prompt."""
    signed_calls: bool = False
    """Whether the model wants a signature on calls that it did not make itself."""
    request_bytes: int = 32 * MEGABYTE
    """The largest request, as it is sent."""
    image_bytes: int = 5 * MEGABYTE
    """The largest picture, encoded; a larger one is scaled down."""
    pdf_bytes: int = 32 * MEGABYTE
    """The largest PDF, encoded."""
    pdf_pages: int = 100
    text_characters: int = 10_000_000
    images: int = 100
    """How many pictures one request may have."""
    pixels: int = 8000
    """The longest side of a picture."""
    context_tokens: int | None = None
    output_tokens: int = 32_000
    """What to ask for where the API wants a number."""
    reasoning: bool = False
    """Whether the model thinks, and wants its thoughts back encrypted where the API offers that."""


SAFE = Capabilities()
"""For models that are not in the table: text results, no pictures, PDF as text."""

_CLAUDE = Capabilities(
    image="native",
    pdf="native",
    text_file="native",
    pixels=2000,  # the limit for requests with more than 20 pictures; larger ones are scaled down by the API anyway
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

# Provider, pattern of the model's name, profile. The first line that fits counts.
_TABLE: tuple[tuple[str, str, Capabilities], ...] = (
    ("anthropic", "claude-3*", msgspec.structs.replace(_CLAUDE, output_tokens=4_096)),
    ("anthropic", "claude-*", _CLAUDE),
    ("openai", "ft:gpt-4*", msgspec.structs.replace(_RESPONSES, reasoning=False)),
    ("openai", "chatgpt-4o*", msgspec.structs.replace(_RESPONSES, reasoning=False)),
    ("openai", "gpt-4*", msgspec.structs.replace(_RESPONSES, reasoning=False)),
    ("openai", "gpt-*-chat*", msgspec.structs.replace(_RESPONSES, reasoning=False)),
    ("openai", "gpt-[56]*", _RESPONSES),
    ("openai", "o[134]*", _RESPONSES),
    ("openai-chat", "gpt-[456]*", _CHAT_VISION),
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
    *(
        ("ollama", pattern, _LOCAL_VISION)
        for pattern in (
            "*llava*",
            "*vision*",
            "*-vl*",
            "*vl",
            "*vl:*",
            "*pixtral*",
            "llama4*",
            "minicpm-v*",
            "moondream*",
        )
    ),
    ("ollama", "gemma3:1b*", _LOCAL),
    ("ollama", "gemma3*", _LOCAL_VISION),
    ("ollama", "mistral-small3*", _LOCAL_VISION),
    ("ollama", "*", _LOCAL),
)


def capabilities_of(provider: str, model: str) -> Capabilities:
    """What a model takes. A file that `OUTRIDER_CAPABILITIES` names goes before the table.

    >>> capabilities_of("openai-chat", "gpt-5.6").image, capabilities_of("openai-chat", "unheard-of").image
    ('moved', 'no')
    """
    name = model.lower()
    lines = (found for owner, pattern, found in _TABLE if owner == provider and fnmatchcase(name, pattern))
    known = next(lines, SAFE)
    for pattern, changes in _overrides().items():
        if fnmatchcase(f"{provider}/{name}", pattern.lower()):
            return msgspec.convert({**msgspec.to_builtins(known), **changes}, Capabilities)
    return known


def _overrides() -> dict[str, dict[str, Any]]:
    """JSON such as {"ollama/my-model*": {"image": "moved"}}: fields of the profile for models by their names."""
    path = os.environ.get("OUTRIDER_CAPABILITIES")
    if not path:
        return {}
    try:
        found = msgspec.json.decode(Path(path).expanduser().read_bytes(), type=dict[str, dict[str, Any]])
        for changes in found.values():
            msgspec.convert({**msgspec.to_builtins(SAFE), **changes}, Capabilities)
    except (OSError, ValueError) as error:
        raise ProviderError(f"OUTRIDER_CAPABILITIES names {path}, which cannot be used: {error}") from None
    return found
