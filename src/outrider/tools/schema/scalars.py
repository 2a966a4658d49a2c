"""The shapes of scalars: strings, numbers, dates, choices; and their constraints in `Annotated`."""

from __future__ import annotations

import datetime
import decimal
import enum
import operator
import os
import types
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from outrider.errors import SchemaError
from outrider.tools.schema import conversions, docstrings, records


class Shape(NamedTuple):
    """A type as JSON Schema, with its converter. Immutable."""

    schema: Mapping[str, Any]
    convert: conversions.Converter
    """Strict: raises `conversions.MismatchError` for a value of another type."""
    plain: bool = False
    """Whether a valid value is already the Python value."""
    exact: type | None = None
    """The Python type of a number, by which a union chooses between int and float."""
    selects: bool = False
    """Whether it is a choice of constants, which can discriminate records of a union."""

    def accepts(self, value: Any) -> bool:
        try:
            self.convert(value)
        except conversions.MismatchError:
            return False
        return True


ANYTHING = Shape({}, conversions.anything, plain=True)
_NULL = Shape({"type": "null"}, conversions.null, plain=True)


def _parsed(kind: type, form: str, noun: str) -> Shape:
    return Shape({"type": "string", "format": form}, conversions.parsed(kind, noun))


SCALARS: Mapping[Any, Shape] = MappingProxyType(
    {
        Any: ANYTHING,
        object: ANYTHING,
        None: _NULL,
        types.NoneType: _NULL,
        str: Shape({"type": "string"}, conversions.string, plain=True),
        bool: Shape({"type": "boolean"}, conversions.boolean, plain=True),
        int: Shape({"type": "integer"}, conversions.whole, exact=int),
        float: Shape({"type": "number"}, conversions.real, exact=float),
        bytes: Shape({"type": "string", "contentEncoding": "base64"}, conversions.base64),
        decimal.Decimal: Shape(
            {"anyOf": [{"type": "number"}, {"type": "string", "format": "decimal"}]}, conversions.exact_decimal
        ),
        uuid.UUID: _parsed(uuid.UUID, "uuid", "a UUID"),
        datetime.datetime: _parsed(
            datetime.datetime, "date-time", "an ISO 8601 date and time such as 2026-01-31T09:30:00Z"
        ),
        datetime.date: _parsed(datetime.date, "date", "an ISO 8601 date such as 2026-01-31"),
        datetime.time: _parsed(datetime.time, "time", "an ISO 8601 time such as 09:30:00"),
        datetime.timedelta: _parsed(datetime.timedelta, "duration", "an ISO 8601 duration such as PT90S"),
    }
)


def enumeration(kind: type[enum.Enum], where: str) -> Shape:
    """Return the shape of an Enum, by value."""
    shape = choice([(member.value, member) for member in kind], where)
    description = docstrings.parse(records.own_docstring(kind)).description
    return shape._replace(schema={**shape.schema, "description": description}) if description else shape


def literal(values: Iterable[Any], where: str) -> Shape:
    forms = [(value.value if isinstance(value, enum.Enum) else value, value) for value in values]
    return choice(forms, where)


def choice(members: list[tuple[Any, Any]], where: str) -> Shape:
    """Return the shape of a choice of constants, each given as its JSON form and its Python value."""
    for form, _ in members:
        if not isinstance(form, str | int | float | None):
            raise SchemaError(f"{where}: the constant {form!r} is not a JSON value; use str, int, float or bool")
    schema: dict[str, Any] = {"enum": [form for form, _ in members]}
    kinds = {_json_type(form) for form, _ in members}
    if len(kinds) == 1:
        schema = {"type": kinds.pop(), **schema}
    plain = all(type(form) is str and member is form for form, member in members)
    return Shape(schema, conversions.choice(members), plain=plain, selects=True)


def _json_type(form: Any) -> str:
    if isinstance(form, bool):
        return "boolean"
    if form is None:
        return "null"
    return "string" if isinstance(form, str) else "integer" if isinstance(form, int) else "number"


def constrained(shape: Shape, annotations: Iterable[Any]) -> Shape:
    """Return the shape of an `Annotated` type."""
    constraints = Constraints.of(annotations)
    if not constraints.keywords:
        return shape
    convert = conversions.checked(shape.convert, constraints.complaint) if constraints.bounding else shape.convert
    return shape._replace(schema=constraints.describe(shape.schema), convert=convert)


def with_notes(shape: Shape, field: records.Field) -> dict[str, Any]:
    """Return the schema of a property: the shape's schema with the field's description and default."""
    schema = dict(shape.schema)
    if field.description and not _describes_itself(field.type):
        schema["description"] = field.description
    for default in _as_json(field.default):
        # A default of None where null is not allowed means "absent", and is not shown.
        if shape.accepts(default):
            schema["default"] = default
    return schema


def _describes_itself(kind: Any) -> bool:
    annotations = getattr(kind, "__metadata__", ())
    return "description" in Constraints.of(annotations).keywords


def _as_json(value: Any) -> Iterator[Any]:
    """Yield the value as decoded JSON, if it survives a round trip through JSON."""
    if value is records.ABSENT:
        return
    try:
        plain = msgspec.to_builtins(value, enc_hook=os.fspath)
        read_back = msgspec.json.decode(msgspec.json.encode(plain))
    except (TypeError, ValueError, RecursionError):
        return
    if isinstance(plain, tuple | set | frozenset) or read_back == plain:
        yield read_back


_BOUNDS: Mapping[str, tuple[str, str, Callable[[Any, Any], bool]]] = MappingProxyType(
    {
        "ge": ("minimum", "less than", operator.ge),
        "gt": ("exclusiveMinimum", "not more than", operator.gt),
        "le": ("maximum", "more than", operator.le),
        "lt": ("exclusiveMaximum", "not less than", operator.lt),
    }
)
_LENGTHS = MappingProxyType(
    {
        "string": ("minLength", "maxLength"),
        "array": ("minItems", "maxItems"),
        "object": ("minProperties", "maxProperties"),
    }
)
_TEXTS = ("description", "title", "pattern")
_EXTRAS = ("extra_json_schema", "json_schema_extra")


class Constraints(NamedTuple):
    """The constraints of one type. Immutable."""

    keywords: Mapping[str, Any]

    @classmethod
    def of(cls, annotations: Iterable[Any]) -> Constraints:
        keywords: dict[str, Any] = {}
        for annotation in annotations:
            keywords.update(_read(annotation))
        return cls(keywords)

    def describe(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return the schema with the keywords of the constraints."""
        described = dict(schema)
        types = _types(schema)
        if types & {"integer", "number"}:
            bounds = {name: self.keywords[name] for name in _BOUNDS if _is_number(self.keywords.get(name))}
            described |= {_BOUNDS[name][0]: bound for name, bound in bounds.items()}
            if _is_number(self.keywords.get("multiple_of")):
                described["multipleOf"] = self.keywords["multiple_of"]
        for kind in sorted(types & _LENGTHS.keys()):
            described |= self._lengths(kind, encoded="contentEncoding" in schema)
        if "string" in types and "pattern" in self.keywords:
            described["pattern"] = self.keywords["pattern"]
        for name in ("title", "description", "examples"):
            if name in self.keywords:
                described[name] = self.keywords[name]
        described.update(self.keywords.get("extra", {}))
        return described

    def _lengths(self, kind: str, encoded: bool) -> dict[str, int]:
        names = zip(_LENGTHS[kind], ("min_length", "max_length"), strict=True)
        found = {keyword: self.keywords[name] for keyword, name in names if name in self.keywords}
        # The length counts bytes; base64 encodes three bytes as four characters.
        return {key: (size + 2) // 3 * 4 for key, size in found.items()} if encoded else found

    def complaint(self, value: Any) -> str | None:
        """Return how a converted value violates a bound or a length, or None."""
        for name, (_, words, holds) in _BOUNDS.items():
            if name in self.keywords and not _holds(holds, value, self.keywords[name]):
                return f"is {words} {self.keywords[name]}"
        size = len(value) if hasattr(value, "__len__") else None
        if size is not None and size < self.keywords.get("min_length", 0):
            return f"is shorter than {self.keywords['min_length']}"
        if size is not None and size > self.keywords.get("max_length", size):
            return f"is longer than {self.keywords['max_length']}"
        return None

    @property
    def bounding(self) -> bool:
        """Whether a value can violate them."""
        return not self.keywords.keys().isdisjoint((*_BOUNDS, "min_length", "max_length"))


def _read(annotation: Any) -> dict[str, Any]:
    if isinstance(annotation, str):
        return {"description": annotation}
    keywords: dict[str, Any] = {}
    for nested in _nested(annotation):
        keywords |= _read(nested)
    names = [*_BOUNDS, "multiple_of", "min_length", "max_length", *_TEXTS, "examples"]
    keywords |= {name: found for name in names if (found := _attribute(annotation, name)) is not None}
    for name in _EXTRAS:
        if isinstance(extra := getattr(annotation, name, None), dict):
            keywords["extra"] = extra
    return keywords


def _nested(annotation: Any) -> Iterable[Any]:
    """Return the metadata of a pydantic `Field`, which is a list."""
    metadata = getattr(annotation, "metadata", None)
    return metadata if isinstance(metadata, list) else ()


def _attribute(annotation: Any, name: str) -> Any:
    """Return an attribute if it has the expected type; `Annotated` may contain any object."""
    found = getattr(annotation, name, None)
    if name in _TEXTS:
        return found if isinstance(found, str) else None
    if name == "examples":
        return found if isinstance(found, list) else None
    if name in ("min_length", "max_length"):
        return found if isinstance(found, int) else None
    return None if callable(found) else found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _holds(holds: Callable[[Any, Any], bool], value: Any, bound: Any) -> bool:
    try:
        return holds(value, bound)
    except TypeError:  # for example None in an optional number
        return True


def _types(schema: Mapping[str, Any]) -> set[str]:
    kind = schema.get("type")
    if isinstance(kind, str):
        return {kind}
    return {found for branch in schema.get("anyOf", ()) for found in _types(branch)}
