"""References within a JSON Schema: found, and replaced by what they point to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from outrider.tools.schema.raw_schemas import DEEPEST, map_subschemas

_LEVELS = 2
"""How often a reference is followed within itself."""
_MOST_SCHEMAS = 20_000
"""References are cut off beyond this many, for nested ones can multiply without end."""
_DEFINITIONS = ("$defs", "definitions")
_ANNOTATIONS = frozenset(
    ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment")
)


def inline_references(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with every `$ref` replaced by its target, for providers that do not take references.

    A recursive reference is cut off after a few levels. The schema given is not changed.

    >>> inline_references({"items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"type": "string"}}})
    {'items': {'type': 'string'}}
    """
    whole: dict[str, Any] = _Inliner(schema).inline(schema, (), 0)
    return whole


def target_of(schema: Mapping[str, Any], reference: str) -> Any:
    """What a reference such as `#/$defs/Node` points to; the schema `True` when that cannot be told."""
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
    """How many schemas there are once references are followed; recursive references are not followed."""
    surveys: dict[str, Counter[str]] = {}
    sizes: dict[str, int] = {}
    waiting = ["#"]
    while waiting:
        reference = waiting[-1]
        if reference not in surveys:
            surveys[reference] = _survey(target_of(schema, reference))
            waiting += [each for each in surveys[reference] if each and each not in surveys]
        else:
            waiting.pop()
            times = surveys[reference].items()
            sizes.setdefault(reference, sum(count * sizes.get(each, 1) for each, count in times))
    return sizes["#"]


def _survey(schema: Any) -> Counter[str]:
    """How often each reference occurs in a schema; the schemas themselves are counted under an empty one."""
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
        """`within` holds the references that are being followed."""
        if not isinstance(schema, Mapping):
            return schema
        self._count += 1
        own = {name: value for name, value in schema.items() if name not in _DEFINITIONS}
        reference = own.get("$ref")
        if isinstance(reference, str):
            del own["$ref"]
            target = self._follow(reference, within, depth)
            return _joined(target, map_subschemas(own, lambda each: self.inline(each, within, depth + 1)))
        return map_subschemas(own, lambda each: self.inline(each, within, depth + 1))

    def _follow(self, reference: str, within: tuple[str, ...], depth: int) -> Any:
        target = target_of(self._root, reference)
        spent = self._count > _MOST_SCHEMAS or depth > DEEPEST
        if spent or within.count(reference) >= _LEVELS:
            return _cut_off(target)
        return self.inline(target, (*within, reference), depth + 1)


def _cut_off(target: Any) -> dict[str, Any]:
    known = target if isinstance(target, Mapping) else {}
    plain = {"type": known.get("type", "object")}
    return plain | {name: known[name] for name in ("description",) if name in known}


def _joined(target: Any, beside: dict[str, Any]) -> Any:
    """The target of a reference and what stood beside the reference."""
    if not beside:
        return {} if target is True else target
    if not isinstance(target, Mapping):
        return beside if target is True else {"not": {}}
    if beside.keys() <= _ANNOTATIONS:
        return {**target, **beside}
    return {**beside, "allOf": [*beside.get("allOf", ()), target]}
