"""Values that satisfy a JSON Schema: for each schema some candidates, of which those count that are valid."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count, islice, product
from typing import Any

from outrider.tools.schema import Schema, inline_references

_CLASSES = {"category_digit": "0", "category_space": " ", "category_word": "a"}
_OTHER = "!a0 ~A_"
"""Characters to try where a set of characters is negated."""
_MOST_TRIED = 200
"""Candidates for one schema."""
_TYPES = ("string", "integer", "object", "array", "number", "boolean", "null")
_FORMATS = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "PT1H",
    "email": "a@example.com",
    "idn-email": "a@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/",
    "uri-reference": "https://example.com/",
    "iri": "https://example.com/",
    "uuid": "123e4567-e89b-42d3-a456-426614174000",
    "json-pointer": "/a",
    "regex": "a",
}
_LARGER = {"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains"}
_SMALLER = {"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains"}
_BOTH = {"items", "additionalProperties", "contains", "propertyNames", "unevaluatedProperties", "unevaluatedItems"}


def texts_matching(pattern: str) -> Iterator[str]:
    """Yield texts that probably match, the shortest first. Look-arounds are ignored, so that the caller must check."""
    from re import _parser  # type: ignore[attr-defined]  # as the re module reads it

    try:
        parsed = list(_parser.parse(pattern))
    except (re.error, RecursionError, OverflowError):
        return
    for extra in (0, 1, 2, 3, 5, 8, 13, 21, 34):
        for choice in range(3):
            yield "".join(_texts(parsed, extra, choice))


def _texts(parsed: Iterable[tuple[Any, Any]], extra: int, choice: int) -> Iterator[str]:
    """Yield the parts of one text: repeats are `extra` longer than they must be, branches are taken by `choice`."""
    for operation, argument in parsed:
        match str(operation).lower():
            case "literal":
                yield chr(argument)
            case "any" | "not_literal":
                yield next(each for each in _OTHER if ord(each) != argument)
            case "in":
                yield _member(argument, choice)
            case "max_repeat" | "min_repeat" | "possessive_repeat":
                least, most, repeated = argument
                for _ in range(min(least + extra, int(most))):
                    yield from _texts(repeated, extra, choice)
            case "subpattern":
                yield from _texts(argument[-1], extra, choice)
            case "branch":
                branches = argument[1]
                yield from _texts(branches[choice % len(branches)], extra, choice)


def _member(members: list[tuple[Any, Any]], choice: int) -> str:
    """Return a character of a set such as `[a-z]`."""
    kinds = [(str(kind).lower(), value) for kind, value in members]
    if kinds[0][0] == "negate":
        return _OTHER[choice]
    kind, value = kinds[choice % len(kinds)]
    if kind == "range":
        return chr(value[0])
    return chr(value) if kind == "literal" else _CLASSES.get(str(value).lower(), _OTHER[choice])


def value_for(schema: Mapping[str, Any]) -> Any:
    """Return a value that satisfies the schema: few fields, one item in a list. Raises LookupError if none is found."""
    whole = Schema.of(schema)
    inlined = inline_references(whole.json)
    for simplest in (False, True):  # a recursive schema has only simple values
        for value in islice(_Values(simplest).of(inlined), 20):
            if not whole.violations(value):
                return value
    raise LookupError("no value was found that satisfies the schema")


class _Values:
    """Makes values of schemas without references. `simplest`: with empty lists, and the smallest alternatives."""

    def __init__(self, simplest: bool) -> None:
        self._simplest = simplest

    def of(self, schema: Any) -> Iterator[Any]:
        """Yield values that satisfy the schema."""
        import jsonschema_rs

        try:
            is_valid = jsonschema_rs.validator_for(schema, validate_formats=True).is_valid
        except ValueError:
            return
        yield from filter(is_valid, islice(self._candidates(_as_dict(schema)), _MOST_TRIED))

    def _first(self, schema: Any) -> Any:
        for value in self.of(schema):
            return value
        raise LookupError

    def _candidates(self, schema: dict[str, Any]) -> Iterator[Any]:
        if "const" in schema:
            yield schema["const"]
        elif isinstance(schema.get("enum"), list):
            yield from schema["enum"]
        else:
            for name, split in _SPLITS.items():
                if name in schema:
                    rest = {key: value for key, value in schema.items() if key not in (name, "then", "else")}
                    yield from self._alternatives([_merged(rest, each) for each in split(schema)])
                    return
            yield from self._of_types(schema)

    def _alternatives(self, schemas: list[dict[str, Any]]) -> Iterator[Any]:
        """Return candidates of the alternatives."""
        if self._simplest:
            schemas.sort(key=lambda schema: len(str(schema)))
        return _in_turn([self._candidates(schema) for schema in schemas if schema.get("not") != {}])

    def _of_types(self, schema: dict[str, Any]) -> Iterator[Any]:
        given = schema.get("type", _TYPES)
        return _in_turn([self._of_type(kind, schema) for kind in ([given] if isinstance(given, str) else given)])

    def _of_type(self, kind: str, schema: dict[str, Any]) -> Iterator[Any]:
        match kind:
            case "string":
                return _strings(schema)
            case "integer" | "number":
                return _numbers(schema, kind)
            case "boolean":
                return iter((True, False))
            case "null":
                return iter((None,))
            case "array":
                return self._arrays(schema)
            case "object":
                return self._objects(schema)
        return iter(())

    def _arrays(self, schema: dict[str, Any]) -> Iterator[Any]:
        least = int(schema.get("minItems", 0))
        wanted = [least, max(least, 1)] if self._simplest else [max(least, 1), least]
        for length, extra in product(dict.fromkeys([*wanted, least + 1, least + 2]), (0, 1)):
            try:
                yield self._array(schema, length, extra)
            except (LookupError, StopIteration):
                continue

    def _array(self, schema: dict[str, Any], length: int, extra: int) -> list[Any]:
        """Return a list; `extra` skips so many values of the items, which may be in the list already."""
        head = schema.get("prefixItems") or (schema["items"] if isinstance(schema.get("items"), list) else [])
        made = [self._first(each) for each in head[:length]]
        if "contains" in schema and schema.get("minContains", 1):
            found = islice(self.of(schema["contains"]), extra, None)
            made += [next(found) for _ in range(int(schema.get("minContains", 1)))]
        rest = schema.get("items", schema.get("additionalItems", True))
        rest = schema.get("additionalItems", True) if isinstance(rest, list) else rest
        values = islice(self.of(rest), extra, None)
        while len(made) < length:
            made.append(next(values) if schema.get("uniqueItems") else self._first(rest))
        return made

    def _objects(self, schema: dict[str, Any]) -> Iterator[Any]:
        properties = schema.get("properties", {})
        least = int(schema.get("minProperties", 0))
        for names in (schema.get("required", ()), properties):
            try:
                yield self._object(schema, dict.fromkeys(names), least)
            except LookupError:
                continue

    def _object(self, schema: dict[str, Any], names: dict[str, None], least: int) -> dict[str, Any]:
        for name, needed in {**schema.get("dependencies", {}), **schema.get("dependentRequired", {})}.items():
            if name in names and isinstance(needed, list):
                names |= dict.fromkeys(needed)
        made = {name: self._first(_property(schema, name)) for name in names}
        others = chain(schema.get("properties", {}), self._names(schema))
        for name in islice(others, _MOST_TRIED):
            if len(made) >= least:
                break
            if name not in made:
                made |= dict(zip([name], self.of(_property(schema, name)), strict=False))
        return made

    def _names(self, schema: dict[str, Any]) -> Iterator[str]:
        """Yield names for properties that the schema does not name."""
        for pattern in schema.get("patternProperties", {}):
            for text in islice(texts_matching(pattern), 1):
                yield from (text, *(f"{text}{number}" for number in range(20)))
            yield from texts_matching(pattern)
        yield from self.of(_merged({"type": "string"}, schema.get("propertyNames", True)))


def _in_turn(iterators: Sequence[Iterator[Any]]) -> Iterator[Any]:
    """Yield one item of each, then the next of each, until all have ended."""
    waiting = deque(iterators)
    while waiting:
        for value in islice(waiting[0], 1):
            yield value
            waiting.append(waiting[0])
        waiting.popleft()


def _property(schema: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the schema of one property of an object."""
    patterns = schema.get("patternProperties", {}).items()
    found = [each for pattern, each in patterns if re.search(pattern, name)]
    if name in schema.get("properties", {}):
        found.append(schema["properties"][name])
    return {"allOf": found} if found else _as_dict(schema.get("additionalProperties", True))


def _strings(schema: dict[str, Any]) -> Iterator[str]:
    least = int(schema.get("minLength", 0))
    most = int(schema.get("maxLength", max(least, 1000)))
    if known := _FORMATS.get(schema.get("format", "")):
        yield known
    if isinstance(pattern := schema.get("pattern"), str):
        yield from texts_matching(pattern)
    for number in count():
        text = (chr(97 + number % 26) + (str(number // 26) if number >= 26 else "")).ljust(least, "a")
        yield text[:most]


def _numbers(schema: dict[str, Any], kind: str) -> Iterator[float]:
    low = max(_limits(schema, "minimum", "exclusiveMinimum"), default=-math.inf)
    high = min(_limits(schema, "maximum", "exclusiveMaximum"), default=math.inf)
    start = low if low > -math.inf else min(high, 0) if high < math.inf else 0
    step = schema.get("multipleOf") or 1
    if kind == "number":
        yield from (each for each in (start, (low + high) / 2) if math.isfinite(each))
    first = math.ceil(start / step)
    for number in range(50):
        for at in dict.fromkeys((first + number, first - number)):
            yield round(at * step) if float(at * step).is_integer() else at * step


def _limits(schema: dict[str, Any], *names: str) -> list[float]:
    values = map(schema.get, names)
    return [each for each in values if isinstance(each, int | float) and not isinstance(each, bool)]


def _as_dict(schema: Any) -> dict[str, Any]:
    return dict(schema) if isinstance(schema, Mapping) else {} if schema else {"not": {}}


def _conditional(schema: dict[str, Any]) -> list[Any]:
    return [schema.get("else", True), {"allOf": [schema["if"], schema.get("then", True)]}]


_SPLITS: dict[str, Callable[[dict[str, Any]], Sequence[Any]]] = {
    "allOf": lambda schema: [_all_merged(schema["allOf"])],
    "anyOf": lambda schema: schema["anyOf"],
    "oneOf": lambda schema: schema["oneOf"],
    "if": _conditional,
}
"""Keywords that are resolved into alternatives, in this order."""


def _all_merged(schemas: Sequence[Any]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for each in schemas:
        merged = _merged(merged, each)
    return merged


def _merged(one: Any, two: Any) -> dict[str, Any]:
    """Return a schema whose values are candidates for both."""
    merged = _as_dict(one)
    for name, value in _as_dict(two).items():
        merged[name] = _both(name, merged[name], value) if name in merged else value
    return merged


def _both(name: str, one: Any, two: Any) -> Any:
    """Return the value of a keyword that two schemas have."""
    if name in _LARGER or name in _SMALLER:
        return max(one, two) if name in _LARGER else min(one, two)
    if name in ("properties", "patternProperties"):
        return {**one, **two, **{each: {"allOf": [one[each], two[each]]} for each in one.keys() & two.keys()}}
    match name:
        case "required":
            return [*one, *two]
        case "allOf":
            return [*one, *two]
        case "anyOf" | "oneOf":
            return [{"allOf": pair} for pair in product(one, two)]
        case "enum":
            return [each for each in one if each in two]
        case "type":
            kinds = [set([each] if isinstance(each, str) else each) for each in (one, two)]
            kinds = [each | {"integer"} if "number" in each else each for each in kinds]
            return [each for each in _TYPES if each in kinds[0] & kinds[1]]
    return {"allOf": [one, two]} if name in _BOTH else one
