"""A read-only folder: the log can be read, and opening a session raises an error with advice."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from outrider.errors import LogError
from outrider.log.log import Log
from outrider.runtime.session import Session
from tests.crash.nursery import Nursery
from tests.crash.script import OUTCOMES, agent
from tests.crash.trial import Trial

NOBODY = 65534


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that others can get to, unlike pytest's."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def let_others_read(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)


def become_nobody() -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def said_by(action: Callable[[], Any]) -> str:
    """The LogError that it raises; any other error, or none, is a fault."""
    try:
        action()
    except LogError as error:
        return str(error)
    raise AssertionError("it went through")


def look_and_try(folder: str, marks: str, as_nobody: bool = True) -> dict[str, Any]:
    """What someone sees who may read, and hears who tries to write."""
    who = agent(Path(marks))
    if as_nobody:
        become_nobody()
    log = Log(folder)
    found = log.sessions()
    results = [result for message in log.messages(found[0].id) for result in message.tool_results]
    files = [file for result in results for file in result.attachments]
    return {
        "answered": [result.tool_use_id for result in results],
        "bytes": [len(log.files(found[0].id).read(file)) == file.size for file in files],
        "seqs": [record.seq for record in log.records(found[0].id)] == list(range(1, found[0].last + 1)),
        "open": said_by(lambda: Session.open(log, found[0].id, who).now()),
        "begin": said_by(lambda: Session.open(log, agent=who).now()),
        "rename": said_by(lambda: log.rename(found[0].id, "Another")),
        "delete": said_by(lambda: log.delete(found[0].id)),
        "fork": said_by(lambda: log.fork(found[0].id)),
        "again": [summary.id for summary in log.sessions()] == [found[0].id],
    }


def check(seen: dict[str, Any], where: Path) -> None:
    assert seen["answered"] == list(OUTCOMES)
    assert seen["bytes"] == [True, True]
    assert seen["seqs"]
    assert seen["again"]
    for attempt in ("open", "begin", "rename", "delete", "fork"):
        assert str(where / "log.db") in seen[attempt], f"{attempt}: {seen[attempt]}"
        assert "permission" in seen[attempt] or "ead-only" in seen[attempt], f"{attempt}: {seen[attempt]}"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_log_that_was_closed_can_be_looked_at_by_someone_who_may_not_write(nursery: Nursery, folder: Path) -> None:
    trial = Trial(nursery, folder)
    trial.live()
    let_others_read(folder / "log")
    before = {path: path.stat().st_mtime_ns for path in (folder / "log").rglob("*")}
    seen = nursery.run(look_and_try, str(folder / "log"), str(folder))
    assert not seen.error, seen.error
    check(seen.value, folder / "log")
    assert {path: path.stat().st_mtime_ns for path in (folder / "log").rglob("*")} == before


def test_a_log_on_a_read_only_file_system_can_be_looked_at(nursery: Nursery, folder: Path) -> None:
    (folder / "log").mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(folder / "log")]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a file system of our own needs the right to mount one")
    try:
        Trial(nursery, folder).live()
        subprocess.run(["mount", "-o", "remount,ro", str(folder / "log")], check=True)
        seen = nursery.run(look_and_try, str(folder / "log"), str(folder), as_nobody=False)
        assert not seen.error, seen.error
        check(seen.value, folder / "log")
    finally:
        subprocess.run(["umount", "-l", str(folder / "log")], check=True)


def look(folder: str) -> list[str]:
    become_nobody()
    log = Log(folder)
    try:
        return [message.role for message in log.messages(log.sessions()[0].id)]
    except LogError as error:
        return [str(error)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_log_whose_process_was_killed_can_be_looked_at_by_someone_who_may_not_write(
    nursery: Nursery, folder: Path
) -> None:
    trial = Trial(nursery, folder)
    assert trial.live(kill_at="put has acted:1").killed
    let_others_read(folder / "log")
    seen = nursery.run(look, str(folder / "log"))
    assert not seen.error, seen.error
    assert seen.value == ["user", "assistant"]
    assert trial.verdict(trial.live()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_log_of_which_a_part_is_missing_says_what_is_in_the_way(nursery: Nursery, folder: Path) -> None:
    """What is beside the database can be read only with memory that is shared through a file: here there is none."""
    trial = Trial(nursery, folder)
    assert trial.live(kill_at="put has acted:1").killed
    (folder / "log" / "log.db-shm").unlink()
    let_others_read(folder / "log")
    seen = nursery.run(look, str(folder / "log"))
    assert not seen.error, seen.error
    assert "permissions" in seen.value[0]


def begin(folder: str, marks: str) -> str:
    who = agent(Path(marks))
    become_nobody()
    return said_by(lambda: Session.open(Log(folder), agent=who).now())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_log_cannot_begin_where_nothing_may_be_made(nursery: Nursery, folder: Path) -> None:
    seen = nursery.run(begin, str(folder / "new" / "log"), str(folder))
    assert not seen.error, seen.error
    assert "Permission denied" in seen.value
    assert str(folder / "new" / "log") in seen.value
