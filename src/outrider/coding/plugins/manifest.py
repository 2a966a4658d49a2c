"""The manifest of a plugin, `plugin.json`, as the Agent Plugins specification 1.0.0 has it."""

from __future__ import annotations

import json
from typing import Annotated, Any

import msgspec

from outrider.struct_types import described

SCHEMA = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"
_NAME = r"^(?!.*(?:--|\.\.))[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?\Z"


class Author(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who made a plugin."""

    name: str = ""
    email: str = ""
    url: str = ""


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fields of a manifest."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern=_NAME)]
    schema: str = msgspec.field(name="$schema")
    version: str = ""
    description: str = ""
    author: Author = Author()
    homepage: str = ""
    repository: str = ""
    license: str = ""
    keywords: list[str] = []
    extensions: dict[str, dict[str, Any]] = {}


_FIELDS = tuple(msgspec.structs.fields(Manifest))


def read_json(content: bytes) -> Any:
    """Return the value in a JSON file. Raises ValueError."""
    try:
        return json.loads(content.decode("utf-8-sig"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"it is not JSON: {error}") from None


def read_manifest(data: Any) -> tuple[Manifest, list[str]]:
    """Return the manifest, and remarks about fields that are ignored. Raises ValueError if it is not valid.

    The specification wants unknown fields, and `extensions` that are not a table, to be ignored; all else is fatal.
    """
    if not isinstance(data, dict):
        raise ValueError("it must be a JSON object")
    remarks: list[str] = []
    known = {field.encode_name for field in _FIELDS}
    for name in sorted(data.keys() - known):
        remarks.append(f"the field {name[:60]!r} is not in the specification; it is ignored")
    if "extensions" in data and not isinstance(data["extensions"], dict):
        remarks.append("extensions is not a table; it is ignored")
        data = {name: value for name, value in data.items() if name != "extensions"}
    try:
        manifest = msgspec.convert({name: value for name, value in data.items() if name in known}, described(Manifest))
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    if manifest.schema != SCHEMA:
        raise ValueError(f"its $schema is not supported; write {SCHEMA}")
    return manifest, remarks
