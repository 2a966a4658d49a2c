"""What is wrong with a value, in sentences that name the place."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from outrider.tools.schema.conversions import Place, brief
from outrider.tools.schema.references import target_of

ROOT = "(the value)"
MASK = "\0"
"""What the validator writes instead of the value, so that a long one can be abbreviated."""
_MOST = 50
_COUNTED = 1_000
_DEEPEST_VALUE = 200
_MOST_STEPS = 50_000
_FLAT = frozenset((str, int, float, bool, type(None)))
_IN_PLACE = ("not", "if", "then", "else")
_ALTERNATIVES = ("allOf", "anyOf", "oneOf")
_DEPENDENT = ("dependentSchemas", "dependencies")


def sentence(place: Iterable[str | int], message: str) -> str:
    """
    >>> sentence(("files", 2, "size"), "is missing")
    'files[2].size: is missing'
    """
    text = ""
    for step in place:
        if isinstance(step, str) and step.isidentifier():
            text += f".{step}" if text else step
        else:
            text += f"[{brief(step)}]"
    return f"{text or ROOT}: {message}"


def limited(sentences: Iterable[str]) -> list[str]:
    """The first of the sentences, each once, and how many more there are."""
    unique = list(dict.fromkeys(itertools.islice(sentences, _COUNTED)))
    rest = len(unique) - _MOST
    return [*unique[:_MOST], f"and {rest:,} more"] if rest > 0 else unique


def joined(listed: list[str], problems: Iterable[tuple[Place, str]]) -> list[str]:
    """What the schema complains of, and then what the type complains of in other places."""
    if len(listed) > _MOST:
        return listed
    said = [each.partition(": ")[0] for each in listed]
    more = [sentence(place, message) for place, message in problems]
    return limited([*listed, *(each for each in more if not _is_said(each.partition(": ")[0], said))])


def _is_said(place: str, said: Iterable[str]) -> bool:
    """Whether a complaint about this place, about one around it or about one inside it was listed already."""
    return any(place.startswith(other) or other.startswith(place) for other in said)


def too_deep(value: Any, levels: int = _DEEPEST_VALUE) -> bool:
    """Whether the value is nested more deeply than a validator can follow without harm."""
    for each in value.values() if isinstance(value, dict) else value:
        if (
            type(each) not in _FLAT
            and isinstance(each, dict | list | tuple)
            and (levels == 0 or too_deep(each, levels - 1))
        ):
            return True
    return False


def listed(validator: Any, schema: Mapping[str, Any], value: Any) -> list[str]:
    """Every violation of the schema by the value, which is known to be invalid."""
    if not _can_be_listed(schema, value):
        return [f"{ROOT}: does not satisfy the schema, which has too many alternatives to say where"]
    try:
        errors = itertools.islice(validator.iter_errors(value), _COUNTED)
        found = [sentence(place, message) for error in errors for place, message in _explained(error)]
    except ValueError as error:  # a key that is no string, a lone surrogate
        found = [f"{ROOT}: is not JSON: {error}"]
    return limited(found or [f"{ROOT}: does not satisfy the schema"])


def _explained(error: Any) -> Iterator[tuple[Place, str]]:
    """An error; for alternatives, the errors of the one that was evidently meant."""
    place = tuple(error.instance_path)
    branches = getattr(error.kind, "context", None)
    if branches and not all(branches):  # several alternatives fit where only one may
        branches = None
    if not branches:
        yield place, _message(error)
        return
    meant = [branch for branch in branches if not any(_is_misfit(each, place) for each in branch)]
    if len(meant) == 1:
        for nested in meant[0]:
            yield from _explained(nested)
        return
    first = [next(_explained(branch[0])) for branch in branches]
    reasons = dict.fromkeys(message if at == place else sentence(at, message) for at, message in first)
    yield place, f"{brief(error.instance)} fits none of the alternatives ({'; '.join(reasons)})"


def _message(error: Any) -> str:
    """The validator's sentence. Of the values that are allowed it names two; whoever is to choose needs them all."""
    if type(error.kind).__name__ == "Enum":
        return f"{brief(error.instance)} is not one of {_options(error.kind.options)}"
    return str(error.message.replace(MASK, brief(error.instance)))


def _options(values: list[Any]) -> str:
    """
    >>> _options(["a", "b", 3])
    '"a", "b" or 3'
    """
    shown = [brief(value) for value in values[:_MOST]]
    if more := len(values) - len(shown):
        return f"{', '.join(shown)} and {more:,} more"
    return " or ".join(part for part in (", ".join(shown[:-1]), *shown[-1:]) if part)


def _is_misfit(error: Any, place: Place) -> bool:
    """Whether an alternative was out of the question: another type, or another tag."""
    depth = len(error.instance_path) - len(place)
    kind = type(error.kind).__name__
    return (depth == 0 and kind == "Type") or (depth <= 1 and kind in ("Enum", "Constant"))


def _can_be_listed(root: Mapping[str, Any], value: Any) -> bool:
    """Counts the pairs of schema and value that listing has to visit; recursive alternatives multiply them."""
    waiting: list[tuple[Any, Any]] = [(root, value)]
    steps = 0
    while waiting:
        schema, value = waiting.pop()
        steps += 1
        if steps > _MOST_STEPS:
            return False
        if isinstance(schema, dict):
            waiting += _in_place(root, schema, value)
            waiting += _inside(schema, value)
    return True


def _in_place(root: Mapping[str, Any], schema: dict[str, Any], value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(schema.get("$ref"), str):
        yield target_of(root, schema["$ref"]), value
    for name in _IN_PLACE:
        if name in schema:
            yield schema[name], value
    for name in _ALTERNATIVES:
        for each in schema.get(name, ()):
            yield each, value
    for name in _DEPENDENT:
        for each in schema.get(name, {}).values():
            yield each, value


def _inside(schema: dict[str, Any], value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        patterns = list(schema.get("patternProperties", {}).values())
        others = [schema.get("additionalProperties"), schema.get("unevaluatedProperties")]
        for key, each in value.items():
            for within in (*([properties[key]] if key in properties else others), *patterns):
                if isinstance(within, dict):
                    yield within, each
    elif isinstance(value, list):
        items = schema.get("items")
        leading, rest = (
            (items, schema.get("additionalItems"))
            if isinstance(items, list)
            else (schema.get("prefixItems", ()), items)
        )
        for number, each in enumerate(value):
            within = leading[number] if number < len(leading) else rest
            if isinstance(within, dict):
                yield within, each
