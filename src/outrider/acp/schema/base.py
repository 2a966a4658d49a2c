"""The messages of the Agent Client Protocol, version 1, that are in use here, by who says them.

Tolerant of unknown fields in what is read, strict in what is sent: fields without a value are left out, never null.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

Meta: TypeAlias = dict[str, Any]
PROTOCOL = 1


class Wire(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Names are written as JavaScript writes them."""
