"""The output of background commands, as a person follows it."""

from __future__ import annotations

from pathlib import Path

from outrider.coding.toolbox.background_commands import OutputReader


def test_a_line_without_an_end_is_not_kept_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_bytes(b"")
    printed = 0
    with OutputReader(path) as reader:
        for _ in range(5):
            with path.open("ab") as file:
                file.write(b"x" * OutputReader.MOST)
            printed += len(reader.lines())
        assert len(reader._line) <= OutputReader.MOST
        assert printed + len(reader.lines(rest=True)) == 5 * OutputReader.MOST
