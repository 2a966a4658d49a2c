"""Sessions that wait are tried on both logs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres import new_database


@pytest.fixture(params=["folder", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the log of a test is: a folder, or the URL of a new database."""
    if request.param == "folder":
        yield str(tmp_path / "log")
    else:
        with new_database(tmp_path_factory) as url:
            yield url
