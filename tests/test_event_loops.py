"""Async tests and fixtures (tests/event_loops.py): each test with its fixtures on a loop of its own."""

from __future__ import annotations

from pathlib import Path

from tests.test_workers import run_suite

ASYNC = """
import asyncio
import pytest
from contextvars import ContextVar
from hypothesis import given, settings, strategies

said = []
var = ContextVar("var", default="")

@pytest.fixture
def earlier():
    yield
    said.append("earlier")

@pytest.fixture
async def number(earlier):
    return 7

@pytest.fixture
async def loop(number):
    var.set("set by a fixture")
    loop = asyncio.get_running_loop()
    yield loop
    assert asyncio.get_running_loop() is loop
    said.append("loop")

async def forever():
    try:
        await asyncio.sleep(1000)
    finally:
        said.append("cancelled")

async def test_one_loop_for_a_test_and_its_fixtures(loop, number):
    assert (number, var.get()) == (7, "set by a fixture")
    assert asyncio.get_running_loop() is loop
    said.append(loop)
    said.append(asyncio.create_task(forever()))
    await asyncio.sleep(0)

def test_the_end_of_a_test_is_in_order():
    assert said[2:] == ["loop", "cancelled", "earlier"]
    assert said[0].is_closed()

async def test_another_loop_for_another_test():
    assert asyncio.get_running_loop() is not said[0]
    assert var.get() == ""

examples = []

@settings(max_examples=20, database=None)
@given(strategies.integers(0, 3))
async def test_examples(number):
    await asyncio.sleep(0)
    examples.append((number, asyncio.get_running_loop()))

def test_all_examples_were_awaited():
    assert {number for number, _ in examples} == {0, 1, 2, 3}
    assert len({id(loop) for _, loop in examples}) == 1
"""
SHARED = """
import asyncio, pytest

@pytest.fixture(scope="session")
async def server():
    yield asyncio.get_running_loop()
    print("served by", "the same" if asyncio.get_running_loop() is seen[0] else "another")

@pytest.fixture
async def own():
    return asyncio.get_running_loop()

seen = []

async def test_first(server, own):
    assert server is own is asyncio.get_running_loop()
    seen.append(server)

async def test_between(own):
    assert own is asyncio.get_running_loop() is not seen[0]

async def test_last(own, server):
    assert server is own is asyncio.get_running_loop() is seen[0]

@pytest.fixture(scope="module")
async def narrower():
    return asyncio.get_running_loop()

async def test_of_the_module(narrower):
    assert narrower is asyncio.get_running_loop() is not seen[0]
"""
FAILING = """
import pytest
from hypothesis import given, settings, strategies

@settings(database=None)
@given(strategies.integers())
async def test_an_example_fails(number):
    assert number < 30

@pytest.fixture
async def broken():
    raise OSError("no fixture")
    yield

async def test_a_fixture_fails(broken):
    pass

@pytest.fixture
async def twice():
    yield
    yield

async def test_a_fixture_yields_twice(twice):
    pass

async def test_fails():
    assert 1 == 2
"""


def test_each_test_has_a_loop_with_its_fixtures(tmp_path: Path) -> None:
    code, said = run_suite(tmp_path, "-p", "tests.event_loops", "--workers", "0", test_async=ASYNC)
    assert (code, "5 passed" in said) == (0, True), said


def test_a_shared_fixture_brings_its_loop(tmp_path: Path) -> None:
    code, said = run_suite(tmp_path, "-p", "tests.event_loops", "--workers", "0", "-s", test_shared=SHARED)
    assert (code, "4 passed" in said, "served by the same" in said) == (0, True, True), said


def test_failures_are_told(tmp_path: Path) -> None:
    code, said = run_suite(tmp_path, "-p", "tests.event_loops", "--workers", "0", test_failing=FAILING)
    assert (code, "2 failed, 1 passed, 2 errors" in said) == (1, True), said
    for part in ("number=30", "no fixture", "twice yields more than once", "1 == 2"):
        assert part in said
