"""What can follow `/` and `@` in the line that a person types."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from outrider.cli.chat import completion
from outrider.cli.chat.completion import MAX_COMPLETIONS, ChatCompleter, FileNames, FuzzyNames, score
from outrider.coding.toolbox.search.ripgrep import file_names
from outrider.processes.programs import Programs

COMMANDS = {"help": "what can be typed", "model": "who answers", "mode": "what is allowed"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "Project"
    for name in ("Readme.md", "src/reader.py", "src/already.py", "my notes.txt", ".hidden"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return folder


def completed(text: str, folder: Path) -> list[str]:
    """What the line would become."""
    found = ChatCompleter(folder, lambda: file_names(Programs([folder]), folder), lambda: COMMANDS).get_completions(
        Document(text), CompleteEvent()
    )
    return [text[: len(text) + each.start_position] + each.text for each in found]


def test_commands_are_completed_at_the_beginning() -> None:
    folder = Path("/nowhere")
    assert completed("/", folder) == ["/help", "/model", "/mode"]
    assert completed("/mo", folder) == ["/model", "/mode"]
    assert completed("/help ", folder) == []
    assert completed("say /he", folder) == []
    assert completed("/he\n", folder) == []
    assert completed("", folder) == []


def test_files_are_completed_after_an_at_by_the_beginning_of_their_name_first(folder: Path) -> None:
    assert completed("@read", folder) == ["@Readme.md", "@src/reader.py", "@src/already.py"]
    assert completed("compare @src/al", folder) == ["compare @src/already.py"]
    assert completed("me@read", folder) == []


def test_a_name_with_a_space_is_quoted(folder: Path) -> None:
    assert completed("@notes", folder) == ['@"my notes.txt"']
    assert completed('@"my', folder) == ['@"my notes.txt"']


def test_a_quoted_name_can_be_typed_on(folder: Path) -> None:
    assert completed('@"my no', folder) == ['@"my notes.txt"']


def test_files_that_git_ignores_are_left_out(folder: Path) -> None:
    subprocess.run(["git", "init", "-q", folder], check=True)
    (folder / ".gitignore").write_text("src/\n")
    assert completed("@read", folder) == ["@Readme.md"]
    assert "@.hidden" in completed("@hid", folder)
    assert completed("@HEAD", folder) == []


def test_characters_in_order_are_enough(tmp_path: Path) -> None:
    for name in ("cli/chat/session_view.py", "cli/vessel.py", "docs/chatSession.md", "build/out/x.py", "a/İx.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert completed("@sv", tmp_path)[0] == "@cli/chat/session_view.py"  # beginnings of words
    assert completed("@clichat", tmp_path)[:2] == ["@cli/chat/", "@cli/chat/session_view.py"]
    assert completed("@cs", tmp_path)[0] == "@docs/chatSession.md"
    assert completed("@SESSION_view", tmp_path) == ["@cli/chat/session_view.py"]
    assert completed("@vs", tmp_path)[0] == "@cli/vessel.py"  # in this order
    assert completed("@ix", tmp_path)
    assert completed("@zz", tmp_path) == []
    assert completed(f"@{tmp_path}/oc", tmp_path) == [f"@{tmp_path}/docs/"]  # and outside of the folder
    assert completed("/pe", tmp_path) == []
    assert completed("/md", tmp_path) == ["/model", "/mode"]


def test_a_search_in_many_files_compares_few_of_them() -> None:
    names = [f"src/part{number % 100}/module_{number}.py" for number in range(50_000)]
    found = FuzzyNames([*names, "src/session_view.py"])
    scored: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(completion, "score", lambda name, typed: scored.append(name) or score(name, typed))
        assert "src/session_view.py" in found.matching("seview", 50)
        assert len(found.matching("s", 50)) == 50
        assert len(scored) <= 2 * completion.MOST_SCORED


def test_no_more_is_shown_than_can_be_read(tmp_path: Path) -> None:
    for number in range(MAX_COMPLETIONS + 10):
        (tmp_path / f"file{number}").touch()
    assert (
        len(FileNames(tmp_path, lambda: file_names(Programs([tmp_path]), tmp_path)).matching("file")) == MAX_COMPLETIONS
    )


def test_a_new_file_is_found_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = FileNames(tmp_path, lambda: file_names(Programs([tmp_path]), tmp_path))
    assert names.matching("new") == []
    (tmp_path / "new").touch()
    monkeypatch.setattr("outrider.cli.chat.completion.REFRESH_SECONDS", 0.0)
    assert names.matching("new") == ["new"]


def test_a_name_that_would_draw_on_the_terminal_is_not_offered(tmp_path: Path) -> None:
    (tmp_path / "a\x1b[2Jb").touch()
    (tmp_path / "a\nb").touch()
    (tmp_path / "a\u202eb").touch()
    assert completed("@a", tmp_path) == []
    assert completed(f"@{tmp_path}/a".lower(), tmp_path) == []


def test_a_folder_that_is_not_there_has_no_files() -> None:
    assert completed("@a", Path("/nowhere")) == []
    assert completed("@/nowhere/a", Path("/nowhere")) == []
    assert completed("@~nobody-has-this-name/a", Path("/nowhere")) == []


def test_the_root_can_be_completed(folder: Path) -> None:
    assert "@/tmp/" in completed("@/tm", folder)


def test_a_path_outside_keeps_its_capitals(folder: Path) -> None:
    assert completed(f"@{folder}/Read", folder) == [f"@{folder}/Readme.md"]
    assert completed("@../Pro", folder) == ["@../Project/"]


def test_a_loop_of_links_does_no_harm(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    os.symlink("loop", outside / "loop")
    (outside / "lot").touch()
    inside = tmp_path / "inside"
    inside.mkdir()
    assert "@../outside/lot" in completed("@../outside/lo", inside)


def test_home_is_home(folder: Path) -> None:
    assert all(each.startswith("@~") for each in completed("@~", folder))


def test_folders_are_offered_and_hidden_files_come_last(tmp_path: Path) -> None:
    (tmp_path / "chapters" / "parts").mkdir(parents=True)
    for name in (".env", "a.txt", "a_long_name.txt", "chapters/parts/one.md"):
        (tmp_path / name).write_text("")
    names = FileNames(tmp_path, lambda: file_names(Programs([tmp_path]), tmp_path))
    assert names.matching("")[-1] == ".env"
    assert names.matching("chap")[0] == "chapters/"
    assert "chapters/parts/" in names.matching("part")
    assert names.matching(".e")[0] == ".env"
