"""Three background agents in worktrees: two change one file in different places, the third disagrees with the first.

`outrider -p` starts them in one reply and goes on. Their changes come back by themselves: two are merged, with a change
that the user had not committed; the third is kept as a branch, and its conflict is named. The user's index, branch and
stash are as before. A batch with two tasks on the same file does the same.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.cli.asking import ask
from tests.modelserver import ModelServer, Recorded, Step
from tests.streams import Answer

LINES = {"first": (2, "by the first"), "second": (15, "by the second"), "third": (2, "by the third")}


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def repository(folder: Path) -> Path:
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("".join(f"line {number}\n" for number in range(20)))
    git(folder, "add", ".")
    git(folder, "-c", "user.name=U", "-c", "user.email=u@example.com", "commit", "-qm", "first")
    (folder / "a.txt").write_text((folder / "a.txt").read_text() + "not committed\n")
    (folder / "staged.txt").write_text("staged\n")
    git(folder, "add", "staged.txt")
    return folder


def work(name: str, messages: list[object]) -> Answer:
    """What each agent does: it reads the file, changes its line, and says so."""
    line, text = LINES[name]
    edit = {"file_path": "a.txt", "old_string": f"line {line}\n", "new_string": f"{text}\n"}
    calls = [("r", "Read", {"file_path": "a.txt"}), ("e", "Edit", edit)]
    said = len(messages) // 2
    return Answer("", (calls[said],)) if said < 2 else Answer(f"I am the {name}.")


def answer(request: Recorded) -> Step:
    messages = request.json["messages"]
    first, last = str(messages[0]), str(messages[-1])
    for name in LINES:
        if f"You are the {name}" in first:
            return work(name, messages)
    if len(messages) == 1:
        given = {"run_in_background": True, "isolation": "worktree"}
        return Answer(
            "Three.",
            tuple(
                (f"c{name}", "Task", {"description": name, "prompt": f"You are the {name}.", **given}) for name in LINES
            ),
        )
    merged, kept = str(messages).count("were merged"), str(messages).count("were not merged")
    return Answer(f"{merged} merged, {kept} kept." if "[Sub-agent" in last else "I go on meanwhile.")


async def test_three_background_agents_in_worktrees(tmp_path: Path) -> None:
    folder = repository(tmp_path / "project")
    before = git(folder, "rev-parse", "HEAD"), git(folder, "diff", "--cached", "--name-only")
    async with ModelServer(answer) as server:
        ended = await ask(
            server, "-p", "Send three", "--permissions", "edits", "--output-format", "stream-json", cwd=folder
        )
    assert ended.returncode == 0, ended.stderr
    printed = [json.loads(line) for line in ended.stdout.splitlines()]
    assert printed[-1]["text"] == "2 merged, 1 kept."
    lines = (folder / "a.txt").read_text().splitlines()
    assert lines[15] == "by the second"
    assert lines[20] == "not committed"
    (branch,) = [each.strip() for each in git(folder, "branch").splitlines() if "outrider/" in each]
    kept = git(folder, "show", f"{branch}:a.txt").splitlines()[2]
    assert {lines[2], kept} == {"by the first", "by the third"}  # whoever was first
    assert "not committed" in git(folder, "show", f"{branch}:a.txt")
    assert (git(folder, "rev-parse", "HEAD"), git(folder, "diff", "--cached", "--name-only")) == before
    assert git(folder, "worktree", "list").count("\n") == 1
    requests = [str(each.json["messages"]) for each in server.requests if "[Sub-agent" in str(each.json["messages"])]
    assert "conflicts with what has changed in the folder since in a.txt" in requests[-1]
    notes = [each["note"] for each in printed if each["type"] == "subagent_finished"]  # what the user reads
    assert sum(note.startswith("Its changes were merged") for note in notes) == 2
    assert sum(f"They are kept in the branch {branch}" in note for note in notes) == 1


async def test_tasks_of_a_batch_have_worktrees_of_one_folder(tmp_path: Path) -> None:
    folder = repository(tmp_path / "project")
    tasks = [
        {"id": name, "prompt": f"You are the {name}.", "isolation": "worktree", "permissions": "edits"}
        for name in ("first", "second")
    ]
    (folder / ".git" / "tasks.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in tasks))
    async with ModelServer(answer) as server:
        ended = await ask(server, "batch", ".git/tasks.jsonl", "-o", ".git/results.jsonl", cwd=folder)
    assert ended.returncode == 0, ended.stderr
    lines = (folder / "a.txt").read_text().splitlines()
    assert (lines[2], lines[15]) == ("by the first", "by the second")
    assert git(folder, "worktree", "list").count("\n") == 1
