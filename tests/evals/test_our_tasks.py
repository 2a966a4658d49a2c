"""The tasks in evals/tasks: their tests accept the solution in any form, and neither nothing nor a wrong answer."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

EVALS = Path(__file__).parents[2] / "evals"
TASKS = sorted(path for path in (EVALS / "tasks").iterdir() if path.is_dir())
DOCKERFILE = "FROM python:3.11-slim\nWORKDIR /app\nCOPY . /app\n"
RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))}
"""Names that Windows refuses, with any ending."""
WINDOW = 8_000
"""Bytes of a file that a model with a small window can read whole."""
TELLING = re.compile(r"solution|solve|reward|verifier|outrider|check\.py|wrong", re.I)
"""Words of the parts of a task that an agent does not see."""
each_task = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)


def run(script: Path, folder: Path, **variables: str) -> None:
    """Run a script in a folder with the Python of the tests."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    command = ["bash", "-e", script] if script.parent.name != "tests" else ["sh", script]
    subprocess.run(command, cwd=folder, env={**os.environ, "PATH": path, **variables}, timeout=20, check=True)


def content(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by their paths."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.parent.name != "__pycache__")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def reward(task: Path, folder: Path) -> str:
    """Run the task's tests on a working folder. Return what they write."""
    logs = folder.with_name(folder.name + "-logs")
    run(task / "tests" / "test.sh", folder, OUTRIDER_LOGS=str(logs))
    return (logs / "verifier" / "reward.txt").read_text().strip()


def attempt(task: Path, script: Path, tmp_path: Path) -> Path:
    """Return a copy of the environment that a script has worked in. It must have changed something."""
    folder = tmp_path / script.stem
    shutil.copytree(task / "environment", folder)
    run(script, folder)
    assert content(folder) != content(task / "environment"), f"{script} does nothing"
    return folder


@pytest.mark.sampled(6)
@each_task
def test_an_untouched_folder_is_no_solution(task: Path, tmp_path: Path) -> None:
    shutil.copytree(task / "environment", tmp_path / "untouched")
    assert reward(task, tmp_path / "untouched") == "0"


@pytest.mark.sampled(6)
@each_task
def test_the_solution_counts_whatever_its_white_space_and_order_of_keys(task: Path, tmp_path: Path) -> None:
    folder = attempt(task, task / "solution" / "solve.sh", tmp_path)
    assert reward(task, folder) == "1"
    (answer,) = {*content(folder)} - {*content(task / "environment")} or {""}
    if answer.endswith(".json"):
        pairs = reversed(json.loads((folder / answer).read_text()).items())
        (folder / answer).write_text(json.dumps(dict(pairs), indent=3))
    elif answer.endswith(".txt"):
        (folder / answer).write_bytes(b"\n" + (folder / answer).read_bytes().strip().replace(b"\n", b" \r\n"))
    else:
        return
    assert reward(task, folder) == "1"


@pytest.mark.sampled(6)
@each_task
def test_a_wrong_answer_does_not_count(task: Path, tmp_path: Path) -> None:
    wrong = sorted((task / "wrong").iterdir())
    assert [path.name for path in wrong] in (["wrong-1.sh"], ["wrong-1.sh", "wrong-2.sh"])
    about = (task / "tests" / "check.py").read_text().split('"""')[1]
    for script in wrong:
        assert reward(task, attempt(task, script, tmp_path)) == "0", script
        assert f"({script.stem})" in " ".join(about.split()), "check.py does not say what is wrong"
        assert script.read_text().startswith("# "), f"{script} does not say what it does wrong"


@each_task
def test_a_task_has_the_form_of_harbor(task: Path) -> None:
    settings = tomllib.loads((task / "task.toml").read_text())
    assert settings["schema_version"] == "1.1"
    assert settings["task"]["name"] == f"outrider/{task.name}"
    assert settings["task"]["description"].endswith(".")
    assert settings["task"]["keywords"]
    assert settings["metadata"]["difficulty"] in ("easy", "medium", "hard")
    assert settings["metadata"]["category"]
    assert 0 < settings["verifier"]["timeout_sec"] <= 60
    assert 0 < settings["agent"]["timeout_sec"] <= 900
    assert settings["environment"] == {"allow_internet": False}
    assert (task / "environment" / "Dockerfile").read_text() == DOCKERFILE
    assert (task / "tests" / "test.sh").read_text() == (TASKS[0] / "tests" / "test.sh").read_text()
    assert (task / "solution" / "solve.sh").read_text().startswith("#!/bin/bash\n"), "Harbor executes it"
    parts = {path.name for path in task.iterdir()}
    assert parts == {"task.toml", "instruction.md", "environment", "tests", "solution", "wrong"}


@each_task
def test_an_instruction_is_short_and_stays_in_the_folder(task: Path) -> None:
    instruction = (task / "instruction.md").read_text()
    assert 0 < len(instruction.strip()) <= 600
    assert not re.search(r"(?<![\w.])[/~]|\.\.", instruction), "a path outside"
    assert not re.search(r"\bhttps?:|\bgit\b", instruction)


@each_task
def test_the_files_that_an_agent_finds_are_portable_small_and_tell_nothing(task: Path) -> None:
    files = content(task / "environment")
    assert len(files) > 1, "only a Dockerfile"
    assert len({name.lower() for name in files}) == len(files)
    for name, text in files.items():
        for part in name.split("/"):
            assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,40}(?<!\.)", part), name
            assert part.split(".")[0].lower() not in RESERVED, name
        assert len(text) <= WINDOW, name
        assert not TELLING.search(f"{name}\n{text.decode()}"), name
        assert task.name not in text.decode(), name


def test_there_are_tasks_of_each_difficulty_and_the_page_lists_them() -> None:
    settings = [tomllib.loads((task / "task.toml").read_text()) for task in TASKS]
    difficulties = {task.name: found["metadata"]["difficulty"] for task, found in zip(TASKS, settings, strict=True)}
    assert Counter(difficulties.values()) == {"easy": 8, "medium": 8, "hard": 4}
    rows = re.findall(r"^\| `([\w-]+)` \| (\w+) \|", (EVALS / "README.md").read_text(), re.M)
    assert dict(rows) == difficulties
    assert len(rows) == len(TASKS)
