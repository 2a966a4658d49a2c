"""Describe the violations of a schema, in sentences that name the path."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from outrider.tools.schema.conversions import Place, brief
from outrider.tools.schema.raw_schemas import target_of

ROOT = "(the value)"
MASK = "\0"
"""Placeholder for the value in the validator's messages, so that a long value can be abbreviated."""
_MOST = 50
_COUNTED = 1_000
_MOST_STEPS = 50_000
_IN_PLACE = ("not", "if", "then", "else")
_ALTERNATIVES = ("allOf", "anyOf", "oneOf")
_DEPENDENT = ("dependentSchemas", "dependencies")


def sentence(place: Iterable[str | int], message: str) -> str:
    """Return a message with its path.

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
    """Return the first unique sentences, and the number of the others."""
    unique = list(dict.fromkeys(itertools.islice(sentences, _COUNTED)))
    rest = len(unique) - _MOST
    return [*unique[:_MOST], f"and {rest:,} more"] if rest > 0 else unique


def merge_problems(found: list[str], problems: Iterable[tuple[Place, str]]) -> list[str]:
    """Return the violations of the schema, then the problems of the type at other paths."""
    if len(found) > _MOST:
        return found
    paths = [each.partition(": ")[0] for each in found]
    more = [sentence(place, message) for place, message in problems]
    return limited([*found, *(each for each in more if not _overlaps(each.partition(": ")[0], paths))])


def _overlaps(path: str, paths: Iterable[str]) -> bool:
    """Return whether the path contains one of the others or lies within it."""
    return any(path.startswith(other) or other.startswith(path) for other in paths)


def find_violations(validator: Any, schema: Mapping[str, Any], value: Any) -> list[str]:
    """Return every violation of the schema by a value that is known to be invalid."""
    if not _is_listable(schema, value):
        return [f"{ROOT}: does not satisfy the schema, which has too many alternatives to say where"]
    try:
        errors = itertools.islice(validator.iter_errors(value), _COUNTED)
        found = [sentence(place, message) for error in errors for place, message in _explained(error)]
    except ValueError as error:  # a key that is not a string, or a lone surrogate
        found = [f"{ROOT}: is not JSON: {error}"]
    return limited(found or [f"{ROOT}: does not satisfy the schema"])


def _explained(error: Any) -> Iterator[tuple[Place, str]]:
    """Yield the path and message of an error; for alternatives, the errors of the one that was intended."""
    place = tuple(error.instance_path)
    branches = getattr(error.kind, "context", None)
    if branches and not all(branches):  # several alternatives match where only one may
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
    yield place, f"{brief(error.instance)} matches none of the alternatives ({'; '.join(reasons)})"


def _message(error: Any) -> str:
    """Return the validator's message. For an enum it names only two values, so they are all listed here."""
    if type(error.kind).__name__ == "Enum":
        return f"{brief(error.instance)} is not one of {_options(error.kind.options)}"
    return str(error.message.replace(MASK, brief(error.instance)))


def _options(values: list[Any]) -> str:
    """Return the allowed values as text.

    >>> _options(["a", "b", 3])
    '"a", "b" or 3'
    """
    shown = [brief(value) for value in values[:_MOST]]
    if more := len(values) - len(shown):
        return f"{', '.join(shown)} and {more:,} more"
    return " or ".join(part for part in (", ".join(shown[:-1]), *shown[-1:]) if part)


def _is_misfit(error: Any, place: Place) -> bool:
    """Return whether an error rules out an alternative: another type, or another tag."""
    depth = len(error.instance_path) - len(place)
    kind = type(error.kind).__name__
    return (depth == 0 and kind == "Type") or (depth <= 1 and kind in ("Enum", "Constant"))


def _is_listable(root: Mapping[str, Any], value: Any) -> bool:
    """Return whether the violations can be listed in time: recursive alternatives multiply the work."""
    waiting: list[tuple[Any, Any]] = [(root, value)]
    steps = 0
    while waiting:
        schema, value = waiting.pop()
        steps += 1
        if steps > _MOST_STEPS:
            return False
        if isinstance(schema, dict):
            waiting += _same_value(root, schema, value)
            waiting += _nested_values(schema, value)
    return True


def _same_value(root: Mapping[str, Any], schema: dict[str, Any], value: Any) -> Iterator[tuple[Any, Any]]:
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


def _nested_values(schema: dict[str, Any], value: Any) -> Iterator[tuple[Any, Any]]:
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
