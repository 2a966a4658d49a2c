"""Edit: exact replacement, all or nothing, whichever way a file is written."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from outrider.coding.toolbox.files.diffs import CHARACTERS, diff_of
from outrider.coding.toolbox.files.edit import edit
from outrider.coding.toolbox.files.replacing import Replacement
from outrider.runtime.events import ToolFinished
from outrider.testing import call
from outrider.testing.contexts import tool_context
from tests.coding.hands.elsewhere import FileToolsElsewhere
from tests.coding.toolbox.file_tools import FileTools
from tests.lengths import examples
from tests.watching import Watched


@pytest.fixture(params=["here", "elsewhere"])
def tools(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FileTools]:
    """The tools in this process, and at the other end of a pipe."""
    tools = FileToolsElsewhere(tmp_path) if request.param == "elsewhere" else FileTools(tmp_path)
    yield tools
    tools.close()


def _with(tools: FileTools, data: bytes, name: str = "a.txt") -> Path:
    path = tools.folder / name
    path.write_bytes(data)
    assert not tools.read(name).is_error
    return path


# One, several, none


def test_the_only_occurrence_is_replaced_and_the_lines_around_it_are_shown(tools: FileTools) -> None:
    path = _with(tools, "".join(f"line {number}\n" for number in range(1, 11)).encode())
    result = tools.edit("a.txt", "line 5\n", "five\nand a half\n")
    assert path.read_text().split("\n")[3:7] == ["line 4", "five", "and a half", "line 6"]
    assert result.text.startswith("Edited a.txt at line 5:\n     2\tline 2\n")
    assert result.text.endswith("     5\tfive\n     6\tand a half\n     7\tline 6\n     8\tline 7\n     9\tline 8")
    assert result.details == {
        "path": str(path),
        "diff": "--- a.txt\n+++ a.txt\n@@ -2,7 +2,8 @@\n line 2\n line 3\n line 4\n-line 5\n+five\n+and a half\n"
        " line 6\n line 7\n line 8\n",
        "added": 2,
        "removed": 1,
    }


def test_several_occurrences_are_counted_with_their_lines_and_nothing_changes(tools: FileTools) -> None:
    path = _with(tools, b"x = 1\ny = 2\nx = 1\n\nx = 1\n")
    result = tools.edit("a.txt", "x = 1", "x = 2")
    assert result.is_error
    assert "occurs 3 times in a.txt, on lines 1, 3, 5." in result.text
    assert "replace_all" not in result.text, "it is hidden in the lean form"
    assert path.read_bytes().count(b"x = 2") == 0


def test_all_occurrences_are_replaced_when_asked_for(tools: FileTools) -> None:
    path = _with(tools, b"x = 1\ny = 2\nx = 1\n")
    result = tools.edit("a.txt", "x = 1", "x = 2", replace_all=True)
    assert path.read_bytes() == b"x = 2\ny = 2\nx = 2\n"
    assert result.text.startswith("Replaced 2 occurrences in a.txt, on lines 1, 3:\n")


def test_occurrences_that_overlap_are_not_one(tools: FileTools) -> None:
    path = _with(tools, b"abaXaba aYa\n")
    assert not tools.edit("a.txt", "aXa", "-").is_error
    _with(tools, b"ababa\n")
    result = tools.edit("a.txt", "aba", "-")
    assert result.is_error
    assert "occurs 2 times" in result.text
    assert path.read_bytes() == b"ababa\n"


def test_everything_can_be_deleted(tools: FileTools) -> None:
    path = _with(tools, b"all\n")
    assert tools.edit("a.txt", "all\n", "").text == "a.txt is now empty."
    assert path.read_bytes() == b""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"one\n", b"one\ntwo\n"),
        (b"one", b"one\ntwo\n"),
        (b"", b"two\n"),
        (b"one\r\nmore\r\n", b"one\r\nmore\r\ntwo\r\n"),
    ],
)
def test_an_empty_old_string_adds_at_the_end(tools: FileTools, before: bytes, after: bytes) -> None:
    path = tools.folder / "a.txt"
    path.write_bytes(before)
    result = tools.edit("a.txt", "", "two", replace_all=True)
    assert not result.is_error
    assert path.read_bytes() == after
    assert "two" in result.text


@pytest.mark.parametrize(("old", "new", "said"), [("", "", "old_string is empty"), ("same", "same", "the same")])
def test_what_makes_no_sense_is_refused(tools: FileTools, old: str, new: str, said: str) -> None:
    _with(tools, b"same\n")
    result = tools.edit("a.txt", old, new)
    assert result.is_error
    assert said in result.text


# Hints


def test_who_wants_to_add_is_told_how(tools: FileTools) -> None:
    _with(tools, b"one\n")
    assert 'give "" as old_string' in tools.edit("a.txt", "def two", "def two():\n    pass").text
    assert "at the end" not in tools.edit("a.txt", "def two", "def three").text


def test_other_white_space_is_pointed_out(tools: FileTools) -> None:
    _with(tools, b"def f():\n\treturn  1\n")
    result = tools.edit("a.txt", "def f():\n    return 1\n", "x")
    assert result.is_error
    assert "The text at line 1 differs only in white space:\ndef f():\n\treturn  1" in result.text


def test_line_numbers_in_old_string_are_pointed_out(tools: FileTools) -> None:
    _with(tools, b"one\r\ntwo\r\n")
    result = tools.edit("a.txt", "     1\tone\n     2\ttwo", "x")
    assert result.is_error
    assert "line numbers" in result.text


def test_the_closest_line_is_shown(tools: FileTools) -> None:
    _with(tools, b"alpha = 1\nbeta_value = compute(alpha)\n")
    result = tools.edit("a.txt", "beta_value = compute(alpah)", "x")
    assert result.is_error
    assert "The closest line is 2: beta_value = compute(alpha)" in result.text
    far = tools.edit("a.txt", "zzz", "x")
    assert far.text == "old_string is not in a.txt."


# Seen and changed


@pytest.mark.parametrize("old", ["one", "three"])
def test_a_file_that_was_never_read_is_shown_unless_the_old_text_is_in_it_once(tools: FileTools, old: str) -> None:
    (tools.folder / "a.txt").write_text("one\ntwo\none\n")
    result = tools.edit("a.txt", old, "two")
    assert result.is_error
    assert "was not read in this session" in result.text
    assert "Its content:\n" in result.text
    assert "2\ttwo" in result.text
    assert (tools.folder / "a.txt").read_text() == "one\ntwo\none\n"
    assert not tools.edit("a.txt", "two", "2").is_error


def test_the_beginning_of_a_long_file_is_shown_and_nothing_of_a_hidden_one(tools: FileTools) -> None:
    (tools.folder / "a.txt").write_text("one\n" * 1_000)
    result = tools.edit("a.txt", "one", "two")
    assert "Its first 100 of 1,000 lines" in result.text
    assert result.text.count("one") == 100
    hiding = edit(tools.workspace, hidden=lambda path: path.endswith("a.txt"))
    told = asyncio.run(hiding.invoke({"file_path": "a.txt", "old_string": "one", "new_string": "2"}, tool_context()))
    assert told.is_error
    assert "one" not in told.text


def test_a_missing_file_is_named_with_those_like_it(tools: FileTools) -> None:
    (tools.folder / "main.py").touch()
    result = tools.edit("mian.py", "a", "b")
    assert result.is_error
    assert "main.py" in result.text


def test_a_file_that_changed_since_it_was_read_is_not_edited_until_it_is_read_again(tools: FileTools) -> None:
    path = _with(tools, b"one\n")
    path.write_bytes(b"one\nand more\n")
    result = tools.edit("a.txt", "one", "two")
    assert result.is_error
    assert "changed since it was read" in result.text
    assert path.read_bytes() == b"one\nand more\n"
    tools.read("a.txt")
    assert not tools.edit("a.txt", "one", "two").is_error


def test_an_edit_follows_an_edit_without_reading_again(tools: FileTools) -> None:
    path = _with(tools, b"one\n")
    assert not tools.edit("a.txt", "one", "two").is_error
    assert not tools.edit("a.txt", "two", "three").is_error
    assert path.read_bytes() == b"three\n"


# Encodings and line endings


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "1\n2\n3", b"1\r\n2\r\n3\r\nc\r\n"),
        (b"a\r\nb\r\n", "\nb", "\nx", b"a\r\nx\r\n"),
        (b"a\r\nb\r\n", "a\n", "", b"b\r\n"),
        (b"a\r\nb\r\n", "a\r\nb", "x\r\ny", b"x\r\ny\r\n"),
        (b"a\nb\r\nc\n", "b", "b\nb", b"a\nb\r\nb\r\nc\n"),
        (b"a\nb\r\nc\n", "a\nb\nc", "x\ny", b"x\ny\n"),
        (b"a\r\nb", "b", "b\nc", b"a\r\nb\r\nc"),
        (b"a\nb", "b", "c", b"a\nc"),
        (b"a\n", "a\n", "a\r\n", b"a\r\n"),
        (b"\xef\xbb\xbfa\nb\n", "a\n", "c\n", b"\xef\xbb\xbfc\nb\n"),
        (b"\xef\xbb\xbf\xef\xbb\xbfa\n", "a", "b", b"\xef\xbb\xbf\xef\xbb\xbfb\n"),
        (b"caf\xe9 a \xff\n", "a \ufffd", "b", None),
        (b"caf\xe9 x \xff\n", "café x ", "Zürich ", b"Z\xfcrich \xff\n"),
        (b"caf\xe9 x\n", " x", " \N{RIGHTWARDS ARROW}", None),
        (b"\x83R\x81[ x\n", " x", " y", b"\x83R\x81[ y\n"),
        (b"\x83R\x81[ x\n", " x", " ü", None),
        ("éé x".encode() + b" \xff\n", " x ", " ü ", "éé ü ".encode() + b"\xff\n"),
        ("\ufeffgrün\r\n𝄞\r\n".encode("utf-16-le"), "grün\n𝄞", "𝄢\n", "\ufeff𝄢\r\n\r\n".encode("utf-16-le")),
        ("\ufeffx\ud800y".encode("utf-16-be", "surrogatepass"), "y", "z", b"\xfe\xff\0x\xd8\0\0z"),
    ],
)
def test_what_is_not_replaced_stays_as_it_is_to_the_byte(
    tools: FileTools, before: bytes, old: str, new: str, after: bytes | None
) -> None:
    path = _with(tools, before)
    result = tools.edit("a.txt", old, new)
    assert result.is_error == (after is None), result.text
    assert path.read_bytes() == (before if after is None else after)


@pytest.mark.parametrize(
    ("before", "named"), [(b"caf\xe9 x\n", "it is Windows-1252"), (b"\x83R\x81[ x\n", "it is neither UTF-8")]
)
def test_a_character_that_the_encoding_lacks_is_named(tools: FileTools, before: bytes, named: str) -> None:
    _with(tools, before)
    for result in (tools.edit("a.txt", " x", " я"), tools.write("a.txt", "Привет, я")):
        assert result.is_error
        assert named in result.text
        assert "convert the file to UTF-8" in result.text
    assert (tools.folder / "a.txt").read_bytes() == before


def test_a_difference_only_in_line_endings_is_refused(tools: FileTools) -> None:
    path = _with(tools, b"a\r\nb\r\n")
    assert tools.edit("a.txt", "a\r\n", "a\n").is_error
    assert path.read_bytes() == b"a\r\nb\r\n"


def test_what_is_not_what_its_mark_promises_is_refused(tools: FileTools) -> None:
    path = _with(tools, b"\xff\xfea\0b")
    result = tools.edit("a.txt", "a", "c")
    assert result.is_error
    assert "UTF-16" in result.text
    assert path.read_bytes() == b"\xff\xfea\0b"


def test_a_binary_file_is_not_edited(tools: FileTools) -> None:
    path = tools.folder / "a.bin"
    path.write_bytes(b"text\0\1\2")
    tools.read("a.bin", original=True)
    result = tools.edit("a.bin", "text", "x")
    assert result.is_error
    assert "not text" in result.text


# In a session


async def test_edits_of_one_reply_are_made_one_after_the_other(tmp_path: Path) -> None:
    names = [f"word{number:02}" for number in range(20)]
    (tmp_path / "a.txt").write_text("\n".join(names) + "\n")
    edits = [call("Edit", file_path="a.txt", old_string=name, new_string=name.upper()) for name in names]
    edits.insert(7, call("Edit", file_path="a.txt", old_string="nowhere", new_string="x"))
    watched = Watched([[call("Read", file_path="a.txt")], edits, "ok"], FileTools(tmp_path).tools())
    await watched.session.run("go")
    watched.check()
    assert (tmp_path / "a.txt").read_text() == "\n".join(names).upper() + "\n"
    results = watched.session.messages[4].tool_results
    assert [result.is_error for result in results].index(True) == 7
    assert sum(result.is_error for result in results) == 1
    details = [event.details for event in watched.of(ToolFinished)[1:]]
    assert details[0]["diff"].count("\n+WORD00\n") == 1
    assert details[7] is None


# Properties


PARTS = st.text(st.sampled_from("ab \n\t.é\\$"), max_size=6)


@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.sampled_from("ab \n\t.é\\$"), max_size=60), old=PARTS, new=PARTS, every=st.booleans())
def test_an_edit_is_what_replacing_the_string_gives(tmp_path: Path, text: str, old: str, new: str, every: bool) -> None:
    assume(old and text)
    tools = FileTools(tmp_path)
    path = _with(tools, text.encode())
    result = tools.edit("a.txt", old, new, replace_all=every)
    overlapping = len(re.findall(f"(?={re.escape(old)})", text))
    allowed = old != new and (overlapping == 1 or (every and overlapping > 0))
    assert result.is_error != allowed, result.text
    assert path.read_bytes() == (text.replace(old, new) if allowed else text).encode()


MIXED = st.lists(st.sampled_from(["a", "b", "\r\n", "\n", "\r", "é"]), max_size=30).map("".join)


@settings(max_examples=examples(500))
@given(text=MIXED, old=MIXED, new=MIXED)
def test_with_crlf_an_edit_is_what_replacing_in_plain_lines_gives_and_the_rest_keeps_its_bytes(
    text: str, old: str, new: str
) -> None:
    assume("\r\n" in text and old)
    replacement = Replacement.within(text, old, new)
    old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    # A carriage return of its own is not the half of a line's end.
    lines = [re.escape(line).replace("\r", "\r(?!\n)") for line in old.split("\n")]
    pattern = re.compile("\r?\n".join(lines))

    def put(match: re.Match[str]) -> str:
        ends = re.findall("\r?\n", text[match.start() :]) or re.findall("\r?\n", text)[-1:]
        return new.replace("\n", ends[0])

    assert replacement.apply() == pattern.sub(put, text)
    assert replacement.count() == len(pattern.findall(text))


# Diffs


def _applied(diff: str, old: str) -> str:
    """What a patch makes of a text whose lines are all ended."""
    before = old.splitlines()
    result: list[str] = []
    at = 0
    for line in diff.splitlines()[2:]:
        if header := re.match(r"@@ -(\d+)(?:,(\d+))? \+", line):
            begin = int(header[1]) - (header[2] != "0")
            result += before[at:begin]
            at = begin
            continue
        if line[0] in " -":
            assert before[at] == line[1:]
            at += 1
        if line[0] in " +":
            result.append(line[1:])
    return "".join(f"{line}\n" for line in result + before[at:])


@settings(max_examples=examples(400))
@given(
    old=st.lists(st.sampled_from(["a", "b", "c", "", "@@ x", "+d", "-e"]), max_size=40),
    new=st.lists(st.sampled_from(["a", "b", "c", "", "@@ x", "+d", "-e"]), max_size=40),
    limit=st.sampled_from([0, 4_000_000]),
)
def test_a_diff_leads_from_one_text_to_the_other(old: list[str], new: list[str], limit: int) -> None:
    texts = ["".join(f"{line}\n" for line in lines) for lines in (old, new)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("outrider.coding.toolbox.files.diffs.MAX_COMPARED", limit)
        diff = diff_of(texts[0], texts[1], "name")
    if texts[0] == texts[1]:
        assert diff.text == ""
        return
    assert _applied(diff.text, texts[0]) == texts[1]
    assert diff.added - diff.removed == len(new) - len(old)


def test_that_nothing_ends_the_last_line_is_part_of_the_diff() -> None:
    assert diff_of("a\nb", "a\nb\n", "x").text == (
        "--- x\n+++ x\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n"
    )


def test_a_diff_of_large_files_is_quick_and_within_its_bound() -> None:
    old = "".join(f"line {number}\n" for number in range(200_000))
    small = diff_of(old, old.replace("line 100000\n", "changed\n"), "x")
    assert (small.added, small.removed) == (1, 1)
    assert small.text.startswith("--- x\n+++ x\n@@ -99998,7 +99998,7 @@\n")
    large = diff_of(old, old.replace("line", "row"), "x")
    assert (large.added, large.removed) == (200_000, 200_000)
    assert len(large.text) < CHARACTERS + 200
    assert "more lines" in large.text
    assert len(diff_of("x" * 1_000_000, "y", "x").text) < 3_000


def test_a_diff_with_bytes_that_are_not_text_can_be_sent(tools: FileTools) -> None:
    _with(tools, b"caf\x81\nx\n")
    result = tools.edit("a.txt", "x", "y")
    result.details["diff"].encode()
    assert " caf\ufffd" in result.details["diff"]
