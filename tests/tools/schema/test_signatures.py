"""Function signatures become parameters that a model can fill."""

from __future__ import annotations

import dataclasses
import functools
import socket
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any

import pytest

from outrider.errors import ToolDefinitionError, ValidationError
from outrider.tools.schema.signatures import Signature

if TYPE_CHECKING:
    from nowhere import Result  # type: ignore[import-not-found]


class Context:
    pass


@dataclasses.dataclass
class Range:
    start: int
    end: int | None = None


def read_file(path: str, lines: Range | None = None, *, limit: int = 100) -> Result:
    """Read a file.

    Args:
        path: Where it lies.
        limit: How many lines.
    """


def test_a_function_describes_itself() -> None:
    signature = Signature.of(read_file)
    assert signature.name == "read_file"
    assert signature.description == "Read a file."
    assert signature.injected is None
    json = signature.schema.json
    assert json["type"] == "object"
    assert json["required"] == ["path"]
    assert json["additionalProperties"] is False
    assert json["properties"]["path"] == {"type": "string", "description": "Where it lies."}
    assert json["properties"]["limit"] == {"type": "integer", "description": "How many lines.", "default": 100}


def test_arguments_are_converted_and_absent_ones_left_out() -> None:
    bound = Signature.of(read_file).bind({"path": "a", "lines": {"start": 2.0}})
    assert bound == ([], {"path": "a", "lines": Range(2)})


def test_every_violation_is_listed() -> None:
    with pytest.raises(ValidationError) as caught:
        Signature.of(read_file).bind({"lines": {"start": "x"}, "limit": "y", "more": 1})
    text = str(caught.value)
    assert len(caught.value.violations) == 4
    assert all(word in text for word in ("path", "lines.start", "limit", "more"))


def test_arguments_that_are_no_object() -> None:
    with pytest.raises(ValidationError, match="object"):
        Signature.of(read_file).bind([1])  # type: ignore[arg-type]


class Tools:
    def method(self, a: int) -> int:
        return a

    @staticmethod
    def static(a: int) -> int:
        return a

    @classmethod
    def of_class(cls, a: int) -> int:
        return a

    async def coroutine(self, a: int) -> int:
        return a

    async def generator(self, a: int) -> AsyncIterator[int]:
        yield a

    def __call__(self, a: int) -> int:
        """Call it."""
        return a


def decorated(a: int) -> int:
    return a


@functools.wraps(decorated)
def wrapper(*args: Any, **kwargs: Any) -> int:
    return decorated(*args, **kwargs)


TOOLS = Tools()
FUNCTIONS = [
    TOOLS.method,
    Tools.static,
    Tools.of_class,
    TOOLS.coroutine,
    TOOLS.generator,
    TOOLS,
    vars(Tools)["static"],
    wrapper,
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=range(len(FUNCTIONS)))
def test_every_kind_of_function(function: Any) -> None:
    signature = Signature.of(function)
    assert list(signature.schema.json["properties"]) == ["a"]
    assert signature.bind({"a": 1.0}) == ([], {"a": 1})


def test_a_callable_object_is_named_for_its_class() -> None:
    signature = Signature.of(TOOLS)
    assert (signature.name, signature.description) == ("Tools", "Call it.")


def test_what_a_partial_decided_is_hidden_from_the_model() -> None:
    def fetch(url: str, retries: int, *, token: str, depth: int = 1) -> None:
        """Fetch."""

    signature = Signature.of(functools.partial(fetch, "http://x", token="secret"))
    assert signature.name == "fetch"
    assert list(signature.schema.json["properties"]) == ["retries", "depth"]
    assert "secret" not in str(signature.schema.json)


def test_positional_only_parameters_are_given_by_position() -> None:
    marker = object()

    def move(a: int, b: Any = marker, c: int = 3, /, d: int = 4) -> None: ...

    signature = Signature.of(move)
    assert signature.bind({"a": 1}) == ([1], {})
    assert signature.bind({"a": 1, "c": 2, "d": 5}) == ([1, marker, 2], {"d": 5})


def test_null_counts_as_absent_only_where_it_means_nothing() -> None:
    def search(text: str, limit: int = 5, path: str | None = "x", other: Any = 1) -> None: ...

    signature = Signature.of(search)
    bound = signature.bind({"text": "t", "limit": None, "path": None, "other": None})
    assert bound == ([], {"text": "t", "path": None, "other": None})
    with pytest.raises(ValidationError, match="text"):
        signature.bind({"text": None})


def test_keywords_of_any_name() -> None:
    def call(self: int, context: Context, **rest: Range) -> None: ...

    signature = Signature.of(call, inject=Context)
    assert "properties" in signature.schema.json["additionalProperties"] or "$ref" in str(signature.schema.json)
    assert signature.bind({"self": 1, "a": {"start": 1}}) == ([], {"self": 1, "a": Range(1)})
    with pytest.raises(ValidationError, match="start"):
        signature.bind({"self": 1, "a": {}})
    with pytest.raises(ValidationError, match="context"):
        signature.bind({"self": 1, "context": {"start": 1}})


def test_a_bound_self_cannot_be_given_again() -> None:
    class Box:
        def put(self, **items: int) -> None: ...

    with pytest.raises(ValidationError, match="self"):
        Signature.of(Box().put).bind({"self": 1})


def _plain(a: int, context: Context) -> None: ...
def _optional(a: int, context: Context | None = None) -> None: ...
def _annotated(context: Annotated[Context, "x"], a: int) -> None: ...
def _by_keyword(a: int, *, context: Context) -> None: ...


@pytest.mark.parametrize("function", [_plain, _optional, _annotated, _by_keyword], ids=lambda each: each.__name__)
def test_the_injected_parameter_is_not_the_models(function: Any) -> None:
    signature = Signature.of(function, inject=Context)
    assert signature.injected == "context"
    assert list(signature.schema.json["properties"]) == ["a"]
    with pytest.raises(ValidationError):
        signature.bind({"a": 1, "context": None})


def test_local_types_come_from_the_namespace_or_the_closure() -> None:
    @dataclasses.dataclass
    class Local:
        x: int

    def closes_over(a: Local) -> Local:
        return Local(a.x)

    def named_only(a: Local) -> None: ...

    assert Signature.of(closes_over).bind({"a": {"x": 1}}) == ([], {"a": Local(1)})
    assert Signature.of(named_only, namespace={"Local": Local}).bind({"a": {"x": 1}}) == ([], {"a": Local(1)})
    with pytest.raises(ToolDefinitionError, match=r"'a' of named_only.*Local.*put @tool over"):
        Signature.of(named_only)


def test_the_injected_type_may_be_imported_for_type_checkers_only() -> None:
    scope: dict[str, Any] = {}
    exec("from __future__ import annotations\ndef tool(context: Context, a: int): ...", scope)
    assert Signature.of(scope["tool"], inject=Context).injected == "context"


def _bare(path, size, fine: int): ...  # type: ignore[no-untyped-def]
def _one_bare(path): ...  # type: ignore[no-untyped-def]
def _starred(*names: str) -> None: ...
def _twice(a: Context, b: Context) -> None: ...
def _hidden(a: Context, /) -> None: ...
def _socket(a: socket.socket) -> None: ...


DEFECTS = [
    (_bare, "parameters 'path', 'size' of _bare have no annotations; write for example `path: str`"),
    (_one_bare, "parameter 'path' of _one_bare has no annotation; write for example `path: str`"),
    (_starred, r"takes \*names"),
    (_twice, "more than once"),
    (_hidden, "'a' of _hidden"),
    (_socket, r"the field 'a' of _socket: socket\.socket"),
    (dict.fromkeys, "annotation|inspected"),
]


@pytest.mark.parametrize(("function", "said"), DEFECTS, ids=lambda each: getattr(each, "__name__", ""))
def test_a_function_that_cannot_be_a_tool_says_why(function: Any, said: str) -> None:
    with pytest.raises(ToolDefinitionError, match=said):
        Signature.of(function, inject=Context)
