"""The resolver of programs: nothing that a working folder holds, whatever PATH and links say."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.processes import programs as programs_module
from outrider.processes.programs import ProgramNotFoundError, Programs, own_path
from outrider.processes.starting import checked, python_module, run
from tests.lengths import examples


def program(path: Path, text: str = "#!/bin/sh\necho ours\n") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    program(folder / "bin" / "tool")
    return folder


def test_entries_inside_a_working_folder_are_left_out(tmp_path: Path, project: Path) -> None:
    (tmp_path / "link").symlink_to(project / "bin")
    (tmp_path / "again").symlink_to("link")
    entries = [
        *(project / "bin", project, tmp_path / "link", tmp_path / "again", project / ".." / "project" / "bin"),
        *(f"{project}/bin/", f"{project}//bin", f"{tmp_path}/link/", ".", "", "bin", "../project/bin"),
    ]
    for entry in entries:
        programs = Programs([project], str(entry))
        assert programs.find("tool") is None, entry
        assert programs.path == "", entry
    good = program(tmp_path / "good" / "tool")
    path = os.pathsep.join(map(str, [*entries, tmp_path / "good"]))
    assert Programs([project], path).find("tool") == good
    assert Programs([project], path).path == str(tmp_path / "good")


def test_a_link_that_passes_through_a_working_folder_counts_as_inside(tmp_path: Path, project: Path) -> None:
    """Its target is outside now, but the link inside can be changed."""
    good = program(tmp_path / "good" / "real")
    (project / "hop").symlink_to(good)
    (project / "folder").symlink_to(tmp_path / "good")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "tool").symlink_to(project / "hop")
    (tmp_path / "entry").symlink_to(project / "folder")
    assert Programs([project], str(tmp_path / "links")).find("tool") is None
    assert Programs([project], str(tmp_path / "entry")).find("real") is None
    assert Programs([tmp_path / "elsewhere"], str(tmp_path / "links")).find("tool") == str(tmp_path / "links" / "tool")


def test_a_program_that_links_into_a_working_folder_counts_as_inside(tmp_path: Path, project: Path) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "tool").symlink_to(project / "bin" / "tool")
    programs = Programs([project], str(tmp_path / "links"))
    assert programs.find("tool") is None
    assert programs.is_shadowed("tool", programs.path)


def test_the_repository_around_a_working_folder_counts_too(tmp_path: Path, project: Path) -> None:
    (project / ".git").mkdir()
    (project / "deep").mkdir()
    assert Programs([project / "deep"], str(project / "bin")).find("tool") is None


def test_a_dotfiles_repository_in_the_home_folder_is_not_the_project(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".git").mkdir()
    good = program(tmp_path / ".local" / "bin" / "tool")
    assert Programs([project], str(Path(good).parent)).find("tool") == good


def test_another_name_of_the_working_folder_changes_nothing(tmp_path: Path, project: Path) -> None:
    """As on a file system that ignores case, or with a bind mount: the identity of the folder counts."""
    (tmp_path / "alias").symlink_to(project)
    assert Programs([tmp_path / "alias"], f"{project}/bin").find("tool") is None
    programs = Programs([project], f"{project}/bin")
    programs.folders = (str(tmp_path / "alias"),)  # another name of it, as if it could not be resolved
    assert programs.find("tool") is None


def test_the_environment_that_runs_outrider_is_trusted_inside_a_project(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs_module, "ENVIRONMENTS", {f"{project}/envs/own": f"{project}/envs/own"})
    own = program(project / "envs" / "own" / "bin" / "tool")
    programs = Programs([project], f"{project}/bin:{project}/envs/own/bin")
    assert programs.find("tool") == own
    assert programs.path == str(Path(own).parent)
    program(project / "other" / "tool2")
    (project / "envs" / "own" / "bin" / "tool2").symlink_to(project / "other" / "tool2")
    assert programs.find("tool2") is None
    assert Programs([project / "envs" / "own" / "src"], f"{project}/envs/own/src").find("tool") is None


def test_a_link_to_the_environment_that_runs_outrider_is_resolved_at_the_start(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, real = project / ".venv", tmp_path / "envs" / "own"
    good = program(real / "bin" / "tool")
    link.symlink_to(real)
    monkeypatch.setattr(programs_module, "ENVIRONMENTS", {str(link): str(real)})
    programs = Programs([project], f"{link}/bin")
    assert programs.is_inside(f"{link}/bin/tool"), "the link is the project's"
    assert own_path(f"{link}/bin/tool") == good
    assert own_path(f"{link}2/bin/tool") == f"{link}2/bin/tool"
    assert not programs.is_inside(good)
    link.unlink()
    link.symlink_to(project)  # as a model could
    assert own_path(f"{link}/bin/tool") == good
    assert Programs([project]).is_inside(f"{project}/bin/tool")


def test_an_error_says_what_to_do(project: Path) -> None:
    with pytest.raises(ProgramNotFoundError, match=r"bin/tool is inside the working folder .* write its path"):
        Programs([project], f"{project}/bin").require("tool")
    with pytest.raises(ProgramNotFoundError, match="there is no program tool: install it"):
        Programs([project], "/nowhere").require("tool")


def test_a_path_is_taken_as_it_is_if_it_is_absolute(project: Path) -> None:
    programs = Programs([project], "/usr/bin")
    assert programs.find(str(project / "bin" / "tool")) == str(project / "bin" / "tool")
    assert programs.find("bin/tool") is None
    assert programs.find("") is None


def test_a_program_is_started_by_its_absolute_path_only() -> None:
    for name in ("git", "./git", "bin/git", ""):
        with pytest.raises(ValueError, match="absolute path"):
            checked([name])
    assert run(["/bin/sh", "-c", "echo $X; cat"], environment={"X": "1"}, seconds=10, input=b"2").output == b"1\n2"
    with pytest.raises(TimeoutError):
        run(["/bin/sh", "-c", "exec sleep 60"], environment={}, seconds=0.1)


def test_a_folder_of_the_project_is_not_imported_as_outrider(tmp_path: Path) -> None:
    (tmp_path / "outrider").mkdir()
    for name in ("__init__.py", "__main__.py"):
        (tmp_path / "outrider" / name).write_text("raise SystemExit('the project ran')")
    ended = subprocess.run(python_module("outrider", "--version"), cwd=tmp_path, capture_output=True, text=True)
    assert (ended.returncode, "the project ran" in ended.stderr) == (0, False)


# Random worlds: names of folders, files and links, some inside the project, and a PATH of their spellings.

NAMES = ("a", "b", "project", "tool")
PLACES = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4)
TARGETS = st.tuples(st.booleans(), st.lists(st.sampled_from((*NAMES, "..", ".")), min_size=1, max_size=4))
KINDS = st.one_of(st.just("program"), st.just("folder"), TARGETS)
SPELLINGS = st.tuples(
    st.sampled_from(("absolute", "relative", "slash", "dots", "double")),
    st.lists(st.sampled_from((*NAMES, "..")), max_size=4),
)


def build(base: Path, places: list[tuple[list[str], object]]) -> None:
    for names, kind in places:
        path = base.joinpath(*names)
        try:
            if kind == "program":
                program(path / "tool" if path.is_dir() else path)
            elif kind == "folder":
                path.mkdir(parents=True, exist_ok=True)
            elif isinstance(kind, tuple):
                absolute, target = kind
                path.parent.mkdir(parents=True, exist_ok=True)
                path.symlink_to(base.joinpath(*target) if absolute else os.path.join(*target))
        except OSError:
            continue  # something else has this name, or the links do not end


def spelled(base: Path, form: str, names: list[str]) -> str:
    joined = os.path.join(str(base), *names)
    return {
        "absolute": joined,
        "relative": os.path.join(*names) if names else "",
        "slash": f"{joined}/",
        "dots": f"{base}/./a/../{'/'.join(names)}",
        "double": f"/{base}//{'//'.join(names)}".replace("//", "/", 1),
    }[form]


@given(
    places=st.lists(st.tuples(PLACES, KINDS), max_size=12),
    path=st.lists(SPELLINGS, min_size=1, max_size=6),
    swap=st.sampled_from(NAMES),
)
@settings(max_examples=examples(300))
def test_no_change_inside_the_project_changes_which_program_is_found(
    tmp_path_factory: pytest.TempPathFactory,
    places: list[tuple[list[str], object]],
    path: list[tuple[str, list[str]]],
    swap: str,
) -> None:
    base = Path(os.path.realpath(tmp_path_factory.mktemp("world")))
    project = base / "project"
    project.mkdir()
    build(base, places)
    text = os.pathsep.join(spelled(base, *each) for each in path)
    programs = Programs([project], text)
    found = programs.find("tool")
    entries = programs.path.split(os.pathsep) if programs.path else []
    assert all(map(os.path.isabs, entries))
    if found is not None:
        assert not is_below(os.path.realpath(found), project)
    assert not any(is_below(os.path.realpath(entry), project, or_is=True) for entry in entries)
    before = found and os.path.realpath(found)
    for name in os.listdir(project):  # what a command with `write` can do
        os.rename(project / name, base / f"gone-{name}-{len(os.listdir(base))}")
    program(project / swap / "tool" if swap != "tool" else project / "tool")
    if found is not None:
        assert os.path.realpath(found) == before, "the same path leads elsewhere now"
        assert Path(found).read_text() == "#!/bin/sh\necho ours\n"


def is_below(path: str, folder: Path, *, or_is: bool = False) -> bool:
    return path.startswith(f"{folder}/") or (or_is and path == str(folder))
