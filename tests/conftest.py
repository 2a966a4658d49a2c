"""What holds for every test: no real model can be reached, and nothing is written to the user's data folder."""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
from collections.abc import Generator, Iterator
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests import lengths

settings.load_profile("short")  # `--hypothesis-profile=long` comes later, and wins

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # In the background of a shell: the programs that are started here should hear of Ctrl-C all the same.
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # under nohup, likewise
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# The tests start many programs: compiled once, each of them starts in a fraction of the time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

pytest_plugins = ["tests.acceptance_index", "tests.event_loops", "tests.summary", "tests.workers"]
LOOPBACK = ("127.0.0.1", "::1", "localhost")


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Generator[None, object, object]:
    """Make only the cases that `make test` runs, where it does not run the others."""
    result = yield
    if metafunc.config.option.markexpr == "not long":
        lengths.leave_out(metafunc)
    return result


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    lengths.mark_left_out(items)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect the tests without collecting garbage: there is none, and it would be looked for again in every test."""
    gc.disable()
    try:
        result = yield
        if session.config.option.workers and session.config.args_source is pytest.Config.ArgsSource.TESTPATHS:
            import_module("tests.oracles").load()
        return result
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop() -> Generator[None, object, object]:
    """Connections leave the loopback interface only over this function's dead body."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in LOOPBACK:
            raise AssertionError(f"a test tried to reach {address[0]}")
        connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded)
        return (yield)


@pytest.fixture(scope="session")
def _new_homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folders for the homes of tests, one after the other. `mktemp` would look through all of them for each."""
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(number) for number in count())


@pytest.fixture(autouse=True)
def own_data_folder(monkeypatch: pytest.MonkeyPatch, _new_homes: Iterator[Path]) -> Path:
    """Keys and settings of a developer are not seen; the test has a data folder of its own."""
    for name in list(os.environ):
        if name.startswith("OUTRIDER_") or name.endswith(("_API_KEY", "_BASE_URL", "_AUTH_TOKEN", "OLLAMA_HOST")):
            monkeypatch.delenv(name)
    folder = next(_new_homes)
    folder.mkdir()
    monkeypatch.setenv("OUTRIDER_HOME", str(folder))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "settings"))  # what a developer has set is not to be tested
    monkeypatch.setenv("OUTRIDER_SANDBOX", "off")  # the tests of the sandbox itself ask for one
    monkeypatch.setenv("OUTRIDER_WEB_SEARCH", "off")  # a question that only its own tests expect
    monkeypatch.setenv("OUTRIDER_TITLES", "false")  # another such question, after the first answer
    monkeypatch.setenv("OUTRIDER_MODEL_LOOKUP", "off")  # a question that no script of a server expects
    return folder
