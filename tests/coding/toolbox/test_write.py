"""Write: new files, files that were read, and what is kept of those that are replaced."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider.runtime.events import ToolFinished
from outrider.testing import call
from tests.coding.hands.elsewhere import FileToolsElsewhere
from tests.coding.toolbox.file_tools import FileTools
from tests.watching import Watched


@pytest.fixture(params=["here", "elsewhere"])
def tools(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FileTools]:
    """The tools in this process, and at the other end of a pipe."""
    tools = FileToolsElsewhere(tmp_path) if request.param == "elsewhere" else FileTools(tmp_path)
    yield tools
    tools.close()


def test_a_new_file_is_made_with_the_folders_above_it(tools: FileTools) -> None:
    result = tools.write("src/deep/a.py", "one\ntwo\n")
    path = tools.folder / "src/deep/a.py"
    assert path.read_bytes() == b"one\ntwo\n"
    assert result.text == "Created src/deep/a.py with 2 lines."
    assert result.details == {
        "path": str(path),
        "diff": "--- src/deep/a.py\n+++ src/deep/a.py\n@@ -0,0 +1,2 @@\n+one\n+two\n",
        "added": 2,
        "removed": 0,
    }
    assert tools.leftovers() == []


def test_a_new_file_has_the_permissions_of_any_new_file(tools: FileTools) -> None:
    tools.write("a.txt", "x")
    (tools.folder / "b.txt").write_text("x")
    modes = {stat.S_IMODE((tools.folder / name).stat().st_mode) for name in ("a.txt", "b.txt")}
    assert len(modes) == 1


def test_a_file_that_was_not_read_is_not_overwritten(tools: FileTools) -> None:
    (tools.folder / "a.txt").write_text("precious\n")
    result = tools.write("a.txt", "new\n")
    assert result.is_error
    assert "Read it first" in result.text
    assert (tools.folder / "a.txt").read_text() == "precious\n"
    tools.read("a.txt")
    assert tools.write("a.txt", "new\n").text == "Wrote 1 line to a.txt."
    assert (tools.folder / "a.txt").read_text() == "new\n"


def test_a_file_that_changed_since_it_was_read_is_not_overwritten(tools: FileTools) -> None:
    path = tools.folder / "a.txt"
    path.write_text("one\n")
    tools.read("a.txt")
    times = path.stat()
    path.write_text("two\n")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # neither its size nor its time tells
    result = tools.write("a.txt", "new\n")
    assert result.is_error
    assert "changed since it was read" in result.text
    assert path.read_text() == "two\n"


def test_an_empty_file_has_nothing_to_lose(tools: FileTools) -> None:
    (tools.folder / "a.txt").touch()
    assert not tools.write("a.txt", "x\n").is_error


def test_what_was_written_can_be_written_again(tools: FileTools) -> None:
    tools.write("a.txt", "one\n")
    assert not tools.write("a.txt", "two\n").is_error
    assert tools.write("a.txt", "two\n").text == "a.txt has exactly this content already; nothing was written."


def test_the_permissions_of_a_file_are_kept(tools: FileTools) -> None:
    path = tools.folder / "run.sh"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o750)
    tools.read("run.sh")
    tools.write("run.sh", "#!/bin/sh\ntrue\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o750


def test_a_link_stays_a_link_and_its_target_is_written(tools: FileTools) -> None:
    (tools.folder / "real").mkdir()
    target = tools.folder / "real/a.txt"
    target.write_text("old\n")
    link = tools.folder / "link"
    link.symlink_to("real/a.txt")
    tools.read("link")
    assert not tools.write("link", "new\n").is_error
    assert link.is_symlink()
    assert target.read_text() == "new\n"
    dangling = tools.folder / "dangling"
    dangling.symlink_to("real/b.txt")
    tools.write("dangling", "made\n")
    assert dangling.is_symlink()
    assert (tools.folder / "real/b.txt").read_text() == "made\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"one\r\ntwo\r\n", b"1\r\n2\r\n"),
        (b"\xef\xbb\xbfone\ntwo\n", b"\xef\xbb\xbf1\n2\n"),
        ("\ufeffone\r\n".encode("utf-16-le"), "\ufeff1\r\n2\r\n".encode("utf-16-le")),
        ("\ufeffone\n".encode("utf-16-be"), "\ufeff1\n2\n".encode("utf-16-be")),
        (b"one\ntwo\r\nthree\n", b"1\n2\n"),
        (b"caf\xe9\n", b"1\n2\n"),
    ],
)
def test_line_endings_encoding_and_byte_order_mark_are_kept(tools: FileTools, before: bytes, after: bytes) -> None:
    path = tools.folder / "a.txt"
    for content in ("1\n2\n", "\ufeff1\r\n2\r\n" if before.startswith((b"\xef", b"\xff")) else "1\n2\n"):
        path.write_bytes(before)
        tools.read("a.txt")
        assert not tools.write("a.txt", content).is_error
        if "\r" in content and b"\r" not in before:
            continue  # what the model wants to end with CR LF does
        assert path.read_bytes() == after


def test_a_new_file_is_written_as_it_is_given(tools: FileTools) -> None:
    tools.write("a.txt", "one\r\ntwo\nno end")
    assert (tools.folder / "a.txt").read_bytes() == b"one\r\ntwo\nno end"


def test_a_lone_surrogate_is_replaced_and_not_the_end(tools: FileTools) -> None:
    assert not tools.write("a.txt", "a\ud800b\udc80").is_error
    assert (tools.folder / "a.txt").read_text() == "a\ufffdb\ufffd"


def test_a_folder_on_the_way_that_is_a_file_is_refused(tools: FileTools) -> None:
    (tools.folder / "a.txt").write_text("x")
    for name in ("a.txt/b.txt", "a.txt/b/c.txt"):
        result = tools.write(name, "y")
        assert result.is_error
        assert "a file, not a folder" in result.text


async def test_a_session_sees_the_diff_in_the_details_and_not_in_the_text(tmp_path: Path) -> None:
    steps = [
        [call("Write", file_path="a.txt", content="one\n"), call("Read", file_path="a.txt")],
        [call("Write", file_path="a.txt", content="two\n"), call("Write", file_path="b/", content="x")],
        "ok",
    ]
    tools = FileTools(tmp_path)
    watched = Watched(steps, tools.tools())
    await watched.session.run("go")
    watched.check()
    first, read, second, _ = watched.of(ToolFinished)
    assert read.result.text == "     1\tone", "a call after a write sees what was written"
    assert "-one\n+two" in second.details["diff"]
    assert (second.details["added"], second.details["removed"]) == (1, 1)
    assert second.result.text == "Wrote 1 line to a.txt."
    assert first.details["path"] == str(tools.folder / "a.txt")
