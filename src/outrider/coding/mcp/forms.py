"""The questions of MCP servers as forms: the fields of a schema, and the values that people give for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

import msgspec

from outrider.text.visible import one_line, plain_text

Kind: TypeAlias = Literal["text", "integer", "number", "boolean", "choice", "choices"]
MOST_FIELDS = 30
MOST_OPTIONS = 100
_YES, _NO = ("y", "yes", "true", "1"), ("n", "no", "false", "0")


class Option(msgspec.Struct, frozen=True):
    """A value to choose."""

    value: Any
    label: str


class Field(msgspec.Struct, frozen=True):
    """One value that the server asks for."""

    name: str
    label: str
    kind: Kind
    is_required: bool
    description: str = ""
    options: tuple[Option, ...] = ()
    default: Any = None

    @property
    def hint(self) -> str:
        """What to write, in a few words."""
        wanted = {
            "text": "text",
            "integer": "a whole number",
            "number": "a number",
            "boolean": "y or n",
            "choice": "a number of the list",
            "choices": "numbers of the list, with commas",
        }[self.kind]
        if self.default is not None:
            return f"{wanted}; empty for {one_line(str(self.default), 60)}"
        return wanted if self.is_required else f"{wanted}; may be empty"

    def parse(self, text: str) -> Any:
        """Return the value that a text means; None for none. Raises ValueError with a sentence."""
        text = text.strip()
        if not text:
            if self.is_required and self.default is None and self.kind != "text":
                raise ValueError(f"A value is needed: {self.hint}.")
            return self.default if self.default is not None or not self.is_required else ""
        match self.kind:
            case "boolean":
                return self._boolean(text)
            case "integer" | "number":
                return self._number(text)
            case "choice":
                return self._chosen(text)
            case "choices":
                return [self._chosen(each) for each in text.split(",") if each.strip()]
        return text

    def _boolean(self, text: str) -> bool:
        if text.lower() in (*_YES, *_NO):
            return text.lower() in _YES
        raise ValueError("Write y or n.")

    def _number(self, text: str) -> int | float:
        try:
            return int(text) if self.kind == "integer" else float(text)
        except ValueError:
            raise ValueError(f"Write {'a whole number' if self.kind == 'integer' else 'a number'}.") from None

    def _chosen(self, text: str) -> Any:
        text = text.strip()
        if text.isdecimal() and len(text) < 6 and 1 <= int(text) <= len(self.options):
            return self.options[int(text) - 1].value
        for option in self.options:
            if text in (option.label, option.value):
                return option.value
        raise ValueError(f"Write a number from 1 to {len(self.options)}.")


def fields_of(schema: dict[str, Any]) -> list[Field]:
    properties = schema.get("properties")
    required = schema.get("required")
    names = required if isinstance(required, list) else []
    items = list(properties.items())[:MOST_FIELDS] if isinstance(properties, dict) else []
    return [_field(name, each, name in names) for name, each in items if isinstance(each, dict)]


def _field(name: str, schema: dict[str, Any], is_required: bool) -> Field:
    options = tuple(_options(schema))
    is_many = schema.get("type") == "array"
    kinds: dict[Any, Kind] = {"integer": "integer", "number": "number", "boolean": "boolean"}
    kind: Kind = ("choices" if is_many else "choice") if options else kinds.get(schema.get("type"), "text")
    label = one_line(str(schema.get("title") or name), 80)
    description = plain_text(str(schema.get("description") or ""), 500)
    return Field(name, label, kind, is_required, description, options, schema.get("default"))


def _options(schema: dict[str, Any]) -> Iterator[Option]:
    items = schema.get("items")
    source = items if schema.get("type") == "array" and isinstance(items, dict) else schema
    titled = source.get("oneOf") or source.get("anyOf")
    if isinstance(titled, list):
        for each in titled[:MOST_OPTIONS]:
            if isinstance(each, dict) and "const" in each:
                yield Option(each["const"], one_line(str(each.get("title") or each["const"]), 120))
        return
    values = source.get("enum")
    given = source.get("enumNames")
    names = given if isinstance(given, list) else []
    for number, value in enumerate(values[:MOST_OPTIONS] if isinstance(values, list) else ()):
        yield Option(value, one_line(str(names[number] if number < len(names) else value), 120))
