"""JSON Schemas from outside: copy them, limit their size and depth, walk their subschemas, inline references."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from outrider.errors import SchemaError

MAX_BYTES = 1_000_000
"""The size limit of the encoded schema."""
MAX_DEPTH = 100
"""The nesting limit of objects and arrays."""

_NAMES = ("$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor", "$id", "id")
"""Keywords that name a schema or refer to one by name. A property of this name has a schema, not a string."""
_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_SINGLES = (
    *("items", "additionalItems", "unevaluatedItems", "contains", "additionalProperties", "propertyNames"),
    *("unevaluatedProperties", "not", "if", "then", "else", "contentSchema"),
)
_MAX_RECURSION = 2
"""How often a reference is followed within itself."""
_MOST_SCHEMAS = 20_000
"""The limit of inlined schemas, because nested references can multiply exponentially."""
_DEFINITIONS = ("$defs", "definitions")
_ANNOTATIONS = frozenset(
    ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment")
)


def accept(raw: Mapping[str, Any] | bool) -> dict[str, Any]:
    """Return a copy of the schema with types in lower case. Raises SchemaError if it cannot be used."""
    if isinstance(raw, bool):
        return {} if raw else {"not": {}}
    _check_size(raw)
    try:
        encoded = msgspec.json.encode(raw)
    except (TypeError, ValueError, OverflowError) as error:
        raise SchemaError(f"the schema is not JSON: {error}") from error
    if len(encoded) > MAX_BYTES:
        raise SchemaError(f"the schema is {len(encoded):,} bytes long; at most {MAX_BYTES:,} are allowed")
    copy: dict[str, Any] = _lower_types(msgspec.json.decode(encoded))
    return copy


def refuse_names(schema: Any) -> None:
    """Raise SchemaError if schemas refer to each other by name, because such references cannot be counted beforehand.

    For untrusted schemas: references by path are counted before anything is validated.
    """
    waiting = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
            _refuse_names(value, is_root=value is schema)


def _refuse_names(schema: dict[str, Any], *, is_root: bool) -> None:
    named = [name for name in _NAMES if isinstance(schema.get(name), str) and not (is_root and name == "$id")]
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference != "#" and not reference.startswith("#/"):
        named.append("$ref")
    if named:
        raise SchemaError(f'{named[0]} refers by name; refer by path, as in {{"$ref": "#/$defs/Name"}}')


def map_subschemas(schema: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the schema with `change` applied to each direct subschema; data such as defaults is kept."""
    changed = dict(schema)
    for name, value in schema.items():
        if name in _MAPS and isinstance(value, dict):
            changed[name] = {key: change(each) if _is_schema(each) else each for key, each in value.items()}
        elif name in _LISTS and isinstance(value, list):
            changed[name] = [change(each) for each in value]
        elif name in _SINGLES and _is_schema(value):
            changed[name] = change(value)
    return changed


def _is_schema(value: Any) -> bool:
    return isinstance(value, dict | bool)


def _check_size(raw: Any) -> None:
    """Raise SchemaError for a schema that is too deep, infinite or too large, before anything recursive reads it."""
    waiting = [(raw, 1)]
    seen = 0
    while waiting:
        value, depth = waiting.pop()
        seen += 1
        if depth > MAX_DEPTH:
            raise SchemaError(f"the schema is nested more than {MAX_DEPTH} levels deep")
        if seen > MAX_BYTES // 2:  # each value takes at least two bytes
            raise SchemaError(f"the schema is too large; at most {MAX_BYTES:,} bytes are allowed")
        if isinstance(value, Mapping):
            waiting += [(each, depth + 1) for each in value.values()]
        elif isinstance(value, list | tuple):
            waiting += [(each, depth + 1) for each in value]


def _lower_types(schema: Any) -> Any:
    """Convert types to lower case: Gemini writes "STRING" for "string"."""
    if not isinstance(schema, dict):
        return schema
    lowered = map_subschemas(schema, _lower_types)
    kind = schema.get("type")
    if isinstance(kind, str):
        lowered["type"] = kind.lower()
    elif isinstance(kind, list):
        lowered["type"] = [each.lower() if isinstance(each, str) else each for each in kind]
    return lowered


def inline_references(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema with every `$ref` replaced by its target, for providers that do not support references.

    A recursive reference is cut off after a few levels. The given schema is not changed.

    >>> inline_references({"items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"type": "string"}}})
    {'items': {'type': 'string'}}
    """
    whole: dict[str, Any] = _Inliner(schema).inline(schema, (), 0)
    return whole


def target_of(schema: Mapping[str, Any], reference: str) -> Any:
    """Return the target of a reference such as `#/$defs/Node`, or the schema `True` if it cannot be resolved."""
    if not reference.startswith("#"):
        return True
    found: Any = schema
    for step in _unquoted(reference[1:]).split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and name.isdecimal() and name in map(str, range(len(found))):
            found = found[int(name)]
        elif isinstance(found, Mapping) and name in found:
            found = found[name]
        else:
            return True
    return found if reference == "#" or reference.startswith("#/") else True


def expanded_size(schema: Mapping[str, Any]) -> int:
    """Return the number of schemas after expanding references; recursive references are not expanded."""
    counts: dict[str, Counter[str]] = {}
    sizes: dict[str, int] = {}
    waiting = ["#"]
    while waiting:
        reference = waiting[-1]
        if reference not in counts:
            counts[reference] = _count_references(target_of(schema, reference))
            waiting += [each for each in counts[reference] if each and each not in counts]
        else:
            waiting.pop()
            times = counts[reference].items()
            sizes.setdefault(reference, sum(count * sizes.get(each, 1) for each, count in times))
    return sizes["#"]


def _count_references(schema: Any) -> Counter[str]:
    """Count each reference in a schema; the key "" counts the schemas themselves."""
    found: Counter[str] = Counter()
    waiting = [schema]
    while waiting:
        each = waiting.pop()
        found[""] += 1
        if isinstance(each, Mapping):
            own = {name: value for name, value in each.items() if name not in _DEFINITIONS}
            map_subschemas(own, waiting.append)
            if isinstance(own.get("$ref"), str):
                found[_unquoted(own["$ref"])] += 1
    return found


def _unquoted(fragment: str) -> str:
    if "%" not in fragment:
        return fragment
    from urllib.parse import unquote  # rarely needed, and slow to import

    return unquote(fragment)


class _Inliner:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._count = 0

    def inline(self, schema: Any, within: tuple[str, ...], depth: int) -> Any:
        """Inline a schema; `within` holds the references that are being followed."""
        if not isinstance(schema, Mapping):
            return schema
        self._count += 1
        own = {name: value for name, value in schema.items() if name not in _DEFINITIONS}
        reference = own.get("$ref")
        if isinstance(reference, str):
            del own["$ref"]
            target = self._follow(reference, within, depth)
            return _merge(target, map_subschemas(own, lambda each: self.inline(each, within, depth + 1)))
        return map_subschemas(own, lambda each: self.inline(each, within, depth + 1))

    def _follow(self, reference: str, within: tuple[str, ...], depth: int) -> Any:
        target = target_of(self._root, reference)
        spent = self._count > _MOST_SCHEMAS or depth > MAX_DEPTH
        if spent or within.count(reference) >= _MAX_RECURSION:
            return _cut_off(target)
        return self.inline(target, (*within, reference), depth + 1)


def _cut_off(target: Any) -> dict[str, Any]:
    known = target if isinstance(target, Mapping) else {}
    plain = {"type": known.get("type", "object")}
    return plain | {name: known[name] for name in ("description",) if name in known}


def _merge(target: Any, beside: dict[str, Any]) -> Any:
    """Merge the target of a reference with the keywords beside the reference."""
    if not beside:
        return {} if target is True else target
    if not isinstance(target, Mapping):
        return beside if target is True else {"not": {}}
    if beside.keys() <= _ANNOTATIONS:
        return {**target, **beside}
    return {**beside, "allOf": [*beside.get("allOf", ()), target]}
