"""The tests of the log run on both backends. Those that are about files have the mark `folder_only`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider.log.log import Log
from outrider.log.postgres import loop_writer
from tests.log.proxy import Proxy
from tests.postgres import new_database

SHORT_ON_POSTGRES = {"test_chain", "test_entry_numbers", "test_postgres", "test_rewinds"}
"""Files whose tests run on both backends in short runs, too. The others do so in the long run."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "place" in metafunc.fixturenames and not hasattr(metafunc.module, "place"):  # some files have one of their own
        only = metafunc.definition.get_closest_marker("folder_only")
        is_short = metafunc.module.__name__.rpartition(".")[2] in SHORT_ON_POSTGRES
        postgres = pytest.param("postgres", marks=[] if is_short else pytest.mark.long)
        metafunc.parametrize("place", ["folder"] if only else ["folder", postgres], indirect=True)


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the log of a test is: a folder, or the URL of a new database."""
    if request.param == "folder":
        yield str(tmp_path / "log")
    else:
        with new_database(tmp_path_factory) as url:
            yield url


@pytest.fixture
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a new database."""
    with new_database(tmp_path_factory) as url:
        yield url


@pytest.fixture
def proxy(url: str) -> Iterator[Proxy]:
    """A proxy before the database, which can cut connections and lose answers."""
    proxy = Proxy(int(url.rpartition(":")[2].partition("/")[0]))
    yield proxy
    proxy.close()


@pytest.fixture(params=["loop", "thread"])
def home(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write on a connection in the loop of the test from the second append on, or never."""
    appends = 1 if request.param == "loop" else sys.maxsize
    monkeypatch.setattr(loop_writer, "APPENDS_BEFORE_CONNECTION", appends)


@pytest.fixture
def far(url: str, proxy: Proxy, home: None) -> Iterator[Log]:
    """The log behind the proxy."""
    head, _, rest = url.rpartition(":")
    with Log(f"{head}:{proxy.port}/{rest.partition('/')[2]}") as log:
        yield log
