"""Lines of the chat: they fit the width, and show a call and its result completely."""

from __future__ import annotations

import re
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image
from wcwidth import wcswidth

from outrider.cli.chat.tool_call_lines import (
    IncomingCall,
    RunningCall,
    caption,
    diff_lines,
    finished_call_lines,
    numbered_diff,
)
from outrider.cli.styles import GREEN, RED, columns, fit, styled, wrap_words
from outrider.coding.toolbox.files.diffs import diff_of
from outrider.coding.toolbox.titles import shown_path, title
from outrider.conversation.messages import AttachmentBlock, TextBlock, ToolResultBlock
from outrider.runtime.events import ToolFinished
from outrider.text.visible import safe_line, safe_lines

CODES = re.compile(r"\x1b\[[0-9;]*m")
LETTERS = st.characters(blacklist_categories=("Cc", "Cs", "Cn", "Co", "Zl", "Zp"))
SHOWN = st.text(LETTERS | st.sampled_from("漢字ＡＢ🙂e\u0301\u200b가"))


def bare(lines: Any) -> list[str]:
    return [CODES.sub("", line) for line in lines]


# Widths


@given(st.text(st.sampled_from("ab   c漢🙂e\u0301"), max_size=100), st.integers(2, 30))
@example("aa bb", 4)
def test_lines_break_between_words_and_lose_nothing(text: str, width: int) -> None:
    pieces = list(wrap_words(text, width))
    assert "".join(pieces) == text
    assert all(columns(piece) <= width for piece in pieces)
    for piece, following in pairwise(pieces):
        is_between_words = piece.endswith(" ") or following.startswith(" ")
        assert is_between_words or columns(piece) >= width - 1  # else the word is longer than the line
        assert is_between_words or " " not in piece.strip(" ")


@given(SHOWN, st.integers(1, 100))
def test_fitted_text_is_never_wider_than_it_may_be(text: str, width: int) -> None:
    assert columns(fit(text, width)) <= width


@given(st.text(st.sampled_from("abc äß漢字ＡＢ🙂e\u0301가\u200b—…"), max_size=60), st.integers(1, 60))
def test_terminals_agree_about_the_width(text: str, width: int) -> None:
    assert wcswidth(fit(text, width)) <= width


@given(SHOWN, st.integers(1, 100))
def test_what_fits_stays_as_it_is_and_what_does_not_says_so(text: str, width: int) -> None:
    fitted = fit(text, width)
    if columns(text) <= width:
        assert fitted == text
    else:
        assert fitted.endswith("…")
        assert text.startswith(fitted[:-1])


@given(st.text(), st.integers(-50, 50))
def test_no_text_and_no_width_breaks_it(text: str, width: int) -> None:
    fit(text, width)


@given(SHOWN)
def test_colours_take_no_room(text: str) -> None:
    assert columns(styled(text, RED)) == columns(text)


def test_a_tab_has_the_width_that_is_counted_for_it() -> None:
    assert fit("a\tb", 10) == "a    b"
    assert columns(fit("\t" * 10, 10)) <= 10


# Plain text


@given(st.text())
def test_plain_text_moves_nothing(text: str) -> None:
    assert not re.search(r"[\x00-\x1f\x7f-\x9f]", safe_line(text).replace("\t", ""))
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", safe_lines(text))


@pytest.mark.parametrize(
    "mark",
    [
        *"\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069",
        "\u061c",
    ],
)
def test_marks_that_turn_text_around_are_shown_as_such(mark: str) -> None:
    assert mark not in safe_line(f"a{mark}b")
    assert mark not in safe_lines(f"a{mark}b")


def test_plain_text_is_one_line_for_everyone() -> None:
    assert len(safe_line("a\u2028b\u2029c").splitlines()) == 1


# Titles


@pytest.mark.parametrize(
    ("name", "input", "shown"),
    [
        ("Read", {"file_path": "/work/a/src/b.py"}, "Read(src/b.py)"),
        ("Read", {"file_path": "/work/abc/b.py"}, "Read(/work/abc/b.py)"),
        ("Read", {"file_path": "../x"}, "Read(../x)"),
        ("Write", {"file_path": "/work/a", "content": ""}, "Write(.)"),
        ("Bash", {"command": "ls -la"}, "Bash(ls -la)"),
        ("Grep", {"pattern": "x.*", "path": "/work/a/src"}, "Grep(x.* in src)"),
        ("Glob", {"pattern": "**/*"}, "Glob(**/*)"),
        ("WebFetch", {"url": "http://example.org"}, "WebFetch(http://example.org)"),
        ("Todo", {"todos": []}, "Todo"),
        ("Read", {"file_path": 7}, "Read(file_path=7)"),
        ("Read", {}, "Read()"),
        ("add", {"a": 1, "b": "two"}, "add(a=1, b=two)"),
    ],
)
def test_a_call_has_a_title(name: str, input: dict[str, Any], shown: str) -> None:
    assert title(name, input, Path("/work/a")) == shown


@given(st.text(), st.dictionaries(st.text(), st.none() | st.integers() | st.text() | st.lists(st.text())))
def test_any_call_has_a_title(name: str, input: dict[str, Any]) -> None:
    assert title(name, input, Path("/work")).startswith(name)


def test_a_path_that_only_begins_with_dots_is_inside() -> None:
    assert shown_path("/work/a/..b/c", Path("/work/a")) in ("..b/c", "/work/a/..b/c")


# A call that runs


def running(name: str = "Bash", **input: Any) -> RunningCall:
    return RunningCall(safe_line(title(name, input, Path("/work"))))


def test_a_running_command_shows_the_end_of_its_output() -> None:
    call = running(command="make")
    for number in range(100):
        call.show({"output": f"line {number}\n"})
    lines = bare(call.lines(60))
    assert lines[0].endswith(" Bash(make)")
    assert lines[1:] == [f"    line {number}" for number in range(94, 100)]


def test_a_tool_shows_how_far_it_is() -> None:
    call = running("WebFetch", url="http://example.org")
    call.show("3 of 10 MB")
    assert bare(call.lines(60))[1:] == ["  3 of 10 MB"]


@pytest.mark.parametrize(
    "content", [None, 7, [], {}, {"output": 7}, {"output": None}, "\x1b[2J", {"output": "\x1b[2J"}]
)
def test_a_tool_may_show_anything(content: Any) -> None:
    call = running(command="make")
    call.show(content)
    assert all("\x1b" not in line for line in bare(call.lines(60)))


@given(st.lists(st.text()), st.text(), st.integers(20, 100))
def test_the_lines_of_a_running_command_fit(outputs: list[str], command: str, width: int) -> None:
    call = running(command=command)
    for output in outputs:
        call.show({"output": output})
    assert all(columns(line) <= width for line in call.lines(width))


def test_a_progress_bar_shows_its_last_state() -> None:
    call = running(command="pip install")
    call.show({"output": "10 %\r50 %\r"})
    call.show({"output": "90 %"})
    assert bare(call.lines(60))[1:] == ["    90 %"]


def test_a_line_end_in_two_pieces_is_one() -> None:
    call = running(command="make")
    call.show({"output": "one\r"})
    call.show({"output": "\ntwo"})
    assert bare(call.lines(60))[1:] == ["    one", "    two"]


def test_colours_in_the_output_of_a_command_are_left_out() -> None:
    call = running(command="make")
    call.show({"output": "\x1b[1;31merror:\x1b[0m no such file\n"})
    assert bare(call.lines(60))[1:] == ["    error: no such file"]


# A call that is over


def result(text: str = "", *, is_error: bool = False, files: tuple[AttachmentBlock, ...] = ()) -> ToolResultBlock:
    return ToolResultBlock("c1", (*((TextBlock(text),) if text else ()), *files), is_error=is_error)


def shown(text: str = "", details: Any = None, *, is_error: bool = False, width: int = 60) -> list[str]:
    event = ToolFinished("c1", "Bash", result(text, is_error=is_error), details)
    return bare(finished_call_lines(event, "Bash(make)", width))


def test_a_call_that_worked_says_how_much_came_of_it() -> None:
    assert shown("a\nb\n") == ["✓ Bash(make) · 2 lines"]
    assert shown("a") == ["✓ Bash(make) · 1 line"]
    assert shown() == ["✓ Bash(make) · no output"]


def test_a_call_that_failed_shows_why() -> None:
    assert shown("There is no such file.", is_error=True) == ["✗ Bash(make)", "    There is no such file."]


def test_a_command_shows_its_exit_code_and_the_end_of_its_output() -> None:
    lines = shown("\n".join(f"line {number}" for number in range(20)), {"exit_code": 2, "seconds": 3.21})
    assert lines[0] == "✓ Bash(make) · exit code 2, 3.2 s"
    assert lines[1] == "    … 12 more lines above (Ctrl-O opens all)"
    assert lines[2:] == [f"    line {number}" for number in range(12, 20)]


def test_a_change_shows_its_size_and_its_diff() -> None:
    lines = shown("Changed.", {"added": 1, "removed": 2, "diff": "--- a\n+++ a\n@@ -1,2 +1 @@\n-x\n-y\n+z"})
    assert lines == ["✓ Bash(make) · +1 −2", "    1 -x", "    2 -y", "    1 +z"]


def test_a_plan_shows_its_steps() -> None:
    todos = [{"content": "Dig", "status": "completed"}, {"content": "Plant", "status": "in_progress"}, "rubbish", {}]
    assert shown("ok", {"todos": todos})[1:] == ["    ☑ Dig", "    ▸ Plant", "    ☐ None"]


def test_a_diff_is_in_colour() -> None:
    added, removed = list(diff_lines("+new\n-old", 60))
    assert added.startswith(GREEN)
    assert removed.startswith(RED)


def test_a_diff_has_no_blank_line_after_it() -> None:
    assert bare(diff_lines(diff_of("a\n", "b\n", "x").text, 60)) == ["    1 -a", "    1 +b"]


def test_a_diff_has_numbers_and_the_lines_around_each_change() -> None:
    old = [f"line {number}" for number in range(1, 31)]
    new = [*old[:8], "nine", *old[9:25], "more", *old[25:]]
    text = diff_of("\n".join(old), "\n".join(new), "x").text
    assert bare(diff_lines(text, 60)) == [
        *("     6  line 6", "     7  line 7", "     8  line 8", "     9 -line 9", "     9 +nine", "    10  line 10"),
        *("    11  line 11", "    12  line 12", "     ⋮", "    23  line 23", "    24  line 24", "    25  line 25"),
        *("    26 +more", "    27  line 26", "    28  line 27", "    29  line 28"),
    ]
    wrapped = bare(numbered_diff(["@@ -1 +1 @@", f"+{'x' * 30}"], 24))
    assert wrapped == [f"    1 +{'x' * 17}", f"      {'x' * 13}"]


def test_the_file_is_named_while_the_arguments_of_a_call_arrive() -> None:
    call = IncomingCall("Write", Path("/work"))
    shown = []
    for part in ('{"file_', 'path": "/work/src/a', '.py", "content": "xxx', "x" * 3000):
        call.add(part)
        shown.append(bare([call.line(60)])[0])
    assert shown[1] == "… Write (26 bytes of arguments)"
    assert shown[2] == "… Write(src/a.py) (47 bytes of arguments)"
    assert shown[3] == "… Write(src/a.py) (3.0 KiB of arguments)"


def test_a_long_diff_says_what_is_missing() -> None:
    lines = bare(diff_lines("\n".join(f"+{number}" for number in range(50)), 60, most=10))
    assert lines[-1] == "    … 40 more lines (Ctrl-O opens all)"
    assert len(lines) == 11


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("-- drop it\nselect 1;\n", "select 1;\n", "    1 --- drop it"),
        ("x;\n", "x;\n++ counter;\n", "    2 +++ counter;"),
    ],
)
def test_every_changed_line_is_in_the_diff(before: str, after: str, line: str) -> None:
    assert line in bare(diff_lines(diff_of(before, after, "a.sql").text, 60))


WORDS = st.none() | st.text() | st.integers() | st.lists(st.none() | st.dictionaries(st.text(), st.text()))
NUMBERS = st.none() | st.integers() | st.floats()
DETAILS = st.fixed_dictionaries(
    {},
    optional={
        "diff": WORDS,
        "todos": WORDS,
        "exit_code": NUMBERS,
        "seconds": NUMBERS,
        "added": NUMBERS,
        "removed": NUMBERS,
    },
)


@given(st.text(), DETAILS, st.booleans())
def test_whatever_a_tool_has_for_people_can_be_shown(text: str, details: dict[str, Any], is_error: bool) -> None:
    for line in shown(text, details, is_error=is_error):
        assert "\n" not in line
        assert "\x1b" not in line


@pytest.mark.parametrize("details", [{"added": "\x1b[2J", "removed": 0}, {"exit_code": "\x1b]0;owned\x07"}])
def test_what_should_be_numbers_cannot_draw_on_the_terminal(details: dict[str, Any]) -> None:
    assert all("\x1b" not in line for line in shown("text", details))


# Files


def picture(width: int, height: int, kind: str = "PNG") -> bytes:
    stream = BytesIO()
    Image.new("RGB", (width, height)).save(stream, kind)
    return stream.getvalue()


def file(data: bytes, mime_type: str = "image/png", name: str = "a.png") -> AttachmentBlock:
    return AttachmentBlock("0" * 64, mime_type, len(data), name)


def test_a_picture_has_a_caption_with_its_size() -> None:
    data = picture(640, 480)
    assert caption(file(data), data) == f"a.png, PNG, 640 × 480, {len(data)} bytes"


@pytest.mark.parametrize("data", [b"", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"<svg/>", picture(4, 4)[:40]])
def test_a_picture_that_is_none_has_a_caption_all_the_same(data: bytes) -> None:
    assert caption(file(data), data).startswith("a.png, PNG, ")


def test_a_name_cannot_draw_on_the_terminal() -> None:
    assert "\x1b" not in caption(file(b"x", name="\x1b]0;hello\x07.png"))
