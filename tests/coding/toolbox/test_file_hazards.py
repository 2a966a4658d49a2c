"""Files that are made to hurt: huge, endless, special, unreadable, changing, or with impossible names."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider.tools.result import ToolResult
from tests.coding.toolbox.file_tools import FileTools, shown_lines

TEN_GB = 10 * 1024**3


@pytest.fixture
def tools(tmp_path: Path) -> FileTools:
    return FileTools(tmp_path)


@pytest.fixture
def huge(tools: FileTools) -> Iterator[Path]:
    """Ten gigabytes, nearly all of it a hole in one line."""
    path = with_hole(tools.folder / "huge.log", TEN_GB)
    yield path
    path.unlink()


def with_hole(path: Path, until: int) -> Path:
    with path.open("wb") as file:
        file.write(b"".join(b"line %d\n" % number for number in range(1, 3_001)))
        file.seek(until)
        file.write(b"\nthe last line\n")
    return path


@pytest.fixture
def as_nobody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FileTools]:
    """Tools of a user without privileges, in a folder of theirs."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if os.geteuid() != 0:
            yield FileTools(folder)
            return
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
        try:
            yield FileTools(folder)
        finally:
            os.seteuid(0)


def each_tool(tools: FileTools, name: str | Path) -> list[ToolResult]:
    return [tools.read(name), tools.read(name, original=True), tools.write(name, "x"), tools.edit(name, "a", "b")]


# Large


def test_the_beginning_of_a_huge_file_is_read_without_the_rest(tools: FileTools, huge: Path) -> None:
    text = tools.read(huge, offset=2_999, limit=2).text
    assert shown_lines(text) == ["line 2999", "line 3000"]
    assert "more follows" in text
    assert tools.progress == []
    seen = tools.seen(huge)
    assert seen is not None
    assert (seen.stamp.size, seen.stamp.sha256) == (TEN_GB + 15, "")


@pytest.mark.long
def test_far_into_a_large_file_memory_is_bounded_and_progress_is_shown(tools: FileTools) -> None:
    program = """
import resource, sys
from pathlib import Path
from tests.coding.toolbox.file_tools import FileTools
tools = FileTools(Path(sys.argv[1]).parent)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
text = tools.read(sys.argv[1], offset=3001).text
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
assert text.endswith("  3002\\tthe last line\\n[Lines 3,001 to 3,002, the end.]"), text[-200:]
assert sys.argv[2] + " more characters" in text, text[2000:2100]
assert len(text) < 5000
assert any("of 2.0 GiB" in said for said in tools.progress)
print(grown)
"""
    size = 2 * 1024**3
    path = with_hole(tools.folder / "large.log", size)
    more = f"{size - sum(len(f'line {number} ') for number in range(1, 3_001)) - 2_000:,}"
    done = subprocess.run(
        [sys.executable, "-c", program, str(path), more], capture_output=True, text=True, check=False, timeout=110
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 50_000, "KiB"


def test_a_cancel_stops_the_search_in_a_huge_file(tools: FileTools, huge: Path) -> None:
    results: list[ToolResult] = []
    thread = threading.Thread(target=lambda: results.append(tools.read(huge, offset=1_000_000)))
    thread.start()
    deadline = time.monotonic() + 60
    while not tools.progress and time.monotonic() < deadline:
        time.sleep(0.005)
    tools.context.cancel()
    thread.join(60)
    assert not thread.is_alive()
    assert results[0].is_error
    assert "cancelled" in results[0].text
    assert not tools.seen(huge)


def test_a_huge_file_is_written_over_only_if_it_was_read_and_is_as_it_was(tools: FileTools, huge: Path) -> None:
    assert tools.write(huge, "x").is_error
    tools.read(huge, limit=1)
    edited = tools.edit(huge, "line 1\n", "x")
    assert edited.is_error
    assert "20.0 MiB" in edited.text
    os.utime(huge, ns=(0, 0))
    assert "changed since" in tools.write(huge, "x").text
    assert huge.stat().st_size == TEN_GB + 15


def test_a_file_of_nothing_but_holes_is_binary(tools: FileTools) -> None:
    with (tools.folder / "hole").open("wb") as file:
        file.truncate(TEN_GB)
    result = tools.read("hole")
    assert result.is_error
    assert "10.0 GiB" in result.text


def test_a_line_of_twenty_megabytes_is_no_burden(tools: FileTools) -> None:
    (tools.folder / "a.js").write_bytes(b"x" * 20 * 1024 * 1024)
    assert len(tools.read("a.js").text) < 3_000
    assert not tools.edit("a.js", "x" * 20 * 1024 * 1024, "y").is_error


# Special


def test_a_fifo_is_refused_at_once(tools: FileTools) -> None:
    os.mkfifo(tools.folder / "pipe")
    for result in each_tool(tools, "pipe"):
        assert result.is_error
        assert "is a FIFO" in result.text
    (tools.folder / "link").symlink_to("pipe")
    assert "is a FIFO" in tools.read("link").text


@pytest.mark.parametrize("name", ["/dev/zero", "/dev/full", "/dev/null", "/dev/random", "/dev/tty"])
def test_a_device_is_refused_at_once(tools: FileTools, name: str) -> None:
    if not os.path.exists(name):
        pytest.skip(f"there is no {name} here")
    for result in each_tool(tools, name):
        assert result.is_error
        assert "is a device" in result.text


def test_a_socket_is_refused(tools: FileTools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tools.folder)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        for result in each_tool(tools, "socket"):
            assert result.is_error
            assert "is a socket" in result.text


def test_a_folder_is_refused_with_advice(tools: FileTools) -> None:
    (tools.folder / "src").mkdir()
    for name in ("src", "src/", ".", "/"):
        for result in each_tool(tools, name):
            assert result.is_error
            assert "is a folder" in result.text
    assert "Glob" in tools.read("src").text


def test_a_link_to_itself_is_refused(tools: FileTools) -> None:
    (tools.folder / "a").symlink_to("b")
    (tools.folder / "b").symlink_to("a")
    for result in each_tool(tools, "a"):
        assert result.is_error
        assert "symbolic link that leads back to itself" in result.text
    assert (tools.folder / "a").is_symlink()


# Names


@pytest.mark.parametrize("name", ["with\nnewline.txt", " spaces ", "*?[x]", "-rf", "ünï𝄞", "x~", "a\\b", "'\"$(x)`"])
def test_odd_names_are_names(tools: FileTools, name: str) -> None:
    path = tools.folder / name
    given = f"./{name}"
    assert not tools.write(given, "one\n").is_error
    assert path.read_text() == "one\n"
    assert shown_lines(tools.read(given).text) == ["one"]
    result = tools.edit(given, "one", "two")
    assert not result.is_error
    assert path.read_text() == "two\n"
    assert result.details["path"] == str(path)
    assert result.details["diff"].splitlines()[2] == "@@ -1 +1 @@"


def test_a_name_with_bytes_that_are_not_text_can_be_read(tools: FileTools) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    try:
        (tools.folder / name).write_text("x\n")
    except OSError:
        pytest.skip("this file system takes no such name")
    assert shown_lines(tools.read(name).text) == ["x"]
    tools.edit(name, "x", "y").details["path"].encode()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("x" * 300, "too long"),
        ("a/" * 3_000 + "b", "too long"),
        ("a\0b", "NUL"),
        ("", "empty"),
        ("\ud800", "not a path"),
        ("~nobody-has-this-name/x", "not a path"),
    ],
)
def test_a_name_that_cannot_be_is_refused(tools: FileTools, name: str, said: str) -> None:
    for result in each_tool(tools, name):
        assert result.is_error
        assert said in result.text
        assert len(result.text) < 500
    assert tools.leftovers() == []


# Permissions


def test_what_may_not_be_read_is_refused(as_nobody: FileTools) -> None:
    path = as_nobody.folder / "secret"
    path.write_text("x")
    path.chmod(0)
    for result in each_tool(as_nobody, "secret"):
        assert result.is_error
        assert "permission is denied" in result.text
    (as_nobody.folder / "locked").mkdir(mode=0)
    assert "permission is denied" in as_nobody.read("locked/x").text
    assert "permission is denied" in as_nobody.write("locked/x", "y").text
    (as_nobody.folder / "locked").chmod(0o700)


def test_a_write_protected_file_is_not_replaced(as_nobody: FileTools) -> None:
    path = as_nobody.folder / "a.txt"
    path.write_text("keep\n")
    path.chmod(0o444)
    as_nobody.read("a.txt")
    for result in (as_nobody.write("a.txt", "x"), as_nobody.edit("a.txt", "keep", "x")):
        assert result.is_error
        assert "permission is denied" in result.text
    assert path.read_text() == "keep\n"
    assert as_nobody.leftovers() == []


def test_a_folder_that_takes_no_files_leaves_the_old_one_as_it_was(as_nobody: FileTools) -> None:
    folder = as_nobody.folder / "fixed"
    folder.mkdir()
    path = folder / "a.txt"
    path.write_text("keep\n")
    folder.chmod(0o500)
    as_nobody.read(path)
    result = as_nobody.write(path, "x")
    assert result.is_error
    assert "permission is denied" in result.text
    assert path.read_text() == "keep\n"
    folder.chmod(0o700)


# Changes at the last moment


def test_a_change_while_the_new_content_is_written_is_not_overwritten(
    tools: FileTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tools.folder / "a.txt"
    path.write_text("one\n")
    tools.read("a.txt")
    fsync = os.fsync

    def somebody_else(handle: int) -> None:
        fsync(handle)
        path.write_text("one, by somebody else\n")

    monkeypatch.setattr(os, "fsync", somebody_else)
    result = tools.edit("a.txt", "one", "two")
    assert result.is_error
    assert "was just changed by another program" in result.text
    assert path.read_text() == "one, by somebody else\n"
    assert tools.leftovers() == []
    new = tools.folder / "new.txt"
    monkeypatch.setattr(os, "fsync", lambda handle: new.write_text("theirs"))
    assert tools.write("new.txt", "ours").is_error
    assert new.read_text() == "theirs"


def test_a_cancelled_write_leaves_the_file_as_it_was(tools: FileTools) -> None:
    tools.write("a.txt", "one\n")
    tools.context.cancel()
    assert tools.write("a.txt", "two\n").is_error
    assert tools.edit("a.txt", "one", "two").is_error
    assert (tools.folder / "a.txt").read_text() == "one\n"
    assert tools.leftovers() == []


# No room


def test_a_full_disk_leaves_the_old_content_and_nothing_else(tools: FileTools) -> None:
    program = """
import resource, sys
from pathlib import Path
from tests.coding.toolbox.file_tools import FileTools
tools = FileTools(Path(sys.argv[1]))
tools.read("a.txt")
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
for result in (
    tools.write("a.txt", "x" * 1_000_000),
    tools.edit("a.txt", "precious", "x" * 1_000_000),
    tools.write("new.txt", "x" * 1_000_000),
):
    assert result.is_error
    assert "cannot be written: it would be larger than a file may be" in result.text, result.text
assert not tools.edit("a.txt", "precious", "dear").is_error
"""
    (tools.folder / "a.txt").write_text("precious\n")
    done = subprocess.run(
        [sys.executable, "-c", program, str(tools.folder)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert (tools.folder / "a.txt").read_text() == "dear\n"
    assert [path.name for path in tools.folder.iterdir()] == ["a.txt"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small file system")
def test_a_small_file_system_that_is_full_says_so(tools: FileTools) -> None:
    small = tools.folder / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("this machine does not let us mount")
    try:
        assert not tools.write("small/a.txt", "old\n").is_error
        result = tools.write("small/a.txt", "x" * 200_000)
        assert result.is_error
        assert "the disk is full" in result.text
        assert (small / "a.txt").read_text() == "old\n"
        assert tools.leftovers() == []
    finally:
        subprocess.run(["umount", str(small)], check=True)
