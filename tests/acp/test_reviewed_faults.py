"""Faults that a review of the editor agent found, each as it was found."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from outrider.acp.client import EditorClient
from outrider.acp.connection import Connection
from outrider.acp.handlers import to_rpc_error
from outrider.acp.schema import ClientCapabilities
from outrider.acp.subagents import MAX_LINE, SHOWN_LINES, SubagentActivity
from outrider.acp.tool_calls import fenced, locations_of, new_call
from outrider.errors import SessionHeldError
from outrider.runtime.events import SubagentEvent, SubagentStarted, ToolStarted

HERE = Path("/work")


@pytest.mark.parametrize("path", ["~nosuchuser/x", "~", "a\0b", ""])
def test_a_path_of_nobody_breaks_nothing(path: str) -> None:
    for tool, more in (("Read", {}), ("Edit", {"old_string": "a", "new_string": "b"}), ("Write", {"content": "c"})):
        call = new_call("c", tool, {"file_path": path} | more, HERE)
        assert all(each.path.startswith("/") for each in call.locations)


@pytest.mark.parametrize("line", [True, 0, -1, 2**32, 2**70, 1.5, "3"])
def test_a_line_that_is_none_is_left_out(line: Any) -> None:
    (place,) = locations_of("Read", {"file_path": "a", "offset": line}, HERE)
    assert place.line is None


def test_a_title_is_one_line_without_codes() -> None:
    call = new_call("c", "Bash", {"command": "ls\x1b[31m\n\x07rm\u202e -rf" + "x" * 5000}, HERE)
    assert call.title.isprintable()
    assert len(call.title) <= 400


@pytest.mark.parametrize("text", ["plain", "with ``` in it", "````\nlonger\n````", ""])
def test_a_fence_holds_whatever_is_inside(text: str) -> None:
    lines = fenced(text).split("\n")
    assert lines[0] == lines[-1]
    assert set(lines[0]) == {"`"}
    assert not any(line.startswith(lines[0]) for line in lines[1:-1])
    assert "\n".join(lines[1:-1]) == text


def test_what_sub_agents_do_stays_small() -> None:
    nested = SubagentActivity(HERE)
    nested.add(SubagentStarted("t", "s", "Bash", "work"))
    for number in range(1000):
        command = f"echo {number}\n" * 1000
        nested.add(SubagentEvent("t", "s", ToolStarted(f"c{number}", "Bash", {"command": command}, "write")))
    shown = str(nested)
    assert len(shown.split("\n")) == SHOWN_LINES + 2
    assert max(map(len, shown.split("\n"))) <= MAX_LINE + 2
    assert "(980 earlier calls)" in shown


def test_a_session_that_is_open_elsewhere_is_no_fault_of_the_agent() -> None:
    assert to_rpc_error("session/load", SessionHeldError("it is open elsewhere")).code == -32600


@pytest.mark.parametrize("key", ["terminal_output", "terminal_output_delta"])
async def test_both_names_for_appended_output_are_known(key: str) -> None:
    class Quiet:
        congested = False

        def __call__(self, data: bytes) -> None:
            pass

    client = EditorClient(Connection(Quiet(), {}, {}), Quiet())  # type: ignore[arg-type]
    client.initialize(ClientCapabilities(meta={key: True}), None)
    assert client.appends_output
    assert client.output_key == key
    await asyncio.sleep(0)
