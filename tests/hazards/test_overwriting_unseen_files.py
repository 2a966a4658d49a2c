"""Hazard: a model overwrites what it has not seen. A read counts only once its result was sent."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from outrider.coding.toolbox.files.line_ranges import LINE_CHARACTERS, LINES
from outrider.coding.toolbox.files.read import read
from outrider.coding.toolbox.files.write import write
from outrider.coding.toolbox.workspace import Workspace
from outrider.runtime.events import ToolFinished
from outrider.runtime.limits import Limits
from outrider.testing import call
from outrider.tools.context import CallRef, ToolContext
from outrider.tools.threads import Threads
from tests.coding.toolbox.file_tools import FileTools
from tests.watching import Watched


def results(tools: FileTools, *steps: Any, limits: Limits | None = None) -> list[str]:
    """Return the text of each result, in the order of the calls."""
    watched = Watched([*steps, "ok"], tools.tools(), limits)
    asyncio.run(watched.session.run("go"))
    watched.check()
    return [event.result.text for event in watched.of(ToolFinished)]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.txt"
    path.write_text("precious\n")
    return path


def test_a_write_in_the_reply_of_the_read_is_refused(log: Path) -> None:
    steps = [
        [call("Read", file_path="log.txt"), call("Write", file_path="log.txt", content="done\n")],
        call("Write", file_path="log.txt", content="done\n"),
    ]
    shown, refused, written = results(FileTools(log.parent), *steps)
    assert "precious" in shown
    assert refused == (
        "log.txt was left as it is: it was read in the same reply, so this call was made without knowing its content. "
        "Look at what Read shows, then call again if it is still right."
    )
    assert written == "Wrote 1 line to log.txt."
    assert log.read_text() == "done\n"


def test_an_edit_in_the_reply_of_the_read_is_refused(log: Path) -> None:
    edit = call("Edit", file_path="log.txt", old_string="precious", new_string="done")
    _, refused, edited = results(FileTools(log.parent), [call("Read", file_path="log.txt"), edit], edit)
    assert "in the same reply" in refused
    assert edited.startswith("Edited")


def test_many_calls_of_one_reply_do_not_vouch_for_each_other(log: Path) -> None:
    look, done = call("Read", file_path="log.txt"), call("Write", file_path="./log.txt", content="done\n")
    texts = results(FileTools(log.parent), [look, look, done, look, done])
    assert ["same reply" in text for text in texts] == [False, False, True, False, True]
    assert log.read_text() == "precious\n"


def test_changes_of_one_reply_build_on_what_was_seen_before(log: Path) -> None:
    steps = [
        call("Read", file_path="log.txt"),
        [
            call("Read", file_path="log.txt"),
            call("Edit", file_path="log.txt", old_string="precious", new_string="dear"),
            call("Edit", file_path="log.txt", old_string="dear", new_string="done"),
            call("Write", file_path="new.txt", content="one\n"),
            call("Edit", file_path="new.txt", old_string="one", new_string="two"),
        ],
    ]
    texts = results(FileTools(log.parent), *steps)
    assert not [text for text in texts if "left as it is" in text]
    assert (log.read_text(), (log.parent / "new.txt").read_text()) == ("done\n", "two\n")


def test_a_change_of_the_file_in_the_same_reply_is_noticed(log: Path) -> None:
    tools = FileTools(log.parent)
    _, _ = results(tools, call("Read", file_path="log.txt"), call("Read", file_path="log.txt"))
    log.write_text("changed\n")
    steps = [[call("Read", file_path="log.txt"), call("Write", file_path="log.txt", content="done\n")]]
    assert "same reply" in results(tools, *steps)[1]
    assert log.read_text() == "changed\n"


def test_another_session_in_the_same_workspace_has_seen_nothing(log: Path) -> None:
    tools = FileTools(log.parent)
    results(tools, call("Read", file_path="log.txt"), call("Read", file_path="log.txt"))
    (text,) = results(tools, call("Write", file_path="log.txt", content="done\n"))
    assert "was not read in this session" in text
    assert log.read_text() == "precious\n"


def test_a_file_that_was_read_in_part_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    before = "".join(f"{number}\n" for number in range(LINES + 10))
    path.write_text(before)
    replace = call("Write", file_path="long.txt", content="short\n")
    steps = [
        call("Read", file_path="long.txt"),
        replace,
        call("Read", file_path="long.txt", offset=LINES + 2),
        replace,
        call("Edit", file_path="long.txt", old_string="2000\n", new_string="two thousand\n"),
    ]
    texts = results(FileTools(tmp_path), *steps)
    for refused in (texts[1], texts[3]):
        assert refused == (
            "long.txt was read only in part, and the rest would be lost, so it was left as it is. "
            "Read all of it first, or change a part of it with Edit."
        )
    assert texts[4].startswith("Edited")
    assert path.read_text() == before.replace("2000\n", "two thousand\n")


def test_parts_that_meet_are_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_text("".join(f"{number}\n" for number in range(30)))
    steps = [
        call("Read", file_path="long.txt", offset=21),
        [call("Read", file_path="long.txt", limit=12), call("Read", file_path="long.txt", offset=11, limit=10)],
        call("Write", file_path="long.txt", content="short\n"),
    ]
    assert (results(FileTools(tmp_path), *steps))[-1] == "Wrote 1 line to long.txt."


def test_parts_of_two_versions_are_not_the_whole_file(tmp_path: Path) -> None:
    path, tools = tmp_path / "long.txt", FileTools(tmp_path)
    path.write_text("1\n2\n3\n4\n")
    tools.read("long.txt", limit=2)
    path.write_text("1\n2\n3\n5\n")
    tools.read("long.txt", offset=3)
    assert "only in part" in tools.write("long.txt", "short\n").text


@pytest.mark.parametrize("content", ["x" * (LINE_CHARACTERS + 1), "line\n" * 400])
def test_what_a_limit_cut_off_was_not_seen(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.txt").write_text(content)
    steps = [call("Read", file_path="a.txt"), call("Write", file_path="a.txt", content="short\n")]
    limits = Limits(result_characters=2_500)
    assert "only in part" in (results(FileTools(tmp_path), *steps, limits=limits))[1]


def test_a_text_that_was_attached_may_have_been_sent_in_part(log: Path) -> None:
    steps = [
        call("Read", file_path="log.txt", original=True),
        call("Write", file_path="log.txt", content="done\n"),
    ]
    assert "only in part" in (results(FileTools(log.parent), *steps))[1]


def test_all_cells_of_a_notebook_are_the_whole_file(tmp_path: Path) -> None:
    cells = [{"cell_type": "code", "source": "1", "metadata": {}, "outputs": []}] * 3
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    replace = call("Write", file_path="a.ipynb", content="{}\n")
    steps = [call("Read", file_path="a.ipynb", limit=2), replace, call("Read", file_path="a.ipynb", offset=3), replace]
    texts = results(FileTools(tmp_path), *steps)
    assert ["only in part" in text for text in texts] == [False, True, False, False]


def test_a_read_whose_call_was_cancelled_does_not_count(log: Path) -> None:
    workspace = Workspace(log.parent)

    def context(reply: str) -> ToolContext:
        return ToolContext(CallRef(reply, session="s", reply=reply), log.parent, Threads(), lambda _: None)

    given_up = context("1")
    read(workspace)(file_path="log.txt", context=given_up)
    given_up.cancel()  # the result came too late, and the model was told that there is none
    result = write(workspace)(file_path="log.txt", content="done\n", context=context("2"))
    assert "was not read" in result.text
    assert log.read_text() == "precious\n"
