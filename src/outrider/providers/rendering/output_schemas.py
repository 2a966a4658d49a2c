"""JSON Schemas as APIs take them for structured output: each supports only a part of the language.

A schema is rewritten where every answer that the rewritten one allows can be read as an answer to the original:

- An optional property becomes a required one that may be null, where the API wants all properties. The reader drops
  such a null again (`tools/schema/wrapping.py`).
- An object that does not mention further properties is closed.
- `oneOf` becomes `anyOf`, and a list of types becomes `anyOf`.
- A limit that the API does not know, such as `minLength`, moves into the description. The answer is validated anyway.

What would change its meaning otherwise, such as a map, `not` or a schema without a type, is not expressed at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from outrider.tools.schema import inline_references
from outrider.tools.schema.raw_schemas import target_of

OUTPUT_NAME = "answer"  # the name of the schema in requests that need one
MOST_DEPTH = 10
"""Levels of objects and arrays. OpenAI refuses more; the others publish no number."""
MOST_PROPERTIES = 1_000
MOST_VALUES = 500
"""Values of all enums together. OpenAI takes 1,000, and fewer if they are long."""
LONGEST = 60_000
"""Characters of an encoded schema. OpenAI takes 120,000 of names and values."""

_SILENT = frozenset(
    ("$schema", "$comment", "default", "examples", "deprecated", "readOnly", "writeOnly", "$defs", "definitions")
)
"""Keywords that say nothing about which values are valid, or that are handled where they stand."""
_WORDS = ("title", "description")
_LIMITS: Mapping[str, tuple[str, ...]] = {
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "integer": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "array": ("minItems", "maxItems", "uniqueItems"),
}
"""Limits of values, by type. They can be left to the description."""
_SHAPES: Mapping[str, tuple[str, ...]] = {
    "array": ("items",),
    "object": ("properties", "required", "additionalProperties"),
}
_TYPES = frozenset(("string", "number", "integer", "boolean", "null", "array", "object"))
_JSON_TYPES: Mapping[type, str] = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
_FORMATS = frozenset(("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"))


class Dialect(msgspec.Struct, frozen=True):
    """The part of JSON Schema that an API takes."""

    limits: frozenset[str]
    """The limits that it enforces. Others go into the description."""
    formats: frozenset[str] = _FORMATS
    all_required: bool = False  # whether every property must be required
    references: bool = True
    """Whether `$ref` to `$defs` is understood. If not, references are replaced by their targets."""
    recursion: bool = False
    most_optional: int = MOST_PROPERTIES  # the number of properties that may be optional
    most_unions: int = MOST_PROPERTIES  # the number of properties that may have a union as their schema


# Read from the vendors' documentation and SDKs (anthropic 2.8, openai 3.49, google-genai 3.1).
OPENAI = Dialect(
    frozenset(("format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"))
    | {"minItems", "maxItems"},
    all_required=True,
    recursion=True,
)
ANTHROPIC = Dialect(frozenset(("format",)), _FORMATS | {"uri"}, most_optional=24, most_unions=16)
GEMINI = Dialect(
    frozenset(("format", "minimum", "maximum", "minItems", "maxItems")),
    frozenset(("date-time", "date", "time")),
    references=False,
)


class NotExpressibleError(Exception):
    """A schema is outside of an API's part of JSON Schema."""


def expressed(schema: Mapping[str, Any], dialect: Dialect) -> dict[str, Any] | None:
    """Return the schema as an API takes it, or None if its meaning would be lost.

    >>> expressed({"type": "object", "properties": {"a": {"type": "string", "minLength": 1}}}, ANTHROPIC)
    {'type': 'object', 'properties': {'a': {'type': 'string', 'description': '(minLength: 1)'}}, \
'additionalProperties': False}
    >>> expressed({"type": "object", "additionalProperties": {"type": "string"}}, OPENAI) is None
    True
    """
    return _expressed(msgspec.json.encode(schema), dialect)


@lru_cache(maxsize=128)
def _expressed(encoded: bytes, dialect: Dialect) -> dict[str, Any] | None:
    if len(encoded) > LONGEST:
        return None
    try:
        return _Writer(msgspec.json.decode(encoded), dialect).root()
    except NotExpressibleError:
        return None


class _Writer:
    """Writes one schema in the words of one API."""

    def __init__(self, schema: dict[str, Any], dialect: Dialect) -> None:
        self._dialect = dialect
        self._is_recursive = _is_recursive(schema)
        if self._is_recursive and not dialect.recursion:
            raise NotExpressibleError("it is recursive")
        self._schema = schema if dialect.references else inline_references(schema)
        self._properties = self._optional = self._unions = self._values = 0

    def root(self) -> dict[str, Any]:
        if self._schema.get("type") != "object":
            raise NotExpressibleError("its root is not an object")
        written = self._schema_of(self._schema, 0)
        for name in ("$defs", "definitions"):
            if name in self._schema and self._dialect.references:
                written[name] = {key: self._schema_of(each, 1) for key, each in self._schema[name].items()}
        counts = (
            (self._properties, MOST_PROPERTIES),
            (self._values, MOST_VALUES),
            (self._optional, self._dialect.most_optional),
            (self._unions, self._dialect.most_unions),
        )
        if any(count > most for count, most in counts):
            raise NotExpressibleError("it is too large")
        return written

    def _schema_of(self, schema: Any, depth: int) -> dict[str, Any]:
        if not isinstance(schema, dict) or depth > MOST_DEPTH:
            raise NotExpressibleError("it has no type, or is nested too deeply")
        words = {name: schema[name] for name in _WORDS if isinstance(schema.get(name), str)}
        asked = {name: value for name, value in schema.items() if name not in _SILENT and name not in _WORDS}
        match asked:
            case {"$ref": str(reference)} if len(asked) == 1:
                return {"$ref": self._checked(reference)}  # OpenAI refuses a description beside it
            case {"enum": list(values)} if asked.keys() <= {"enum", "type"}:
                return self._values_of(values, asked.get("type")) | words
            case {"const": value} if asked.keys() <= {"const", "type"}:
                return self._values_of([value], asked.get("type")) | words
            case {"anyOf": list(branches)} | {"oneOf": list(branches)} if len(asked) == 1:
                return {"anyOf": [self._schema_of(each, depth) for each in branches]} | words
            case {"allOf": [only]} if len(asked) == 1:
                return self._schema_of(only, depth) | words
            case {"type": list(kinds)}:
                return {"anyOf": list(self._branches(asked, kinds, depth))} | words
            case {"type": str(kind)} if kind in _TYPES:
                return self._typed(asked, kind, words, depth)
        raise NotExpressibleError("it has no type, or keywords that APIs do not take")

    def _branches(self, asked: dict[str, Any], kinds: list[str], depth: int) -> Iterator[dict[str, Any]]:
        """Yield a schema for each type of a list. Each takes the keywords of its own type."""
        known = {name for kind in kinds for name in (*_LIMITS.get(kind, ()), *_SHAPES.get(kind, ()))}
        if asked.keys() - known - {"type"}:
            raise NotExpressibleError("it has keywords that APIs do not take")
        for kind in kinds:
            own = (*_LIMITS.get(kind, ()), *_SHAPES.get(kind, ()))
            yield self._schema_of({"type": kind} | {name: asked[name] for name in own if name in asked}, depth)

    def _typed(self, asked: dict[str, Any], kind: str, words: dict[str, str], depth: int) -> dict[str, Any]:
        limits = {name: asked[name] for name in _LIMITS.get(kind, ()) if name in asked}
        if asked.keys() - {"type", *limits, *_SHAPES.get(kind, ())}:
            raise NotExpressibleError("it has keywords that APIs do not take")
        written: dict[str, Any] = {"type": kind}
        if kind == "object":
            written |= self._object(asked, depth)
        elif kind == "array":
            written["items"] = self._schema_of(asked.get("items"), depth + 1)
        known, formats = self._dialect.limits, self._dialect.formats
        kept = {name: each for name, each in limits.items() if name in known and (name != "format" or each in formats)}
        left = [f"{name}: {_text(value)}" for name, value in limits.items() if name not in kept]
        if left:
            words = words | {"description": " ".join(filter(None, (words.get("description"), f"({', '.join(left)})")))}
        return written | kept | words

    def _object(self, asked: dict[str, Any], depth: int) -> dict[str, Any]:
        properties = asked.get("properties")
        required = asked.get("required") or []
        if asked.get("additionalProperties", False) is not False or not isinstance(properties, dict) or not properties:
            raise NotExpressibleError("it may have properties that are not named")
        if not set(required) <= properties.keys():
            raise NotExpressibleError("it requires a property that it does not describe")
        self._properties += len(properties)
        written: dict[str, Any] = {}
        for name, each in properties.items():
            written[name] = self._schema_of(each, depth + 1)
            if name not in required:
                self._optional += 1
                if self._dialect.all_required:
                    written[name] = _nullable(written[name])
            self._unions += "anyOf" in written[name]
        found: dict[str, Any] = {"properties": written}
        if wanted := [name for name in properties if self._dialect.all_required or name in required]:
            found["required"] = wanted
        return found | {"additionalProperties": False}

    def _values_of(self, values: list[Any], kind: Any) -> dict[str, Any]:
        """Return an enum with its type, or a union of enums if the values have several."""
        self._values += len(values)
        groups: dict[str, list[Any]] = {}
        for value in values:
            if type(value) not in _JSON_TYPES:
                raise NotExpressibleError("a value of its enum is a list or an object")
            own = _JSON_TYPES[type(value)]
            groups.setdefault("number" if kind == "number" and own == "integer" else own, []).append(value)
        branches = [{"type": own} if own == "null" else {"type": own, "enum": each} for own, each in groups.items()]
        if not branches or (isinstance(kind, str) and groups.keys() != {kind}):
            raise NotExpressibleError("no value of its enum has its type")
        return branches[0] if len(branches) == 1 else {"anyOf": branches}

    def _checked(self, reference: str) -> str:
        if reference != "#" and not reference.startswith(("#/$defs/", "#/definitions/")):
            raise NotExpressibleError("it refers to something other than a definition")
        if not isinstance(target_of(self._schema, reference), dict):
            raise NotExpressibleError("it refers to something that is not there")
        return reference


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    if schema.get("type") == "null":
        return schema
    if "anyOf" not in schema:
        words = {name: schema[name] for name in _WORDS if name in schema}
        own = {name: value for name, value in schema.items() if name not in words}
        return {"anyOf": [own, {"type": "null"}]} | words
    if any(each.get("type") == "null" for each in schema["anyOf"]):
        return schema
    return schema | {"anyOf": [*schema["anyOf"], {"type": "null"}]}


def _is_recursive(schema: dict[str, Any]) -> bool:
    """Return whether a schema refers to itself, directly or through others. Each reference is followed once."""
    done: set[str] = set()

    def reaches(found: Any, path: tuple[str, ...]) -> bool:
        if isinstance(found, list):
            return any(reaches(each, path) for each in found)
        if not isinstance(found, dict):
            return False
        reference = found.get("$ref")
        if isinstance(reference, str) and reference not in done:
            if reference == "#" or reference in path or reaches(target_of(schema, reference), (*path, reference)):
                return True
            done.add(reference)
        return any(reaches(each, path) for name, each in found.items() if name not in ("$defs", "definitions"))

    return reaches(schema, ())


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
