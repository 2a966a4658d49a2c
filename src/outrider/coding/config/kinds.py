"""The kinds of values that settings have. Each checks a value, and reads it from the text of a variable."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

from outrider.coding.config.showing import kind_of, quoted, without_tokens
from outrider.errors import ConfigError

NO_LIMIT = "none"
LARGEST = 10**15
_YES, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


class MismatchError(ValueError):
    """What is wrong with a value, as the rest of a sentence that begins with its name."""


class Kind(msgspec.Struct, frozen=True):
    """What a setting takes."""

    @property
    def adds_up(self) -> bool:
        """Whether the values of all layers count together, instead of the last one alone."""
        return False

    def take(self, value: Any, base: Path | None) -> Any:
        """The value as it is kept. Relative paths count from the base. Raises MismatchError."""
        raise NotImplementedError

    def read(self, text: str) -> Any:
        """What the text of a variable stands for; take() checks it."""
        return text


class Name(Kind, frozen=True):
    """A text in one line."""

    def take(self, value: Any, base: Path | None) -> str:
        """The text without white space around it."""
        if not isinstance(value, str):
            raise MismatchError(f"must be a text in quotes, not {kind_of(value)}")
        if not value.strip() or not value.strip().isprintable():
            raise MismatchError("must be a text in one line, and not empty")
        return value.strip()


class Choice(Kind, frozen=True):
    """One of a few words."""

    options: tuple[str, ...]

    def take(self, value: Any, base: Path | None) -> str:
        """The word."""
        if isinstance(value, str) and value in self.options:
            return value
        wanted = f"must be one of {', '.join(map(quoted, self.options))}"
        if not isinstance(value, str):
            raise MismatchError(f"{wanted}, not {kind_of(value)}")
        raise MismatchError(f"{wanted}, not {quoted(value)}{guess(value, self.options)}")


class YesNo(Kind, frozen=True):
    """True or false."""

    def take(self, value: Any, base: Path | None) -> bool:
        """The value itself."""
        if not isinstance(value, bool):
            found = quoted(value) if isinstance(value, str) else kind_of(value)
            raise MismatchError(f"must be true or false, without quotes in a file, not {found}")
        return value

    def read(self, text: str) -> Any:
        """Also yes and no, on and off, 1 and 0."""
        word = text.strip().lower()
        return True if word in _YES else False if word in _NO else text


class Number(Kind, frozen=True):
    """A number over 0."""

    whole: bool = False
    unlimited: bool = True
    """Whether "none" may stand for no limit."""

    def take(self, value: Any, base: Path | None) -> int | float | None:
        """The number; None for no limit."""
        if self.unlimited and value == NO_LIMIT:
            return None
        number = "a whole number" if self.whole else "a number"
        wanted = f"must be {number} over 0{f', or {quoted(NO_LIMIT)} for no limit' if self.unlimited else ''}"
        if isinstance(value, str):
            raise MismatchError(f"{wanted}, not {quoted(value)}")
        if isinstance(value, bool) or not isinstance(value, int if self.whole else (int, float)):
            raise MismatchError(f"{wanted}, not {kind_of(value)}")
        if not 0 < value <= LARGEST or not math.isfinite(value):
            raise MismatchError(f"{wanted}, and no more than {LARGEST:,}")
        return value if self.whole else float(value)

    def read(self, text: str) -> Any:
        """A number in digits, or the word."""
        try:
            return int(text) if self.whole else float(text)
        except ValueError:
            return text.strip()


class Seconds(Kind, frozen=True):
    """A short time, or none."""

    most: float

    def take(self, value: Any, base: Path | None) -> float:
        """The number of seconds."""
        wanted = f"must be a number of seconds from 0 to {self.most:g}"
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise MismatchError(f"{wanted}, not {quoted(value) if isinstance(value, str) else kind_of(value)}")
        if not 0 <= value <= self.most:
            raise MismatchError(f"{wanted}, not {value:g}")
        return float(value)


class Texts(Kind, frozen=True):
    """A list of texts."""

    of: str = "texts"
    together: bool = False

    @property
    def adds_up(self) -> bool:
        """As it was made."""
        return self.together

    def take(self, value: Any, base: Path | None) -> tuple[str, ...]:
        """The texts, in order, each once."""
        return tuple(dict.fromkeys(self.items(value, base)))

    def items(self, value: Any, base: Path | None) -> list[str]:
        """Each of them, checked. Raises MismatchError."""
        if not isinstance(value, list | tuple):
            raise MismatchError(f'must be a list of {self.of}, as in ["…", "…"], not {kind_of(value)}')
        for number, item in enumerate(value, 1):
            if not isinstance(item, str) or not item.strip() or "\0" in item:
                found = "empty or has a NUL in it" if isinstance(item, str) else kind_of(item)
                raise MismatchError(f"must be a list of {self.of}; number {number} is {found}")
        return [self.item(item.strip(), base) for item in value]

    def item(self, text: str, base: Path | None) -> str:
        """One of them as it is kept. Raises MismatchError."""
        return text

    def read(self, text: str) -> Any:
        """Texts between commas."""
        return [part for part in text.split(",") if part.strip()]


class ToolNames(Texts, frozen=True):
    """Tools of the toolbox."""

    known: tuple[str, ...] = ()

    def item(self, text: str, base: Path | None) -> str:
        """A name that there is."""
        if text not in self.known:
            raise MismatchError(f"names {quoted(text)}; the tools are {', '.join(self.known)}{guess(text, self.known)}")
        return text

    def read(self, text: str) -> Any:
        """Names between commas, or the word for no tools at all."""
        return [] if text.strip() == "none" else Texts.read(self, text)


class Patterns(Texts, frozen=True):
    """Patterns of files."""

    def take(self, value: Any, base: Path | None) -> tuple[str, ...]:
        """The patterns as they are written: the last one wins, so that each has its place."""
        return tuple(self.items(value, base))

    def item(self, text: str, base: Path | None) -> str:
        """A pattern that can be matched."""
        from outrider.coding.permissions.patterns import alternatives, translated

        try:
            for each in alternatives(text):
                re.compile(translated(each))
        except (ValueError, re.error) as error:
            raise MismatchError(f"has a pattern that cannot be used, {quoted(text)}: {error}") from None
        return text


class Rules(Texts, frozen=True):
    """Rules about calls."""

    def item(self, text: str, base: Path | None) -> str:
        """A rule that can be understood."""
        if fault := rule_fault(text):
            raise MismatchError(f"has a rule that cannot be used: {fault}")
        return text


class Paths(Texts, frozen=True):
    """Files or folders."""

    def item(self, text: str, base: Path | None) -> str:
        """The absolute path with its links resolved: what is agreed to is where it leads, not what it is called."""
        try:
            path = Path(text).expanduser()
            if base is None and not path.is_absolute():
                raise MismatchError(f"has {quoted(text)}; in your own file a path begins with / or ~")
            return str((base / path if base else path).resolve())
        except (OSError, RuntimeError, ValueError) as error:
            if isinstance(error, MismatchError):
                raise
            raise MismatchError(f"has {quoted(text)}, which cannot be followed: {error}") from None


def guess(text: str, options: Iterable[str]) -> str:
    """The end of a sentence that names what was probably meant; empty if there is no telling."""
    by_lower = {option.lower(): option for option in options}
    close = get_close_matches(text.lower(), by_lower, 1)
    return f"; did you mean {quoted(by_lower[close[0]])}?" if close else ""


def rule_fault(text: str) -> str:
    """What is wrong with a rule, without anything secret that stands in it; empty if nothing is."""
    from outrider.coding.permissions.rules import Rule

    try:
        Rule.parse(text)
    except ConfigError as error:
        return without_tokens(str(error))
    return ""
