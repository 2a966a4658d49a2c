"""Read, Write and Edit where an editor lends its files: what is not saved counts, and the editor saves."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from outrider.coding.toolbox.files.versions import EDITOR_MAX_BYTES
from tests.coding.toolbox.calling import put
from tests.coding.toolbox.file_tools import FileTools, shown_lines


class Editor:
    """An editor that holds texts by path, and saves whatever it is given, byte for byte."""

    def __init__(self) -> None:
        self.texts: dict[Path, str] = {}
        self.asked: list[Path] = []
        self.saved: list[Path] = []

    def read(self, path: Path) -> str | None:
        self.asked.append(path)
        if path in self.texts:
            return self.texts[path]
        return path.read_bytes().decode() if path.exists() else None

    def write(self, path: Path, text: str) -> bool:
        self.saved.append(path)
        self.texts[path] = text
        path.write_bytes(self.as_bytes(path, text))
        return True

    def as_bytes(self, path: Path, text: str) -> bytes:
        return text.encode()


class PlainEditor(Editor):
    """An editor that knows only line feeds, and puts CR LF back for each of them; and likewise byte order marks."""

    def read(self, path: Path) -> str | None:
        text = super().read(path)
        return text and text.removeprefix("\ufeff").replace("\r\n", "\n")

    def as_bytes(self, path: Path, text: str) -> bytes:
        mark = b"\xef\xbb\xbf" if path.exists() and path.read_bytes().startswith(b"\xef\xbb\xbf") else b""
        crlf = path.exists() and b"\r\n" in path.read_bytes()
        return mark + (text.replace("\n", "\r\n") if crlf else text).encode()


class FormattingEditor(Editor):
    """An editor that formats what it saves."""

    def write(self, path: Path, text: str) -> bool:
        return super().write(path, text.replace("x=1", "x = 1"))


class ReadingEditor(Editor):
    """An editor that shows its files and does not save."""

    def write(self, path: Path, text: str) -> bool:
        return False


class SavingEditor(Editor):
    """An editor that saves and does not show its files."""

    def read(self, path: Path) -> str | None:
        return None


class BrokenEditor(Editor):
    """An editor that fails, before or after it has done its work."""

    def __init__(self, *, reading: Exception | None = None, writing: Exception | None = None) -> None:
        super().__init__()
        self.reading, self.writing = reading, writing

    def read(self, path: Path) -> str | None:
        if self.reading:
            raise self.reading
        return super().read(path)

    def write(self, path: Path, text: str) -> bool:
        done = super().write(path, text)
        if self.writing:
            raise self.writing
        return done


@pytest.fixture
def tools(tmp_path: Path) -> FileTools:
    tools = FileTools(tmp_path)
    tools.workspace.buffers = Editor()
    return tools


def editor_of(tools: FileTools, editor: Editor | None = None) -> Editor:
    if editor:
        tools.workspace.buffers = editor
    assert isinstance(tools.workspace.buffers, Editor)
    return tools.workspace.buffers


# Reading


def test_what_is_not_saved_is_what_the_model_reads_and_it_is_told(tools: FileTools) -> None:
    path = put(tools.folder / "a.py", "old\n")
    editor_of(tools).texts[path] = "new\nlines\n"
    result = tools.read("a.py")
    assert shown_lines(result.text) == ["new", "lines"]
    assert "not saved" in result.text


def test_a_file_that_the_editor_has_as_it_is_on_disk_is_read_as_ever(tools: FileTools) -> None:
    put(tools.folder / "a.py", "same\r\nlines\r\n")
    for editor in (Editor(), PlainEditor(), SavingEditor(), None):
        tools.workspace.buffers = editor
        assert tools.read("a.py").text == "     1\tsame\n     2\tlines"


def test_a_file_that_was_never_saved_can_be_read_edited_and_is_then_on_disk(tools: FileTools) -> None:
    path = tools.folder / "new" / "draft.md"
    editor_of(tools).texts[path] = "a draft\n"
    assert shown_lines(tools.read("new/draft.md").text) == ["a draft"]
    assert not tools.edit("new/draft.md", "draft", "text").is_error
    assert path.read_text() == "a text\n"


@pytest.mark.parametrize("text", ["", None])
def test_a_file_that_nobody_has_is_missing(text: str | None, tools: FileTools) -> None:
    if text is not None:
        editor_of(tools).texts[tools.folder / "no.txt"] = text
    assert "does not exist" in tools.read("no.txt").text
    assert "does not exist" in tools.edit("no.txt", "a", "b").text


PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89"
PDF = b"%PDF-1.4\nnothing of the kind\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("picture.png", PNG),
        ("paper.pdf", PDF),
        ("program", b"\x7fELF\0\0"),
        ("book.ipynb", b'{"cells": []}'),
        ("latin.txt", b"caf\xe9\n"),
        ("wide.txt", "wide\n".encode("utf-16")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_editor_is_not_asked_for_what_is_no_utf8_text_on_disk(name: str, content: bytes, tools: FileTools) -> None:
    put(tools.folder / name, content)
    editor = editor_of(tools)
    with_editor, tools.workspace.buffers = tools.read(name), None
    assert with_editor.text == tools.read(name).text
    tools.workspace.buffers = editor
    tools.read(name, original=True)
    tools.write(name, "other\n")
    assert editor.asked == []
    assert editor.saved == []
    assert "other" in (tools.folder / name).read_bytes().replace(b"\0", b"").decode("latin-1")


def test_the_editor_is_not_asked_for_large_files_nor_for_what_commands_printed(tools: FileTools) -> None:
    put(tools.folder / "large.txt", b"line\n" * (EDITOR_MAX_BYTES // 5 + 1))
    printed = put(tools.workspace.temporary / "background.txt", "output\n")
    assert not tools.read("large.txt", limit=1).is_error
    assert not tools.read(printed).is_error
    assert editor_of(tools).asked == []
    tools.workspace.close()


def test_the_editor_is_not_asked_for_what_is_no_regular_file(tools: FileTools) -> None:
    os.mkfifo(tools.folder / "fifo")
    os.symlink("loop", tools.folder / "loop")
    put(tools.folder / "file")
    for name in ("fifo", "loop", ".", "file/below", "x" * 300):
        assert tools.read(name).is_error
        assert tools.write(name, "x").is_error
    assert editor_of(tools).asked == []
    assert editor_of(tools).saved == []


def test_the_editor_is_asked_for_the_file_at_the_end_of_a_link(tools: FileTools) -> None:
    path = put(tools.folder / "real.txt", "disk\n")
    os.symlink("real.txt", tools.folder / "link.txt")
    editor_of(tools).texts[path] = "editor\n"
    assert shown_lines(tools.read("link.txt").text) == ["editor"]
    assert editor_of(tools).asked == [path]


def test_the_original_is_the_file_on_disk(tools: FileTools) -> None:
    path = put(tools.folder / "a.txt", "disk\n")
    editor_of(tools).texts[path] = "editor\n"
    (attachment,) = tools.read("a.txt", original=True).attachments
    assert b"".join(attachment.chunks()) == b"disk\n"
    assert "changed since" in tools.edit("a.txt", "editor", "x").text, "the model has not seen what the editor has"


@pytest.mark.parametrize("error", [TimeoutError(), OSError("gone"), RuntimeError("a bug")])
def test_when_the_editor_is_silent_the_disk_is_read_and_nothing_is_changed(error: Exception, tools: FileTools) -> None:
    path = put(tools.folder / "a.txt", "disk\n")
    editor = editor_of(tools, BrokenEditor(reading=error))
    result = tools.read("a.txt")
    assert shown_lines(result.text) == ["disk"]
    assert "did not say" in result.text
    for refused in (tools.edit("a.txt", "disk", "x"), tools.write("a.txt", "x")):
        assert refused.is_error
        assert "Try again" in refused.text
    assert "does not exist" in tools.read("no.txt").text
    assert path.read_text() == "disk\n"
    assert editor.saved == []


# What the model has seen


def test_a_change_in_the_editor_since_it_was_read_is_noticed(tools: FileTools) -> None:
    path = put(tools.folder / "a.txt", "one\n")
    tools.read("a.txt")
    editor_of(tools).texts[path] = "one\ntyped\n"
    for result in (tools.edit("a.txt", "one", "two"), tools.write("a.txt", "two\n")):
        assert result.is_error
        assert "changed since" in result.text
    assert path.read_text() == "one\n"
    assert editor_of(tools).saved == []


def test_a_file_that_is_empty_on_disk_and_not_in_the_editor_must_be_read_first(tools: FileTools) -> None:
    path = put(tools.folder / "a.txt", "")
    editor_of(tools).texts[path] = "typed\n"
    assert "Read it first" in tools.write("a.txt", "x\n").text
    del editor_of(tools).texts[path]
    assert not tools.write("a.txt", "x\n").is_error


@pytest.mark.parametrize("kind", [Editor, PlainEditor])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_saving_in_the_editor_what_the_model_has_read_is_no_change(
    kind: type[Editor], end: str, tools: FileTools
) -> None:
    path = put(tools.folder / "a.txt", f"one{end}")
    editor = editor_of(tools, kind())
    typed = f"one{end if kind is Editor else chr(10)}typed{end if kind is Editor else chr(10)}"
    editor.texts[path] = typed
    tools.read("a.txt")
    editor.write(path, typed)
    assert path.read_bytes() == f"one{end}typed{end}".encode()
    assert not tools.edit("a.txt", "typed", "edited").is_error
    assert path.read_bytes() == f"one{end}edited{end}".encode()


# Changing


def test_an_edit_is_made_in_the_text_of_the_editor_and_saved_by_it(tools: FileTools) -> None:
    path = put(tools.folder / "a.txt", "one\n")
    editor_of(tools).texts[path] = "one\ntyped\n"
    tools.read("a.txt")
    result = tools.edit("a.txt", "one", "two")
    assert result.text == "Edited a.txt at line 1:\n     1\ttwo\n     2\ttyped"
    assert result.details["path"] == str(path)
    assert (result.details["added"], result.details["removed"]) == (1, 1)
    assert editor_of(tools).saved == [path]
    assert path.read_text() == "two\ntyped\n"
    assert tools.leftovers() == []
    assert not tools.edit("a.txt", "two", "three").is_error, "the model knows what it wrote"


def test_the_result_is_the_same_whoever_saves(tmp_path: Path) -> None:
    results = []
    for editor in (None, Editor(), PlainEditor(), ReadingEditor(), SavingEditor()):
        tools = FileTools(put(tmp_path / str(len(results)) / "a.txt", "one\r\ntwo\r\n").parent)
        tools.workspace.buffers = editor
        tools.read("a.txt")
        made = [tools.edit("a.txt", "one\ntwo", "1\n2\n3"), tools.write("a.txt", "x\ny\n"), tools.write("b/c", "new\n")]
        results.append([(each.text, {**each.details, "path": ""}) for each in made])
        assert (tools.folder / "a.txt").read_bytes() == b"x\r\ny\r\n"
        assert (tools.folder / "b" / "c").read_bytes() == b"new\n"
    assert all(each == results[0] for each in results)


@pytest.mark.parametrize("kind", [Editor, PlainEditor, SavingEditor, ReadingEditor])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_and_the_byte_order_mark_stay_and_are_not_doubled(
    kind: type[Editor], mark: str, tools: FileTools
) -> None:
    path = put(tools.folder / "a.txt", f"{mark}one\r\ntwo\r\n")
    editor_of(tools, kind())
    tools.read("a.txt")
    assert not tools.edit("a.txt", "one\n", "1\nand\n").is_error
    assert path.read_bytes().decode() == f"{mark}1\r\nand\r\ntwo\r\n"
    assert not tools.write("a.txt", "three\nfour\n").is_error
    assert path.read_bytes().decode() == f"{mark}three\r\nfour\r\n"


def test_a_mixture_of_line_ends_stays_where_the_editor_keeps_it(tools: FileTools) -> None:
    path = put(tools.folder / "a.txt", "one\r\ntwo\nthree\r\n")
    tools.read("a.txt")
    tools.edit("a.txt", "three", "3")
    assert path.read_bytes() == b"one\r\ntwo\n3\r\n"


def test_an_editor_that_does_not_save_leaves_it_to_us_with_what_it_has(tools: FileTools) -> None:
    path = put(tools.folder / "run.sh", "one\n")
    path.chmod(0o751)
    editor_of(tools, ReadingEditor()).texts[path] = "one\ntyped\n"
    tools.read("run.sh")
    assert not tools.edit("run.sh", "one", "two").is_error
    assert path.read_text() == "two\ntyped\n"
    assert path.stat().st_mode & 0o777 == 0o751


def test_writing_what_the_editor_has_but_not_the_disk_saves_it(tools: FileTools) -> None:
    path = put(tools.folder / "a.txt", "one\n")
    editor_of(tools).texts[path] = "two\n"
    assert not tools.write("a.txt", "two\n").is_error
    assert path.read_text() == "two\n"
    assert "already" in tools.write("a.txt", "two\n").text
    assert len(editor_of(tools).saved) == 1


def test_when_the_editor_formats_what_it_saves_the_model_is_told(tools: FileTools) -> None:
    path = put(tools.folder / "a.py", "x = 0\n")
    editor_of(tools, FormattingEditor())
    tools.read("a.py")
    result = tools.write("a.py", "x=1\n")
    assert not result.is_error
    assert "Read it before the next change" in result.text
    assert path.read_text() == "x = 1\n"
    assert "changed since" in tools.edit("a.py", "x=1", "x=2").text
    tools.read("a.py")
    assert "Read it before" in tools.edit("a.py", "x = 1", "x=1 # why").text


@pytest.mark.parametrize("error", [TimeoutError(), OSError("gone"), RuntimeError("a bug")])
def test_when_it_is_not_known_whether_the_editor_saved_nothing_is_written_twice(
    error: Exception, tools: FileTools
) -> None:
    path = put(tools.folder / "a.txt", "one\n")
    editor = editor_of(tools, BrokenEditor(writing=error))
    tools.read("a.txt")
    for result in (tools.edit("a.txt", "one", "two"), tools.write("b.txt", "new\n")):
        assert result.is_error
        assert "it may or may not be written" in result.text
        assert result.details is None
    assert editor.saved == [path, tools.folder / "b.txt"], "each was tried once"
    assert "changed since" in tools.edit("a.txt", "two", "three").text
    assert tools.leftovers() == []


def test_the_editor_is_not_asked_to_save_once_the_call_is_cancelled(tools: FileTools) -> None:
    path = put(tools.folder / "a.txt", "one\n")
    tools.read("a.txt")
    tools.new_context().cancel()
    assert "cancelled" in tools.edit("a.txt", "one", "two").text
    assert editor_of(tools).saved == []
    assert path.read_text() == "one\n"


def test_text_that_cannot_be_encoded_does_no_harm(tools: FileTools) -> None:
    path = put(tools.folder / "a.txt", "one\n")
    editor_of(tools).texts[path] = "lone \ud800 half\n"
    assert shown_lines(tools.read("a.txt").text) == ["lone \ufffd half"]
    assert not tools.edit("a.txt", "half", "whole").is_error
    assert path.read_text() == "lone \ufffd whole\n"


def test_a_subagent_has_the_same_editor(tools: FileTools) -> None:
    assert tools.workspace.for_subagent().buffers is tools.workspace.buffers
