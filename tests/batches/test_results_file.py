"""The results file has each result once, whatever was killed when."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from outrider.batches.files import ResultsFile, ResultsFileError
from outrider.batches.task import TaskResult

FIRST, SECOND = TaskResult("a", "done", "one"), TaskResult("b", "error", error="no luck")


def ids_in(path: Path) -> list[str]:
    return [msgspec.json.decode(line)["id"] for line in path.read_bytes().splitlines()]


def test_results_are_appended_once(tmp_path: Path) -> None:
    path = tmp_path / "new" / "results.jsonl"
    with ResultsFile(path) as file:
        assert file.append([FIRST]) == 1
        assert file.append([FIRST, SECOND]) == 1
    assert ids_in(path) == ["a", "b"]
    assert path.stat().st_mode & 0o777 == 0o600
    with ResultsFile(path, resume=True) as file:
        assert file.ids == {"a", "b"}
        assert file.failed == {"b"}
        assert file.append([SECOND]) == 0
    assert ids_in(path) == ["a", "b"]


@pytest.mark.parametrize("cut", [1, 4, 20, 100])
def test_a_torn_line_is_removed(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "results.jsonl"
    with ResultsFile(path) as file:
        file.append([FIRST, SECOND])
    whole = path.read_bytes()
    torn = whole.splitlines(keepends=True)[0] + whole.splitlines(keepends=True)[1][:cut]
    path.write_bytes(torn)
    with ResultsFile(path, resume=True) as file:
        assert file.ids == {"a"}
        file.append([SECOND])
    assert path.read_bytes() == whole


@pytest.mark.parametrize("content", [b"my notes", b"my notes\n", b'{"name": "x"}\n', b'{"id": 3}\n'])
def test_another_file_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(ResultsFileError, match=r"notes.txt:1 is not a result of a batch"):
        ResultsFile(path, resume=True)
    assert path.read_bytes() == content


def test_a_file_with_results_needs_resume(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    with ResultsFile(path) as file:
        file.append([FIRST])
        with pytest.raises(ResultsFileError, match="being written by another batch"):
            ResultsFile(path, resume=True)
    with pytest.raises(ResultsFileError, match="has 1 results already; add --resume"):
        ResultsFile(path)
