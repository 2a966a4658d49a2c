"""Story 8: 200 receipts are read and booked on four workers with Postgres, and two of the workers are killed.

`outrider batch` runs as a user starts it, with a tool file and a schema. Each task books its receipt with a tool that
must not run twice, and answers with typed data. Two workers die by `kill -9` between the booking and the answer. In the
end there are 200 results, each once and each of its type, and each receipt is in the books once.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from outrider.tools.schema import Schema
from tests.cli.asking import everywhere
from tests.cli.program import clean_environment, outrider
from tests.cli.test_batch import results_in, write_tasks
from tests.modelserver import ModelServer, Recorded
from tests.postgres import new_database
from tests.streams import Answer

pytestmark = pytest.mark.skipif(find_spec("dbos") is None, reason="dbos is not installed")
TOOLS = Path(__file__).parent / "posting.py"


class Receipt(msgspec.Struct, forbid_unknown_fields=True):
    """What is wanted of each receipt."""

    number: int
    items: int
    total: float
    kind: Literal["office", "travel"]


def receipt(number: int) -> Receipt:
    return Receipt(number, 1 + number % 7, round(number * 1.25 + 0.5, 2), "office" if number % 3 else "travel")


def prompt(number: int) -> str:
    wanted = receipt(number)
    return f"Receipt {number}: {wanted.items} items of {wanted.kind}, {wanted.total} euros. Book it and report it."


class Accountant:
    """The model: it books a receipt, then reports it. It kills the workers of some tasks before it reports."""

    def __init__(self, books: Path, victims: set[int]) -> None:
        self._books = books
        self.victims = victims
        self.killed: list[int] = []

    def __call__(self, request: Recorded) -> Answer:
        found = re.search(rb"Receipt (\d+):", request.body)
        assert found
        number = int(found[1])
        wanted = receipt(number)
        if not has_result(request.json):
            return Answer("", ((f"toolu_{number}", "post", {"receipt": number, "total": wanted.total}),))
        if number in self.victims:
            self.victims.remove(number)
            self._kill_worker_of(number)
        data = msgspec.to_builtins(wanted)
        if "report_back" in [tool.get("name") for tool in request.json["tools"]]:
            return Answer("", ((f"toolu_r{number}", "report_back", data),))
        return Answer(msgspec.json.encode(data).decode())

    def _kill_worker_of(self, number: int) -> None:
        (pid,) = (int(pid) for receipt, _, pid in rows(self._books) if int(receipt) == number)
        os.kill(pid, signal.SIGKILL)
        self.killed.append(pid)


def has_result(body: Any) -> bool:
    last = body["messages"][-1]["content"]
    return isinstance(last, list) and any(block["type"] == "tool_result" for block in last)


def rows(books: Path) -> list[list[str]]:
    return [line.split() for line in books.read_text().splitlines()]


@pytest.fixture
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with new_database(tmp_path_factory) as url:
        yield url


@pytest.mark.long
@pytest.mark.parametrize(("tasks", "workers", "kills"), [(200, 4, 2)])
@pytest.mark.timeout(400)
async def test_each_receipt_is_booked_and_reported_once_though_workers_are_killed(
    tmp_path: Path, url: str, tasks: int, workers: int, kills: int
) -> None:
    write_tasks(tmp_path, *({"id": f"receipt-{number}", "prompt": prompt(number)} for number in range(1, tasks + 1)))
    (tmp_path / "receipt.json").write_bytes(msgspec.json.encode(Schema.of(Receipt).json))
    model = Accountant(tmp_path / "books.txt", {tasks // 4 * (number + 1) for number in range(kills)})
    async with ModelServer(model) as server:
        environment = clean_environment() | everywhere(server) | {"OUTRIDER_HOME": str(tmp_path / "home")}
        environment |= {"OUTRIDER_LOG": url, "OUTRIDER_MODEL_LOOKUP": "off"}
        code, said = await run_batch(tmp_path, environment, workers)
    assert (code, f"{tasks} of {tasks} tasks finished" in said) == (0, True), said
    assert len(set(model.killed)) == kills
    check_results(tmp_path, tasks, kills)
    booked = rows(tmp_path / "books.txt")
    assert Counter(int(row[0]) for row in booked) == Counter(range(1, tasks + 1)), "each receipt is booked once"
    assert {pid for _, _, pid in booked} > {str(pid) for pid in model.killed}, "the others went on"
    listed = outrider("sessions", "--all", "--log", url, OUTRIDER_HOME=str(tmp_path / "home"))
    assert listed.stdout.count("Book it and report it.") == tasks, listed.stderr


async def run_batch(folder: Path, environment: dict[str, str], workers: int) -> tuple[int | None, str]:
    """Run `outrider batch` to its end, as the page of this story has it."""
    command = ["batch", "tasks.jsonl", "--output", "results.jsonl", "--schema", "receipt.json", "--tools", str(TOOLS)]
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "outrider", *command, "--workers", str(workers), "--allow", "post"),
        cwd=folder,
        env=environment,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        _, said = await program.communicate()
    finally:
        with suppress(ProcessLookupError):
            program.kill()
    return program.returncode, said.decode()


def check_results(folder: Path, tasks: int, kills: int) -> None:
    """Each task has one line, and each answer is a value of the type."""
    found = results_in(folder / "results.jsonl")
    assert set(found) == {f"receipt-{number}" for number in range(1, tasks + 1)}
    for number in range(1, tasks + 1):
        result = found[f"receipt-{number}"]
        assert (result["status"], result["unknown_calls"]) == ("done", []), result
        assert msgspec.convert(result["structured_output"], Receipt, strict=True) == receipt(number)
    assert sum(each["attempts"] > 1 for each in found.values()) >= kills, "others took the tasks of killed workers"
