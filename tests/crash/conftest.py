"""One nursery for all tests of a process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.crash.nursery import Nursery
from tests.memory import memory_folder

KEY = "k" * 40


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    if sys.platform != "linux":
        pytest.skip("children are forked, and known to be dead by /proc")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OUTRIDER_LOG_KEY", KEY)
        nursery = Nursery()
        yield nursery  # with the key: fixtures that are made once judge lives, too
        nursery.close()


@pytest.fixture(autouse=True)
def _one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lives and their judge are one user, so that the chain of what they wrote can be verified."""
    monkeypatch.setenv("OUTRIDER_LOG_KEY", KEY)


@pytest.fixture
def quick_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, if there can be one. It survives the death of a process as well as one on disk."""
    memory = memory_folder()
    if memory is None:
        yield tmp_path
        return
    with TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)
