"""What each model takes, by provider and model name. The facts are in `models.json`, with the date of the check."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from outrider.conversation.documents import kinds
from outrider.errors import ProviderError
from outrider.providers.catalogue.known_models import known_models
from outrider.struct_types import described

Placement: TypeAlias = Literal["native", "moved", "text", "no"]
"""Where a file of a tool result goes: into the result, into a user message after it, into text, or nowhere."""
Kind: TypeAlias = Literal["image", "audio", "video", "document"]
"""A kind of file that an API takes or refuses. PDFs and files of text are documents here."""

IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
MEGABYTE = 1024 * 1024


class Capabilities(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a model takes, and where. A file that it does not take becomes a note."""

    image: Placement = "no"
    pdf: Placement = "text"
    text_file: Placement = "text"
    audio: Placement = "no"
    audio_types: tuple[str, ...] = ()
    """The types of audio that the API takes. Empty: whatever the file says that it is."""
    video: Placement = "no"
    document: Placement = "text"
    """Office documents, books and notebooks. They are sent as text, unless the API takes the type itself."""
    document_types: tuple[str, ...] = (kinds.DOCX, kinds.XLSX, kinds.PPTX, kinds.DOC, kinds.XLS, kinds.PPT)
    """The document types that the API takes, if it takes any."""
    image_types: tuple[str, ...] = IMAGES
    url_types: tuple[str, ...] = ()
    """The types of files that the API fetches by URL. Of other files the bytes are sent."""
    tools: bool = True
    """Whether the model calls tools natively. If not, they are described in the prompt."""
    signed_calls: bool = False  # whether the model requires a signature on calls that it did not make itself
    request_bytes: int = 32 * MEGABYTE  # the size limit of a request
    image_bytes: int = 5 * MEGABYTE
    """The size limit of an image, encoded. A larger one is scaled down."""
    pdf_bytes: int = 32 * MEGABYTE  # the size limit of a PDF, encoded
    pdf_pages: int = 100
    text_characters: int = 10_000_000
    images: int = 100  # the number of images that one request may have
    pixels: int = 8000  # the limit for the longer side of an image
    context_tokens: int | None = None
    output_tokens: int = 32_000  # the limit to request where the API requires one
    structured_output: Literal["no", "alone", "with_tools"] = "no"
    """Whether the API holds an answer to a JSON Schema: not, only without tools, or also with tools."""
    reasoning: bool = False
    """Whether the model reasons. Its encrypted reasoning is then sent back, if the API offers that."""
    effort: str = ""
    """The scale of `models.json` that says what `effort` adds to a request. Empty if the model has no effort."""
    temperature: Literal["yes", "no", "without_effort"] = "yes"
    """Whether the model takes a temperature: always, never, or only if it does not think by an effort."""
    server_tools: tuple[str, ...] = ()
    """The tools that the API runs itself: `web_search`, `web_fetch`, `code_execution`."""
    server_tools_with_functions: bool = True  # whether a request may have them beside other tools
    newest_server_tools: bool = False  # whether the model takes the newest versions of them, if the API has several
    long_cache: bool = False  # whether the API keeps a prompt cache for longer if it is asked to
    tool_search: bool = False
    """Whether the API searches deferred tools itself, so that very many of them do not fill the context window."""


SAFE = Capabilities()  # for models that are not in the table: text results, no images, PDF as text


def capabilities_of(provider: str, model: str, url: str = "") -> Capabilities:
    """Return what a model takes. The file in `OUTRIDER_CAPABILITIES` overrides the table.

    `url` is the name of a model that was named by the URL of its server. The file may use that name as well.

    >>> capabilities_of("openai-chat", "gpt-5.6").image, capabilities_of("openai-chat", "unheard-of").image
    ('moved', 'no')
    """
    known = _known(provider, model.lower(), url.lower())
    changes = _changes(provider, model, url)
    return msgspec.convert({**msgspec.to_builtins(known), **changes}, described(Capabilities)) if changes else known


def without_kind(known: Capabilities, kind: Kind) -> Capabilities:
    """Return what a model takes, now that its API refused all files of a kind. Documents are sent as text."""
    if kind == "document":
        return msgspec.structs.replace(known, pdf="text", document="text", text_file="text")
    changes: dict[str, Placement] = {kind: "no"}
    return msgspec.convert({**msgspec.to_builtins(known), **changes}, described(Capabilities))


def is_overridden(provider: str, model: str, base_url: str = "", field: str = "") -> bool:
    """Return whether the file in `OUTRIDER_CAPABILITIES` says anything about a model, or about a field of it."""
    changes = _changes(provider, model, f"{base_url.rstrip('/')}#{model}")
    return field in changes if field else bool(changes)


def _changes(provider: str, model: str, url: str) -> dict[str, Any]:
    names = (f"{provider}/{model}".lower(), url.lower())
    for pattern, changes in _overrides().items():
        if pattern.lower() in names or any(fnmatchcase(name, pattern.lower()) for name in names):
            return changes
    return {}


@lru_cache(maxsize=256)
def _known(provider: str, name: str, url: str) -> Capabilities:
    facts = known_models()
    fields = {**facts.profile(provider, name), **facts.limits(url), **facts.settings(provider, name)}
    return msgspec.convert(fields, described(Capabilities))


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
            msgspec.convert({**msgspec.to_builtins(SAFE), **changes}, described(Capabilities))
    except (OSError, ValueError) as error:
        raise ProviderError(f"the file in OUTRIDER_CAPABILITIES ({path}) cannot be used: {error}") from None
    return found
