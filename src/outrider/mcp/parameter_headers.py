"""Headers that repeat parts of a request, so that gateways can route it without reading its body (since 2026-07-28).

A server may mark properties of a tool's schema with `x-mcp-header`; their values are sent as `Mcp-Param-…` headers.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from outrider.errors import McpError
from outrider.mcp.protocol import CALL_TOOL, CANCEL_TASK, GET_PROMPT, GET_TASK, READ_RESOURCE, UPDATE_TASK

_MARK = "x-mcp-header"
_NAMED_BY = {CALL_TOOL: "name", GET_PROMPT: "name", READ_RESOURCE: "uri"}
_NAMED_BY |= dict.fromkeys((GET_TASK, UPDATE_TASK, CANCEL_TASK), "taskId")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_ENCODED = "=?base64?"
_TYPES = ("string", "integer", "boolean")
_DATA = ("const", "enum", "default", "examples")  # keywords whose values are not schemas
_SAFE_INTEGER = 2**53 - 1
_DEEPEST = 50


class HeaderParameter(msgspec.Struct, frozen=True):
    header: str
    path: tuple[str, ...]  # the names of the properties that lead to it


def standard_headers(method: str, params: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers that repeat the method, and the name of what it uses.

    >>> standard_headers("tools/call", {"name": "add"})
    {'mcp-method': 'tools/call', 'mcp-name': 'add'}
    """
    headers = {"mcp-method": method}
    name = params.get(_NAMED_BY.get(method, ""))
    return {**headers, "mcp-name": header_value(name)} if isinstance(name, str) else headers


def header_parameters(schema: Mapping[str, Any]) -> tuple[HeaderParameter, ...]:
    """Return the properties that a schema marks. Raises McpError if a mark is invalid: the tool cannot be used."""
    found: dict[str, HeaderParameter] = {}
    for node, path in _nodes(schema, (), 0):
        if _MARK not in node:
            continue
        header, kind = node[_MARK], node.get("type")
        if not path:
            raise McpError(f"it has {_MARK} where no argument can be found")
        if not isinstance(header, str) or not _TOKEN.fullmatch(header):
            raise McpError(f"its {_MARK} {str(header)[:40]!r} is not the name of a header")
        if kind not in _TYPES:
            raise McpError(f"it has {_MARK} at a property that is not a string, an integer or a boolean")
        if header.lower() in found:
            raise McpError(f"it has {_MARK} {header!r} twice")
        found[header.lower()] = HeaderParameter(f"mcp-param-{header.lower()}", path)
    return tuple(found.values())


def parameter_headers(parameters: Sequence[HeaderParameter], arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers for the arguments of a call. Absent ones and null have none."""
    headers = {}
    for each in parameters:
        value: Any = arguments
        for name in each.path:
            value = value.get(name) if isinstance(value, Mapping) else None
        if isinstance(value, bool):
            headers[each.header] = "true" if value else "false"
        elif isinstance(value, str) or (isinstance(value, int) and abs(value) <= _SAFE_INTEGER):
            headers[each.header] = header_value(str(value))
    return headers


def header_value(text: str) -> str:
    """Return a text as the value of a header: as it is if it is plain, otherwise in base64.

    >>> header_value("us-west1"), header_value(" padded ")
    ('us-west1', '=?base64?IHBhZGRlZCA=?=')
    """
    # Some servers take the beginning alone for an encoded value, and refuse one without its end.
    if (text and not _PLAIN.fullmatch(text)) or text.startswith(_ENCODED):
        return f"{_ENCODED}{base64.b64encode(text.encode('utf-8', 'replace')).decode()}?="
    return text


def _nodes(
    node: Any, path: tuple[str, ...] | None, depth: int
) -> Iterator[tuple[Mapping[str, Any], tuple[str, ...] | None]]:
    """Yield every schema with the names of the properties that lead to it; None if other keywords do."""
    if depth > _DEEPEST:
        raise McpError("its schema is nested too deeply")
    if isinstance(node, list):
        for item in node:
            yield from _nodes(item, None, depth + 1)
    if not isinstance(node, Mapping):
        return
    yield node, path
    for key, value in node.items():
        if key == "properties" and isinstance(value, Mapping):
            for name, inner in value.items():
                yield from _nodes(inner, None if path is None else (*path, name), depth + 1)
        elif key not in _DATA and key != _MARK:
            yield from _nodes(value, None, depth + 1)
