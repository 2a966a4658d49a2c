"""A model in a loop, a server or a file of a project repeats something: no reader of it takes longer and longer."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from outrider.cli.chat.markdown import MarkdownStream
from outrider.coding.consent.command_line import CommandLine
from outrider.coding.mcp.server_files import find_servers
from outrider.coding.settings_files import line_of
from outrider.coding.toolbox.files.replacing import near_miss
from outrider.coding.toolbox.shell.outcomes import missing_access
from outrider.providers.streams.chat_calls import Calls
from outrider.providers.streams.chat_chunks import Fragment, Function
from outrider.providers.text_calls.written_calls import written_calls
from outrider.web.markdown_nodes import render


def settings_header() -> None:
    assert line_of("wrong", f'text = """\n[{" " * 100_000}x\n"""\n\n[wrong]') == 5


def variables_of_a_line() -> None:
    assert CommandLine(("${A:-" * 40_000,), ("/",)).words


def calls_with_comments() -> None:
    written_calls("<tool_call>\n" + '{"name": "look", "arguments": {"at": "a" // x\n}}\n' * 4_000, {"look": {}})


def calls_in_doubled_braces() -> None:
    written_calls("<tool_call>\n" + '{{"name": "look", "arguments": {{"at": "a"}}}}\n' * 4_000, {"look": {}})


def many_calls_at_once() -> None:
    calls = Calls()
    fragments = [Fragment(index=n, id=f"c{n}", function=Function(f"f{n}", "{}")) for n in range(30_000)]
    calls.take(fragments)
    assert [call.id for call in calls.open] == [f"c{n}" for n in range(30_000)]


def pieces_of_a_call_that_repeat_its_name() -> None:
    calls = Calls()
    calls.take([Fragment(index=0, id="a", function=Function("write", '{"a": "'))])
    for _ in range(60_000):
        calls.take([Fragment(index=0, id="", function=Function("write", "text,"))])
    calls.take([Fragment(index=0, id="", function=Function("write", '"}'))])
    [call] = calls.open
    assert len(call.finish().input["a"]) == 300_000


def a_message_of_a_command() -> None:
    line = "permission denied " + "cannot stat " * 2_000 + "'/usr' " * 4_000
    missing_access("read", 1, line, Path("/"), [])


def an_edit_of_a_table() -> None:
    lines = [f"{number:06}," + "0123456789," * 17 for number in range(5_000)]
    assert "The closest line is" in near_miss("\n".join(lines), lines[70].replace("0123", "0132", 3))


def an_edit_of_equal_lines() -> None:
    assert near_miss("a\n" * 80_000, "  a\n" * 40_000 + "b")


def a_line_in_small_pieces() -> None:
    stream = MarkdownStream()
    for _ in range(400_000):
        assert stream.blocks("abcd ") == []
    assert stream.blocks("\n\nx") == ["abcd " * 400_000 + "\n\n"]


def links_that_never_end() -> None:
    assert render("![a" * 60_000)[0][0] == "pre"


READERS = (
    *(settings_header, variables_of_a_line, calls_with_comments, calls_in_doubled_braces, many_calls_at_once),
    *(pieces_of_a_call_that_repeat_its_name, a_message_of_a_command, an_edit_of_a_table, an_edit_of_equal_lines),
    *(a_line_in_small_pieces, links_that_never_end),
)


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
def test_the_time_does_not_explode(reader: Callable[[], None]) -> None:
    began = time.process_time()
    reader()
    assert time.process_time() - began < 10


def test_a_server_of_a_project_is_found_at_once(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text(
        '{"mcpServers": {"x": {"command": "echo", "args": ["%s"]}}}' % ("${A:-" * 20_000)
    )
    began = time.process_time()
    find_servers(tmp_path)
    assert time.process_time() - began < 10
