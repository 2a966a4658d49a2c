"""Replays every session that a test has left in a log: each must replay without a difference."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outrider import Log
from outrider.testing import replay

SECONDS = 60.0
"""How long one replay may take."""


@pytest.fixture(autouse=True)
def replayed_sessions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Replay the sessions of all logs that the test opens, or that programs leave in its temporary folder."""
    places: set[str] = set()
    opened = Log.__init__

    def noted(log: Log, place: Any) -> None:
        places.add(str(place))
        opened(log, place)

    with monkeypatch.context() as patch:
        patch.setattr(Log, "__init__", noted)
        yield
    places = {place for place in places if Path(place, "log.db").is_file()}
    for place in sorted(places | {str(path.parent) for path in tmp_path.rglob("log.db") if path.is_file()}):
        with Log(place) as log:
            for summary in log.sessions():
                found = asyncio.run(asyncio.wait_for(replay(log, summary.id), SECONDS))
                assert found.difference is None, f"{summary.title} in {place}: {found.difference}"
