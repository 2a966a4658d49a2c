"""The base of the types of the Agent Client Protocol, version 1, and its content blocks.

Types have the names of the official schema. Unknown fields are ignored when a message is read. Fields without a value
are left out when one is sent, never null.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

Meta: TypeAlias = dict[str, Any]
PROTOCOL_VERSION = 1


class Wire(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The base of all types: field names are camelCase in JSON."""


class TextContent(Wire, frozen=True, tag_field="type", tag="text"):
    text: str


class ImageContent(Wire, frozen=True, tag_field="type", tag="image"):
    data: str
    mime_type: str


class AudioContent(Wire, frozen=True, tag_field="type", tag="audio"):
    data: str
    mime_type: str


class ResourceLink(Wire, frozen=True, tag_field="type", tag="resource_link"):
    name: str
    uri: str


class Resource(Wire, frozen=True):
    uri: str
    text: str | None = None
    blob: str | None = None
    mime_type: str | None = None


class EmbeddedResource(Wire, frozen=True, tag_field="type", tag="resource"):
    resource: Resource


ContentBlock: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
