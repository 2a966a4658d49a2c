"""A function that cannot be a tool is refused when it is defined, with a sentence that says what to do."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest

from outrider.errors import ToolDefinitionError
from outrider.runtime.agent import Agent
from outrider.runtime.session import Session
from outrider.tools.tool import tool


def no_annotations(path, mode="r"):  # type: ignore[no-untyped-def]
    """Read."""


def some_annotations(path: str, mode="r"):  # type: ignore[no-untyped-def]
    """Read."""


def star_arguments(*paths: str) -> str:
    return ""


def unknown_type(path: NoSuchType) -> str:  # type: ignore[name-defined]  # noqa: F821
    return ""


def unusable_type(connection: socket.socket) -> str:
    return ""


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (no_annotations, ["no_annotations", "path", "mode", "annotation"]),
        (some_annotations, ["mode", "annotation"]),
        (star_arguments, ["paths"]),
        (unknown_type, ["path", "NoSuchType"]),
        (unusable_type, ["connection", "socket"]),
        ("read_file", ["str"]),
        (None, ["NoneType"]),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_the_error_names_the_function_and_the_parameter(function: Callable[..., Any], words: list[str]) -> None:
    with pytest.raises(TypeError) as caught:
        Agent(model="demo", tools=[function])
    for word in words:
        assert word in str(caught.value)


def test_two_tools_of_one_name_are_refused() -> None:
    def read(path: str) -> str:
        return path

    @tool(name="read")
    def other(path: str) -> str:
        return path

    with pytest.raises(ToolDefinitionError, match="two tools have the name 'read'"):
        Session(Agent(model="demo", tools=[read, other]))


@pytest.mark.parametrize("name", ["final", "functions", "multi_tool_use"])
def test_a_reserved_name_is_refused(name: str) -> None:
    with pytest.raises(ToolDefinitionError, match=f"'{name}' is a reserved name.*@tool\\(name="):
        tool(name=name)(lambda: "x")


@pytest.mark.parametrize("name", ["", "with space", "dotted.name", "naïve", "x" * 65, "new\nline"])
def test_a_name_that_models_do_not_take_is_refused(name: str) -> None:
    with pytest.raises(ToolDefinitionError, match="is not a valid tool name"):
        tool(name=name)(lambda: "x")


@pytest.mark.parametrize("options", [{"effect": "dangerous"}, {"timeout": 0}, {"timeout": -1}])
def test_a_wrong_option_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ToolDefinitionError):
        tool(**options)(some_tool)


def some_tool(text: str) -> str:
    return text
