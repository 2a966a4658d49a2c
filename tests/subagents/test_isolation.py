"""A sub-agent in a worktree: its tools, its sandbox and its permissions are those of the folder, moved."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from outrider import Agent, Profile, with_subagents
from outrider.coding.profiles import read_profile
from outrider.coding.project_texts import ProjectText
from outrider.testing import call
from tests.subagents.teams import bench_in, play, results_of, run_in, task


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OUTRIDER_HOME", str(tmp_path / "data"))
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "a.txt").write_text("a\n")
    identity = ("-c", "user.name=U", "-c", "user.email=u@example.com")
    for arguments in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "first"]):
        subprocess.run(["git", *arguments], cwd=folder, check=True)
    (folder / ".env").write_text("KEY=secret\n")
    return folder


async def test_it_works_in_the_worktree_alone(repository: Path) -> None:
    """It may change what is there, sees no secret, and needs to ask for the folder itself, as for any other."""
    outside = repository / "outside.txt"
    children = {
        "a": [
            [call("Bash", command="pwd; ls -a; echo made > made.txt", access="write")],
            [call("Write", file_path=str(outside), content="x"), call("Write", file_path="b.txt", content="b\n")],
            [call("Write", file_path=".git/hooks/pre-commit", content="#!/bin/sh\n")],
            "Done.",
        ]
    }
    model = play([[task("a", "General", isolation="worktree")], "Fine."], children)
    bench = bench_in(repository, permissions__mode="edits", permissions__allow=["Bash"])
    session = await run_in(bench, model)
    answer = results_of(session)[0].text
    assert answer.startswith("Done.\n\n[Its changes were merged into the folder: 2 files: b.txt, made.txt]")
    child = [each for each in model.requests if each.messages[0].text == "a"][-1]
    results = [result for message in child.messages for result in message.tool_results]
    assert str(repository) not in results[0].text
    assert "-worktrees/" in results[0].text
    assert ".env" not in results[0].text
    assert [each.is_error for each in results[1:]] == [True, False, True]
    assert not outside.exists()
    assert (repository / "made.txt").read_text() == "made\n"
    assert (repository / "b.txt").read_text() == "b\n"


async def test_without_a_repository_it_is_not_offered_and_a_profile_says_why(tmp_path: Path) -> None:
    (tmp_path / ".outrider" / "agents").mkdir(parents=True)
    fields = "---\nname: fixer\ndescription: Fixes.\nisolation: worktree\n---\nFix it.\n"
    (tmp_path / ".outrider" / "agents" / "fixer.md").write_text(fields)
    bench = bench_in(tmp_path)
    (tool,) = [each for each in bench.tools if each.name == "Task"]
    assert "isolation" not in tool.parameters["properties"]
    session = await run_in(bench, play([[task("a", "fixer")], "Fine."], {"a": ["Never."]}))
    assert "needs a git repository with a commit" in results_of(session)[0].text


def test_an_unknown_isolation_is_refused(tmp_path: Path) -> None:
    text = ProjectText(tmp_path / "x.md", "---\ndescription: X.\nisolation: container\n---\n")
    with pytest.raises(ValueError, match="must be worktree, not 'container'"):
        read_profile(text, frozenset())
    with pytest.raises(ValueError, match="only the coding agent provides"):
        with_subagents(Agent("demo"), [Profile(name="X", description="X.", isolation="worktree")])


async def test_data_stay_json_beside_what_became_of_the_worktree(repository: Path) -> None:
    schema = {"type": "object", "properties": {"made": {"type": "string"}}, "required": ["made"]}
    children = {"a": [[call("Write", file_path="b.txt", content="b\n")], call("report_back", made="b.txt")]}
    model = play([[task("a", "General", isolation="worktree", output_schema=schema)], "Fine."], children)
    session = await run_in(bench_in(repository, permissions__mode="edits"), model)
    data, note = results_of(session)[0].content
    assert json.loads(data.text) == {"made": "b.txt"}
    assert note.text.strip().startswith("[Its changes were merged into the folder: 1 file: b.txt")
