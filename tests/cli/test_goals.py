"""`outrider -p … --until COMMAND`: real commands in a real folder, also after kill -9."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from outrider.log.entries import GoalChecked
from outrider.sync import default_log
from tests.cli.asking import ask, everywhere, running, wait_until
from tests.cli.program import outrider
from tests.modelserver import Answer, ModelServer, Step

CHECK = "cat done.txt; test -f done.txt"


def write(number: int, name: str) -> Answer:
    return Answer(calls=((f"toolu_{number:020d}", "Write", {"file_path": name, "content": "finished\n"}),))


async def test_it_works_until_the_command_succeeds(tmp_path: Path) -> None:
    steps: list[Step] = [Answer("All done."), write(1, "done.txt"), Answer("Now it is.")]
    async with ModelServer(steps) as server:
        options = ("--until", CHECK, "--permissions", "edits")
        ended = await ask(server, "-p", "Finish.", *options, cwd=tmp_path)
        assert (ended.returncode, ended.stdout) == (0, "Now it is.\n"), ended.stderr
        assert f"✗ Goal not reached (check 1): cat: done.txt: No such file or directory — {CHECK}" in ended.stderr
        assert f"✓ Goal reached (check 2): {CHECK}" in ended.stderr
        first, second, _ = (json.loads(request.body)["messages"] for request in server.requests)
        assert f"work until `{CHECK}` succeeds" in str(first[0])
        assert "No such file or directory" in str(second[-1])
        assert "Exit code 1." in str(second[-1])


async def test_a_goal_that_is_not_reached_has_an_exit_code_and_goes_on(tmp_path: Path) -> None:
    async with ModelServer([Answer("Tried."), Answer("Tried more."), write(1, "done.txt"), Answer("Yes.")]) as server:
        ended = await ask(server, "-p", "--until", CHECK, cwd=tmp_path, OUTRIDER_MAX_CHECKS="2")
        assert (ended.returncode, ended.stdout) == (3, "Tried more.\n"), ended.stderr
        assert "stopped by the limit max_checks" in ended.stderr
        again = await ask(
            *(server, "-p", "--continue", "--permissions", "edits", "--output-format", "json"), cwd=tmp_path
        )
        assert (again.returncode, json.loads(again.stdout)["status"]) == (0, "done"), again.stderr


@pytest.mark.parametrize("command", ["", " ", "\n"])
def test_no_command_is_wrong_usage(tmp_path: Path, command: str) -> None:
    ended = outrider("-p", "Finish.", "--until", command, "--model", "demo", cwd=tmp_path)
    assert (ended.returncode, "--until names no command" in ended.stderr) == (2, True), ended.stderr


async def test_a_killed_run_goes_on_with_its_goal(tmp_path: Path) -> None:
    """Killed while the command of its goal runs: the next process runs it again, and ends when it succeeds."""
    slow = "touch running; until test -f go; do sleep 0.02; done; test -f done.txt"
    async with ModelServer([Answer("Done."), write(1, "done.txt"), Answer("Now it is.")]) as server:
        with running("-p", "Finish.", "--until", slow, cwd=tmp_path, **everywhere(server)) as process:
            await asyncio.to_thread(wait_until, (tmp_path / "running").exists, process)
            process.kill()
        (tmp_path / "go").touch()
        again = await ask(server, "-p", "--continue", "--permissions", "edits", cwd=tmp_path)
        assert (again.returncode, again.stdout) == (0, "Now it is.\n"), again.stderr
    with default_log() as log:
        [found] = log.sessions()
        checks = [each.entry for each in log.records(found.id) if isinstance(each.entry, GoalChecked)]
    assert [each.passed for each in checks] == [False, True]
