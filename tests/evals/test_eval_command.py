"""`outrider eval`, as a user runs it: with a scripted model, and killed at any moment."""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
from pathlib import Path
from subprocess import PIPE
from typing import Any

import msgspec
import pytest

from outrider.batches.task import TaskResult
from outrider.cli.eval import eval as show
from tests.cli.program import Running, clean_environment, outrider
from tests.evals.folders import make_task
from tests.lengths import only_long
from tests.modelserver import Endless, ModelServer, Recorded, Status, Step
from tests.streams import Answer


def two_of_three(request: Recorded) -> Step:
    """Solve the task in the first two trials, which the working folder tells apart."""
    messages = request.json["messages"]
    if messages[-1]["role"] == "tool":
        return Answer("I have written it.")
    found = re.search(r"(\S*-workspaces\S*-(\d))\b", str(messages[1]["content"]))
    assert found
    path, repeat = found.groups()
    said = "hello" if repeat in "12" else "good day"
    return Answer(calls=(("c1", "Write", {"file_path": f"{path}/greeting.txt", "content": said}),))


async def run_eval(folder: Path, *arguments: str) -> tuple[int, str, str]:
    process = started(folder, *arguments)
    output, errors = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode(), errors.decode()


def started(folder: Path, *arguments: str) -> Running:
    home = {"OUTRIDER_HOME": str(folder / "home"), "OUTRIDER_MODEL_LOOKUP": "off"}
    pipes: dict[str, Any] = {"stdout": PIPE, "stderr": PIPE, "start_new_session": True}
    return Running("eval", *arguments, cwd=folder, env=clean_environment() | home, **pipes)


async def test_trials_are_judged_and_compared(tmp_path: Path) -> None:
    make_task(tmp_path / "tasks")
    make_task(tmp_path / "tasks", "boxed", environment={"Dockerfile": "FROM x\nRUN y\n"})
    async with ModelServer(two_of_three) as server:
        model = f"{server.url}/v1#tiny"
        code, output, errors = await run_eval(
            *(tmp_path, "tasks", "-o", "now.jsonl", "--model", model, "--repeats", "3"),
            *(
                "--set",
                "lean=off",
                "--set",
                "temperature=0.5",
                "--set",
                "sessions.titles=off",
                "--set",
                'tools=["Write"]',
            ),
        )
        assert (code, len(server.requests)) == (0, 6), errors
        sent = server.requests[0].json
        assert (sent["temperature"], [each["function"]["name"] for each in sent["tools"]]) == (0.5, ["Write"])
    assert "boxed is left out: it needs a container" in errors
    table = output.splitlines()
    assert table[0].split() == ["model", "solved", "95", "%", "trials", "turns", "tokens", "seconds", "cost"]
    assert table[1].split()[:4] == [model, "67%", "9%-97%", "3"]
    assert "some trials solve greet; others do not" in table[2]
    results = [msgspec.json.decode(line) for line in (tmp_path / "now.jsonl").read_bytes().splitlines()]
    assert sorted((each["metadata"]["repeat"], each["metadata"]["reward"]) for each in results) == [
        (1, 1),
        (2, 1),
        (3, 0),
    ]
    again = outrider("eval", "--show", "now.jsonl", "--against", "now.jsonl", cwd=tmp_path)
    assert again.stdout.splitlines()[:3] == table[:3]
    assert "no difference at 1 task." in again.stdout


async def test_an_eval_without_results_begins_with_new_folders(tmp_path: Path) -> None:
    make_task(tmp_path / "tasks")
    solves = [True]
    async with ModelServer(lambda request: two_of_three(request) if solves[0] else Answer("No.")) as server:
        arguments = ("tasks", "-o", "r.jsonl", "--model", f"{server.url}/v1#tiny", "--set", "lean=off")
        assert await solved_share(tmp_path, *arguments) == "100%"
        solves[0] = False
        code, _, errors = await run_eval(tmp_path, *arguments)
        assert (code, "add --resume" in errors) == (2, True)
        assert await solved_share(tmp_path, *arguments, "--resume") == "100%"
        (tmp_path / "r.jsonl").unlink()
        assert await solved_share(tmp_path, *arguments) == "0%", "what the earlier eval wrote is gone"


async def solved_share(folder: Path, *arguments: str) -> str:
    code, output, errors = await run_eval(folder, *arguments)
    assert code == 0, errors
    return output.splitlines()[1].split()[1]


@pytest.mark.parametrize("kills", [2, *only_long(12)])
async def test_a_killed_eval_goes_on_to_the_same_table(tmp_path: Path, kills: int) -> None:
    for number in range(4):
        make_task(tmp_path / "tasks", f"task{number}")
    chance = random.Random(kills)
    async with ModelServer(two_of_three) as server:
        arguments = ("tasks", "-o", "r.jsonl", "--model", f"{server.url}/v1#tiny", "--repeats", "3", "--resume")
        for _ in range(kills):
            wanted = len(server.requests) + chance.randint(1, 5)
            process = started(tmp_path, *arguments)
            while len(server.requests) < wanted and process.returncode is None:
                await asyncio.sleep(0.01)
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
            await process.communicate()
        code, output, errors = await run_eval(tmp_path, *arguments)
    assert code == 0, errors
    assert output.splitlines()[1].split()[1:4] == ["67%", "25%-92%", "12"]
    ids = [msgspec.json.decode(line)["id"] for line in (tmp_path / "r.jsonl").read_bytes().splitlines()]
    assert len(ids) == len(set(ids)) == 12


async def test_an_eval_goes_on_with_fewer_repeats_and_then_with_all(tmp_path: Path) -> None:
    make_task(tmp_path / "tasks")
    async with ModelServer(two_of_three) as server:
        arguments = ("tasks", "--model", f"{server.url}/v1#tiny", "--set", "lean=off", "-o", "r.jsonl", "--resume")
        process = started(tmp_path, *arguments, "--repeats", "3", "--workers", "3")
        while len(server.requests) < 3:  # a trial has several: two at least have begun
            await asyncio.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()
        (tmp_path / "r.jsonl").unlink(missing_ok=True)
        for repeats in ("1", "3"):
            code, output, errors = await run_eval(tmp_path, *arguments, "--repeats", repeats)
            assert code == 0, errors
            assert output.splitlines()[1].split()[3] == repeats


async def test_errors_of_the_api_do_not_count_and_are_started_again(tmp_path: Path) -> None:
    make_task(tmp_path / "tasks")
    failing = [True]

    def answer(request: Recorded) -> Step:
        return Status(400) if failing[0] else two_of_three(request)

    async with ModelServer(answer) as server:
        arguments = ("tasks", "-o", "r.jsonl", "--model", f"{server.url}/v1#tiny", "--set", "lean=off")
        code, output, errors = await run_eval(tmp_path, *arguments, "--repeats", "2")
        assert code == 1, errors
        table = output.splitlines()
        assert table[0].split()[-1] == "errors"
        assert (table[1].split()[1:4], table[1].split()[-1]) == (["–", "–", "0"], "2")
        assert "2 of 2 trials ended with an error, which does not count; --resume starts them again." in table[2]
        assert "greet: " in table[2]
        assert "no luck" in table[2]
        shown = outrider("eval", "--show", "r.jsonl", cwd=tmp_path)
        assert (shown.returncode, shown.stdout) == (1, output)

        code, _, errors = await run_eval(tmp_path, *arguments, "--repeats", "2", "--resume")
        assert code == 1, errors
        failing[0] = False
        code, output, errors = await run_eval(tmp_path, *arguments, "--repeats", "2", "--resume")
        assert (code, output.splitlines()[1].split()[1:4]) == (0, ["100%", "21%-100%", "2"]), errors
        assert "error" not in output
        sent = len(server.requests)
        assert await solved_share(tmp_path, *arguments, "--repeats", "2", "--resume") == "100%"
        assert len(server.requests) == sent, "what has a result is not run again"
    results = [msgspec.json.decode(line) for line in (tmp_path / "r.jsonl").read_bytes().splitlines()]
    assert [each["status"] for each in results] == ["error"] * 4 + ["done"] * 2


async def test_a_limit_that_is_reached_is_a_result(tmp_path: Path) -> None:
    make_task(tmp_path / "tasks")
    async with ModelServer(two_of_three) as server:
        arguments = ("tasks", "-o", "r.jsonl", "--model", f"{server.url}/v1#tiny", "--set", "lean=off")
        assert await solved_share(tmp_path, *arguments, "--max-turns", "1") == "100%"


async def test_a_wrong_reward_is_an_error_of_the_task(tmp_path: Path) -> None:
    make_task(tmp_path / "tasks", test='echo 2 > "$OUTRIDER_LOGS/verifier/reward.txt"')
    said = "the tests wrote the reward 2; it must be a number from 0 to 1"
    async with ModelServer(two_of_three) as server:
        arguments = ("tasks", "-o", "r.jsonl", "--model", f"{server.url}/v1#tiny", "--set", "lean=off")
        code, output, errors = await run_eval(tmp_path, *arguments)
    assert (code, f"greet: {said}" in output) == (1, True), errors
    ended = outrider("eval", "tasks", "--oracle", cwd=tmp_path)
    assert (ended.returncode, ended.stdout.splitlines()[0]) == (1, f"wrong greet: {said}")


def test_a_line_that_a_kill_left_unfinished_is_not_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = {"task": "greet", "model": "acme/tiny", "repeat": 1, "reward": 1.0}
    lines = [msgspec.json.encode(TaskResult(f"greet {number}", "done", metadata=known)) for number in (1, 2)]
    results = tmp_path / "r.jsonl"
    for torn in (lines[1][:3], lines[1][:-1]):
        results.write_bytes(lines[0] + b"\n" + torn)
        assert show(["--show", str(results)]) == 0
        assert capsys.readouterr().out.splitlines()[1].split()[1:4] == ["100%", "21%-100%", "1"]


async def test_an_eval_that_is_stopped_before_its_first_result_says_so(tmp_path: Path) -> None:
    make_task(tmp_path / "tasks")
    async with ModelServer([Endless(silent=True)]) as server:
        process = started(tmp_path, "tasks", "-o", "r.jsonl", "--model", f"{server.url}/v1#tiny")
        while not server.requests:
            await asyncio.sleep(0.01)
        for said in (b"Stopping: the running tasks finish", b"Interrupting the running tasks"):
            os.kill(process.pid, signal.SIGTERM)
            await process.error_line_with(said)
        output, errors = await process.communicate()
    assert (process.returncode, output) == (143, b""), errors
    assert b"start the same command with --resume" in errors


async def test_a_slow_model_gets_more_time(tmp_path: Path) -> None:
    make_task(tmp_path / "tasks", settings="[agent]\ntimeout_sec = 0.01\n")
    async with ModelServer(two_of_three) as server:
        arguments = ("tasks", "--model", f"{server.url}/v1#tiny", "--set", "lean=off", "-o", "r.jsonl")
        code, output, errors = await run_eval(tmp_path, *arguments, "--timeout-multiplier", "1000")
    assert (code, output.splitlines()[1].split()[1]) == (0, "100%"), errors


def test_the_oracle_finds_tasks_that_prove_nothing(tmp_path: Path) -> None:
    make_task(tmp_path / "tasks", "good")
    make_task(tmp_path / "tasks", "lax", test='echo 1 > "$OUTRIDER_LOGS/verifier/reward.txt"')
    make_task(tmp_path / "tasks", "unsolved", solution="true\n")
    (make_task(tmp_path / "tasks", "without") / "solution" / "solve.sh").unlink()
    ended = outrider("eval", "tasks", "--oracle", cwd=tmp_path)
    assert ended.returncode == 1
    assert [line[:40] for line in ended.stdout.splitlines()] == [
        "ok    good",
        "wrong lax: the tests pass without a solu",
        "wrong unsolved: the solution fails: Ther",
        "wrong without: it has no solution/solve.",
        "1 of 4 tasks are sound.",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name a folder with tasks"),
        (["tasks"], "--output FILE is missing"),
        (["tasks", "-o", "r.jsonl"], "--model MODEL is missing"),
        (["tasks", "-o", "r.jsonl", "--model", "demo", "--repeats", "0"], "must be 1 or more"),
        (["tasks", "-o", "r.jsonl", "--model", "demo", "--timeout-multiplier", "0"], "must be over 0"),
        (["tasks", "-o", "r.jsonl", "--model", "demo", "--timeout-multiplier", "nan"], "must be over 0"),
        (["tasks", "-o", "r.jsonl", "--model", "demo", "--set", "lean"], "write a key and a value"),
        (["tasks", "-o", "r.jsonl", "--model", "demo", "--set", "workspace=ssh://a"], "in a copy of its environment"),
        (["tasks", "-o", "r.jsonl", "--model", "demo", "--in", "ssh://a"], "Use --image IMAGE for a container"),
        (["tasks", "-o", "r.jsonl", "--model", "demo", "--set", "leann=on"], 'did you mean "lean"?'),
        (["tasks", "-o", "r.jsonl", "--model", "nix/nix"], "there is no model 'nix/nix'"),
        (["nothing", "--oracle"], "nothing has no tasks"),
        (["broken", "--oracle"], "no task.toml"),
        (["--show", "nothing.jsonl"], "nothing.jsonl cannot be read"),
        (["tasks", "-o", "r.jsonl", "--model", "demo", "--against", "gone.jsonl"], "gone.jsonl cannot be read"),
        (["--show", "tasks/greet/instruction.md"], "is not the results file of an eval"),
    ],
)
def test_wrong_usage_is_one_sentence_and_2(tmp_path: Path, arguments: list[str], said: str) -> None:
    make_task(tmp_path / "tasks")
    (make_task(tmp_path / "broken") / "task.toml").unlink()
    make_task(tmp_path / "broken", "good")
    ended = outrider("eval", *arguments, cwd=tmp_path, OUTRIDER_HOME=str(tmp_path / "home"))
    assert (ended.returncode, said in ended.stderr) == (2, True), ended.stderr
    assert not (tmp_path / "r.jsonl").exists()
