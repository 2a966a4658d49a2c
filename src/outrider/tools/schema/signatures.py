"""The signature of a tool's function: the schema of its parameters, and the binding of a model's arguments."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from outrider.errors import SchemaError, ToolDefinitionError, ValidationError
from outrider.tools.schema import docstrings
from outrider.tools.schema.records import ABSENT, Field, Record
from outrider.tools.schema.schema import Schema
from outrider.tools.schema.shapes import Shapes
from outrider.tools.schema.violations import ROOT

_Parameters: TypeAlias = dict[str, inspect.Parameter]


class Signature(NamedTuple):
    """The parameters of a function. Immutable."""

    name: str
    description: str
    schema: Schema
    """The schema of the arguments, always of an object."""
    injected: str | None
    """The parameter of the injected type, which the model does not see; passed by keyword."""
    positional: tuple[tuple[str, Any], ...]
    """The positional-only parameters, with their defaults."""
    optional: frozenset[str]
    """Parameters that have a default and do not accept null: null counts as absent."""
    reserved: frozenset[str]
    """Names of other parameters of the function, which must not arrive through `**kwargs`."""
    deps: Any = None
    """The type in `ToolContext[…]`, if the injected parameter names one."""

    @classmethod
    def of(
        cls, function: Callable[..., Any], *, inject: type | None = None, namespace: Mapping[str, Any] | None = None
    ) -> Signature:
        """Return the signature of a function. Raises ToolDefinitionError if a model cannot call it.

        `inject` is the type of the parameter that the runtime passes. `namespace` holds types that string annotations
        name and the function's module does not define.
        """
        return _SignatureReader(function, inject, namespace or {}).signature()

    @classmethod
    def with_schema(
        cls,
        function: Callable[..., Any],
        schema: Schema,
        *,
        inject: type | None = None,
        namespace: Mapping[str, Any] | None = None,
    ) -> Signature:
        """Return the signature of a function with a given schema: arguments are passed by keyword, unconverted."""
        return _SignatureReader(function, inject, namespace or {}).signature_with(schema)

    def bind(self, arguments: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Convert the arguments to positional and keyword arguments of the function.

        Raises ValidationError, which lists every violation. An absent parameter keeps the function's own default.
        """
        if isinstance(arguments, dict):
            arguments = self._without_nulls(arguments)
        keywords: dict[str, Any] = self.schema.decode(arguments)
        if not self.positional:
            return [], keywords
        given = max((n for n, (name, _) in enumerate(self.positional, 1) if name in keywords), default=0)
        return [keywords.pop(name, default) for name, default in self.positional[:given]], keywords

    def _without_nulls(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if not self.reserved.isdisjoint(arguments):
            names = sorted(self.reserved & arguments.keys())
            raise ValidationError(f"{ROOT}: {name!r} is not a parameter" for name in names)
        if None in arguments.values():
            return {name: value for name, value in arguments.items() if value is not None or name not in self.optional}
        return arguments


class _SignatureReader:
    """Reads the signature of one function."""

    def __init__(self, function: Callable[..., Any], inject: type | None, namespace: Mapping[str, Any]) -> None:
        self._function = function
        self._inner = _innermost(function)
        self._inject = inject
        self._namespace = namespace
        self._name = _name(function)

    def signature(self) -> Signature:
        parameters = self._parameters()
        hints = {name: self._hint(parameter) for name, parameter in parameters.items()}
        injected = self._injected(parameters, hints)
        if injected is not None:
            del parameters[injected]
        doc = docstrings.parse(self._inner.__doc__)
        schema, optional = self._schema(parameters, hints, doc.parameters)
        positional = tuple(
            (name, each.default) for name, each in parameters.items() if each.kind is each.POSITIONAL_ONLY
        )
        reserved = self._reserved(parameters) if _var_keyword(parameters) else frozenset[str]()
        deps = self._deps(hints[injected]) if injected else None
        return Signature(self._name, doc.description, schema, injected, positional, optional, reserved, deps)

    def signature_with(self, schema: Schema) -> Signature:
        if schema.json.get("type", "object") != "object":
            raise ToolDefinitionError(
                f"the schema of {self._name} has the type {schema.json['type']!r}; it must be 'object'"
            )
        # A schema that says its type is checked already. To check it again would import the validator, which is slow.
        whole = schema if "type" in schema.json else Schema.of({"type": "object", **schema.json})
        parameters = inspect.signature(self._function).parameters
        noted = {name: self._hint(each) for name, each in parameters.items() if each.annotation is not each.empty}
        injected = self._injected(dict(parameters), noted)
        taken = frozenset({injected} if injected else ())
        description = docstrings.parse(self._inner.__doc__).description
        deps = self._deps(noted[injected]) if injected else None
        return Signature(self._name, description, whole, injected, (), frozenset(), taken, deps)

    def _parameters(self) -> _Parameters:
        try:
            parameters = dict(inspect.signature(self._function).parameters)
        except (TypeError, ValueError) as error:
            raise ToolDefinitionError(f"{self._name} cannot be inspected: {error}") from error
        if isinstance(self._function, functools.partial):
            for name in self._function.keywords:  # fixed by the partial, so the model does not pass them
                parameters.pop(name, None)
        for parameter in parameters.values():
            if parameter.kind is parameter.VAR_POSITIONAL:
                raise ToolDefinitionError(
                    f"{self._name} takes *{parameter.name}, which a model cannot pass; take a list instead"
                )
        bare = [repr(name) for name, each in parameters.items() if each.annotation is each.empty]
        if bare:
            names = "parameter " + bare[0] if len(bare) == 1 else "parameters " + ", ".join(bare)
            has = "has no annotation" if len(bare) == 1 else "have no annotations"
            raise ToolDefinitionError(f"{names} of {self._name} {has}; write for example `{bare[0][1:-1]}: str`")
        return parameters

    def _hint(self, parameter: inspect.Parameter) -> Any:
        """Resolve the annotation of one parameter. The return annotation is not read."""
        scope = getattr(self._inner, "__globals__", {})
        names = {variable.__name__: variable for variable in getattr(self._inner, "__type_params__", ())}
        if self._inject is not None and self._inject.__name__ not in scope:
            names[self._inject.__name__] = self._inject  # often imported under TYPE_CHECKING only
        names |= {**_closure(self._inner), **self._namespace}
        holder = types.SimpleNamespace(__annotations__={"it": parameter.annotation})
        try:
            return typing.get_type_hints(holder, scope, names, include_extras=True)["it"]
        except (NameError, AttributeError, SyntaxError, TypeError) as error:
            raise ToolDefinitionError(
                f"the annotation of parameter {parameter.name!r} of {self._name} cannot be resolved ({error}); "
                "import the type at the top of the module, or put @tool over the function where the type is defined"
            ) from error

    def _injected(self, parameters: _Parameters, hints: Mapping[str, Any]) -> str | None:
        found = [name for name, hint in hints.items() if self._inject is not None and self._is_injected(hint)]
        if len(found) > 1:
            names = " and ".join(found)
            raise ToolDefinitionError(f"{self._name} takes the context more than once ({names}); keep one")
        for name in found:
            parameter = parameters[name]
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_KEYWORD):
                raise ToolDefinitionError(
                    f"parameter {name!r} of {self._name} is passed by name; declare it without `/` and `**`"
                )
        return found[0] if found else None

    def _is_injected(self, hint: Any) -> bool:
        origin = typing.get_origin(hint)
        if hint is self._inject or origin is self._inject:
            return True
        if origin is typing.Annotated:
            return self._is_injected(hint.__origin__)
        return origin in (typing.Union, types.UnionType) and any(map(self._is_injected, typing.get_args(hint)))

    def _deps(self, hint: Any) -> Any:
        """Return the type argument of the injected type, or None."""
        args = typing.get_args(hint)
        if typing.get_origin(hint) is self._inject:
            return None if args[0] is types.NoneType else args[0]
        return next((found for each in args if (found := self._deps(each)) is not None), None)

    def _schema(
        self, parameters: _Parameters, hints: Mapping[str, Any], described: Mapping[str, str]
    ) -> tuple[Schema, frozenset[str]]:
        fields = [
            Field(name, name, hints[name], each.default is each.empty, _default(each), described.get(name))
            for name, each in parameters.items()
            if each.kind is not each.VAR_KEYWORD
        ]
        extra = _var_keyword(parameters)
        record = Record("", tuple(fields), None, extra=hints[extra] if extra else ABSENT)
        shapes = Shapes(self._namespace)
        try:
            schema, convert = shapes.properties(record, self._name)
            optional = frozenset(
                field.name
                for field in fields
                if not field.required and not shapes.of(field.type, field.name).accepts(None)
            )
        except SchemaError as error:
            raise ToolDefinitionError(str(error)) from error
        return Schema(shapes.document(schema), convert), optional

    def _reserved(self, parameters: _Parameters) -> frozenset[str]:
        """Return the parameters that are already bound: self, the injected one, those of a partial."""
        code = getattr(self._inner, "__code__", None)
        taken = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if code else ()
        return frozenset(taken) - parameters.keys()


def _innermost(function: Any) -> Any:
    """Return the underlying function of partials, methods, decorators and callable objects."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    if isinstance(function, staticmethod | types.MethodType):
        function = function.__func__
    if not hasattr(function, "__code__") and not isinstance(function, type):
        function = getattr(type(function).__call__, "__func__", type(function).__call__)
    return inspect.unwrap(function)


def _name(function: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


def _closure(function: Any) -> dict[str, Any]:
    names = function.__code__.co_freevars if hasattr(function, "__code__") else ()
    found: dict[str, Any] = {}
    for name, cell in zip(names, function.__closure__ or () if names else (), strict=False):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found


def _var_keyword(parameters: _Parameters) -> str | None:
    return next((name for name, each in parameters.items() if each.kind is each.VAR_KEYWORD), None)


def _default(parameter: inspect.Parameter) -> Any:
    return ABSENT if parameter.default is parameter.empty else parameter.default
