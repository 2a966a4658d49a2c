"""Run async tests and fixtures, each test with its fixtures on an event loop of its own: a plugin for pytest.

A fixture of a wider scope lives on a loop as long as its scope, and so does a test that uses it. pytest-asyncio makes
each of 12,000 tests twice, and takes twice as long for a test that does nothing.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from contextlib import suppress
from functools import wraps
from typing import Any

import pytest

_RUNNER = pytest.StashKey[asyncio.Runner]()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    """Set up a fixture that is a coroutine, or an async generator, on the loop of its test."""
    function = fixturedef.func
    if not _is_async(function):
        return (yield)
    as_sync = _sync if inspect.iscoroutinefunction(function) else _sync_generator
    fixturedef.func = as_sync(function, _runner_of(request.node))  # type: ignore[misc]
    try:
        return (yield)
    finally:
        fixturedef.func = function  # type: ignore[misc]


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Call a test that is a coroutine, and each example of hypothesis if that is one."""
    hypothesis = getattr(pyfuncitem.obj, "hypothesis", None)
    owner, name = (hypothesis, "inner_test") if hypothesis else (pyfuncitem, "obj")
    function = getattr(owner, name)
    if not inspect.iscoroutinefunction(function):
        return (yield)
    setattr(owner, name, _sync(function, _runner_of(pyfuncitem)))
    try:
        return (yield)
    finally:
        setattr(owner, name, function)


def _is_async(function: object) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def _runner_of(node: Any) -> asyncio.Runner:
    """The runner of a test or a wider scope. It is closed before what was set up earlier is taken down."""
    if isinstance(node, pytest.Function):
        node = _scope_of(node)
    if _RUNNER not in node.stash:
        node.stash[_RUNNER] = asyncio.Runner()
        node.addfinalizer(lambda: _close(node))
    return node.stash[_RUNNER]


def _scope_of(test: pytest.Function) -> Any:
    """What the loop of a test lives as long as: the test, or the scope of its widest async fixture."""
    fixtures = (each[-1] for each in test._fixtureinfo.name2fixturedefs.values())
    scopes = {each.scope for each in fixtures if each.scope != "function" and _is_async(each.func)}
    assert scopes <= {"session"} or scopes <= {"module"}, f"{test.nodeid}: its async fixtures have {scopes}"
    if "session" in scopes:
        return test.session
    return test.getparent(pytest.Module) if "module" in scopes else test


def _close(node: Any) -> None:
    runner = node.stash[_RUNNER]
    del node.stash[_RUNNER]
    runner.close()


def _sync(function: Callable[..., Coroutine[Any, Any, Any]], runner: asyncio.Runner) -> Callable[..., Any]:
    @wraps(function)
    def run(*arguments: Any, **options: Any) -> Any:
        return runner.run(function(*arguments, **options))

    return run


def _sync_generator(
    function: Callable[..., AsyncIterator[Any]], runner: asyncio.Runner
) -> Callable[..., Iterator[Any]]:
    @wraps(function)
    def run(*arguments: Any, **options: Any) -> Iterator[Any]:
        values = function(*arguments, **options)

        async def following() -> Any:
            return await anext(values)

        yield runner.run(following())
        with suppress(StopAsyncIteration):
            runner.run(following())
            raise AssertionError(f"{function.__name__} yields more than once")

    return run
