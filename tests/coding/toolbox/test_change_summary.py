"""Every question about an edit says how many lines change in how many places."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.coding.permissions.question import Question
from outrider.coding.toolbox.files.regions import COUNTED_BYTES as MAX_BYTES
from outrider.coding.toolbox.files.regions import MAX_BYTES as MAX_SHOWN
from outrider.coding.toolbox.files.regions import change_summary, proposed_regions

ROWS = "".join(f"row {number}\n" for number in range(700))


def edit(old: str, new: str, **more: bool) -> dict[str, object]:
    return {"file_path": "a.txt", "old_string": old, "new_string": new, **more}


@pytest.mark.parametrize(
    ("text", "old", "new", "replace_all", "said"),
    [
        (ROWS, "row", "ROW", True, "changes 700 lines in 700 places"),
        (ROWS, "row 7\n", "row\nseven\n", False, "changes 2 lines in 1 place"),
        (ROWS, "row 7\nrow 8\nrow 9\n", "row 7\neight\nrow 9\n", False, "changes 1 line in 1 place"),
        (ROWS, "row", "ROW", False, "changes nothing: the text is in 700 places"),
        (ROWS, "missing", "", False, "changes nothing: the text is in 0 places"),
        ("a a a\nb\r\n", "a", "c", True, "changes 1 line in 3 places"),
        ("one\r\ntwo\r\n", "one\ntwo", "1", False, "changes 2 lines in 1 place"),
        (ROWS * 200, "row 699\n", "last\n", True, "changes 200 lines in 200 places"),
    ],
)
def test_an_edit_is_counted(tmp_path: Path, text: str, old: str, new: str, replace_all: bool, said: str) -> None:
    (tmp_path / "a.txt").write_bytes(text.encode())
    assert change_summary("Edit", edit(old, new, replace_all=replace_all), tmp_path) == said


@pytest.mark.parametrize("times", [1, 5, 300])
def test_a_write_over_a_file_of_any_size_is_counted(tmp_path: Path, times: int) -> None:
    text = ROWS * times
    assert (len(text) > MAX_SHOWN) == (times == 300)
    (tmp_path / "a.txt").write_text(text)
    given = {"file_path": "a.txt", "content": text.replace("row 9\n", "row nine\n", 1) + "end\n"}
    summary = change_summary("Write", given, tmp_path)
    if times == 1:
        assert summary == "changes 2 lines in 2 places of a file of 700"
    assert summary.startswith("changes ")
    assert summary.endswith(f" of a file of {700 * times:,}")


def test_files_that_are_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "outside").write_text(ROWS)
    with (folder / "huge").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    write = {"content": "one\ntwo\n"}
    assert change_summary("Write", {"file_path": "new", **write}, folder) == "writes 2 lines"
    assert change_summary("Write", {"file_path": "../outside", **write}, folder) == "writes 2 lines"
    said = change_summary("Write", {"file_path": "huge", **write}, folder)
    assert said.startswith("replaces all by 2 lines in a file")
    assert change_summary("Edit", {**edit("a", "b", replace_all=True), "file_path": "huge"}, folder) == (
        "changes 1 line in every place that has the text"
    )
    assert change_summary("Bash", {"command": "ls"}, folder) == ""
    assert change_summary("Write", {"file_path": "new", "content": 3}, folder) == ""


def test_a_large_write_has_its_changed_regions(tmp_path: Path) -> None:
    old = "".join(f"{number} {'x' * 300}\n" for number in range(2_000))
    (tmp_path / "a.txt").write_text(old)
    new = "".join(line.replace("x", "y") if line.startswith("4") else line for line in old.splitlines(keepends=True))
    regions = proposed_regions("Write", {"file_path": "a.txt", "content": new}, tmp_path)
    assert sum(len(region.new) for region in regions) > 20_000
    for region in regions:
        assert region.old in old
        old = old.replace(region.old, region.new, 1)
    assert old == new


def test_the_question_has_the_summary_among_its_facts() -> None:
    question = Question("c", "Edit", edit("a", "b", replace_all=True), "", changes="changes 700 lines in 700 places")
    assert question.facts == ("changes 700 lines in 700 places", "all occurrences are replaced")
