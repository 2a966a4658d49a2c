"""A JSON Schema, made from a Python type or given: models see it, and their output is validated against it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from outrider.conversation.json_text import too_deep
from outrider.errors import SchemaError, ValidationError
from outrider.tools.schema import raw_schemas, shapes, violations
from outrider.tools.schema.conversions import Converter, MismatchError, brief
from outrider.tools.schema.raw_schemas import expanded_size

_MOST_BACKTRACKING = 2_000
_MOST_EXPANDED = 1_000_000
"""Subschemas that a validator may visit, with references expanded."""
_CONTAINERS = (dict, list, tuple)
_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_NOT_FOLLOWED = "references to other documents are not followed"


class Schema:
    """A JSON Schema with a converter to a Python type. Immutable."""

    __slots__ = ("_convert", "_validator", "json")

    json: dict[str, Any]
    """The JSON Schema, as models see it."""
    _convert: Converter | None
    _validator: Any

    def __init__(self, json: dict[str, Any], convert: Converter | None = None) -> None:
        """`convert` turns a valid value into the Python value; without it the value is returned as it is."""
        object.__setattr__(self, "json", json)
        object.__setattr__(self, "_convert", convert)
        object.__setattr__(self, "_validator", None)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"a Schema cannot be changed: {name}")

    def __repr__(self) -> str:
        return f"Schema({brief(self.json)})"

    @classmethod
    def of(cls, source: Any) -> Schema:
        """Return the schema of a type, or of a raw JSON Schema, which is copied. Raises SchemaError."""
        if isinstance(source, Schema):
            return source
        if isinstance(source, bool | Mapping):
            return cls._of_raw(source)
        shape = shapes.shape_of(source)
        return cls(dict(shape.schema), None if shape.plain else shape.convert)

    @classmethod
    def _of_raw(cls, source: Mapping[str, Any] | bool) -> Schema:
        schema = cls(raw_schemas.accept(source))
        schema._compiled()
        if expanded_size(schema.json) > _MOST_EXPANDED:
            raise SchemaError("the JSON Schema cannot be used: its references multiply to too many schemas")
        return schema

    def violations(self, value: Any) -> list[str]:
        """Return every violation as a sentence that names the path; empty if the value is valid."""
        try:
            self.decode(value)
        except ValidationError as error:
            return list(error.violations)
        return []

    def decode(self, value: Any) -> Any:
        """Convert decoded JSON to the Python value. Raises ValidationError, which lists every violation."""
        if isinstance(value, _CONTAINERS) and too_deep(value):
            raise ValidationError([f"{violations.ROOT}: is nested too deeply"])
        validator = self._validator or self._compiled()
        try:
            valid = validator.is_valid(value)
        except ValueError:  # not JSON at all; `find_violations` reports why
            valid = False
        if self._convert is None:
            if valid:
                return value
            raise ValidationError(violations.find_violations(validator, self.json, value))
        try:
            converted = self._convert(value)
        except MismatchError as mismatch:
            # A schema cannot express all that a type requires, for example of a date, so both are reported.
            found = [] if valid else violations.find_violations(validator, self.json, value)
            raise ValidationError(violations.merge_problems(found, mismatch.problems)) from None
        if not valid:
            raise ValidationError(violations.find_violations(validator, self.json, value))
        return converted

    def _compiled(self) -> Any:
        validator = _compile(self.json)
        object.__setattr__(self, "_validator", validator)
        return validator


def _compile(schema: dict[str, Any]) -> Any:
    import jsonschema_rs  # slow to import, and not every program validates

    linear = jsonschema_rs.RegexOptions()
    # For patterns with look-ahead or look-behind, which the linear engine does not support.
    backtracking = jsonschema_rs.FancyRegexOptions(backtrack_limit=_MOST_BACKTRACKING)
    try:
        return jsonschema_rs.validator_for(
            schema, pattern_options=linear, retriever=_refuse_remote, mask=violations.MASK
        )
    except ValueError:
        pass
    try:
        return jsonschema_rs.validator_for(
            schema, pattern_options=backtracking, retriever=_refuse_remote, mask=violations.MASK
        )
    except ValueError as error:
        raise SchemaError(f"the JSON Schema cannot be used: {_reason(error)}") from error


def _reason(error: ValueError) -> str:
    given = brief(getattr(error, "instance", None))
    message = getattr(error, "message", str(error)).replace(violations.MASK, given)
    place = getattr(error, "instance_path", ())
    if _NOT_FOLLOWED in message:
        return f"{_NOT_FOLLOWED}{message.partition(_NOT_FOLLOWED)[2]}; put their targets under $defs"
    if place and place[-1] == "type" and "anyOf" in message:
        message = f"{given} is not a type; the types are {', '.join(_TYPES)}"
    return violations.sentence(place, message) if place else str(message)


def _refuse_remote(uri: str) -> NoReturn:
    raise LookupError(f"{_NOT_FOLLOWED}: {uri}")
