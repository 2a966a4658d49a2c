"""`outrider batch` and `outrider worker`, as a user runs them."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from outrider.batches.queue import BatchState
from outrider.batches.task import TaskResult
from outrider.cli.batch_run import BatchProgress
from tests.cli.program import Running, clean_environment, outrider, start
from tests.lengths import only_long
from tests.log import until_so
from tests.modelserver import Held, ModelServer, Recorded, Step
from tests.processes import children_of, is_alive
from tests.streams import Answer


def write_tasks(folder: Path, *tasks: dict[str, Any]) -> Path:
    path = folder / "tasks.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(task) + b"\n" for task in tasks))
    return path


def results_in(path: Path) -> dict[str, Any]:
    lines = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    found = {line["id"]: line for line in lines}
    assert len(found) == len(lines)
    return found


@pytest.mark.parametrize(("seconds", "said"), [(0.5, "2.0/s · 8 s left"), (120.0, "0.5/min · 32 min left")])
def test_the_rate_and_the_time_left_are_those_of_the_last_results(
    monkeypatch: pytest.MonkeyPatch, seconds: float, said: str
) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    progress = BatchProgress(20, 0, quiet=True)
    for number in range(4):
        for _ in range(60):  # it is shown all the time
            now += seconds / 60
            progress.show(BatchState(20, number, 1))
        progress.take([TaskResult(str(number), "done")])
        progress.show(BatchState(20, number + 1, 1))
    assert progress.line(BatchState(20, 4, 1)) == f"4/20 · 1 running · {said}"


class Program:
    """`outrider batch`, started by a test on its own event loop."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._arguments = ["batch", "tasks.jsonl", "--output", "results.jsonl", *arguments]
        self._folder = folder

    async def __aenter__(self) -> Program:
        home = {"OUTRIDER_HOME": str(self._folder / "home"), "OUTRIDER_MODEL_LOOKUP": "off"}
        self.process = Running(
            *self._arguments, cwd=self._folder, env=clean_environment() | home, stderr=subprocess.PIPE
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGKILL)
        await self.process.communicate()

    async def ended(self) -> tuple[int, str]:
        _, errors = await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode, errors.decode()


def test_tasks_come_back_as_results(tmp_path: Path) -> None:
    write_tasks(tmp_path, *({"id": f"t{n}", "prompt": f"What is {n}+1?", "metadata": n} for n in range(5)))
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object"}')
    ended = outrider(
        *("batch", "tasks.jsonl", "-o", "out/results.jsonl", "--model", "demo", "--workers", "2"),
        cwd=tmp_path,
        OUTRIDER_HOME=str(tmp_path / "home"),
    )
    assert ended.returncode == 0, ended.stderr
    assert "5 of 5 tasks finished" in ended.stderr
    found = results_in(tmp_path / "out" / "results.jsonl")
    assert {id: (each["status"], each["text"], each["metadata"]) for id, each in found.items()} == {  # noqa: A001
        f"t{n}": ("done", str(n + 1), n) for n in range(5)
    }
    again = outrider(
        *("batch", "tasks.jsonl", "-o", "out/results.jsonl", "--model", "demo", "--resume"),
        cwd=tmp_path,
        OUTRIDER_HOME=str(tmp_path / "home"),
    )
    assert (again.returncode, len(results_in(tmp_path / "out" / "results.jsonl"))) == (0, 5)
    listed = outrider("sessions", "--all", cwd=tmp_path, OUTRIDER_HOME=str(tmp_path / "home"))
    assert listed.stdout.count("What is") == 5


def test_tasks_that_failed_earlier_count_when_a_batch_goes_on(tmp_path: Path) -> None:
    write_tasks(tmp_path, {"id": "a", "prompt": "Hello"}, {"id": "b", "prompt": "Hello"})
    (tmp_path / "r.jsonl").write_text('{"id":"a","status":"error","error":"no luck"}\n{"id":"b","status":"done"}\n')
    ended = outrider(
        *("batch", "tasks.jsonl", "-o", "r.jsonl", "--model", "demo", "--resume"),
        cwd=tmp_path,
        OUTRIDER_HOME=str(tmp_path / "home"),
    )
    assert (ended.returncode, "2 of 2 tasks finished · 1 failed" in ended.stderr) == (1, True), ended.stderr


def test_a_missing_key_is_named_before_anything_starts(tmp_path: Path) -> None:
    write_tasks(tmp_path, {"id": "a", "prompt": "Hello"})
    ended = outrider("batch", "tasks.jsonl", "-o", "r.jsonl", "--model", "anthropic/fast", cwd=tmp_path)
    assert (ended.returncode, (tmp_path / "r.jsonl").exists()) == (2, False)
    assert "set ANTHROPIC_API_KEY" in ended.stderr


def test_bad_lines_and_settings_are_named_before_anything_starts(tmp_path: Path) -> None:
    write_tasks(
        tmp_path,
        {"prompt": "x", "permissions": "everything"},
        {"prompt": "x"},
        {"prompt": "x", "model": "nix/nix"},
        {"prompt": "x", "cwd": "/no/such/folder"},
        {"prompt": "x", "tools": ["Fly"]},
    )
    ended = outrider("batch", "tasks.jsonl", "-o", "results.jsonl", "--model", "demo", cwd=tmp_path)
    assert ended.returncode == 2
    named = [line.split(" ")[0] for line in ended.stderr.removeprefix("outrider batch: ").splitlines()[:-1]]
    assert named == ["tasks.jsonl:1:", "tasks.jsonl:3:", "tasks.jsonl:4:", "tasks.jsonl:5:"]
    assert "nothing was started" in ended.stderr
    assert not (tmp_path / "results.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["missing.jsonl", "-o", "r"], "missing.jsonl cannot be read: No such file"),
        (["tasks.jsonl", "-o", "r", "--workers", "-1"], "--workers must be 0 or more"),
        (["tasks.jsonl", "-o", "r", "--budget", "much"], "--budget: 'much' is not a number over 0"),
        (["tasks.jsonl", "-o", "r", "--rate", "anthropic"], "as in --rate anthropic=50"),
        (["tasks.jsonl", "-o", "r", "--rate", "anthropic=0"], "--rate: '0' is not a number over 0"),
        (["tasks.jsonl", "-o", "r"], "tasks.jsonl has no tasks"),
        (["tasks.jsonl"], "required: -o/--output"),
    ],
)
def test_wrong_usage_says_what_to_do(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    write_tasks(tmp_path)
    ended = outrider("batch", *arguments, "--model", "demo", cwd=tmp_path)
    assert (ended.returncode, sentence in ended.stderr) == (2, True), ended.stderr


@pytest.mark.long
async def test_model_schema_limits_and_tools_travel_with_the_task(tmp_path: Path) -> None:
    (tmp_path / "my_tools.py").write_text(
        "from outrider import tool\n\n@tool(effect='write')\ndef stamp(name: str) -> str:\n    'Stamp.'\n"
        "    with open('stamps.txt', 'a') as file:\n        file.write(name + '\\n')\n    return 'stamped'\n"
    )

    def answer(request: Recorded) -> Step:
        said = next(each["content"] for each in request.json["messages"] if each["role"] == "user")
        if any(each["role"] == "tool" for each in request.json["messages"]):
            return Answer(calls=(("c2", "report_back", {"name": "x"}),))
        return Answer(calls=(("c1", "stamp", {"name": said.splitlines()[-1]}),))

    async with ModelServer(answer) as server:
        write_tasks(
            tmp_path,
            {"id": "a", "prompt": "alpha", "schema": {"type": "object", "required": ["name"]}},
            {"id": "b", "prompt": "beta", "limits": {"max_turns": 1}},
        )
        model = f"{server.url}/v1#tester"
        options = ("--model", model, "--tools", "none", "--tools", "my_tools.py", "--permissions", "all")
        async with Program(tmp_path, *options, "--workers", "1") as program:
            code, errors = await program.ended()
    found = results_in(tmp_path / "results.jsonl")
    assert code == 1, errors
    assert (found["a"]["status"], found["a"]["structured_output"]) == ("done", {"name": "x"})
    assert (found["b"]["status"], found["b"]["turns"]) == ("max_turns", 1)
    assert sorted((tmp_path / "stamps.txt").read_text().split()) == ["alpha", "beta"]


def new_repository(folder: Path) -> None:
    identity = ("-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-c", "commit.gpgSign=false")
    folder.mkdir()
    (folder / "a.txt").write_text("one")
    for command in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "-m", "one")):
        subprocess.run(["git", *identity, *command], cwd=folder, check=True)


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
async def test_a_task_may_edit_the_repository_that_it_names(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    new_repository(folder)

    def answer(request: Recorded) -> Step:
        messages = request.json["messages"]
        if messages[-1]["role"] == "user":
            return Answer(calls=(("c1", "Write", {"file_path": "b.txt", "content": "two"}),))
        return Answer(messages[-1]["content"])

    async with ModelServer(answer) as server:
        write_tasks(tmp_path, {"id": "a", "prompt": "Write b.txt.", "repository": str(folder), "permissions": "edits"})
        options = ("--model", f"{server.url}/v1#tester", "--workers", "1")
        async with Program(tmp_path, *options) as program:
            code, errors = await program.ended()
    assert code == 0, errors
    assert "not permitted" not in (said := results_in(tmp_path / "results.jsonl")["a"]["text"]), said
    assert "b.txt" in said


@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_the_running_tasks_finish(tmp_path: Path, number: signal.Signals) -> None:
    async with ModelServer(lambda request: Held(Answer("ok"))) as server:
        write_tasks(tmp_path, *({"id": str(n), "prompt": "x"} for n in range(20)))
        options = ("--model", f"{server.url}/v1#tester", "--workers", "1")
        async with Program(tmp_path, *options) as program:
            await server.held.wait()
            program.process.send_signal(number)
            await program.process.error_line_with(b"Stopping: the running tasks finish")
            server.release.set()
            code, errors = await program.ended()
        assert (code, "with --resume" in errors) == (128 + number, True), errors
        done = set(results_in(tmp_path / "results.jsonl"))
        assert "0" in done
        assert len(done) < 10, "the worker may have taken some before it heard of the end"
        async with Program(tmp_path, *options, "--resume") as program:
            assert (await program.ended())[0] == 0
    assert set(results_in(tmp_path / "results.jsonl")) == {str(n) for n in range(20)}
    assert len(server.requests) == 20


async def test_a_second_signal_interrupts_and_resume_continues(tmp_path: Path) -> None:
    async with ModelServer(lambda request: Held(Answer("ok"))) as server:
        write_tasks(tmp_path, {"id": "a", "prompt": "x"})
        options = ("--model", f"{server.url}/v1#tester", "--workers", "1")
        async with Program(tmp_path, *options) as program:
            await server.held.wait()
            (worker,) = children_of(program.process.pid)
            os.kill(worker, signal.SIGSTOP)  # it hears of both at once
            try:
                for said in (b"Stopping: the running tasks finish", b"Interrupting the running tasks"):
                    program.process.send_signal(signal.SIGTERM)
                    await program.process.error_line_with(said)
            finally:
                os.kill(worker, signal.SIGCONT)
            assert (await program.ended())[0] == 143
        assert results_in(tmp_path / "results.jsonl") == {}
        server.release.set()
        async with Program(tmp_path, *options, "--resume") as program:
            code, errors = await program.ended()
    assert code == 0, errors
    assert results_in(tmp_path / "results.jsonl")["a"]["status"] == "done"


@pytest.mark.long
async def test_workers_end_when_the_batch_is_killed(tmp_path: Path) -> None:
    """They do not wait for long tasks, which others take again. Those of an eval are the same."""
    async with ModelServer(lambda request: Held(Answer("ok"))) as server:
        write_tasks(tmp_path, {"id": "a", "prompt": "x"})
        options = ("--model", f"{server.url}/v1#tester", "--workers", "1")
        async with Program(tmp_path, *options) as program:
            await server.held.wait()
            (worker,) = children_of(program.process.pid)
            os.kill(program.process.pid, signal.SIGKILL)
            await until_so(lambda: not is_alive(worker))
        server.release.set()
        async with Program(tmp_path, *options, "--resume") as program:
            code, errors = await program.ended()
    assert code == 0, errors
    assert results_in(tmp_path / "results.jsonl")["a"]["status"] == "done"


@pytest.mark.parametrize("kills", [2, *only_long(12)])
async def test_results_are_known_though_the_batch_is_killed(tmp_path: Path, kills: int) -> None:
    """kill -9 of `outrider batch` itself, at any moment; its workers end by themselves."""
    total = 10 * kills
    async with ModelServer(lambda request: Answer("ok")) as server:
        write_tasks(tmp_path, *({"id": str(n), "prompt": "x"} for n in range(total)))
        options = ("--model", f"{server.url}/v1#tester", "--workers", "2")
        for kill in range(1, kills + 1):
            async with Program(tmp_path, *options, "--resume") as program:
                while len(server.requests) < 4 * kill and program.process.returncode is None:
                    await asyncio.sleep(0.02)
                os.kill(program.process.pid, signal.SIGKILL)
        async with Program(tmp_path, *options, "--resume") as program:
            code, errors = await program.ended()
    assert code == 0, errors
    assert len(results_in(tmp_path / "results.jsonl")) == total
    assert len(server.requests) <= total + 2 * kills  # a request that was under way is sent again, no other


def test_a_worker_that_cannot_start_ends_the_batch(tmp_path: Path) -> None:
    write_tasks(tmp_path, {"prompt": "x"})
    (tmp_path / "tools.py").write_text("raise SystemExit('broken')")
    ended = outrider("batch", "tasks.jsonl", "-o", "r.jsonl", "--model", "demo", "--tools", "tools.py", cwd=tmp_path)
    assert ended.returncode == 2
    assert "tools.py failed" in ended.stderr


def test_a_worker_takes_tasks_of_others(tmp_path: Path) -> None:
    """`--workers 0` leaves the work to `outrider worker`."""
    write_tasks(tmp_path, *({"id": str(n), "prompt": f"What is {n}+1?"} for n in range(3)))
    environment = clean_environment() | {"OUTRIDER_HOME": str(tmp_path / "home")}
    with start("worker", cwd=tmp_path, env=environment, stderr=subprocess.PIPE) as worker:
        try:
            ended = outrider(
                *("batch", "tasks.jsonl", "-o", "r.jsonl", "--model", "demo", "--workers", "0"),
                cwd=tmp_path,
                OUTRIDER_HOME=str(tmp_path / "home"),
            )
            assert ended.returncode == 0, ended.stderr
            worker.terminate()
            assert worker.stderr
            printed = worker.stderr.read().decode()
            assert worker.wait(60) == 0
        finally:
            worker.kill()
    assert set(results_in(tmp_path / "r.jsonl")) == {"0", "1", "2"}
    assert "outrider worker: ready" in printed
    assert "1: done" in printed


async def test_calls_that_need_approval_wait_for_an_answer(tmp_path: Path) -> None:
    """Without --ask-later they are denied. A task that waits has no result and has not failed."""

    def answer(request: Recorded) -> Step:
        messages = request.json["messages"]
        said = next(each["content"] for each in messages if each["role"] == "user").rpartition("\n")[2]
        if messages[-1]["role"] == "tool" or "plain" in said:
            return Answer(str(messages[-1]["content"]))
        return Answer(calls=(("c1", "Write", {"file_path": f"{said}.txt", "content": "hello"}),))

    home = {"OUTRIDER_HOME": str(tmp_path / "home")}
    async with ModelServer(answer) as server:
        write_tasks(
            tmp_path,
            {"id": "a", "prompt": "alpha"},
            {"id": "b", "prompt": "beta", "ask_later": False},
            {"id": "c", "prompt": "plain"},
        )
        options = ("--model", f"{server.url}/v1#tester", "--workers", "1", "--ask-later")
        async with Program(tmp_path, *options) as program:
            code, errors = await program.ended()
        assert code == 6, errors
        assert "Waiting for answers: 1 task." in errors
        assert "2 of 3 tasks finished" in errors
        assert "failed" not in errors
        found = results_in(tmp_path / "results.jsonl")
        assert set(found) == {"b", "c"}
        assert "was not run" in found["b"]["text"]
        listed = await asyncio.to_thread(outrider, "sessions", "questions", cwd=tmp_path, **home)
        assert "alpha.txt" in listed.stdout, listed
        question = listed.stdout.split()[0]

        async with Program(tmp_path, *options, "--resume", "--wait") as program:
            await asyncio.sleep(2)
            assert (program.process.returncode, (tmp_path / "alpha.txt").exists()) == (None, False)
            said = await asyncio.to_thread(outrider, "sessions", "answer", question, "yes", cwd=tmp_path, **home)
            assert said.returncode == 0, said
            code, errors = await program.ended()
    assert code == 0, errors
    assert results_in(tmp_path / "results.jsonl")["a"]["status"] == "done"
    assert (tmp_path / "alpha.txt").read_text() == "hello"
