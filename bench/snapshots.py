"""What it costs that files can be rewound: the snapshot before a call, in a folder with 20,000 files."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.figure import Figure
from outrider import Log
from outrider.coding.snapshots.folder import FolderSnapshots

FOLDERS, FILES = 400, 50
ROUNDS = 15


def measure() -> Iterator[Figure]:
    """The first snapshot, which copies everything, and later ones, beside a bare walk."""
    with tempfile.TemporaryDirectory() as place, Log(Path(place) / "log") as log:
        folder = _project(Path(place) / "project")
        journal = log.create()
        snapshots = FolderSnapshots(folder, log, journal.id)
        started = time.perf_counter()
        first = snapshots.snapshot()
        assert first is not None
        journal.write_now(first)
        yield Figure("first snapshot of 20,000 files", time.perf_counter() - started, "s", 30.0)
        time.sleep(0.1)  # files that were just written are read again
        snapshots.snapshot()
        walks, seconds = [], []
        for number in range(ROUNDS):
            (folder / "p0/d0/file0.py").write_text(f"changed {number}")
            walks.append(_timed(lambda: _walk(folder)))
            seconds.append(_timed(snapshots.snapshot))
        each = statistics.median(seconds)
        yield Figure("snapshot before a call, 20,000 files, CPU", each * 1000, "ms", 150.0)
        yield Figure("the same / a walk that only asks for times", each / statistics.median(walks), "x", 2.5)
        journal.close()


def _timed(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def _project(folder: Path) -> Path:
    for number in range(FOLDERS):
        place = folder / f"p{number // 20}" / f"d{number}"
        place.mkdir(parents=True)
        for file in range(FILES):
            (place / f"file{file}.py").write_text(f"# {number} {file}\n" + "x = 1\n" * 100)
    (folder / ".gitignore").write_text("build/\n*.log\n__pycache__/\n")
    return folder


def _walk(folder: Path) -> int:
    count = 0
    for place, _, files in os.walk(folder):
        count += len([os.lstat(os.path.join(place, name)) for name in files])
    return count
