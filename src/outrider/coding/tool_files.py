"""Load tools from files that the user names: JSON with their descriptions, or Python with their functions."""

from __future__ import annotations

import json
import re
import runpy
import sys
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import msgspec

from outrider.errors import SchemaError, ToolDefinitionError
from outrider.providers.base import ToolSpec
from outrider.struct_types import described
from outrider.tools.schema import Schema
from outrider.tools.tool import NAME, Tool, make_tools

SHAPE = '[{"name": …, "description": …, "parameters": {…}}]'


class _Description(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    description: str = ""
    parameters: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "object", "properties": {}})


def read_tools(paths: Iterable[str]) -> tuple[ToolSpec, ...]:
    """Return the descriptions of the tools in all files, in order. Raises ToolDefinitionError that names the file."""
    tools: dict[str, ToolSpec] = {}
    for path in paths:
        for spec in _from_python(path) if path.endswith(".py") else _from_json(path):
            if spec.name in tools:
                raise ToolDefinitionError(f"{path}: another tool has the name {spec.name!r}")
            tools[spec.name] = spec
    return tuple(tools.values())


def load_tools(paths: Iterable[str]) -> tuple[Tool, ...]:
    """Return the tools that Python files define. Raises ToolDefinitionError that names the file."""
    return make_tools(tool for path in paths for tool in _run(path))


def _from_json(path: str) -> Iterator[ToolSpec]:
    try:
        listed = msgspec.convert(json.loads(Path(path).read_bytes()), described(list[_Description]))
    except OSError as error:
        raise ToolDefinitionError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ToolDefinitionError(f"{path} is not a list of tools, {SHAPE}: {error}") from None
    for each in listed:
        if not re.fullmatch(NAME, each.name):
            raise ToolDefinitionError(
                f"{path}: {each.name!r} is not a valid tool name; use 1 to 64 letters, digits, '_' and '-'"
            )
        yield ToolSpec(each.name, each.description, _schema(each, path))


def _schema(described: _Description, path: str) -> dict[str, Any]:
    try:
        schema = Schema.of(described.parameters).json
    except SchemaError as error:
        raise ToolDefinitionError(f"{path}: the parameters of {described.name}: {error}") from None
    if schema.get("type") != "object":
        raise ToolDefinitionError(f'{path}: the parameters of {described.name} must have the type "object"')
    return schema


def _from_python(path: str) -> list[ToolSpec]:
    return [ToolSpec(tool.name, tool.description, tool.parameters) for tool in _run(path)]


def _run(path: str) -> list[Tool]:
    """Run the file and return the tools that it defines. Its output goes to standard error."""
    if not Path(path).is_file():
        raise ToolDefinitionError(f"{path} cannot be read: there is no such file")
    sys.path.insert(0, str(Path(path).resolve().parent))
    try:
        with redirect_stdout(sys.stderr):
            names = runpy.run_path(path, run_name="outrider_tools")
    except (Exception, SystemExit) as error:
        raise ToolDefinitionError(f"{path} failed: {type(error).__name__}: {error}") from error
    finally:
        del sys.path[0]
    found = {id(value): value for value in names.values() if isinstance(value, Tool)}
    if not found:
        raise ToolDefinitionError(f"{path} has no tools; put @tool from outrider over its functions")
    return list(found.values())
