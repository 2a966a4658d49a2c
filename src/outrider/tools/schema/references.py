"""Resolve and inline the references within a JSON Schema."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from outrider.tools.schema.raw_schemas import MAX_DEPTH, map_subschemas

_MAX_RECURSION = 2
"""How often a reference is followed within itself."""
_MOST_SCHEMAS = 20_000
"""The limit of inlined schemas, because nested references can multiply exponentially."""
_DEFINITIONS = ("$defs", "definitions")
_ANNOTATIONS = frozenset(
    ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment")
)


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
