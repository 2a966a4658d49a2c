"""Convert decoded JSON to values of Python types: one converter for each kind of type.

Every converter is strict: it raises `MismatchError`, and nothing else, for a value of another type. A union can
therefore find its branch by trying.
"""

from __future__ import annotations

import base64 as base64_module
import decimal
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import msgspec

Converter: TypeAlias = Callable[[Any], Any]
Place: TypeAlias = tuple[str | int, ...]

LONGEST_VALUE = 200
# Exceptions with which a class may reject values.
_REJECTIONS = (ValueError, TypeError, ArithmeticError, LookupError, AssertionError, AttributeError)


class MismatchError(Exception):
    """A value that does not match the type; the paths are relative to the value."""

    def __init__(self, problems: list[tuple[Place, str]]) -> None:
        super().__init__(problems)
        self.problems = problems

    @classmethod
    def of(cls, value: Any, complaint: str) -> MismatchError:
        return cls([((), f"{brief(value)} {complaint}")])

    def under(self, place: str | int) -> list[tuple[Place, str]]:
        return [((place, *rest), message) for rest, message in self.problems]


def brief(value: Any) -> str:
    """Return the value as JSON, abbreviated if it is long."""
    try:
        text = msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"


def anything(value: Any) -> Any:
    return value


def _instance(kind: type, complaint: str) -> Converter:
    """Return a converter that takes the values of one type as they are."""

    def convert(value: Any) -> Any:
        if isinstance(value, kind):
            return value
        raise MismatchError.of(value, complaint)

    return convert


string = _instance(str, "is not a string")
boolean = _instance(bool, "is not true or false")
null = _instance(type(None), "is not null")


def whole(value: Any) -> Any:
    """Convert to int; JSON Schema accepts 5.0 as an integer, too."""
    if type(value) is int:
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    raise MismatchError.of(value, "is not a whole number")


def real(value: Any) -> Any:
    if not isinstance(value, int | float) or isinstance(value, bool) or value != value:
        raise MismatchError.of(value, "is not a number")
    try:
        return float(value)
    except OverflowError:
        raise MismatchError.of(value, "is too large a number") from None


def exact_decimal(value: Any) -> Any:
    """Convert a string or a number to Decimal by its decimal notation."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            number = decimal.Decimal(str(value))
        except decimal.InvalidOperation:
            raise MismatchError.of(value, "is not a decimal number") from None
        if number.is_finite():
            return number
    raise MismatchError.of(value, "is not a decimal number")


def base64(value: Any) -> Any:
    try:
        return base64_module.b64decode(string(value), validate=True)
    except ValueError:
        raise MismatchError.of(value, "is not base64") from None


def parsed(kind: type, noun: str) -> Converter:
    """Return a converter for a type that msgspec parses from a string, such as a datetime."""

    def convert(value: Any) -> Any:
        try:
            return msgspec.convert(string(value), kind)
        except (msgspec.ValidationError, OverflowError):
            raise MismatchError.of(value, f"is not {noun}") from None

    return convert


def made_by(build: Callable[[str], Any]) -> Converter:
    """Return a converter for a type that is built from a string, such as a path."""
    return lambda value: build_or_mismatch(build, string(value))


def choice(members: Iterable[tuple[Any, Any]]) -> Converter:
    """Return a converter for a choice of values, each given as its JSON form and its Python value."""
    known = {(isinstance(form, bool), form): member for form, member in members}

    def convert(value: Any) -> Any:
        try:
            return known[isinstance(value, bool), value]
        except (KeyError, TypeError):
            options = ", ".join(brief(form) for _, form in known)
            raise MismatchError.of(value, f"is not one of {options}") from None

    return convert


def gather(parts: Iterable[tuple[str | int, Converter, Any]]) -> list[Any]:
    """Convert each part. All parts that fail are reported together, each with its path."""
    results: list[Any] = []
    problems: list[tuple[Place, str]] = []
    for place, convert, value in parts:
        try:
            results.append(convert(value))
        except MismatchError as mismatch:
            problems += mismatch.under(place)
    if problems:
        raise MismatchError(problems)
    return results


def sequence(item: Converter, build: Callable[[list[Any]], Any] | None) -> Converter:
    def convert(value: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise MismatchError.of(value, "is not an array")
        items = gather((number, item, element) for number, element in enumerate(value))
        return items if build is None else build_or_mismatch(build, items)

    return convert


def fixed(items: tuple[Converter, ...]) -> Converter:
    """Return a converter for a tuple with a type for each position."""

    def convert(value: Any) -> Any:
        if not isinstance(value, list | tuple) or len(value) != len(items):
            raise MismatchError.of(value, f"is not an array of {len(items)}")
        return tuple(gather(zip(range(len(items)), items, value, strict=True)))

    return convert


def mapping(key: Converter, item: Converter) -> Converter:
    def convert(value: Any) -> Any:
        if not isinstance(value, dict):
            raise MismatchError.of(value, "is not an object")
        keys = gather((name, key, name) for name in value)
        items = gather((name, item, element) for name, element in value.items())
        return dict(zip(keys, items, strict=True))

    return convert


def union(branches: tuple[tuple[type | None, Converter], ...]) -> Converter:
    """Return a converter that tries each branch in turn. For an int or a float, branches of that type come first."""
    in_order = [convert for _, convert in branches]
    orders: dict[type, list[Converter]] = {
        kind: [c for exact, c in branches if exact is kind] + [c for exact, c in branches if exact is not kind]
        for kind in (int, float)
    }

    def convert(value: Any) -> Any:
        mismatches: list[MismatchError] = []
        for attempt in orders.get(type(value), in_order):
            try:
                return attempt(value)
            except MismatchError as mismatch:
                mismatches.append(mismatch)
        # Report the branch that failed at the deepest path: it is most likely the intended one.
        raise max(mismatches, key=lambda mismatch: max(len(place) for place, _ in mismatch.problems))

    return convert


def checked(convert: Converter, complaint: Callable[[Any], str | None]) -> Converter:
    def convert_and_check(value: Any) -> Any:
        converted = convert(value)
        problem = complaint(converted)
        if problem is not None:
            raise MismatchError.of(value, problem)
        return converted

    return convert_and_check


class Later:
    """A converter that is set later, for recursive types."""

    __slots__ = ("convert", "used")

    def __init__(self) -> None:
        self.convert: Converter = anything
        self.used = False

    def __call__(self, value: Any) -> Any:
        return self.convert(value)


class Part(NamedTuple):
    """A property of a record."""

    key: str
    name: str | None
    """The name in Python; None for a tag, which is checked and then dropped."""
    convert: Converter
    required: bool
    selects: bool
    """Whether the property discriminates records; such properties are converted first."""


def record(parts: Iterable[Part], extra: Converter | None, build: Callable[..., Any] | None) -> Converter:
    """Return a converter for an object with known properties, passed to `build` by keyword, or kept as a dict."""
    known = {part.key: part for part in parts}
    selecting = [part for part in known.values() if part.selects]
    others = [part for part in known.values() if not part.selects]
    required = frozenset(part.key for part in known.values() if part.required)

    def convert(value: Any) -> Any:
        if not isinstance(value, dict):
            raise MismatchError.of(value, "is not an object")
        converted: dict[str, Any] = {}
        # These come first: a union of recursive records would otherwise convert whole trees for each wrong branch.
        _convert_parts(selecting, value, converted)
        if not value.keys() >= required or (extra is None and not value.keys() <= known.keys()):
            raise _wrong_keys(value, required, known if extra is None else value, others)
        _convert_parts(others, value, converted)
        if extra is not None:
            more = [key for key in value if key not in known]
            converted.update(zip(more, gather((key, extra, value[key]) for key in more), strict=True))
        return converted if build is None else build_or_mismatch(lambda it: build(**it), converted)

    return convert


def _convert_parts(parts: list[Part], value: dict[str, Any], converted: dict[str, Any]) -> None:
    problems: list[tuple[Place, str]] = []
    for key, name, convert, _, _ in parts:
        if key in value:
            try:
                result = convert(value[key])
            except MismatchError as mismatch:
                problems += mismatch.under(key)
                continue
            if name is not None:
                converted[name] = result
    if problems:
        raise MismatchError(problems)


def _wrong_keys(
    value: dict[str, Any], required: Iterable[str], known: Mapping[str, Any], parts: list[Part]
) -> MismatchError:
    """Return an error with the missing keys, the unknown keys, and the problems of the other keys."""
    problems: list[tuple[Place, str]] = [
        ((), f"{brief(key)} is missing") for key in sorted(required) if key not in value
    ]
    problems += [((), f"{brief(key)} is not known") for key in value if key not in known]
    try:
        _convert_parts(parts, value, {})
    except MismatchError as mismatch:
        problems += mismatch.problems
    return MismatchError(problems)


def build_or_mismatch(build: Callable[[Any], Any], value: Any) -> Any:
    """Build a value, and convert exceptions of the type's own code to MismatchError."""
    try:
        return build(value)
    except _REJECTIONS as error:
        errors = getattr(error, "errors", None)
        found = errors() if callable(errors) else None
        if isinstance(found, list) and found:
            raise MismatchError([(tuple(each["loc"]), str(each["msg"])) for each in found]) from None
        raise MismatchError([((), str(error) or type(error).__name__)]) from error
