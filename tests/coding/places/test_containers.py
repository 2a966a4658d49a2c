"""A container for each task of a batch and each trial of an eval. A stand-in for docker runs them (see its file)."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from subprocess import PIPE
from typing import Any

import msgspec
import pytest

from outrider.coding.hands.containers import Containers, Engine
from outrider.errors import HandsError
from tests import stand_in_docker
from tests.cli.program import Running, clean_environment
from tests.coding.places import needs_other_root
from tests.evals.folders import make_task
from tests.log import until_so
from tests.modelserver import Held, ModelServer, Recorded, Step
from tests.streams import Answer

pytestmark = needs_other_root


class Machine:
    """A folder with a stand-in for docker, in which a user runs the program."""

    def __init__(self, folder: Path, bundles: Path) -> None:
        self.folder = folder
        (folder / "home").mkdir()
        (folder / "home" / "hands").symlink_to(bundles)
        self.programs = stand_in_docker.install(folder / "docker")
        home = {"OUTRIDER_HOME": str(folder / "home"), "OUTRIDER_MODEL_LOOKUP": "off"}
        self.environment = clean_environment() | home | {"PATH": f"{self.programs}:{os.environ['PATH']}"}

    def start(self, *arguments: str) -> Running:
        work = self.folder / "work"
        work.mkdir(exist_ok=True)
        pipes: dict[str, Any] = {"stdout": PIPE, "stderr": PIPE, "start_new_session": True}
        return Running(*arguments, cwd=work, env=self.environment, **pipes)

    async def run(self, *arguments: str) -> tuple[int, str, str]:
        process = self.start(*arguments)
        output, errors = await process.communicate()
        assert process.returncode is not None
        return process.returncode, output.decode(), errors.decode()

    @property
    def containers(self) -> list[str]:
        return sorted(each.name for each in (self.folder / "docker" / "containers").iterdir())

    def calls(self, command: str) -> list[list[str]]:
        lines = map(json.loads, (self.folder / "docker" / "calls").read_text().splitlines())
        return [call for call in lines if call[0] == command]


@pytest.fixture
def machine(tmp_path: Path, bundles: Path) -> Machine:
    """Return a machine with a stand-in for docker."""
    return Machine(tmp_path, bundles)


def greeter(request: Recorded) -> Step:
    """Write a greeting, and say what is there."""
    last = request.json["messages"][-1]
    if last["role"] != "tool":
        return Answer(calls=(("c1", "Bash", {"command": "echo hello > greeting.txt; pwd; cat /app/*.txt"}),))
    return Answer(f"It says: {last['content']}")


async def test_each_task_of_a_batch_has_a_container_which_is_removed(machine: Machine) -> None:
    tasks = machine.folder / "tasks.jsonl"
    tasks.write_text('{"prompt": "Greet."}\n{"prompt": "Greet."}\n{"prompt": "Greet.", "image": "missing:1"}\n')
    async with ModelServer(greeter) as server:
        options = (
            "--image",
            "python:3.11",
            "--model",
            f"{server.url}/v1#tiny",
            "--permissions",
            "all",
            "--workers",
            "1",
        )
        code, _, errors = await machine.run("batch", str(tasks), "-o", "results.jsonl", *options)
    results = [
        msgspec.json.decode(line) for line in (machine.folder / "work" / "results.jsonl").read_bytes().splitlines()
    ]
    found: dict[str, Any] = {each["id"]: each for each in results}
    assert code == 1, errors
    for done in (found["1"], found["2"]):
        assert done["status"] == "done", done
        assert "/app" in done["text"]
        assert "hello" in done["text"]
    assert found["3"]["error"] == "docker create failed: Error response from daemon: pull access denied for missing:1"
    assert not machine.containers
    assert len({call[2] for call in machine.calls("create")}) == 3
    assert not (machine.folder / "work" / "greeting.txt").exists()


async def test_trials_of_an_eval_run_and_are_judged_in_containers(machine: Machine) -> None:
    settings = "[agent]\ntimeout_sec = 60\n[environment]\ncpus = 1\nmemory_mb = 512\nallow_internet = false\n"
    tasks = machine.folder / "tasks"
    make_task(
        tasks, "boxed", environment={"Dockerfile": "FROM x\nRUN y\n", "notes.txt": "be kind\n"}, settings=settings
    )
    make_task(tasks, "many", environment={"docker-compose.yaml": "services: {}\n"})
    make_task(tasks, "plain")  # a container for it is made of --image
    code, output, errors = await machine.run("eval", str(tasks), "--oracle", "--image", "python:3.11")
    assert (code, output) == (0, "ok    boxed\nok    plain\n2 of 2 tasks are sound.\n"), errors
    assert "many is left out: it needs a container" in errors
    async with ModelServer(greeter) as server:
        options = ("--model", f"{server.url}/v1#tiny", "--image", "python:3.11")
        code, output, errors = await machine.run("eval", str(tasks), "-o", "now.jsonl", *options)
    assert code == 0, errors
    results = [msgspec.json.decode(line) for line in (machine.folder / "work" / "now.jsonl").read_bytes().splitlines()]
    assert [each["metadata"]["reward"] for each in results] == [1, 1], results
    assert all("be kind" in each["text"] for each in results)
    assert not machine.containers
    plain, boxed = (
        [call for call in machine.calls("create") if ("python:3.11" in call) == is_plain] for is_plain in (True, False)
    )
    assert len(plain) == len(boxed) == 3  # two for the oracle
    assert all({"--cpus", "--memory", "--network"} <= set(call) for call in boxed)
    tests = [call[-1] for call in machine.calls("exec") if "/tests/test.sh" in call[-1]]
    assert sum(each.startswith("cd /app && ") for each in tests) == len(tests) / 2


@pytest.mark.parametrize("is_lost", [True, False], ids=["lost", "slow"])
async def test_a_lost_container_is_an_error_and_slow_tests_are_no_solution(machine: Machine, is_lost: bool) -> None:
    settings = "[agent]\ntimeout_sec = 60\n[verifier]\ntimeout_sec = 0.2\n"
    make_task(machine.folder / "tasks", settings=settings, test="sleep 60")

    def answer(request: Recorded) -> Step:
        for name in machine.containers if is_lost else ():
            shutil.rmtree(machine.folder / "docker" / "containers" / name)
        return Answer("Done.")

    async with ModelServer(answer) as server:
        options = ("--model", f"{server.url}/v1#tiny", "--image", "python:3.11")
        code, _, errors = await machine.run("eval", str(machine.folder / "tasks"), "-o", "now.jsonl", *options)
    (result,) = map(msgspec.json.decode, (machine.folder / "work" / "now.jsonl").read_bytes().splitlines())
    assert result["metadata"]["reward"] == 0, errors
    if is_lost:
        assert (code, result["status"]) == (1, "error"), errors
        assert result["error"].startswith("the container of the trial is gone: docker inspect failed: ")
    else:
        assert (code, result["status"]) == (0, "done"), errors
        assert "took more than 0.2 seconds" in result["metadata"]["tests"]


async def test_the_image_of_a_task_is_no_option_of_the_engine(machine: Machine) -> None:
    containers = Containers(Engine(str(machine.programs / "docker"), machine.environment), machine.folder / "owners")
    with pytest.raises(HandsError, match="there is no image '--privileged'"):
        await containers.create("--privileged", "a task's")
    assert not (machine.folder / "docker" / "calls").exists()


async def test_what_a_kill_has_left_is_removed_by_the_next_start(machine: Machine) -> None:
    tasks = machine.folder / "tasks.jsonl"
    tasks.write_text('{"prompt": "Greet."}\n')
    async with ModelServer([Held(Answer("Never."))]) as server:
        options = ("--image", "python:3.11", "--model", f"{server.url}/v1#tiny", "--workers", "1")
        process = machine.start("batch", str(tasks), "-o", "results.jsonl", *options)
        await until_so(lambda: server.requests, 60)
        assert len(machine.containers) == 1
        _kill_tree(process.pid)
        await process.communicate()
    (left,) = machine.containers

    engine = Engine(str(machine.programs / "docker"), machine.environment)
    owners = machine.folder / "home-workspaces" / "containers"
    containers, others = Containers(engine, owners), Containers(engine, machine.folder / "others")
    await others.create("python:3.11", "of another user")
    assert left in machine.containers
    made = await containers.create("python:3.11", "new")
    assert left not in machine.containers
    assert made in machine.containers
    await Containers(engine, owners).create("python:3.11", "newer")  # its owner has not ended
    assert made in machine.containers
    await containers.close()
    assert made not in machine.containers
    await others.close()


def _kill_tree(pid: int) -> None:
    """Kill a process with the workers that it has started, in one moment."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for each in (pid, *map(int, children)):
        os.kill(each, signal.SIGKILL)


async def test_without_an_engine_there_is_a_clear_line(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    make_task(machine.folder / "tasks", "boxed", environment={"Dockerfile": "FROM x\nRUN y\n"})
    (machine.programs / "docker").write_text("#!/bin/sh\necho Cannot connect to the Docker daemon. >&2\nexit 1\n")
    code, _, errors = await machine.run("eval", str(machine.folder / "tasks"), "--oracle")
    assert code == 2
    assert "it needs a container (its Dockerfile says 'RUN y'), and docker ps failed: Cannot connect" in errors
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(HandsError, match="containers need docker or podman, which is not installed here"):
        Engine()
