"""The official JSON Schemas of the protocol, from npm, once: each message is held against its own definition.

The schemas allow keys that they do not know. These checks do not, nor a word outside of a list of known ones that has a
place for "other": what we send should be what we mean.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal

import jsonschema_rs
import pytest

PACKAGE = "@agentclientprotocol/sdk"
RELEASE = "2.4.0"
FOLDER = Path(sys.prefix) / "acp-schema" / RELEASE

Side = Literal["agent", "client"]
"""Whose method it is: who is asked or told."""
Kind = Literal["params", "result"]


def check(name: str, value: Any, *, unstable: bool = False) -> None:
    """Raises AssertionError, with the place, where the value does not fit a definition or has keys unknown to it."""
    problems = list(_Walk(unstable).problems(f"#/$defs/{name}", value))
    assert not problems, f"not a {name}: {'; '.join(problems)}\n{json.dumps(value)[:2000]}"


def definition_of(side: Side, method: str, kind: Kind, *, unstable: bool = False) -> str:
    """The definition of the parameters or the result of a method, as the schema has it noted; or KeyError."""
    for name, definition in schema(unstable)["$defs"].items():
        known = definition.get("x-method") == method and definition.get("x-side") in (side, "protocol")
        if known and name.endswith("Response") == (kind == "result"):
            return str(name)
    raise KeyError(f"the protocol has no {kind} of {method} on the side of the {side}")


def check_message(message: Any, method: str, *, unstable: bool = False) -> None:
    """Hold a message of the agent against its definition. `method` is that of the message, or that it responds to."""
    assert message["jsonrpc"] == "2.0"
    assert set(message) <= {"jsonrpc", "id", "method", "params", "result", "error"}, message
    if "method" in message:
        check(definition_of("client", method, "params", unstable=unstable), message["params"], unstable=unstable)
    elif "error" in message:
        assert "result" not in message
        check("Error", message["error"], unstable=unstable)
    else:
        check(definition_of("agent", method, "result", unstable=unstable), message["result"], unstable=unstable)


@cache
def schema(unstable: bool = False) -> dict[str, Any]:
    """A whole schema. Skips the test where it cannot be had."""
    file = FOLDER / "v1" / ("schema.unstable.json" if unstable else "schema.json")
    if not file.exists() and (problem := _fetched()):
        pytest.skip(f"the official ACP schema is not at hand: {problem}")
    loaded: dict[str, Any] = json.loads(file.read_text())
    return loaded


@cache
def _fetched() -> str:
    """Get the schemas into the folder; what went wrong, if something did."""
    FOLDER.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER.parent) as folder:
        command = ["npm", "pack", f"{PACKAGE}@{RELEASE}", "--silent", "--pack-destination", folder]
        try:
            subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=60)
        except FileNotFoundError:
            return "npm is not installed"
        except subprocess.SubprocessError as error:
            return f"npm pack {PACKAGE}@{RELEASE} failed ({type(error).__name__}); is the registry in reach?"
        with tarfile.open(next(Path(folder).glob("*.tgz"))) as packed:
            wanted = [each for each in packed.getmembers() if each.name.startswith("package/schema/")]
            packed.extractall(folder, members=wanted, filter="data")
        try:
            os.rename(Path(folder) / "package" / "schema", FOLDER)
        except OSError:  # another process was quicker
            assert FOLDER.exists()
    return ""


@cache
def _validator(text: str, unstable: bool) -> Any:
    root = schema(unstable)
    return jsonschema_rs.validator_for({**json.loads(text), "$schema": root["$schema"], "$defs": root["$defs"]})


class _Walk:
    """Follows a value and its schema together."""

    def __init__(self, unstable: bool) -> None:
        self._unstable = unstable
        self._definitions = schema(unstable)["$defs"]

    def problems(self, reference: str, value: Any) -> Iterator[str]:
        found = [
            f"{error.message} at {_pointer(error.instance_path)}"
            for error in self._validator({"$ref": reference}).iter_errors(value)
        ]
        yield from found or self._unknown([{"$ref": reference}], value, "$")

    def _unknown(self, schemas: list[dict[str, Any]], value: Any, place: str) -> Iterator[str]:
        parts = [part for each in schemas for part in self._parts(each, value)]
        for part in parts:
            if part.get("title") == "other" and not _is_own(value):
                yield f"no known variant at {place}"
        if isinstance(value, dict):
            yield from self._unknown_keys(parts, value, place)
        elif isinstance(value, list):
            items = [part["items"] for part in parts if isinstance(part.get("items"), dict)]
            for number, item in enumerate(value):
                yield from self._unknown(items, item, f"{place}[{number}]")

    def _unknown_keys(self, parts: list[dict[str, Any]], value: dict[str, Any], place: str) -> Iterator[str]:
        known = [part["properties"] for part in parts if "properties" in part]
        others = [more for part in parts for more in _others(part)]
        for key, item in value.items():
            below = [properties[key] for properties in known if key in properties]
            if below or others:
                below = [each for each in below or others if isinstance(each, dict)]
                if key != "_meta":
                    yield from self._unknown(below, item, f"{place}.{key}")
            elif known and key != "_meta":
                yield f"unknown key {key!r} at {place}"

    def _parts(self, part: dict[str, Any], value: Any) -> Iterator[dict[str, Any]]:
        """The schemas that say something about this value: through references, and of variants those that fit."""
        yield part
        if "$ref" in part:
            yield from self._parts(self._definitions[part["$ref"].removeprefix("#/$defs/")], value)
        for each in part.get("allOf", []):
            yield from self._parts(each, value)
        fitting = [each for each in (*part.get("oneOf", []), *part.get("anyOf", [])) if self._fits(each, value)]
        known = [each for each in fitting if each.get("title") != "other"]
        for each in known or fitting:
            yield from self._parts(each, value)

    def _fits(self, part: dict[str, Any], value: Any) -> bool:
        return bool(self._validator(part).is_valid(value))

    def _validator(self, part: dict[str, Any]) -> Any:
        return _validator(json.dumps(part, sort_keys=True), self._unstable)


def _others(part: dict[str, Any]) -> Iterator[Any]:
    for name in ("additionalProperties", "unevaluatedProperties"):
        if part.get(name):
            yield part[name]


def _is_own(value: Any) -> bool:
    """Whether it is an extension, which the protocol wants to begin with an underscore."""
    words = [word for word in (value.values() if isinstance(value, dict) else [value]) if isinstance(word, str)]
    return any(word.startswith("_") for word in words)


def _pointer(path: list[Any]) -> str:
    return "$" + "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path)
