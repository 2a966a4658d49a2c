"""The types of values that settings have. Each checks a value and parses it from the text of a variable."""

from __future__ import annotations

import math
import re
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, Union, get_args, get_origin

import msgspec

from outrider.coding.masking import describe_type, mask_tokens, quoted
from outrider.coding.sandbox.allowed_hosts import parse_entry
from outrider.coding.toolbox import ALL_NAMES
from outrider.errors import ConfigError

NO_LIMIT = "none"
LARGEST = 10**15
_YES, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


class InvalidValueError(ValueError):
    """What is wrong with a value. The message completes a sentence that begins with the name of the setting."""


class ValueType(msgspec.Struct, frozen=True):
    """What a setting accepts."""

    accumulates: ClassVar[bool] = False
    """Whether the lists of all layers are joined. Otherwise the last layer's value is used."""

    def check(self, value: Any, base: Path | None) -> Any:
        """Return the value as it is stored. Relative paths are relative to the base. Raises InvalidValueError."""
        raise NotImplementedError

    def parse(self, text: str) -> Any:
        """Return the value that the text of a variable means. `check` validates it."""
        return text


class Text(ValueType, frozen=True):
    """One line of text."""

    def check(self, value: Any, base: Path | None) -> str:
        if not isinstance(value, str):
            raise InvalidValueError(f"must be a text in quotes, not {describe_type(value)}")
        if not value.strip() or not value.strip().isprintable():
            raise InvalidValueError("must be a text in one line, and not empty")
        return value.strip()


class Choice(ValueType, frozen=True):
    """One of a few words."""

    options: tuple[str, ...]

    def check(self, value: Any, base: Path | None) -> str:
        if isinstance(value, str) and value in self.options:
            return value
        wanted = f"must be one of {', '.join(map(quoted, self.options))}"
        if not isinstance(value, str):
            raise InvalidValueError(f"{wanted}, not {describe_type(value)}")
        raise InvalidValueError(f"{wanted}, not {quoted(value)}{did_you_mean(value, self.options)}")


class Boolean(ValueType, frozen=True):
    """True or false."""

    def check(self, value: Any, base: Path | None) -> bool:
        if not isinstance(value, bool):
            found = quoted(value) if isinstance(value, str) else describe_type(value)
            raise InvalidValueError(f"must be true or false, without quotes in a file, not {found}")
        return value

    def parse(self, text: str) -> Any:
        """Accept also yes and no, on and off, 1 and 0."""
        word = text.strip().lower()
        return True if word in _YES else False if word in _NO else text


class Number(ValueType, frozen=True):
    """A number over 0."""

    whole: bool = False
    unlimited: bool = True
    """Whether "none" is accepted for no limit."""

    def check(self, value: Any, base: Path | None) -> int | float | None:
        """Return the number; None for no limit."""
        if self.unlimited and value == NO_LIMIT:
            return None
        number = "a whole number" if self.whole else "a number"
        wanted = f"must be {number} over 0{f', or {quoted(NO_LIMIT)} for no limit' if self.unlimited else ''}"
        if isinstance(value, str):
            raise InvalidValueError(f"{wanted}, not {quoted(value)}")
        if isinstance(value, bool) or not isinstance(value, int if self.whole else (int, float)):
            raise InvalidValueError(f"{wanted}, not {describe_type(value)}")
        if not 0 < value <= LARGEST or not math.isfinite(value):
            raise InvalidValueError(f"{wanted}, and no more than {LARGEST:,}")
        return value if self.whole else float(value)

    def parse(self, text: str) -> Any:
        try:
            return int(text) if self.whole else float(text)
        except ValueError:
            return text.strip()


class Fraction(ValueType, frozen=True):
    """A number that may have decimals, within bounds."""

    wanted: str
    """What it must be, for error messages."""
    most: float
    over_zero: bool = False
    optional: bool = False
    """Whether "none" is accepted."""

    def check(self, value: Any, base: Path | None) -> float | None:
        if self.optional and value == NO_LIMIT:
            return None
        wanted = f"must be {self.wanted}{f', or {quoted(NO_LIMIT)}' if self.optional else ''}"
        if isinstance(value, bool) or not isinstance(value, int | float):
            found = quoted(value) if isinstance(value, str) else describe_type(value)
            raise InvalidValueError(f"{wanted}, not {found}")
        if not 0 <= value <= self.most or (self.over_zero and not value):
            raise InvalidValueError(f"{wanted}, not {value:g}")
        return float(value)

    def parse(self, text: str) -> Any:
        try:
            return float(text)
        except ValueError:
            return text.strip()


def seconds_up_to(most: float) -> Fraction:
    """Return the type of a time, which may be 0."""
    return Fraction(f"a number of seconds from 0 to {most:g}", most)


def up_to_one(*, optional: bool = False) -> Fraction:
    """Return the type of a part of a whole."""
    return Fraction("a share, a number over 0 and at most 1", 1, over_zero=True, optional=optional)


class TextList(ValueType, frozen=True):
    """A list of texts."""

    noun: str
    """What the items are, for error messages."""

    def check(self, value: Any, base: Path | None) -> tuple[str, ...]:
        """Return the texts in order, without duplicates."""
        return tuple(dict.fromkeys(self.check_items(value, base)))

    def check_items(self, value: Any, base: Path | None) -> list[str]:
        """Return each item, checked. Raises InvalidValueError."""
        if not isinstance(value, list | tuple):
            raise InvalidValueError(f'must be a list of {self.noun}, as in ["…", "…"], not {describe_type(value)}')
        for number, item in enumerate(value, 1):
            if not isinstance(item, str) or not item.strip() or "\0" in item:
                found = "empty or has a NUL in it" if isinstance(item, str) else describe_type(item)
                raise InvalidValueError(f"must be a list of {self.noun}; number {number} is {found}")
        return [self.check_item(item.strip(), base) for item in value]

    def check_item(self, text: str, base: Path | None) -> str:
        """Return one item as it is stored. Raises InvalidValueError."""
        return text

    def parse(self, text: str) -> Any:
        return [part for part in text.split(",") if part.strip()]


class HostList(TextList, frozen=True):
    """Hosts that commands may reach."""

    def check_item(self, text: str, base: Path | None) -> str:
        try:
            parse_entry(text)
        except ValueError as error:
            raise InvalidValueError(f"has {quoted(text)}, which {error}") from None
        return text


class ToolNameList(TextList, frozen=True):
    """Names of built-in tools."""

    known: tuple[str, ...]

    def check_item(self, text: str, base: Path | None) -> str:
        if text not in self.known:
            hint = did_you_mean(text, self.known)
            raise InvalidValueError(f"names {quoted(text)}; the tools are {', '.join(self.known)}{hint}")
        return text

    def parse(self, text: str) -> Any:
        """Split the text at commas; "none" is an empty list."""
        return [] if text.strip() == "none" else TextList.parse(self, text)


class PatternList(TextList, frozen=True):
    """Patterns of paths."""

    def check(self, value: Any, base: Path | None) -> tuple[str, ...]:
        """Return the patterns with their duplicates: the last one that matches wins, so each position counts."""
        return tuple(self.check_items(value, base))

    def check_item(self, text: str, base: Path | None) -> str:
        from outrider.coding.wildcards import alternatives, to_regex

        try:
            for each in alternatives(text):
                re.compile(to_regex(each))
        except (ValueError, re.error) as error:
            raise InvalidValueError(f"has a pattern that cannot be used, {quoted(text)}: {error}") from None
        return text


class RuleList(TextList, frozen=True):
    """Permission rules. The rules of all layers apply."""

    accumulates = True

    def check_item(self, text: str, base: Path | None) -> str:
        if problem := rule_problem(text):
            raise InvalidValueError(f"has a rule that cannot be used: {problem}")
        return text


class PathList(TextList, frozen=True):
    """Files or folders. The paths of all layers apply."""

    accumulates = True

    def check_item(self, text: str, base: Path | None) -> str:
        """Return the absolute path with links resolved: the user consents to a place, not to a name."""
        try:
            path = Path(text).expanduser()
            if base is None and not path.is_absolute():
                raise InvalidValueError(f"has {quoted(text)}; in your own file a path begins with / or ~")
            return str((base / path if base else path).resolve())
        except (OSError, RuntimeError, ValueError) as error:
            if isinstance(error, InvalidValueError):
                raise
            raise InvalidValueError(f"has {quoted(text)}, which cannot be followed: {error}") from None


Rules: TypeAlias = Annotated[tuple[str, ...], RuleList("rules")]
PathPatterns: TypeAlias = Annotated[tuple[str, ...], PatternList("patterns of files")]
ToolNames: TypeAlias = Annotated[tuple[str, ...], ToolNameList("names of tools", ALL_NAMES)]
Hosts: TypeAlias = Annotated[tuple[str, ...], HostList("names of hosts")]
Folders: TypeAlias = Annotated[tuple[str, ...], PathList("paths of folders")]
"""Absolute paths, links resolved."""
PythonFiles: TypeAlias = Annotated[tuple[str, ...], PathList("paths of Python files")]
"""Absolute paths, links resolved."""
JsonFiles: TypeAlias = Annotated[tuple[str, ...], PathList("paths of JSON files")]
"""Absolute paths, links resolved."""


def value_type_of(hint: Any) -> ValueType:
    """Return the value type in the annotation of a field, or else the one that fits its Python type."""
    if get_origin(hint) is Annotated:
        given = [each for each in hint.__metadata__ if isinstance(each, ValueType)]
        return given[0] if given else value_type_of(hint.__origin__)
    optional = get_origin(hint) in (Union, types.UnionType)
    if optional:
        (hint,) = (each for each in get_args(hint) if each is not type(None))
    if get_origin(hint) is Literal:
        return Choice(get_args(hint))
    if hint in (int, float):
        return Number(whole=hint is int, unlimited=optional)
    if hint in (str, bool):
        return Text() if hint is str else Boolean()
    if get_origin(hint) is Annotated:
        return value_type_of(hint)
    raise TypeError(f"a setting cannot have the type {hint}")


def did_you_mean(text: str, options: Iterable[str]) -> str:
    """Return the end of a sentence that names the closest option; "" if none is close."""
    by_lower = {option.lower(): option for option in options}
    from difflib import get_close_matches

    close = get_close_matches(text.lower(), by_lower, 1)
    return f"; did you mean {quoted(by_lower[close[0]])}?" if close else ""


def rule_problem(text: str) -> str:
    """Return what is wrong with a rule, with secrets masked; "" if it is valid."""
    from outrider.coding.permissions.rules import Rule

    try:
        Rule.parse(text)
    except ConfigError as error:
        return mask_tokens(str(error))
    return ""
