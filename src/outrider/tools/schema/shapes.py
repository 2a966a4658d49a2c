"""Convert Python types to JSON Schema, each with a converter from decoded JSON to the type."""

from __future__ import annotations

import enum
import os
import re
import types
import typing
from collections import abc
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from outrider.errors import SchemaError
from outrider.struct_types import described
from outrider.tools.schema import conversions, records
from outrider.tools.schema.scalars import (
    ANYTHING,
    SCALARS,
    Shape,
    choice,
    constrained,
    enumeration,
    literal,
    with_notes,
)

_ARRAYS: Mapping[Any, Any] = MappingProxyType(
    dict.fromkeys((list, abc.Sequence, abc.MutableSequence, abc.Iterable, abc.Collection))
    | {tuple: tuple, set: set, frozenset: frozenset}
    | {abc.Set: frozenset, abc.MutableSet: set}
)
_OBJECTS = (dict, abc.Mapping, abc.MutableMapping)


class Shapes:
    """Makes the shapes of one schema. They share its definitions."""

    def __init__(self, namespace: Mapping[str, Any] | None = None) -> None:
        self.definitions: dict[str, Mapping[str, Any]] = {}
        self._namespace = namespace or {}
        self._known: dict[Any, Shape] = {}
        self._aliases: dict[Any, tuple[str, conversions.Later]] = {}

    def of(self, kind: Any, where: str) -> Shape:
        """Return the shape of a type. `where` names the type's place in errors."""
        if isinstance(kind, type | None) or kind is Any:
            scalar = SCALARS.get(kind)
            if scalar is not None:
                return scalar
        origin = typing.get_origin(kind)
        if origin is not None:
            return self._generic(kind, origin, typing.get_args(kind), where)
        if isinstance(kind, type):
            return self._class(kind, (), where)
        return self._special(kind, where)

    def _generic(self, kind: Any, origin: Any, arguments: tuple[Any, ...], where: str) -> Shape:
        if origin is typing.Annotated:
            return constrained(self.of(arguments[0], where), kind.__metadata__)
        if origin in (typing.Union, types.UnionType):
            return self._union(arguments, where)
        if origin is typing.Literal:
            return literal(arguments, where)
        if origin in (typing.Required, typing.NotRequired, typing.Final):
            return self.of(arguments[0], where)
        if hasattr(origin, "__value__"):
            return self._alias(kind, origin, arguments, where)
        if origin is tuple and not arguments and kind is not typing.Tuple:  # noqa: UP006 - tuple[()], not any tuple
            return self._fixed_tuple((), where)
        if isinstance(origin, type):
            return self._class(origin, arguments, where)
        raise _unsupported(kind, where)

    def _special(self, kind: Any, where: str) -> Shape:
        if hasattr(kind, "__supertype__"):
            return self.of(kind.__supertype__, where)
        if isinstance(kind, typing.TypeVar):
            if kind.__constraints__:
                return self._union(kind.__constraints__, where)
            return ANYTHING if kind.__bound__ is None else self.of(kind.__bound__, where)
        if hasattr(kind, "__value__"):
            return self._alias(kind, kind, (), where)
        if isinstance(kind, str | typing.ForwardRef):
            raise SchemaError(f"{where}: the name {kind!r} is not resolved; pass the type itself, not its name")
        raise _unsupported(kind, where)

    def _class(self, kind: type, arguments: tuple[Any, ...], where: str) -> Shape:
        if records.is_record(kind) and not _is_array_like(kind):
            return self._record(kind, arguments, where)
        if kind in _ARRAYS:
            return self._array(kind, arguments, where)
        if kind in _OBJECTS:
            return self._mapping(arguments, where)
        if issubclass(kind, enum.Enum):
            return enumeration(kind, where)
        if hasattr(kind, "model_json_schema") and hasattr(kind, "model_validate"):
            return self._foreign(kind, kind.model_json_schema(), kind.model_validate)
        if _is_array_like(kind):
            return self._foreign(kind, msgspec.json.schema(described(kind)), lambda value: msgspec.convert(value, kind))
        if issubclass(kind, os.PathLike) and kind.__module__.startswith("pathlib"):
            return Shape({"type": "string", "format": "path"}, conversions.made_by(kind))
        raise _unsupported(kind, where)

    def _array(self, kind: Any, arguments: tuple[Any, ...], where: str) -> Shape:
        if kind is tuple and arguments and arguments[-1] is not Ellipsis:
            return self._fixed_tuple(arguments, where)
        item = self.of(arguments[0] if arguments else Any, f"the items of {where}")
        build = _ARRAYS[kind]
        schema: dict[str, Any] = {"type": "array", "items": item.schema}
        if build in (set, frozenset):
            schema["uniqueItems"] = True
        return Shape(schema, conversions.sequence(item.convert, build), plain=build is None and item.plain)

    def _fixed_tuple(self, arguments: tuple[Any, ...], where: str) -> Shape:
        items = [self.of(kind, f"item {number} of {where}") for number, kind in enumerate(arguments)]
        schemas = [item.schema for item in items]
        schema: dict[str, Any] = {"type": "array", "minItems": len(items), "maxItems": len(items)}
        if schemas and all(other == schemas[0] for other in schemas):
            schema["items"] = schemas[0]  # unlike prefixItems, every provider understands this
        elif schemas:
            schema["prefixItems"] = schemas
        return Shape(schema, conversions.fixed(tuple(item.convert for item in items)))

    def _mapping(self, arguments: tuple[Any, ...], where: str) -> Shape:
        key_type, item_type = arguments or (Any, Any)
        key = self._key(key_type, where)
        item = self.of(item_type, f"the values of {where}")
        schema: dict[str, Any] = {"type": "object", "additionalProperties": item.schema}
        names = {name: value for name, value in key.schema.items() if name != "type"}
        if names:
            schema["propertyNames"] = names
        return Shape(schema, conversions.mapping(key.convert, item.convert), plain=key.plain and item.plain)

    def _key(self, kind: Any, where: str) -> Shape:
        """Return the shape of a key, which is always a string in JSON."""
        if kind in (Any, object):
            return self.of(str, where)
        if kind is int:
            pattern = {"type": "string", "pattern": "^-?[0-9]+$"}
            return Shape(pattern, conversions.made_by(int))
        shape = self.of(kind, f"the keys of {where}")
        options = shape.schema.get("enum")
        if options is not None:
            texts = [each if isinstance(each, str) else msgspec.json.encode(each).decode() for each in options]
            members = zip(texts, map(shape.convert, options), strict=True)
            return Shape({"enum": texts}, conversions.choice(members), plain=shape.plain)
        if shape.schema.get("type") == "string":
            return shape
        raise SchemaError(f"the keys of {where}: {_name(kind)} cannot be a key of a JSON object; use str")

    def _union(self, arguments: tuple[Any, ...], where: str) -> Shape:
        # UnsetType means that a field may be absent; the schema expresses that by not requiring it.
        branches = [self.of(kind, where) for kind in arguments if kind is not msgspec.UnsetType]
        if len(branches) == 1:
            return branches[0]
        schemas: list[Mapping[str, Any]] = []
        for branch in branches:
            if branch.schema not in schemas:
                schemas.append(branch.schema)
        convert = conversions.union(tuple((branch.exact, branch.convert) for branch in branches))
        schema: Mapping[str, Any] = {"anyOf": schemas} if len(schemas) > 1 else schemas[0]
        return Shape(schema, convert, plain=all(branch.plain for branch in branches))

    def _alias(self, kind: Any, alias: Any, arguments: tuple[Any, ...], where: str) -> Shape:
        if kind in self._aliases:
            name, later = self._aliases[kind]
            later.used = True
            return Shape(_reference(name), later)
        later = conversions.Later()
        name = self._reserve(alias.__name__)
        self._aliases[kind] = (name, later)
        parameters = dict(zip(alias.__type_params__, arguments, strict=False))
        shape = self.of(records.substitute(alias.__value__, parameters), where)
        later.convert = shape.convert
        del self._aliases[kind]
        if not later.used:
            del self.definitions[name]
            return shape
        self.definitions[name] = shape.schema
        return Shape(_reference(name), later)

    def _record(self, kind: Any, arguments: tuple[Any, ...], where: str) -> Shape:
        known = self._known.get((kind, arguments))
        if known is not None:
            return known
        later = conversions.Later()
        name = self._reserve("_".join([kind.__name__, *map(_name, arguments)]))
        shape = self._known[kind, arguments] = Shape(_reference(name), later)
        record = records.record_of(kind, arguments, self._namespace)
        self.definitions[name], later.convert = self.properties(record, kind.__name__)
        return shape

    def properties(self, record: records.Record, owner: str) -> tuple[dict[str, Any], conversions.Converter]:
        """Return the schema of an object with these fields, and its converter."""
        properties: dict[str, Any] = {}
        parts: list[conversions.Part] = []
        if record.tag is not None:
            key, value = record.tag
            tag = choice([(value, value)], owner)
            properties[key] = tag.schema
            parts.append(conversions.Part(key, None, tag.convert, required=True, selects=True))
        for field in record.fields:
            shape = self.of(field.type, f"the field {field.name!r} of {owner}")
            properties[field.key] = with_notes(shape, field)
            parts.append(conversions.Part(field.key, field.name, shape.convert, field.required, shape.selects))
        extra = None if record.extra is records.ABSENT else self.of(record.extra, f"the extra items of {owner}")
        schema: dict[str, Any] = {"type": "object"}
        if record.description:
            schema["description"] = record.description
        schema["properties"] = properties
        schema["required"] = [part.key for part in parts if part.required]
        schema["additionalProperties"] = False if extra is None else extra.schema
        return schema, conversions.record(parts, extra and extra.convert, record.build)

    def _foreign(self, kind: Any, schema: dict[str, Any], build: conversions.Converter) -> Shape:
        """Return the shape of a class that another library describes and converts; merge its definitions."""
        known = self._known.get(kind)
        if known is not None:
            return known
        nested = schema.pop("$defs", {})
        if "$ref" not in schema:
            nested[kind.__name__] = schema
        names = {old: self._reserve(old) for old in nested}
        for old, new in names.items():
            self.definitions[new] = _closed(_renamed(nested[old], names))
        root = _renamed({"$ref": schema.get("$ref", kind.__name__)}, names)
        shape = Shape(root, lambda value: conversions.build_or_mismatch(build, value))
        self._known[kind] = shape
        return shape

    def _reserve(self, name: str) -> str:
        """A name for a definition that no other type has; classes of one name are numbered."""
        wanted = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
        free, number = wanted, 1
        while free in self.definitions:
            number += 1
            free = f"{wanted}_{number}"
        self.definitions[free] = {}
        return free

    def document(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """The whole schema, with its definitions; the root is written out, for not every provider follows it."""
        definitions = dict(self.definitions)
        while schema.keys() == {"$ref"}:
            name = schema["$ref"].removeprefix("#/$defs/")
            schema = definitions[name]
            others = {key: value for key, value in definitions.items() if key != name}
            if not _mentions(others, name) and not _mentions(schema, name):
                definitions = others
        whole = {**schema, "$defs": definitions} if definitions else schema
        copy: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(whole))
        return copy


def shape_of(kind: Any, namespace: Mapping[str, Any] | None = None) -> Shape:
    """The shape of one type, its schema complete with definitions."""
    shapes = Shapes(namespace)
    shape = shapes.of(kind, f"the type {_name(kind)}")
    return shape._replace(schema=shapes.document(shape.schema))


def _reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/$defs/{name}"}


def _mentions(schema: Mapping[str, Any], name: str) -> bool:
    return msgspec.json.encode(_reference(name))[1:-1] in msgspec.json.encode(schema)


def _renamed(schema: Any, names: Mapping[str, str]) -> Any:
    if isinstance(schema, dict):
        renamed = {key: _renamed(value, names) for key, value in schema.items()}
        old = schema.get("$ref")
        if isinstance(old, str):
            old = old.removeprefix("#/$defs/")
            renamed |= _reference(names.get(old, old))
        return renamed
    return [_renamed(item, names) for item in schema] if isinstance(schema, list) else schema


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    return {"additionalProperties": False} | schema if "properties" in schema else schema


def _is_array_like(kind: Any) -> bool:
    return records.is_struct(kind) and bool(kind.__struct_config__.array_like)


def _name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _unsupported(kind: Any, where: str) -> SchemaError:
    return SchemaError(
        f"{where}: {_full_name(kind)} cannot be represented in JSON; use a type that can (str, int, a list, "
        "a dataclass …), or get the value from elsewhere than the model"
    )


def _full_name(kind: Any) -> str:
    return f"{kind.__module__}.{kind.__qualname__}" if isinstance(kind, type) else str(kind)
