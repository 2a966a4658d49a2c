"""The types of the Agent Client Protocol, version 1, that are in use here, with the names of its official schema.

Unknown fields are ignored when a message is read. Fields without a value are left out when one is sent, never null.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

Meta: TypeAlias = dict[str, Any]
PROTOCOL_VERSION = 1


class Wire(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The base of all types: field names are camelCase in JSON."""
