"""Python types become JSON Schema, and decoded JSON becomes their values."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import pathlib
import socket
import types
import typing
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, NotRequired, Optional, TypedDict, TypeVar

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.errors import SchemaError, ValidationError
from outrider.tools.schema import Schema
from tests.lengths import examples

T = TypeVar("T")
B = TypeVar("B", bound=int)
C = TypeVar("C", int, str)


class Colour(enum.Enum):
    """How it looks."""

    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mode(enum.StrEnum):
    FAST = "fast"


@dataclasses.dataclass
class Point:
    """A place.

    Attributes:
        x: Across.
    """

    x: int
    y: float = 0.5
    tags: list[str] = dataclasses.field(default_factory=list)
    norm: float = dataclasses.field(init=False, default=0.0)


@dataclasses.dataclass
class Crate(Generic[T]):
    label: str
    items: list[T]
    size: dataclasses.InitVar[int]

    def __post_init__(self, size: int) -> None:
        self.label = f"{self.label} {size}"


@dataclasses.dataclass(frozen=True)
class Node:
    value: int
    children: tuple[Node, ...] = ()
    colour: Colour | None = None


@dataclasses.dataclass
class Positive:
    number: Annotated[int, msgspec.Meta(gt=0)]

    def __post_init__(self) -> None:
        if self.number == 13:
            raise ValueError("13 brings bad luck")


@dataclasses.dataclass
class Box(Generic[T]):
    item: T


@dataclasses.dataclass
class Add:
    left: Expression
    right: Expression
    op: Literal["add"] = "add"


@dataclasses.dataclass
class Times:
    left: Expression
    right: Expression
    op: Literal["times"] = "times"


Expression = Add | Times | int


class Cat(msgspec.Struct, tag=True, rename="camel"):
    """Purrs."""

    nine_lives: int = 9


class Dog(msgspec.Struct, tag=True):
    name: str
    friends: list[Cat | Dog] = []


class Pair(msgspec.Struct, array_like=True):
    a: int
    b: str


class Film(TypedDict):
    title: str
    year: NotRequired[int]


class Spot(NamedTuple):
    x: int
    y: int = 7


class Model(pydantic.BaseModel):
    """Checked by pydantic."""

    size: int = pydantic.Field(gt=0, description="How large.")
    child: Model | None = None

    @pydantic.field_validator("size")
    @classmethod
    def even(cls, size: int) -> int:
        if size % 2:
            raise ValueError("odd")
        return size


UserId = NewType("UserId", int)

CONVERSIONS: list[tuple[Any, Any, Any]] = [
    (str, "x", "x"),
    (int, 5.0, 5),
    (float, 5, 5.0),
    (bool, True, True),
    (None, None, None),
    (Any, {"a": [1]}, {"a": [1]}),
    (object, "x", "x"),
    (bytes, "AAE=", b"\0\1"),
    (list[int], [1.0, 2], [1, 2]),
    (list, [1, "x"], [1, "x"]),
    (Sequence[Colour], ["red"], [Colour.RED]),
    (Iterable[str], ["a"], ["a"]),
    (tuple[int, str], [1, "a"], (1, "a")),
    (tuple[int, ...], [1, 2], (1, 2)),
    (tuple[()], [], ()),
    (typing.Tuple, [1, "x"], (1, "x")),  # noqa: UP006
    (set[str], ["a", "b"], {"a", "b"}),
    (frozenset[int], [1], frozenset({1})),
    (dict[str, bytes], {"k": "AA=="}, {"k": b"\0"}),
    (dict[int, str], {"-5": "x"}, {-5: "x"}),
    (Mapping[Colour, int], {"red": 1}, {Colour.RED: 1}),
    (dict[Level, int], {"2": 1}, {Level.HIGH: 1}),
    (dict[Literal["a", "b"], int], {"a": 1}, {"a": 1}),
    (Optional[int], None, None),  # noqa: UP045
    (int | str, "5", "5"),
    (int | str, 5, 5),
    (float | int, 5, 5),
    (int | float, 5.0, 5.0),
    (datetime.date | str, "2026-01-31", datetime.date(2026, 1, 31)),
    (datetime.date | str, "soon", "soon"),
    (bool | int, True, True),
    (Literal[1, "a", True], True, True),
    (Literal[1, "a"], 1.0, 1),
    (Literal[Colour.RED], "red", Colour.RED),
    (Colour, "blue", Colour.BLUE),
    (Level, 2, Level.HIGH),
    (Mode, "fast", Mode.FAST),
    (Point, {"x": 1}, Point(1)),
    (Node, {"value": 1, "children": [{"value": 2, "colour": "red"}]}, Node(1, (Node(2, (), Colour.RED),))),
    (Box[Point], {"item": {"x": 1}}, Box(Point(1))),
    (Box[list[int]] | Box[str], {"item": "s"}, Box("s")),
    (Point | Positive, {"number": 3}, Positive(3)),
    (Cat, {"type": "Cat", "nineLives": 3}, Cat(3)),
    (Cat | Dog, {"type": "Dog", "name": "Rex", "friends": [{"type": "Cat"}]}, Dog("Rex", [Cat()])),
    (Pair, [1, "x"], Pair(1, "x")),
    (Film, {"title": "M"}, {"title": "M"}),
    (Spot, {"x": 1}, Spot(1, 7)),
    (Model, {"size": 2, "child": {"size": 4}}, Model(size=2, child=Model(size=4))),
    (UserId, 3, 3),
    (typing.Final[int], 3, 3),
    (list[C], [1, "a"], [1, "a"]),  # type: ignore[valid-type]
    (Crate[int], {"label": "a", "items": [1.0], "size": 2}, Crate("a", [1], 2)),
    (tuple[Model, Model], [{"size": 2}, {"size": 4}], (Model(size=2), Model(size=4))),
    (dict, {"a": 1}, {"a": 1}),
    (dict[Any, int], {"a": 1.0}, {"a": 1}),
    (list[int] | Sequence[int], [1.0], [1]),
    (int | msgspec.UnsetType, 1.0, 1),
    (Literal["a", None], None, None),
    (Annotated[decimal.Decimal | None, msgspec.Meta(ge=1)], None, None),
    (list[T], [1], [1]),  # type: ignore[valid-type]
    (list[B], [1.0], [1]),  # type: ignore[valid-type]
    (datetime.datetime, "2026-01-31T09:30:00Z", datetime.datetime(2026, 1, 31, 9, 30, tzinfo=datetime.UTC)),
    (datetime.time, "09:30:00", datetime.time(9, 30)),
    (datetime.timedelta, "PT90S", datetime.timedelta(seconds=90)),
    (uuid.UUID, "12345678-1234-5678-1234-567812345678", uuid.UUID("12345678-1234-5678-1234-567812345678")),
    (decimal.Decimal, "1.10", decimal.Decimal("1.10")),
    (decimal.Decimal, 1.1, decimal.Decimal("1.1")),
    (pathlib.Path, "a/b", pathlib.Path("a/b")),
]


@pytest.mark.parametrize(("kind", "value", "expected"), CONVERSIONS)
def test_converts(kind: Any, value: Any, expected: Any) -> None:
    decoded = Schema.of(kind).decode(value)
    assert decoded == expected
    assert type(decoded) is type(expected)


REFUSALS: list[tuple[Any, Any, str]] = [
    (int, True, "(the value): true is not of type"),
    (int, 5.5, "integer"),
    (float, float("nan"), "(the value)"),
    (float, 10**400, "too large"),
    (bytes, "!", "is not base64"),
    (tuple[int, str], [1], "less than 2 items"),
    (tuple[()], [1], "more than 0 items"),
    (typing.Tuple[()], [1], "more than 0 items"),  # noqa: UP006
    (dict[int, str], {"x": "y"}, "x"),
    (dict[Colour, int], {"green": 1}, "green"),
    (Literal["a"], "b", '"a"'),
    (Literal[1], True, "1"),
    (Colour, "RED", "red"),
    (Point, {"x": "one", "z": 1}, "x: "),
    (Point, {}, '"x" is a required property'),
    (Positive, {"number": 13}, "13 brings bad luck"),
    (list[Positive], [{"number": 2}, {"number": 13}], "[1]: 13 brings bad luck"),
    (Cat | Dog, {"type": "Dog", "name": 5}, "name: 5 is not of type"),
    (Film, {"title": "M", "extra": 1}, "extra"),
    (Model, {"size": 4, "child": {"size": 3}}, "child.size: Value error, odd"),
    (datetime.datetime, "yesterday", "ISO 8601"),
    (uuid.UUID, "x", "is not a UUID"),
    (decimal.Decimal, "NaN", "decimal"),
    (Annotated[str, msgspec.Meta(min_length=2)], "a", "shorter than 2"),
    (Annotated[bytes, msgspec.Meta(min_length=2)], "YQ==", "shorter than 2"),
    (Annotated[bytes, msgspec.Meta(max_length=1)], "YWI=", "longer than 1"),
    (Annotated[int, msgspec.Meta(multiple_of=5)], 7, "5"),
    (Annotated[decimal.Decimal, msgspec.Meta(ge=1)] | None, "0.5", "less than 1"),
]


@pytest.mark.parametrize(("kind", "value", "said"), REFUSALS)
def test_refuses(kind: Any, value: Any, said: str) -> None:
    schema = Schema.of(kind)
    with pytest.raises(ValidationError) as caught:
        schema.decode(value)
    assert said in str(caught.value)
    assert tuple(schema.violations(value)) == caught.value.violations


def test_every_error_of_pydantic_is_listed() -> None:
    found = Schema.of(list[Model]).violations([{"size": 1}, {"size": 2, "child": {"size": 3}}])
    assert [each.split(":")[0] for each in found] == ["[0].size", "[1].child.size"]


def test_a_dataclass_describes_itself() -> None:
    assert Schema.of(Point).json == {
        "type": "object",
        "description": "A place.",
        "properties": {
            "x": {"type": "integer", "description": "Across."},
            "y": {"type": "number", "default": 0.5},
            "tags": {"type": "array", "items": {"type": "string"}, "default": []},
        },
        "required": ["x"],
        "additionalProperties": False,
    }


def test_a_generated_docstring_is_no_description() -> None:
    assert "description" not in Schema.of(Spot).json
    assert "description" not in Schema.of(Box[int]).json


def test_recursion_goes_through_definitions() -> None:
    json = Schema.of(Node).json
    assert json["type"] == "object"
    assert json["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}
    assert list(json["$defs"]) == ["Node"]


def test_a_root_that_is_not_recursive_leaves_no_definition() -> None:
    assert "$defs" not in Schema.of(Point).json
    assert list(Schema.of(list[Point]).json["$defs"]) == ["Point"]


def test_two_classes_of_one_name_do_not_collide() -> None:
    def other() -> type:
        @dataclasses.dataclass
        class Point:
            label: str

        return Point

    other_point = other()
    schema = Schema.of(tuple[Point, other_point])  # type: ignore[valid-type]
    assert schema.decode([{"x": 1}, {"label": "a"}]) == (Point(1), other_point("a"))
    assert schema.violations([{"label": "a"}, {"x": 1}])


def test_a_local_recursive_class_knows_its_own_name() -> None:
    @dataclasses.dataclass
    class Link:
        next: Link | None = None

    assert Schema.of(Link).decode({"next": {}}) == Link(Link())


def test_a_deep_tree_of_alternatives_converts_quickly() -> None:
    value: Any = 1
    for _ in range(60):
        value = {"op": "times", "left": value, "right": 2}
    found = Schema.of(Expression).decode(value)
    assert isinstance(found, Times)


CONSTRAINTS: list[tuple[Any, dict[str, Any]]] = [
    (Annotated[str, "A name."], {"type": "string", "description": "A name."}),
    (
        Annotated[int, msgspec.Meta(ge=0, lt=9, title="N", examples=[1], extra_json_schema={"x-unit": "m"})],
        {
            "type": "integer",
            "minimum": 0,
            "exclusiveMaximum": 9,
            "title": "N",
            "examples": [1],
            "x-unit": "m",
        },
    ),
    (
        Annotated[str, pydantic.Field(min_length=1, max_length=3, pattern="^a", description="D.")],
        {"type": "string", "minLength": 1, "maxLength": 3, "pattern": "^a", "description": "D."},
    ),
    (Annotated[float, pydantic.Field(gt=0, le=1)], {"type": "number", "exclusiveMinimum": 0, "maximum": 1}),
    (
        Annotated[list[str], msgspec.Meta(max_length=2)],
        {"type": "array", "items": {"type": "string"}, "maxItems": 2},
    ),
    (
        Annotated[bytes, msgspec.Meta(max_length=4)],
        {"type": "string", "contentEncoding": "base64", "maxLength": 8},
    ),
    (Annotated[int, object(), types.SimpleNamespace(pattern=5, ge=len)], {"type": "integer"}),
]


@pytest.mark.parametrize(("kind", "expected"), CONSTRAINTS)
def test_annotations_become_keywords(kind: Any, expected: dict[str, Any]) -> None:
    assert Schema.of(kind).json == expected


def test_bounds_tell_branches_of_a_union_apart() -> None:
    @dataclasses.dataclass
    class Credit:
        amount: Annotated[int, msgspec.Meta(ge=0)]

    @dataclasses.dataclass
    class Debit:
        amount: Annotated[int, msgspec.Meta(lt=0)]

    schema = Schema.of(list[Credit | Debit])
    assert schema.decode([{"amount": 1}, {"amount": -1}]) == [Credit(1), Debit(-1)]


def test_a_default_that_json_cannot_write_is_not_shown() -> None:
    @dataclasses.dataclass
    class Odd:
        a: float = float("nan")
        b: Any = dataclasses.field(default_factory=object)
        c: int = None  # type: ignore[assignment]
        d: Colour = Colour.RED
        e: pathlib.Path = pathlib.Path("x")

    properties = Schema.of(Odd).json["properties"]
    assert {name: each["default"] for name, each in properties.items() if "default" in each} == {
        "d": "red",
        "e": "x",
    }


class Alias:
    """Stands in for what `type Json = …` makes from Python 3.12 on."""

    def __init__(self, name: str) -> None:
        self.__name__ = name
        self.__type_params__ = ()
        self.__value__: Any = None

    def __or__(self, other: Any) -> Any:
        return typing.Union[self, other]  # noqa: UP007

    def __call__(self) -> None:
        """`typing` takes only callables for types."""


def test_a_recursive_alias() -> None:
    json: Any = Alias("Json")
    json.__value__ = dict[str, json] | list[json] | bytes | None
    schema = Schema.of(json)
    assert list(schema.json["$defs"]) == ["Json"]
    assert schema.decode({"a": [None, "AA=="]}) == {"a": [None, b"\0"]}
    assert schema.violations({"a": [True]})


def test_a_plain_alias_leaves_no_definition() -> None:
    alias: Any = Alias("Number")
    alias.__value__ = int
    assert Schema.of(list[alias]).json == {"type": "array", "items": {"type": "integer"}}


@pytest.mark.parametrize("kind", [socket.socket, complex, list[socket.socket], typing.Callable[[], int]])
def test_an_unsupported_type_is_named(kind: Any) -> None:
    with pytest.raises(SchemaError, match=r"socket\.socket|complex|Callable"):
        Schema.of(kind)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Literal[b"x"], r"the constant b'x' is not a JSON value; use str, int, float or bool"),
        (dict[float, int], r"float cannot be a key of a JSON object; use str"),
        (typing.ClassVar[int], r"ClassVar"),
    ],
)
def test_a_type_that_json_has_no_form_for_is_refused_with_advice(kind: Any, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        Schema.of(kind)


def test_an_unsupported_type_is_named_with_its_place() -> None:
    @dataclasses.dataclass
    class Server:
        connection: socket.socket

    with pytest.raises(SchemaError, match=r"the field 'connection' of Server: socket\.socket .*use"):
        Schema.of(Server)


def test_names_that_cannot_be_resolved_are_reported() -> None:
    @dataclasses.dataclass
    class Lost:
        thing: Nowhere  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(SchemaError, match=r"Lost.*Nowhere"):
        Schema.of(Lost)


@dataclasses.dataclass
class Everything:
    text: str
    number: int
    ratio: float
    moment: datetime.datetime
    span: datetime.timedelta
    colour: Colour
    data: bytes
    identity: uuid.UUID
    price: decimal.Decimal
    points: list[Node]
    table: dict[str, tuple[int, str]]
    animal: Cat | Dog | None
    numbers: dict[int, frozenset[int]]


REALS = st.floats(allow_nan=False, allow_infinity=False)
NODES = st.recursive(
    st.builds(Node, st.integers(), st.just(()), st.none() | st.sampled_from(Colour)),
    lambda nodes: st.builds(Node, st.integers(), st.lists(nodes, max_size=3).map(tuple)),
    max_leaves=5,
)
ANIMALS = st.builds(Cat, st.integers()) | st.builds(Dog, st.text(), st.lists(st.builds(Cat, st.integers())))
THINGS = st.builds(
    Everything,
    text=st.text(),
    ratio=REALS,
    moment=st.datetimes(timezones=st.none() | st.just(datetime.UTC)),
    span=st.timedeltas(datetime.timedelta(-1000), datetime.timedelta(1000)),
    price=st.decimals(allow_nan=False, allow_infinity=False),
    points=st.lists(NODES, max_size=3),
    animal=st.none() | ANIMALS,
)
EVERYTHING = Schema.of(Everything)


@settings(max_examples=examples(60))
@given(THINGS)
def test_values_return_unchanged(value: Everything) -> None:
    written = msgspec.to_builtins(value, str_keys=True)
    assert EVERYTHING.decode(written) == value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | REALS | st.text(max_size=5) | st.sampled_from(["red", "AA=="]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x", "value", "type", "y"]), inner),
    max_leaves=8,
)
KINDS = [Schema.of(kind) for kind, _, _ in CONVERSIONS]


@settings(max_examples=examples(150))
@given(st.sampled_from(KINDS), JSON)
def test_no_violations_means_it_decodes(schema: Schema, value: Any) -> None:
    found = schema.violations(value)
    if found:
        with pytest.raises(ValidationError):
            schema.decode(value)
    else:
        schema.decode(value)
