"""The changed regions of a file, as a diff has them: whatever the texts, the regions turn the old one into the new."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from outrider.coding.toolbox.files.diffs import diff_of
from outrider.coding.toolbox.files.regions import (
    MAX_BYTES,
    Region,
    change_summary,
    proposed_diff,
    proposed_regions,
    regions_of,
)

lines = st.lists(st.sampled_from(["a", "b", "", " c", "-d", "+e", "@@ -1 +1 @@", "… f", "\\ g"]), max_size=30)
texts = st.builds(lambda lines, end: "\n".join(lines) + end, lines, st.sampled_from(["", "\n"]))


@given(texts, texts)
def test_the_regions_turn_the_old_text_into_the_new(old: str, new: str) -> None:
    regions = regions_of(diff_of(old, new, "file").text)
    changed = old.split("\n")
    for region in regions:
        start = max(0, region.line - 1)
        before = "\n".join([*changed[:start], ""]) if start else ""
        rest = "\n".join(changed)[len(before) :]
        assert rest.startswith(region.old)
        changed = (before + region.new + rest.removeprefix(region.old)).split("\n")
    assert "\n".join(changed) == new or (not regions and old == new)


def test_what_was_left_out_of_a_diff_gives_no_regions() -> None:
    assert regions_of(diff_of("", "x\n" * 30_000, "file").text) == ()
    assert regions_of(diff_of("a\n", "x" * 5_000 + "\n", "file").text) == ()
    assert regions_of("not a diff") == ()


def test_a_call_is_shown_as_the_lines_that_it_would_change(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    edit = {"file_path": "a.txt", "old_string": "two", "new_string": "2"}
    assert proposed_regions("Edit", edit, tmp_path) == (Region(1, "one\ntwo\n", "one\n2\n"),)
    assert proposed_regions("Write", {"file_path": "a.txt", "content": "new\n"}, tmp_path) == (
        Region(1, "one\ntwo\n", "new\n"),
    )


def test_an_addition_is_shown_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    edit = {"file_path": "a.txt", "old_string": "", "new_string": "three"}
    assert proposed_diff("Edit", edit, tmp_path).splitlines()[-1] == "+three"
    assert change_summary("Edit", edit, tmp_path) == "adds 1 line at the end"


def test_what_cannot_be_told_has_no_regions(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "secret").write_text("one\n")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "twice").write_text("a a\n")
    (folder / "large").write_text("a\n" * MAX_BYTES)
    (folder / "binary").write_bytes(b"\0\1\2")
    names = ["../secret", "link", "missing", "twice", "large", "binary", ".", "", "\0", "~nobody-here/x"]
    for name in names:
        edit = {"file_path": name, "old_string": "a", "new_string": "b"}
        assert proposed_regions("Edit", edit, folder) == (), name
    for wrong in (
        {},
        {"file_path": 3},
        {"file_path": "twice"},
        {"file_path": "twice", "old_string": "", "new_string": ""},
    ):
        assert proposed_regions("Edit", wrong, folder) == ()
    assert proposed_regions("Write", {"file_path": "twice", "content": None}, folder) == ()
