"""Content blocks."""

from __future__ import annotations

from typing import TypeAlias

from outrider.acp.schema.base import Wire


class TextContent(Wire, frozen=True, tag_field="type", tag="text"):
    text: str


class ImageContent(Wire, frozen=True, tag_field="type", tag="image"):
    data: str
    mime_type: str
    uri: str | None = None


class AudioContent(Wire, frozen=True, tag_field="type", tag="audio"):
    data: str
    mime_type: str


class ResourceLink(Wire, frozen=True, tag_field="type", tag="resource_link"):
    name: str
    uri: str
    mime_type: str | None = None
    size: int | None = None
    description: str | None = None


class Resource(Wire, frozen=True):
    uri: str
    text: str | None = None
    blob: str | None = None
    mime_type: str | None = None


class EmbeddedResource(Wire, frozen=True, tag_field="type", tag="resource"):
    resource: Resource


ContentBlock: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
