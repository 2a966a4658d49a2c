"""Hazard: a link is swapped in after a path was checked. The file tools open what was approved, or nothing."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from outrider.coding.permissions.approver import PermissionApprover
from outrider.coding.permissions.file_access import is_hidden
from outrider.coding.permissions.policy import Policy
from outrider.coding.permissions.question import Answer, Question
from outrider.coding.toolbox import standard_tools
from outrider.coding.toolbox.no_follow import opened_folder
from outrider.coding.toolbox.workspace import Workspace
from outrider.conversation.messages import ToolUseBlock
from outrider.runtime.events import ToolFinished
from outrider.testing import call
from outrider.tools.approval import Allow, Deny
from outrider.tools.tool import Tool
from tests.watching import Watched

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs symbolic links and descriptors of folders")
TOOLS = ("Read", "Write", "Edit", "Glob", "Grep")


class Place:
    """A project with a folder, and a folder outside that has the same names."""

    def __init__(self, top: Path) -> None:
        self.project, self.outside = top.resolve() / "project", top.resolve() / "outside"
        for folder, text in ((self.project / "d", "inside\n"), (self.outside, "outside\n")):
            folder.mkdir(parents=True)
            (folder / "a.txt").write_text(text)
        self.workspace = Workspace(self.project)
        self.policy = Policy(folder=self.project, mode="edits")
        self.permissions = PermissionApprover(self.policy)
        self.workspace.confirm = self.permissions.confirm

    def swap(self) -> None:
        """Put a link to the outside in the place of the folder."""
        (self.project / "d").rename(self.project / "real")
        (self.project / "d").symlink_to(self.outside)

    def results(self, *steps: Any, approve: Any = None) -> list[str]:
        tools = standard_tools(self.workspace, TOOLS, hidden=lambda path: is_hidden(self.policy, path))
        watched = Watched([*steps, "ok"], tools, approve=approve or self.permissions)
        asyncio.run(watched.session.run("go"))
        return [event.result.text for event in watched.of(ToolFinished)]

    def untouched(self) -> bool:
        return os.listdir(self.outside) == ["a.txt"] and (self.outside / "a.txt").read_text() == "outside\n"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


CALLS = [
    call("Read", file_path="d/a.txt"),
    call("Write", file_path="d/new.txt", content="x"),
    call("Write", file_path="d/deep/er/new.txt", content="x"),
    call("Grep", pattern=".", path="d", output_mode="content"),
    call("Grep", pattern=".", path="d/a.txt", output_mode="content"),
    call("Glob", pattern="*", path="d"),
]


@pytest.mark.parametrize("use", CALLS, ids=lambda use: f"{use.name}-{len(use.input)}")
def test_a_link_swapped_in_after_the_approval_is_not_followed(place: Place, use: ToolUseBlock) -> None:
    async def approve(use: ToolUseBlock, tool: Tool) -> Allow | Deny:
        decision = await place.permissions(use, tool)
        place.swap()
        return decision

    (text,) = place.results(use, approve=approve)
    assert "outside" not in text.replace(str(place.outside), "")
    assert "not approved" in text
    assert place.untouched()


@pytest.mark.parametrize("use", CALLS, ids=lambda use: f"{use.name}-{len(use.input)}")
def test_a_link_swapped_in_after_the_path_was_resolved_is_not_followed(place: Place, use: ToolUseBlock) -> None:
    def confirm(call_id: str, tool: str, path: str) -> str:
        reason = place.permissions.confirm(call_id, tool, path)
        place.swap()
        return reason

    place.workspace.confirm = confirm
    (text,) = place.results(use)
    assert "outside" not in text
    assert "symbolic link" in text
    assert place.untouched()


def test_a_link_swapped_in_before_an_edit_is_saved_is_not_followed(place: Place) -> None:
    steps = [
        call("Read", file_path="d/a.txt"),
        call("Edit", file_path="d/a.txt", old_string="inside", new_string="changed"),
    ]
    seen: list[str] = []

    def confirm(call_id: str, tool: str, path: str) -> str:
        seen.append(tool)
        if tool == "Edit":
            (place.outside / "a.txt").write_text("inside\n")  # the check of the content would not notice
            place.swap()
        return ""

    place.workspace.confirm = confirm
    place.results(*steps)
    assert seen == ["Read", "Edit"]
    assert (place.outside / "a.txt").read_text() == "inside\n"


def test_a_link_as_the_last_name_is_not_followed_either(place: Place) -> None:
    def confirm(call_id: str, tool: str, path: str) -> str:
        (place.project / "d/a.txt").unlink(missing_ok=True)
        (place.project / "d/a.txt").symlink_to(place.outside / "a.txt")
        return ""

    place.workspace.confirm = confirm
    (text,) = place.results(call("Read", file_path="d/a.txt"))
    assert text == "d/a.txt cannot be read: it is a symbolic link that leads back to itself, or that has just appeared."


def test_an_answer_is_for_the_path_that_was_asked_about(place: Place) -> None:
    (place.outside.parent / "third").mkdir()
    (place.project / "out").symlink_to(place.outside)
    asked: list[Question] = []

    async def ask(question: Question) -> Answer:
        asked.append(question)
        return Answer("yes")

    place.permissions = PermissionApprover(place.policy, ask=ask)
    place.workspace.confirm = place.permissions.confirm
    assert "outside" in place.results(call("Read", file_path="out/a.txt"))[0]

    async def approve(use: ToolUseBlock, tool: Tool) -> Allow | Deny:
        decision = await place.permissions(use, tool)
        (place.project / "out").unlink()
        (place.project / "out").symlink_to(place.outside.parent / "third")
        return decision

    (text,) = place.results(call("Write", file_path="out/b.txt", content="x"), approve=approve)
    assert len(asked) == 2
    assert "which was not approved" in text
    assert not list((place.outside.parent / "third").iterdir())


def test_links_that_stay_are_followed(place: Place) -> None:
    (place.project / "link").symlink_to("d")
    read, written = place.results(
        call("Read", file_path="link/a.txt"), call("Write", file_path="link/a.txt", content="new\n")
    )
    assert "inside" in read
    assert written == "Wrote 1 line to link/a.txt."
    assert (place.project / "d/a.txt").read_text() == "new\n"


def test_a_folder_is_not_created_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with (
        pytest.raises(OSError, match=r"symbolic|directory"),
        opened_folder(tmp_path.resolve() / "link/new", create=True),
    ):
        pass
    assert not list((tmp_path / "real").iterdir())


@contextmanager
def swapping(place: Place) -> Iterator[None]:
    """Point a link at the folder and at the outside in turn, as fast as possible, in another thread."""
    place.swap()
    link, spare = str(place.project / "d"), str(place.project / "spare")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for target in ("real", place.outside):
                os.symlink(target, spare)
                os.replace(spare, link)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("use", [CALLS[0], CALLS[1], CALLS[4]], ids=lambda use: use.name)
def test_links_that_are_swapped_all_the_time_lead_nowhere(place: Place, use: ToolUseBlock) -> None:
    with swapping(place):
        texts = [text for _ in range(3) for text in place.results([use] * 40)]
    assert len(texts) == 120
    assert not [text for text in texts if "\toutside" in text or ":outside" in text]
    assert place.untouched()
