"""Tasks in Harbor's format: what is read, and what is refused with a sentence."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest

from outrider.evals.task_folder import TEST_SECONDS, TaskFolderError, find_tasks, read_task
from outrider.evals.verifier import verdict, verify
from tests.evals.folders import make_task


def test_a_task_has_its_instruction_and_its_times(tmp_path: Path) -> None:
    settings = 'schema_version = "1.1"\n[metadata]\ndifficulty = "easy"\n[agent]\ntimeout_sec = 7\n'
    task = read_task(make_task(tmp_path, settings=settings))
    assert (task.name, task.instruction) == ("greet", "Write the word hello into greeting.txt.")
    assert (task.agent_seconds, task.test_seconds, task.difficulty) == (7, TEST_SECONDS, "easy")
    make_task(tmp_path, "another")
    assert [each.name for each in find_tasks([tmp_path])] == ["another", "greet"]
    assert find_tasks([tmp_path / "greet", tmp_path])[0] == task


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("FROM python:3.11-slim\nWORKDIR /app\n\n# files\ncopy . /app\n", ""),
        ("FROM python\nRUN apt-get install -y gcc\n", "its Dockerfile says 'RUN apt-get install -y gcc'"),
    ],
)
def test_what_a_copy_of_the_files_cannot_give_needs_a_container(tmp_path: Path, lines: str, said: str) -> None:
    assert read_task(make_task(tmp_path, environment={"Dockerfile": lines})).container == said


def test_an_image_or_services_need_a_container(tmp_path: Path) -> None:
    settings = '[environment]\ndocker_image = "ubuntu"\n'
    assert "the image ubuntu" in read_task(make_task(tmp_path, settings=settings)).container
    other = make_task(tmp_path, "other", environment={"docker-compose.yaml": "services: {}"})
    assert "docker-compose.yaml" in read_task(other).container


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("task.toml", "= nonsense", "is not a task: Invalid"),
        ("task.toml", "[agent]\ntimeout_sec = -1\n", "agent.timeout_sec must be over 0"),
        ("task.toml", '[agent]\ntimeout_sec = "long"\n', "Expected `float | null`, got `str`"),
        ("instruction.md", " \n", "instruction.md is empty"),
        ("instruction.md", None, "No such file"),
        ("tests/test.sh", None, "it has no tests/test.sh"),
    ],
)
def test_what_is_not_a_task_is_one_sentence(tmp_path: Path, file: str, text: str | None, said: str) -> None:
    task = make_task(tmp_path)
    if text is None:
        (task / file).unlink()
    else:
        (task / file).write_text(text)
    with pytest.raises(TaskFolderError, match=r"^[^\n]*$") as raised:
        find_tasks([tmp_path])
    assert said in str(raised.value)


def test_two_tasks_of_one_name_and_none_are_refused(tmp_path: Path) -> None:
    for place in ("one", "two"):
        make_task(tmp_path / place)
    with pytest.raises(TaskFolderError, match="two tasks have the name 'greet'"):
        find_tasks([tmp_path / "one", tmp_path / "two"])
    with pytest.raises(TaskFolderError, match="has no tasks; a task is a folder"):
        find_tasks([tmp_path / "nothing"])


async def test_the_tests_judge_a_copy_and_what_they_write_counts(tmp_path: Path) -> None:
    task = read_task(make_task(tmp_path))
    work = tmp_path / "work"
    work.mkdir()
    assert (await verify(task, work)).reward == 0
    (work / "greeting.txt").write_text("hello\n")
    assert (await verify(task, work)).is_solved
    assert (await verify(task, task.environment, task.solution)).is_solved
    assert list(task.environment.iterdir()) == [task.environment / "notes.txt"]  # the solution worked on a copy


@pytest.mark.parametrize(
    ("test", "reward", "said"),
    [
        ("echo looked closely", 0, "looked closely\nThe tests wrote no reward."),
        ('echo 0.25 > "$OUTRIDER_LOGS/verifier/reward.txt"', 0.25, ""),
        ('echo much > "$OUTRIDER_LOGS/verifier/reward.txt"', 0, "wrote no reward"),
        ("""echo '{"reward": 1}' > "$OUTRIDER_LOGS/verifier/reward.json" """, 1, ""),
        ("sleep 60", 0, "did not finish"),
    ],
)
async def test_a_reward_is_between_0_and_1_or_there_is_none(
    tmp_path: Path, test: str, reward: float, said: str
) -> None:
    task = read_task(make_task(tmp_path, test=test, settings="[verifier]\ntimeout_sec = 1\n"))
    found = await verify(task, task.environment)
    assert found.reward == reward
    assert said in found.output
    assert not found.error


@pytest.mark.parametrize(
    "wrote",
    ["2", "1.5", "-1", "nan", "NaN", "inf", "-Infinity", "1e400", "9" * 400, '{"reward": 2}', '{"reward": 1e400}'],
)
def test_another_number_is_no_reward_but_an_error_that_names_it(wrote: str) -> None:
    found = verdict(f"{wrote}\n", "3 passed")
    assert not found.is_solved
    assert found.error == f"the tests wrote the reward {wrote[:60]}; it must be a number from 0 to 1"


async def test_what_programs_of_the_agent_left_does_not_stop_the_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = read_task(make_task(tmp_path))
    work = tmp_path / "work"
    (work / "run").mkdir(parents=True)
    (work / "greeting.txt").write_text("hello\n")
    (work / "nowhere").symlink_to("nothing")
    os.mkfifo(work / "run" / "pipe")
    monkeypatch.chdir(work)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    monkeypatch.chdir(tmp_path)
    assert (await verify(task, work)).is_solved
    shutil.rmtree(work)
    found = await verify(task, work)
    assert (found.is_solved, found.error[:47]) == (False, "the folder of the trial cannot be copied: [Errn")


async def test_a_task_without_files_begins_with_an_empty_folder(tmp_path: Path) -> None:
    task = read_task(make_task(tmp_path))
    shutil.rmtree(task.environment)
    assert (await verify(task, task.environment)).reward == 0
    assert (await verify(task, task.environment, task.solution)).is_solved


async def test_the_file_of_the_tests_is_where_a_wrong_reward_is_found(tmp_path: Path) -> None:
    task = read_task(make_task(tmp_path, test='echo 2 > "$OUTRIDER_LOGS/verifier/reward.txt"'))
    assert "wrote the reward 2;" in (await verify(task, task.environment)).error


def test_a_folder_with_an_instruction_and_no_settings_is_not_passed_over(tmp_path: Path) -> None:
    for name in ("good", "one", "two"):
        make_task(tmp_path, name)
    for name in ("one", "two"):
        (tmp_path / name / "task.toml").rename(tmp_path / name / "task.tml")
    (tmp_path / "notes").mkdir()
    with pytest.raises(TaskFolderError, match="but no task") as raised:
        find_tasks([tmp_path])
    assert str(raised.value).startswith(f"{tmp_path / 'one'}, {tmp_path / 'two'}: ")
    assert [each.name for each in find_tasks([tmp_path / "good"])] == ["good"]
