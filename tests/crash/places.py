"""Where the log of a trial is: in its folder, or in the database that a file of the folder names."""

from __future__ import annotations

from pathlib import Path

from tests.log import until
from tests.postgres import execute


def keep_in(folder: Path, url: str) -> None:
    """Have the trial of a folder keep its log in a database."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "place").write_text(url)


def url_of(folder: Path) -> str:
    """Return the database of a trial; empty if its log is in the folder."""
    path = folder / "place"
    return path.read_text() if path.exists() else ""


def place_of(folder: Path) -> str:
    """Return where the log of a trial is."""
    return url_of(folder) or str(folder / "log")


def wait_for_the_end(url: str) -> None:
    """Wait until Postgres is done with what killed processes have sent."""
    query = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'outrider' AND datname = current_database()"
    until(lambda: not execute(url, query))
