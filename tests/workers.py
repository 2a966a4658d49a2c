"""Run tests in forked processes: `--workers N`, a plugin for pytest.

The tests are collected once. Each worker is a fork that has them already: it starts at once, and shares the memory of
what is imported. The workers take chunks of tests, one after the other, until none is left. A worker that dies is
replaced by one that runs the rest of its chunks; the test that killed it has failed.
"""

from __future__ import annotations

import atexit
import inspect
import multiprocessing
import os
import signal
import traceback
import warnings
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

import pytest
from _pytest.runner import call_and_report

CHUNK = 25
"""The most tests of a chunk, unless they share a fixture."""
SPREAD = 8
"""Into how many chunks for each worker the last tests are divided: one may take as long as a hundred others."""
NOTHING = -1
GRACE = 20.0
"""Seconds in which a worker that is interrupted takes down what its tests have set up."""
_FORK = multiprocessing.get_context("fork") if hasattr(os, "fork") else None


def is_worker() -> bool:
    """Whether this is a process of a run that has several."""
    return multiprocessing.parent_process() is not None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--workers", type=int, default=0, metavar="N", help="run tests in N forked processes")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests in workers, if that is asked for."""
    option = session.config.option
    if not option.workers or option.collectonly or session.testsfailed or not session.items or _FORK is None:
        return None
    _Run(session, min(option.workers, len(session.items))).work()
    return True


def chunks_of(items: list[pytest.Item], workers: int) -> list[list[int]]:
    """Return the numbers of the tests that one worker runs in a row: of one module, and fewer towards the end.

    A module whose tests share a fixture is one chunk, so that the fixture is made once, and so are all tests that share
    an async fixture of the session, such as the browser. Such chunks come first.
    """
    groups: dict[object, list[int]] = {}
    for number, item in enumerate(items):
        groups.setdefault("session" if _shares(item, "session") else item.path, []).append(number)
    shared = {"session", *(item.path for item in items if _shares(item, "module"))}
    whole = [numbers for key, numbers in groups.items() if key in shared]
    parts: list[list[int]] = []
    left = len(items) - sum(map(len, whole))
    for numbers in (each for key, each in groups.items() if key not in shared):
        while numbers:
            size = max(1, min(CHUNK, left // (workers * SPREAD)))
            parts.append(numbers[:size])
            numbers = numbers[size:]
            left -= len(parts[-1])
    return whole + parts


def _shares(item: pytest.Item, scope: str) -> bool:
    """Whether it uses a fixture of this scope that no plugin has. Of the session, only an async generator counts."""
    fixtures = (each[-1] for each in item._fixtureinfo.name2fixturedefs.values())  # type: ignore[attr-defined]
    ours = (each for each in fixtures if each.scope == scope and each.baseid)
    return any(scope == "module" or inspect.isasyncgenfunction(each.func) for each in ours)


class _Worker:
    """A process, and what came of it."""

    def __init__(self, number: int, run: _Run, first: list[int]) -> None:
        assert _FORK is not None
        self.number = number
        self.first = first
        """Tests that it runs before it takes a chunk."""
        self.reader, writer = _FORK.Pipe(duplex=False)
        self.process = _FORK.Process(target=run.in_worker, args=(self, writer))
        self.process.start()
        writer.close()

    def end(self) -> None:
        """Interrupt the test that runs."""
        assert self.process.pid is not None
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGINT)
        self.process.join(GRACE)
        self.process.kill()
        self.process.join()


class _Run:
    """All tests of a session, run by workers."""

    def __init__(self, session: pytest.Session, count: int) -> None:
        assert _FORK is not None
        self._session, self._config = session, session.config
        self._items = session.items
        self._chunks = chunks_of(session.items, count)
        self._next = _FORK.Value("i", 0)
        """The next chunk."""
        self._taker = _FORK.RawArray("i", len(self._chunks))
        """The number of the worker that took each chunk."""
        self._count = count
        self._parent = os.getpid()
        self._started = 0
        self._running = _FORK.RawArray("i", len(session.items) + count + 1)
        """The test that each worker runs."""
        self._done: set[int] = set()

    def work(self) -> None:
        """Run the tests, and report them."""
        workers: list[_Worker] = []
        self._config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        try:
            workers += [self._start([]) for _ in range(self._count)]
            while workers:
                for reader in wait([worker.reader for worker in workers], timeout=1):
                    assert isinstance(reader, Connection)
                    self._receive(reader)
                for worker in [each for each in workers if each.process.exitcode is not None]:
                    workers.remove(worker)
                    if left := self._left_by(worker):
                        workers.append(self._start(left))
                if self._session.shouldfail:
                    raise self._session.Failed(self._session.shouldfail)
                if self._session.shouldstop:
                    raise self._session.Interrupted(self._session.shouldstop)
        finally:
            self._next.get_obj().value = len(self._chunks)  # a worker that was killed may hold the lock
            for worker in workers:
                worker.end()

    def _start(self, first: list[int]) -> _Worker:
        self._started += 1
        return _Worker(self._started, self, first)

    def _receive(self, reader: Connection) -> bool:
        """Report what a worker has sent; return False at its end."""
        try:
            kind, number, content = reader.recv()
        except (EOFError, OSError):
            return False
        if kind == "test":
            self._report(number, content)
        else:
            self._config.get_terminal_writer().line(f"\n{content}")
            self._session.testsfailed += kind == "problem"
        return True

    def _report(self, number: int, reports: list[Any]) -> None:
        self._done.add(number)
        item, hook = self._items[number], self._config.hook
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in reports:
            if isinstance(report, dict):
                report = hook.pytest_report_from_serializable(config=self._config, data=report)
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)

    def _left_by(self, worker: _Worker) -> list[int]:
        """Return the tests that a dead worker has left undone. The one that it was running has failed."""
        while worker.reader.poll() and self._receive(worker.reader):
            pass
        worker.reader.close()
        taken = [chunk for chunk, taker in zip(self._chunks, self._taker, strict=True) if taker == worker.number]
        left = [number for chunk in [worker.first, *taken] for number in chunk if number not in self._done]
        if left:
            running = self._running[worker.number]
            culprit = running if running in left else left[0]
            left.remove(culprit)
            item = self._items[culprit]
            said = f"The worker died with the exit code {worker.process.exitcode}."
            self._report(culprit, [pytest.TestReport(item.nodeid, item.location, {}, "failed", said, "call")])
        return left

    def _serialized(self, report: pytest.TestReport) -> Any:
        """Return what can be sent of a report. Only a traceback cannot be sent as it is."""
        if report.longrepr is None:
            return report
        return self._config.hook.pytest_report_to_serializable(config=self._config, report=report)

    # In a worker

    def in_worker(self, worker: _Worker, writer: Connection) -> None:
        """Run tests until none is left."""
        worker.reader.close()
        self._own(worker)
        sender = _Sender(writer, self._items)
        self._config.pluginmanager.register(sender)
        try:
            self._run_all(worker, writer, sender)
            self._config.hook.pytest_unconfigure(config=self._config)  # which looks for what was not closed
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            self._session._setupstate.teardown_exact(None)
        except BaseException:
            writer.send(("problem", 0, traceback.format_exc()))
            raise
        finally:
            atexit._run_exitfuncs()

    def _run_all(self, worker: _Worker, writer: Connection, sender: _Sender) -> None:
        sender.coming = self._take(worker)
        number = next(sender.coming, NOTHING)
        while number != NOTHING and os.getppid() == self._parent:
            self._running[worker.number] = number
            # The next test is taken when this one has run.
            self._config.hook.pytest_runtest_protocol(item=self._items[number], nextitem=None)
            writer.send(("test", number, [self._serialized(report) for report in sender.reports]))
            number = sender.following

    def _own(self, worker: _Worker) -> None:
        """Separate what workers must not share: files of captured output, and the folder for temporary ones."""
        if capture := self._config.pluginmanager.getplugin("capturemanager"):
            capture.stop_global_capturing()
            capture.start_global_capturing()
            capture.suspend_global_capture()
        factory: Any = self._config._tmp_path_factory  # type: ignore[attr-defined]
        factory._basetemp = factory.getbasetemp() / f"worker-{worker.number}"
        factory._basetemp.mkdir(mode=0o700)
        factory._next_number = {}
        atexit.unregister(factory._exit_stack.close)  # the parent cleans up

    def _take(self, worker: _Worker) -> Iterator[int]:
        yield from worker.first
        while True:
            lock = self._next.get_lock()
            if not lock.acquire(timeout=GRACE):  # a worker was killed that held it
                return
            try:
                number = self._next.value
                if number >= len(self._chunks):
                    return
                self._taker[number] = worker.number
                self._next.value += 1
            finally:
                lock.release()
            yield from self._chunks[number]


class _Sender:
    """Runs tests as pytest does, keeps their reports, and sends warnings."""

    def __init__(self, writer: Connection, items: list[pytest.Item]) -> None:
        self._writer, self._items = writer, items
        self.reports: list[pytest.TestReport] = []
        """Those of the last test."""
        self.coming: Iterator[int] = iter(())
        self.following = NOTHING
        """The test after the last one."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: Any) -> bool:
        """Run a test, and take the next one: what both share stays set up. It is taken late: others may be idle."""
        self.reports = [call_and_report(item, "setup", log=False)]
        if self.reports[0].passed:
            self.reports.append(call_and_report(item, "call", log=False))
        self.following = next(self.coming, NOTHING)
        after = None if self.following == NOTHING else self._items[self.following]
        self.reports.append(call_and_report(item, "teardown", log=False, nextitem=after))
        if hasattr(item, "_request"):
            item._request, item.funcargs = False, None  # pytest does so, too: they would be kept to the end
        return True

    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage, nodeid: str) -> None:
        """Send a warning."""
        self._writer.send(("warning", 0, f"{nodeid}: {warning_message.category.__name__}: {warning_message.message}"))
