"""The fields of a class that maps to a JSON object: dataclass, msgspec Struct, TypedDict, NamedTuple."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from outrider.errors import SchemaError
from outrider.tools.schema import docstrings

ABSENT: Any = msgspec.UNSET
"""Marks a default that does not exist or is not shown."""
_SHOWN_FACTORIES = (list, dict, set, tuple)
_QUALIFIERS = tuple(getattr(typing, name) for name in ("Required", "NotRequired", "ReadOnly") if hasattr(typing, name))


class Field(NamedTuple):
    """A field of a record. Immutable."""

    name: str
    key: str
    type: Any
    required: bool
    default: Any = ABSENT
    description: str | None = None


class Record(NamedTuple):
    """The description and fields of a class. Immutable."""

    description: str
    fields: tuple[Field, ...]
    build: Callable[..., Any] | None
    """Takes the fields by keyword; None if the value is a dict of them."""
    tag: tuple[str, Any] | None = None
    extra: Any = ABSENT
    """The type of additional properties; ABSENT if none are allowed."""


def is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def is_record(kind: type) -> bool:
    """Return whether `record_of` supports the class."""
    return is_struct(kind) or is_dataclass(kind) or is_named_tuple(kind) or is_typed_dict(kind)


def is_dataclass(kind: type) -> bool:
    """Return whether this is a dataclass, without importing `dataclasses`, which is slow and rarely needed."""
    return hasattr(kind, "__dataclass_fields__")


def is_named_tuple(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def is_typed_dict(kind: type) -> bool:
    """Return whether this is a TypedDict. `typing.is_typeddict` misses those of typing_extensions."""
    return issubclass(kind, dict) and hasattr(kind, "__required_keys__") and hasattr(kind, "__total__")


def record_of(kind: Any, arguments: tuple[Any, ...], namespace: Mapping[str, Any]) -> Record:
    """Return the record of a class; `arguments` are the type arguments of a generic class."""
    builder: Callable[..., Any] = kind
    hints = _hints(kind, namespace)
    parameters = dict(zip(getattr(kind, "__parameters__", ()), arguments, strict=False))
    hints = {name: substitute(hint, parameters) for name, hint in hints.items()}
    if is_struct(kind):
        found = _struct(kind, hints)
    elif is_dataclass(kind):
        found = Record("", tuple(_dataclass_fields(kind, hints)), builder)
    elif is_named_tuple(kind):
        found = Record("", tuple(_named_tuple_fields(kind, hints)), kind)
    else:
        found = Record("", tuple(_typed_dict_fields(kind, hints)), None, extra=_extra_items(kind))
    return _documented(kind, found)


def substitute(hint: Any, parameters: Mapping[Any, Any]) -> Any:
    """Replace the type variables of a hint with the type arguments of the generic class."""
    if not parameters:
        return hint
    if isinstance(hint, typing.TypeVar):
        return parameters.get(hint, hint)
    own = getattr(hint, "__parameters__", ())
    if not own or isinstance(hint, type):
        return hint
    return hint[tuple(parameters.get(variable, variable) for variable in own)]


def own_docstring(kind: type) -> str | None:
    """Return the docstring written for this class, not an inherited or generated one."""
    text = vars(kind).get("__doc__")
    if not isinstance(text, str) or text == "An enumeration.":
        return None
    generated = text.startswith(f"{kind.__name__}(") and text.endswith(")")
    return None if generated else text


def _hints(kind: type, namespace: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind, localns={kind.__name__: kind, **namespace}, include_extras=True)
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        raise SchemaError(
            f"the annotations of {kind.__qualname__} cannot be resolved ({error}); "
            "define the types they name at the top level of the module"
        ) from error


def _documented(kind: type, record: Record) -> Record:
    described: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if text := own_docstring(base):
            described |= docstrings.parse(text).parameters
    fields = tuple(
        field if field.description else field._replace(description=described.get(field.name)) for field in record.fields
    )
    return record._replace(description=docstrings.parse(own_docstring(kind)).description, fields=fields)


def _dataclass_fields(kind: Any, hints: Mapping[str, Any]) -> Iterator[Field]:
    from dataclasses import MISSING, InitVar

    for field in kind.__dataclass_fields__.values():
        hint = hints.get(field.name, Any)
        if not field.init or hint is typing.ClassVar or typing.get_origin(hint) is typing.ClassVar:
            continue
        if isinstance(hint, InitVar):
            hint = hint.type
        default = _shown(field.default, field.default_factory, MISSING)
        required = field.default is MISSING and field.default_factory is MISSING
        description = field.metadata.get("description") or getattr(field, "doc", None)
        yield Field(field.name, field.name, hint, required, default, description)


def _struct(kind: Any, hints: Mapping[str, Any]) -> Record:
    config = kind.__struct_config__
    tag = None if config.tag is None else (config.tag_field, config.tag)
    return Record("", tuple(_struct_fields(kind, hints)), kind, tag)


def _struct_fields(kind: Any, hints: Mapping[str, Any]) -> Iterator[Field]:
    # msgspec.structs.fields cannot resolve the names of local types.
    names = zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
    defaults = kind.__struct_defaults__
    without_default = len(kind.__struct_fields__) - len(defaults)
    for number, (name, key) in enumerate(names):
        default = defaults[number - without_default] if number >= without_default else msgspec.NODEFAULT
        factory = getattr(default, "factory", None)
        shown = _shown(msgspec.NODEFAULT if factory else default, factory, msgspec.NODEFAULT)
        yield Field(name, key, hints.get(name, Any), default is msgspec.NODEFAULT, shown)


def _named_tuple_fields(kind: Any, hints: Mapping[str, Any]) -> Iterator[Field]:
    for name in kind._fields:
        default = kind._field_defaults.get(name, ABSENT)
        yield Field(name, name, hints.get(name, Any), name not in kind._field_defaults, default)


def _typed_dict_fields(kind: Any, hints: Mapping[str, Any]) -> Iterator[Field]:
    for name, hint in hints.items():
        required = name in kind.__required_keys__
        while typing.get_origin(hint) in _QUALIFIERS:
            # Under `from __future__ import annotations` only the resolved hint has the qualifiers.
            if typing.get_origin(hint) is not getattr(typing, "ReadOnly", None):
                required = typing.get_origin(hint) is typing.Required
            hint = typing.get_args(hint)[0]
        yield Field(name, name, hint, required)


def _extra_items(kind: Any) -> Any:
    extra = getattr(kind, "__extra_items__", None)
    nothing = extra is None or extra is typing.Never or "NoExtraItems" in repr(extra)
    return ABSENT if nothing else extra


def _shown(default: Any, factory: Any, missing: Any) -> Any:
    if default is not missing:
        return default
    return factory() if factory in _SHOWN_FACTORIES else ABSENT
