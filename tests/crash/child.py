"""The child process that is killed: it creates or resumes the one session of a folder, and runs it.

python -m tests.crash.child FOLDER [--life N] [--kill-at POINT:COUNT] [--hold [--beat SECONDS]]
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Any

import msgspec

from outrider.log.holder import BEAT_SECONDS
from outrider.log.log import Log
from outrider.log.sqlite import backend as sqlite_backend
from outrider.log.sqlite import database
from outrider.runtime.session import Session
from tests.crash import family, family_sabotage
from tests.crash import sabotage as sabotages
from tests.crash.ledger import Ledger
from tests.crash.places import place_of, url_of
from tests.crash.points import Points
from tests.crash.script import agent, converse, ended, show


def play(
    folder: str,
    life: int = 1,
    *,
    kill_at: str = "",
    record: bool = False,
    sabotage: str = "",
    autocheckpoint: int = 0,
    on_network: bool = False,
) -> dict[str, Any]:
    """One life of the session. Changes this process for good: it is to end afterwards."""
    where = Path(folder)
    points = Points(kill_at, Ledger(where, "points", life) if record else None, autocheckpoint)
    points.install()
    if url_of(where):
        points.install_in_postgres()
    if sabotage:
        getattr(sabotages, sabotage)()
    if on_network:
        database.network_file_system = lambda folder: "nfs"  # type: ignore[attr-defined]
    return asyncio.run(_play(where, life, points))


async def _play(folder: Path, life: int, points: Points) -> dict[str, Any]:
    with Log(place_of(folder)) as log:
        found = log.sessions()
        who = agent(folder, life, points.passed)
        known = found[0].id if found else None
        with Session.open(log, known, who, observer=show(folder, life, points.passed)) as session:
            return ended(session, await converse(session))


def play_with_children(
    folder: str, life: int = 1, *, kill_at: str = "", record: bool = False, sabotage: str = ""
) -> dict[str, Any]:
    """One life of a session that sends out sub-agents. Changes this process for good, too."""
    where = Path(folder)
    points = Points(kill_at, Ledger(where, "points", life) if record else None)
    points.install()
    if sabotage:
        getattr(family_sabotage, sabotage)()
    return asyncio.run(_play_with_children(where, life, points))


async def _play_with_children(folder: Path, life: int, points: Points) -> dict[str, Any]:
    with Log(folder / "log") as log:
        found = log.sessions()
        who, observer = family.agent(folder, life, points.passed), family.show(folder, life, points.passed)
        with Session.open(log, found[0].id if found else None, who, observer=observer) as session:
            result = await session.run("" if session.messages else family.PROMPT)
            return ended(session, result) | {"usage": msgspec.to_builtins(session.total_usage)}


def hold(folder: Path, beat: float) -> None:
    """Have the session open, with its calls carried out, and say so; until the input ends."""
    sqlite_backend.BEAT_SECONDS = beat  # type: ignore[attr-defined]
    with Log(folder / "log") as log, Session.open(log, log.sessions()[0].id, agent(folder)) as session:
        asyncio.run(session.act())
        print("held", flush=True)
        sys.stdin.read()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--life", type=int, default=1)
    parser.add_argument("--kill-at", default="")
    parser.add_argument("--hold", action="store_true")
    parser.add_argument("--beat", type=float, default=BEAT_SECONDS)
    options = parser.parse_args()
    if options.hold:
        hold(Path(options.folder), options.beat)
    else:
        print(msgspec.json.encode(play(options.folder, options.life, kill_at=options.kill_at)).decode())


if __name__ == "__main__":
    main()
