"""Read: text with line numbers, ranges, pictures, notebooks, stored results, and what is refused."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from outrider.coding.toolbox.files import read
from outrider.coding.toolbox.files.line_ranges import CHARACTERS, Lines
from outrider.coding.toolbox.files.regular_files import CHUNK
from outrider.coding.toolbox.seen_files import Part, SeenFile, Stamp
from outrider.conversation.attachments import Attachment
from outrider.conversation.documents.kinds import DOCX
from outrider.conversation.messages import AttachmentBlock
from outrider.runtime.events import ToolFinished
from outrider.testing import call
from tests.coding.hands.elsewhere import FileToolsElsewhere
from tests.coding.toolbox.file_tools import FileTools, shown_lines
from tests.lengths import examples
from tests.watching import Watched


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int = 3, height: int = 2) -> bytes:
    rows = b"".join(b"\0" + b"\xff\0\0" * width for _ in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows)) + _chunk(b"IEND", b"")


@pytest.fixture(params=["here", "elsewhere"])
def tools(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FileTools]:
    """The tools in this process, and at the other end of a pipe."""
    tools = FileToolsElsewhere(tmp_path) if request.param == "elsewhere" else FileTools(tmp_path)
    yield tools
    tools.close()


@pytest.fixture
def tools_here(tmp_path: Path) -> FileTools:
    """For tests of what is stored here, wherever files are."""
    return FileTools(tmp_path)


# Text


def test_text_comes_with_the_number_of_each_line(tools: FileTools) -> None:
    (tools.folder / "a.py").write_text("one\n\n  three\n")
    result = tools.read("a.py")
    assert result.text == "     1\tone\n     2\t\n     3\t  three"
    assert not result.is_error


def test_an_absolute_path_and_a_relative_one_are_the_same_file(tools: FileTools) -> None:
    (tools.folder / "a.txt").write_text("x\n")
    assert tools.read("a.txt").text == tools.read(tools.folder / "a.txt").text
    assert tools.seen("a.txt")


def test_a_range_says_where_it_stands_and_how_to_go_on(tools: FileTools) -> None:
    (tools.folder / "a.txt").write_text("".join(f"line {number}\n" for number in range(1, 101)))
    middle = tools.read("a.txt", offset=40, limit=2).text
    assert middle == "    40\tline 40\n    41\tline 41\n[Lines 40 to 41 of 100. Read on with offset=42.]"
    assert tools.read("a.txt", offset=100).text == "   100\tline 100\n[Lines 100 to 100, the end.]"
    assert tools.read("a.txt", offset=0, limit=1).text.startswith("     1\tline 1\n")


@pytest.mark.parametrize(("offset", "limit"), [(-1, None), (1, 0), (1, -5)])
def test_a_range_that_cannot_be_is_refused(tools: FileTools, offset: int, limit: int | None) -> None:
    (tools.folder / "a.txt").write_text("x\n")
    assert tools.read("a.txt", offset=offset, limit=limit).is_error
    assert not tools.seen("a.txt")


def test_an_offset_past_the_end_says_how_many_lines_there_are(tools: FileTools) -> None:
    (tools.folder / "a.txt").write_text("one\ntwo")
    result = tools.read("a.txt", offset=3)
    assert result.is_error
    assert "has 2 lines; offset 3 is past its end" in result.text
    assert not tools.seen("a.txt"), "nothing of it was seen"


def test_without_a_limit_two_thousand_lines_are_shown(tools: FileTools) -> None:
    (tools.folder / "a.txt").write_text("x\n" * 5_000)
    text = tools.read("a.txt").text
    assert len(shown_lines(text)) == 2_000
    assert text.endswith("[Lines 1 to 2,000 of 5,000. Read on with offset=2001.]")


def test_what_is_shown_at_once_stays_within_a_result_and_ends_with_a_whole_line(tools: FileTools) -> None:
    lines = [f"{number} " + "é" * 700 for number in range(300)]
    (tools.folder / "a.txt").write_text("\n".join(lines) + "\n")
    gathered, offset = [], 1
    while len(gathered) < 300:
        text = tools.read("a.txt", offset=offset, limit=10_000).text
        assert len(text) < CHARACTERS + 3_000 < 50_000
        gathered += shown_lines(text)
        offset = len(gathered) + 1
    assert gathered == lines


def test_a_very_long_line_is_shortened_with_a_note(tools: FileTools) -> None:
    (tools.folder / "a.txt").write_text("x" * 2_000 + "\n" + "y" * 1_000_000 + "\nend\n")
    first, second, third = tools.read("a.txt").text.split("\n")
    assert first == "     1\t" + "x" * 2_000
    assert second == "     2\t" + "y" * 2_000 + " [… 998,000 more characters in this line]"
    assert third == "     3\tend"


def test_crlf_is_shown_as_plain_lines(tools: FileTools) -> None:
    (tools.folder / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    assert tools.read("a.txt").text == "     1\tone\n     2\ttwo"


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "utf-16-be", "utf-16-le", "utf-32"])
def test_a_byte_order_mark_tells_the_encoding_and_is_not_shown(tools: FileTools, codec: str) -> None:
    mark = "\ufeff" if codec in ("utf-16-be", "utf-16-le") else ""
    (tools.folder / "a.txt").write_bytes(f"{mark}grüß\r\n𝄞\n".encode(codec))
    assert tools.read("a.txt").text == "     1\tgrüß\n     2\t𝄞"


@pytest.mark.parametrize("before", ["", "x" * 10_000])
def test_western_text_is_read_and_that_is_said(tools: FileTools, before: str) -> None:
    (tools.folder / "a.txt").write_bytes(f"Zürich\n{before}\n“café”".encode("cp1252"))
    text = tools.read("a.txt").text
    assert "     1\tZürich\n" in text
    assert "     3\t“café”" in text
    assert "It is shown as Windows-1252" in text


def test_bytes_that_are_not_utf8_are_replaced_and_that_is_said(tools: FileTools) -> None:
    (tools.folder / "a.txt").write_bytes("コーヒー\nplain\n".encode("shift_jis"))
    text = tools.read("a.txt").text
    assert text.startswith("     1\t\ufffd")
    assert "     2\tplain\n[Bytes that are not UTF-8" in text
    assert "not UTF-8" not in tools.read("a.txt", offset=2).text, "there are none in what is shown"


def test_a_document_without_a_suffix_is_attached_with_its_type(tools: FileTools) -> None:
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w") as archive:
        archive.writestr("docProps/app.xml", "x" * 5000)
        archive.writestr("word/document.xml", "<document/>")
    (tools.folder / "letter").write_bytes(output.getvalue())
    result = tools.read("letter", original=True)
    assert DOCX in result.text
    assert [file.mime_type for file in result.attachments] == [DOCX]


@pytest.mark.parametrize("kind", ["BMP", "TIFF", "ICO"])
def test_pictures_that_few_apis_take_are_shown(tools: FileTools, kind: str) -> None:
    Image.new("RGB", (16, 16)).save(tools.folder / "shot", kind)
    result = tools.read("shot")
    assert not result.is_error, result.text
    assert len(result.attachments) == 1


def test_an_empty_file_says_so(tools: FileTools) -> None:
    (tools.folder / "a.txt").touch()
    result = tools.read("a.txt")
    assert result.text == "a.txt is empty."
    assert not result.is_error
    assert tools.seen("a.txt")


def test_text_that_begins_like_a_picture_is_text(tools: FileTools) -> None:
    (tools.folder / "a.txt").write_text("GIF89a is how a GIF begins.\n")
    assert shown_lines(tools.read("a.txt").text) == ["GIF89a is how a GIF begins."]


def test_a_file_of_the_system_that_claims_to_be_empty_is_read(tools: FileTools) -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("there is no /proc here")
    assert "Name:" in tools.read("/proc/self/status").text


# What was read is remembered


def test_what_was_read_is_remembered_by_its_content(tools: FileTools) -> None:
    (tools.folder / "a.txt").write_bytes(b"one\ntwo\n")
    (tools.folder / "link").symlink_to("a.txt")
    tools.read("link", limit=1)
    expected = Stamp(hashlib.sha256(b"one\ntwo\n").hexdigest(), 8)
    assert tools.seen("a.txt") == SeenFile(expected, (Part(1, 1, is_end=False),))
    assert not tools.seen("link")


# Missing and refused


def test_a_missing_file_names_those_like_it(tools: FileTools) -> None:
    for name in ("settings.py", "Session.py", "readme.md"):
        (tools.folder / name).touch()
    result = tools.read("setings.py")
    assert result.is_error
    assert "setings.py does not exist" in result.text
    assert "settings.py" in result.text
    assert "readme.md" not in result.text
    assert "Session.py" in tools.read("session.py").text


def test_a_missing_folder_is_named(tools: FileTools) -> None:
    (tools.folder / "src").mkdir()
    result = tools.read("src/nowhere/deep/a.py")
    assert result.is_error
    assert f"there is no 'nowhere' in {tools.folder / 'src'}" in result.text


def test_a_binary_file_is_refused_with_what_it_seems_to_be(tools: FileTools) -> None:
    (tools.folder / "a.out").write_bytes(b"\x7fELF" + bytes(range(256)) * 8)
    (tools.folder / "data").write_bytes(bytes(range(256)) * 8)
    (tools.folder / "noise").write_bytes(bytes([1, 2, 3, 200, 201, 14, 15]) * 20)
    program = tools.read("a.out")
    assert program.is_error
    assert "application/x-executable, 2.0 KiB" in program.text
    assert "No model takes such a file" in program.text
    assert "original" not in program.text
    assert "application/octet-stream" in tools.read("data").text
    assert tools.read("noise").is_error, "without a NUL, but nothing that anybody wrote"
    assert not program.attachments


def test_original_attaches_any_file_as_it_is(tools: FileTools) -> None:
    for name, data in (("a.bin", bytes(range(256))), ("a.txt", b"text\n")):
        (tools.folder / name).write_bytes(data)
        result = tools.read(name, original=True)
        assert not result.is_error
        (attachment,) = result.attachments
        assert attachment.name == name
        assert b"".join(attachment.chunks()) == data
        assert tools.seen(name)


# Pictures


def test_a_picture_is_known_by_its_content_and_attached_with_its_size(tools: FileTools) -> None:
    (tools.folder / "chart.dat").write_bytes(png(30, 20))
    result = tools.read("chart.dat")
    assert result.text == f"chart.dat: image/png, 30 × 20 pixels, {len(png(30, 20))} bytes"
    (attachment,) = result.attachments
    assert b"".join(attachment.chunks()) == png(30, 20)


@pytest.mark.parametrize("kind", ["jpeg", "gif", "webp"])
def test_the_other_kinds_of_pictures_are_attached_too(tools: FileTools, kind: str) -> None:
    from PIL import Image

    Image.effect_noise((64, 48), 50).save(tools.folder / "picture", kind)
    result = tools.read("picture")
    assert f"image/{kind}, 64 × 48 pixels" in result.text
    assert len(result.attachments) == 1


def test_a_damaged_picture_is_an_error_that_says_so(tools: FileTools) -> None:
    photo = io.BytesIO()
    Image.effect_noise((200, 200), 50).save(photo, "JPEG")
    for damaged in (png()[:40], photo.getvalue()[:-2000]):
        (tools.folder / "a").write_bytes(damaged)
        result = tools.read("a")
        assert result.is_error
        assert "damaged" in result.text
        assert not result.attachments


def test_a_text_that_is_decoded_in_pieces_has_the_same_lines(
    tools_here: FileTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "".join(f"{number} déjà €\n" * (number % 3 > 0) + "\n" for number in range(40_000)) + "the last"
    (tools_here.folder / "a").write_text(text)
    spans = [{}, {"offset": 30_000, "limit": 3}, {"offset": text.count("\n"), "limit": 9}]
    whole = [tools_here.read("a", **span).text for span in spans]
    monkeypatch.setattr(read, "MOST_DECODED", 1000)
    assert [tools_here.read("a", **span).text for span in spans] == whole
    assert f" of {text.count(chr(10)) + 1:,}." in whole[1]


def test_a_text_with_the_name_of_a_picture_is_read_as_text(tools: FileTools) -> None:
    (tools.folder / "a.png").write_text("not a picture\n")
    assert shown_lines(tools.read("a.png").text) == ["not a picture"]


# Notebooks


def _notebook(*cells: dict[str, Any]) -> str:
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def _code(source: str | list[str], *outputs: dict[str, Any]) -> dict[str, Any]:
    return {"cell_type": "code", "source": source, "outputs": outputs, "metadata": {}, "execution_count": 1}


def test_a_notebook_is_shown_as_cells_with_their_output_and_pictures(tools: FileTools) -> None:
    picture = base64.encodebytes(png()).decode()
    error = {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["\x1b[31mBoom\x1b[0m: v"]}
    text = _notebook(
        {"cell_type": "markdown", "source": ["# Title\n", "words"], "metadata": {}},
        _code("plot()", {"output_type": "stream", "name": "stdout", "text": ["drawn\n"]}),
        _code(
            "show()",
            {"output_type": "display_data", "data": {"image/png": picture, "text/plain": "<Figure>"}, "metadata": {}},
            error,
        ),
    )
    (tools.folder / "a.ipynb").write_text(text)
    result = tools.read("a.ipynb")
    assert result.text == (
        "--- cell 1: markdown ---\n# Title\nwords\n"
        "--- cell 2: code ---\nplot()\n--- output of cell 2 ---\ndrawn\n"
        "--- cell 3: code ---\nshow()\n--- output of cell 3 ---\n[image/png, attached]\n<Figure>\n"
        "--- output of cell 3 ---\nBoom: v"
    )
    (attachment,) = result.attachments
    assert b"".join(attachment.chunks()) == png()
    part = tools.read("a.ipynb", offset=2, limit=1)
    assert part.text.startswith("--- cell 2: code ---\nplot()")
    assert part.text.endswith("[Cells 2 to 2 of 3. Read on with offset=3.]")
    assert tools.read("a.ipynb", offset=4).is_error


def test_a_notebook_with_much_output_is_read_in_parts(tools: FileTools) -> None:
    loud = [_code(f"cell {number}", {"output_type": "stream", "text": "x" * 100_000}) for number in range(30)]
    (tools.folder / "a.ipynb").write_text(_notebook(*loud))
    text = tools.read("a.ipynb").text
    assert len(text) < 50_000
    assert "95,000 of 100,000 characters of this output left out" in text
    assert "Read on with offset=" in text


@pytest.mark.parametrize("text", ['{"cells": [', '{"worksheets": []}', '{"cells": [{"cell_type": 3}]}', "[" * 5_000])
def test_a_broken_notebook_is_shown_as_plain_text_with_a_note(tools: FileTools, text: str) -> None:
    (tools.folder / "a.ipynb").write_text(text)
    result = tools.read("a.ipynb")
    assert not result.is_error
    assert shown_lines(result.text)[0].startswith(text[:2_000])
    assert "shown as plain text" in result.text


# Stored results


def test_a_stored_result_is_read_by_its_reference_in_ranges(tools_here: FileTools) -> None:
    reference = tools_here.store.put(Attachment(b"one\ntwo\nthree\n", "text/plain", "Bash.txt"))
    result = tools_here.read(f"attachment:{reference.sha256}", offset=2, limit=1)
    assert shown_lines(result.text) == ["two"]
    assert not tools_here.seen(f"attachment:{reference.sha256}"), "it is no file that could be edited"
    (attachment,) = tools_here.read(f"attachment:{reference.sha256}", original=True).attachments
    assert attachment.source == b"one\ntwo\nthree\n"


@pytest.mark.parametrize("name", ["attachment:" + "0" * 64, "attachment:", "attachment:../../etc/passwd"])
def test_a_stored_result_that_is_not_there_is_an_error(tools: FileTools, name: str) -> None:
    assert tools.read(name).is_error


# In a session


async def test_a_session_gets_the_picture_in_the_result_and_the_next_request(tmp_path: Path) -> None:
    (tmp_path / "chart.png").write_bytes(png())
    watched = Watched([[call("Read", file_path="chart.png")], "I see."], FileTools(tmp_path).tools())
    await watched.session.run("Look")
    watched.check()
    (result,) = watched.session.messages[2].tool_results
    file = result.content[1]
    assert "3 × 2 pixels" in result.text
    assert isinstance(file, AttachmentBlock)
    assert (file.mime_type, file.sha256) == ("image/png", hashlib.sha256(png()).hexdigest())


async def test_a_session_flags_what_failed_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text\n")
    calls = [call("Read", file_path="missing"), call("Read", file_path="a.txt"), call("Read", file_path=7)]
    watched = Watched([calls, "ok"], FileTools(tmp_path).tools())
    assert (await watched.session.run("go")).status == "done"
    watched.check()
    missing, text, invalid = watched.session.messages[2].tool_results
    assert (missing.is_error, text.is_error, invalid.is_error) == (True, False, True)
    assert missing.text.startswith("missing does not exist")
    assert text.text == "     1\ttext"


async def test_a_file_over_the_limit_of_attachments_is_a_note_and_an_event_and_the_turn_goes_on(
    tmp_path: Path,
) -> None:
    from outrider.runtime.events import Notice
    from outrider.runtime.limits import Limits

    (tmp_path / "a.bin").write_bytes(bytes(5_000))
    limits = Limits(attachment_bytes=1_000)
    watched = Watched([[call("Read", file_path="a.bin", original=True)], "ok"], FileTools(tmp_path).tools(), limits)
    assert (await watched.session.run("go")).text == "ok"
    watched.check()
    (result,) = watched.session.messages[2].tool_results
    assert "could not be attached: a.bin has 4.9 KiB; the limit is 1000 bytes" in result.text
    assert watched.of(Notice)


async def test_a_result_that_was_cut_is_read_whole_by_its_reference(tmp_path: Path) -> None:
    """The whole of a result over the limit can be read with the reference that stands in it."""
    lines = [f"{number}: {'é' * 40}" for number in range(3_000)]

    def long() -> str:
        """Say much."""
        return "\n".join(lines)

    def steps(request: Any) -> Any:
        results = [result for message in request.messages for result in message.tool_results]
        if not results:
            return [call("long")]
        if len(results) == 1:
            reference = results[0].text.partition("stored as ")[2][: len("attachment:") + 64]
            return [call("Read", file_path=reference, offset=1_500, limit=2)]
        return "ok"

    watched = Watched(steps, [long, *FileTools(tmp_path).tools()])
    await watched.session.run("go")
    watched.check()
    read = watched.of(ToolFinished)[1].result
    assert not read.is_error, read.text
    assert shown_lines(read.text) == lines[1_499:1_501]


# Properties


TEXTS = st.text(st.sampled_from("ab\n\r\té𝄞 \x0b\u2028"), max_size=200)


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=TEXTS, step=st.integers(1, 9))
def test_all_ranges_together_are_the_file(tmp_path: Path, text: str, step: int) -> None:
    tools = FileTools(tmp_path)
    (tmp_path / "a.txt").write_bytes(text.encode())
    lines = [line.removesuffix("\r") for line in text.split("\n")[:-1]] + text.split("\n")[-1:]
    lines = lines[:-1] if lines[-1] == "" else lines
    gathered: list[str] = []
    while len(gathered) < len(lines):
        result = tools.read("a.txt", offset=len(gathered) + 1, limit=step)
        assert not result.is_error
        part = shown_lines(result.text)
        assert 0 < len(part) <= step
        gathered += part
    assert gathered == lines
    if lines:
        assert tools.read("a.txt", offset=len(lines) + 1).is_error


@settings(max_examples=examples(300))
@given(text=TEXTS, cuts=st.lists(st.integers(0, 200)), skip=st.integers(0, 12))
def test_where_the_pieces_of_a_file_end_makes_no_difference(text: str, cuts: list[int], skip: int) -> None:
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[start:stop] for start, stop in pairwise(edges)]
    one, many = Lines([text]), Lines(pieces)
    for lines in (one, many):
        lines.skip(skip)
    assert one.passed == many.passed
    while one.more:
        assert many.more
        assert one.next() == many.next()
    assert not many.more
    assert one.passed == many.passed


def test_characters_across_the_edges_of_pieces_are_whole(tools: FileTools) -> None:
    filler = b"x" * 99 + b"\n"
    head = filler * (CHUNK // 100)
    data = head + b"y" * (CHUNK - len(head) - 1) + "é\n".encode() + filler * (20 * 1024 * 1024 // 100)
    (tools.folder / "a.txt").write_bytes(data)
    assert len(data) > 20 * 1024 * 1024, "so that it is read piece by piece"
    result = tools.read("a.txt", offset=CHUNK // 100 + 1, limit=1)
    assert shown_lines(result.text)[0].endswith("yé")
    assert "more follows" in result.text
