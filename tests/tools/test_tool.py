"""Functions as tools: their descriptions, and the conversion of their return values."""

from __future__ import annotations

import contextvars
import functools
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from outrider.conversation.attachments import Attachment
from outrider.errors import AttachmentError, ToolDefinitionError, ValidationError
from outrider.runtime.agent import Agent
from outrider.runtime.events import ToolProgress
from outrider.runtime.limits import Limits
from outrider.testing import call
from outrider.tools.context import CallRef, ToolContext
from outrider.tools.result import ToolResult, as_result
from outrider.tools.server_tool import ServerTool
from outrider.tools.threads import Threads
from outrider.tools.tool import Tool, make_tool, tool
from tests.watching import Watched, last_results


class Mode(Enum):
    FAST = "fast"
    SAFE = "safe"


@dataclass
class Span:
    first: int
    last: int = 100


@tool(effect="read")
def read_lines(
    path: Path,
    spans: list[Span],
    mode: Mode = Mode.SAFE,
    tags: dict[str, int] | None = None,
    style: Annotated[Literal["plain", "numbered"], "How lines look"] = "plain",
) -> str:
    """Read lines of a file.

    Only text files are read.

    Args:
        path: The file to read.
        spans: Which lines,
            in order.
    """
    return f"{path!r} {spans} {mode} {tags} {style}"


def context(progress: list[Any] | None = None) -> ToolContext:
    shown = progress if progress is not None else []
    return ToolContext(CallRef("c1"), Path("/tmp"), Threads(), shown.append)


async def result_of(function: Any, /, **arguments: Any) -> ToolResult:
    return await make_tool(function).invoke(arguments, context())


# What the model is told


def test_name_description_and_schema_come_from_the_function() -> None:
    assert read_lines.name == "read_lines"
    assert read_lines.description == "Read lines of a file.\n\nOnly text files are read."
    assert read_lines.effect == "read"
    parameters = read_lines.parameters
    assert parameters["type"] == "object"
    assert parameters["required"] == ["path", "spans"]
    properties = parameters["properties"]
    assert properties["path"]["description"] == "The file to read."
    assert properties["spans"]["description"] == "Which lines, in order."
    assert properties["spans"]["type"] == "array"
    assert properties["mode"]["enum"] == ["fast", "safe"]
    assert properties["style"] == {
        "type": "string",
        "enum": ["plain", "numbered"],
        "description": "How lines look",
        "default": "plain",
    }


async def test_arguments_arrive_as_the_annotated_types() -> None:
    result = await read_lines.invoke({"path": "a", "spans": [{"first": 1}], "mode": "fast"}, context())
    assert result.text == f"{Path('a')!r} [Span(first=1, last=100)] Mode.FAST None plain"


async def test_every_violation_is_named() -> None:
    with pytest.raises(ValidationError) as caught:
        await read_lines.invoke({"path": 3, "spans": [{"last": "x"}], "mode": "slow", "more": 1}, context())
    assert len(caught.value.violations) == 5
    for place in ("path", "spans[0]", "spans[0].last", "mode", "more"):
        assert any(place in violation for violation in caught.value.violations)


def test_options_replace_what_the_function_says() -> None:
    @tool(name="other", description="Does more.", effect="idempotent", timeout=3, concurrent=False)
    def function(x: int) -> int:
        """Does less."""
        return x

    assert (function.name, function.description, function.effect) == ("other", "Does more.", "idempotent")
    assert (function.timeout, function.concurrent) == (3, False)


def test_the_default_effect_is_the_most_careful_one() -> None:
    assert make_tool(lambda: "x", name="x").effect == "write"


def test_a_tool_is_still_the_function() -> None:
    @tool
    def double(x: int) -> int:
        return 2 * x

    assert isinstance(double, Tool)
    assert double(4) == 8
    assert make_tool(double) is double


def test_the_context_is_not_part_of_the_schema() -> None:
    def function(text: str, context: ToolContext) -> str:
        return text

    assert list(make_tool(function).parameters["properties"]) == ["text"]


def test_types_of_the_surrounding_function_are_found() -> None:
    @dataclass
    class Local:
        x: int

    @tool
    def function(local: Local) -> str:
        return str(local.x)

    assert "local" in function.parameters["properties"]


# Functions of every kind


class Counter:
    def __init__(self, start: int) -> None:
        self.count = start

    @tool
    def increase(self, by: int = 1) -> int:
        """Count on."""
        self.count += by
        return self.count

    async def show(self) -> str:
        """Show the count."""
        return f"at {self.count}"

    def __call__(self, by: int) -> int:
        return self.count + by


async def test_a_tool_written_in_a_class_belongs_to_each_instance() -> None:
    one, two = Counter(10), Counter(20)
    assert one.increase.description == "Count on."
    assert (await one.increase.invoke({"by": 5}, context())).text == "15"
    assert (await two.increase.invoke({}, context())).text == "21"
    assert list(one.increase.parameters["properties"]) == ["by"]


async def test_methods_partials_and_callable_objects_are_tools() -> None:
    counter = Counter(1)
    assert (await result_of(counter.show)).text == "at 1"
    assert (await result_of(counter, by=2)).text == "3"
    assert (await result_of(functools.partial(counter, by=4))).text == "5"


async def test_a_closure_keeps_what_it_closed_over() -> None:
    seen: list[str] = []

    def remember(text: str) -> str:
        seen.append(text)
        return "ok"

    await result_of(remember, text="x")
    assert seen == ["x"]


async def test_sync_functions_run_in_a_thread_and_see_the_context_variables() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    variable.set("set")

    def where() -> list[Any]:
        return [threading.current_thread() is threading.main_thread(), variable.get()]

    assert (await result_of(where)).text == '[false,"set"]'


async def test_a_sync_function_that_gives_back_a_coroutine_is_awaited() -> None:
    counter = Counter(7)

    def indirect() -> Any:
        return counter.show()

    assert (await result_of(indirect)).text == "at 7"


async def test_a_tool_with_a_schema_of_its_own_gets_its_arguments_as_keywords() -> None:
    schema = {"properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}

    @tool(schema=schema)
    def untyped(context: ToolContext, **arguments):  # type: ignore[no-untyped-def]
        """Takes what the schema says."""
        return {"call": context.call_id, **arguments}

    assert untyped.parameters == {"type": "object", **schema}
    assert (await untyped.invoke({"n": 2}, context())).text == '{"call":"c1","n":2}'
    with pytest.raises(ValidationError, match="n: 0 is less than"):
        await untyped.invoke({"n": 0}, context())
    with pytest.raises(ValidationError, match="context"):
        await untyped.invoke({"n": 1, "context": "mine"}, context())


def test_a_schema_that_is_not_an_objects_is_refused() -> None:
    with pytest.raises(ToolDefinitionError, match="has the type 'array'; it must be 'object'"):
        tool(schema={"type": "array"})(lambda **arguments: "x")


# Progress and results


async def test_an_async_generator_shows_progress_and_ends_with_its_result() -> None:
    closed: list[bool] = []

    async def work() -> AsyncIterator[Any]:
        try:
            yield "first"
            yield {"percent": 50}
            yield ToolResult("end", is_error=True)
            yield "never shown"
        finally:
            closed.append(True)

    shown: list[Any] = []
    result = await make_tool(work).invoke({}, context(shown))
    assert (result.text, result.is_error, shown, closed) == ("end", True, ["first", {"percent": 50}], [True])


async def test_without_a_result_the_last_item_of_a_generator_is_the_result() -> None:
    async def asynchronous() -> AsyncIterator[str]:
        yield "one"
        yield "two"

    def synchronous() -> Iterator[str]:
        yield "eins"
        yield "zwei"

    shown: list[Any] = []
    assert (await make_tool(asynchronous).invoke({}, context(shown))).text == "two"
    assert (await make_tool(synchronous).invoke({}, context(shown))).text == "zwei"
    assert shown == ["one", "two", "eins", "zwei"]


async def test_progress_from_a_thread_reaches_observers_in_order_and_before_the_result() -> None:
    def work(context: ToolContext) -> str:
        for number in range(100):
            context.progress(number)
        return "done"

    watched = Watched([call("work"), "ok"], [work])
    await watched.session.run("go")
    assert [event.content for event in watched.of(ToolProgress)] == list(range(100))


async def test_progress_after_the_answer_is_dropped() -> None:
    kept: list[ToolContext] = []

    async def work(context: ToolContext) -> str:
        kept.append(context)
        return "done"

    watched = Watched([call("work"), "ok"], [work])
    await watched.session.run("go")
    kept[0].progress("too late")
    assert watched.of(ToolProgress) == []


async def test_an_attachment_alone_is_a_result() -> None:
    file = Attachment(b"x", name="x.txt")

    async def work() -> Attachment:
        return file

    assert (await result_of(work)).attachments == (file,)


async def test_structured_values_are_json() -> None:
    async def work() -> Any:
        return {"spans": [Span(1)], "mode": Mode.FAST, "path": Path("a")}

    assert (await result_of(work)).text == '{"spans":[{"first":1,"last":100}],"mode":"fast","path":"a"}'


async def test_a_pydantic_model_is_taken_and_given_back() -> None:
    import pydantic

    class Point(pydantic.BaseModel):
        x: int

    @tool
    async def move(point: Point) -> Point:
        return Point(x=point.x + 1)

    watched = Watched([call("move", point={"x": 1}), "ok"], [move])
    await watched.session.run("go")
    assert last_results(watched.session) == [('{"x":2}', False)]


async def test_what_a_generator_returns_is_its_result_and_it_is_closed() -> None:
    closed: list[bool] = []

    def work() -> Any:
        try:
            yield "working"
            return "real result"
        finally:
            closed.append(True)

    def early() -> Any:
        try:
            yield ToolResult("early")
            yield "never"
        finally:
            closed.append(True)

    assert (await result_of(_annotated(work))).text == "real result"
    assert (await result_of(_annotated(early))).text == "early"
    assert closed == [True, True]


def _annotated(function: Any) -> Any:
    return function


async def test_a_decorator_is_judged_by_what_it_is() -> None:
    import asyncio

    async def inner(x: int) -> str:
        return f"inner {x}"

    @functools.wraps(inner)
    def wrapper(x: int) -> str:
        return asyncio.run(inner(x))

    assert (await result_of(wrapper, x=1)).text == "inner 1"


def test_a_single_function_in_place_of_the_list_is_refused_with_advice() -> None:
    from outrider.runtime.agent import Agent

    with pytest.raises(ToolDefinitionError, match=r"write tools=\[…\]"):
        Agent(model="demo", tools=read_lines)  # type: ignore[arg-type]
    with pytest.raises(ToolDefinitionError, match="take it from an instance"):
        Agent(model="demo", tools=[Counter.increase])


# What a tool says of itself to the loop


def test_guidance_can_be_made_for_the_agent_that_reads_it() -> None:
    @tool(guidance=lambda agent: f"You are {agent.name}, and have {len(agent.tools)}.")
    def own() -> str:
        """Do it."""
        return ""

    assert (
        Agent(model="demo", system="Hello.", tools=[own], name="Ada").system_prompt
        == "Hello.\n\nYou are Ada, and have 1."
    )
    assert Agent(model="demo", tools=[own, read_lines], name="Eve").system_prompt == "You are Eve, and have 2."


@pytest.mark.parametrize(("own", "limit", "kept"), [(None, 100, 100), (40, 100, 40), (400, 100, 100)])
async def test_a_tool_can_have_a_limit_of_its_own_below_that_of_the_agent(
    own: int | None, limit: int, kept: int
) -> None:
    @tool(result_characters=own)
    def say() -> str:
        """Say a lot."""
        return "x" * 1_000

    watched = Watched([call("say"), "ok"], [say], Limits(result_characters=limit))
    await watched.session.run("Go.")
    assert f"[{1_000 - kept} of 1,000 characters left out" in last_results(watched.session)[0][0]


def test_a_limit_of_nothing_is_refused() -> None:
    with pytest.raises(ToolDefinitionError, match="result_characters of say is 0"):
        tool(name="say", result_characters=0)(lambda: "")


@pytest.mark.parametrize("name", ["final", "functions", "multi_tool_use", "report_back"])
def test_a_reserved_name_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(ToolDefinitionError, match=f"'{name}' is a reserved name: .+; choose another"):
        tool(name=name)(lambda: "")


async def test_arguments_can_be_prepared_before_they_are_checked() -> None:
    def double(number: int) -> int:
        """Double it."""
        return 2 * number

    lenient = make_tool(double, prepare=lambda given: {"number": given.get("n", given.get("number"))})
    lenient.check({"n": 2})
    watched = Watched([[call("double", n=2), call("double", n="x")], "ok"], [lenient])
    await watched.session.run("Go.")
    (text, _), (refused, is_error) = last_results(watched.session)
    assert text == "4"
    assert is_error
    assert "number: " in refused
    assert watched.session.messages[1].tool_calls[0].input == {"n": 2}, "the history is as it was said"


PICTURE = b"\x89PNG\r\n\x1a\n" + b"\0" * 64


@pytest.mark.parametrize(
    ("returned", "text", "files"),
    [
        ({"title": "Q3", "file": Attachment(PICTURE, "image/png", "q3.png")}, '{"title":"Q3","file":"q3.png"}', 1),
        ([{"file": Attachment(PICTURE, name="a.png")}, 2], '[{"file":"a.png"},2]', 1),
        (("a", [Attachment(PICTURE, name="b.png")]), '["a",["b.png"]]', 1),
        ([ToolResult("one", [Attachment(PICTURE)]), ToolResult("two")], '["one","two"]', 1),
        ({"p.png": PICTURE}, '{"p.png":"(attached file)"}', 1),
        ({"plain": [1, None, "x"]}, '{"plain":[1,null,"x"]}', 0),
    ],
)
async def test_a_file_inside_a_value_is_attached_and_not_encoded(returned: Any, text: str, files: int) -> None:
    result = as_result(returned)
    assert (result.text, len(result.attachments)) == (text, files)


@pytest.mark.parametrize("files", [[PICTURE], PICTURE, [bytearray(PICTURE)], [memoryview(PICTURE)]])
def test_bytes_may_be_attached_to_a_text(files: Any) -> None:
    result = ToolResult("important", files)
    assert result.text == "important"
    assert [file.source for file in result.attachments] == [PICTURE]


@pytest.mark.parametrize("files", [3, [3], [Attachment(PICTURE), None]])
def test_what_is_no_file_does_not_cost_the_text(files: Any) -> None:
    result = ToolResult("important", files)
    assert result.text.startswith("important\n[A file could not be attached: ")
    assert [file.source for file in result.attachments] in ([], [PICTURE])
    assert ToolResult("important", None).text == "important"  # type: ignore[arg-type]


def test_a_value_that_contains_itself_and_a_file_ends() -> None:
    value: list[Any] = [Attachment(PICTURE, name="a.png")]
    value += [[value, value], {"again": value}]
    result = as_result(value)
    assert len(result.attachments) == 1
    assert "(the value itself)" in result.text


def test_without_a_store_a_context_has_no_stored_files() -> None:
    with pytest.raises(AttachmentError, match="this session has no stored files"):
        context().stored("ab" * 32)


def test_a_server_tool_that_no_api_would_take_is_refused() -> None:
    with pytest.raises(ToolDefinitionError, match="'web_surf' is not a server tool; they are web_search, "):
        ServerTool(name="web_surf")  # type: ignore[arg-type]
    with pytest.raises(ToolDefinitionError, match="allowed_domains and blocked_domains; APIs take one of them"):
        ServerTool(name="web_search", allowed_domains=["a.org"], blocked_domains=["b.org"])


# Pictures


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "P", "CMYK", "1", "F"])
async def test_an_image_of_pillow_is_a_picture(mode: str) -> None:
    image = pytest.importorskip("PIL.Image").new(mode, (3, 2))

    def draw() -> object:
        return image

    result = await result_of(draw)
    assert (result.text, [file.mime_type for file in result.attachments]) == ("", ["image/png"])
    assert bytes(result.attachments[0].source).startswith(b"\x89PNG")  # type: ignore[arg-type]


async def test_images_among_other_values_are_pictures() -> None:
    image = pytest.importorskip("PIL.Image").new("RGB", (3, 2))

    def draw() -> object:
        return ["Before and after:", image, image]

    def nested() -> object:
        return {"chart": image}

    def attached() -> ToolResult:
        return ToolResult("Here.", attachments=[image])

    assert [(await result_of(each)).text for each in (draw, nested, attached)] == [
        "Before and after:",
        '{"chart":"(attached picture)"}',
        "Here.",
    ]
    assert [len((await result_of(each)).attachments) for each in (draw, nested, attached)] == [2, 1, 1]
