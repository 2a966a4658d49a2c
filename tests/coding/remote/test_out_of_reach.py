"""A command cannot allow itself: the log with its questions, and the socket, are out of reach of a model's tools."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from outrider.coding.config.settings import PermissionSettings, Settings
from outrider.coding.remote.live import LiveSocket
from outrider.coding.workbench import Workbench
from outrider.log.inbox import HeldInbox
from outrider.log.log import Log
from outrider.log.questions import Option, PermissionQuestion
from outrider.runtime.agent import Agent
from outrider.runtime.session import Session
from outrider.testing import ScriptedModel, call
from tests.coding.sandbox.world import PYTHON
from tests.log import asked, until_so

ATTACK = """
import os, socket, sqlite3, sys

log, live = LOG, LIVE

def answer():
    connection = sqlite3.connect(log, timeout=1, isolation_level=None)
    connection.execute("UPDATE question SET answer = '{\\"option\\": \\"once\\"}', answered_by = 'myself'")

def answer_through_the_write_ahead_log():
    with open(log + "-wal", "r+b") as file:
        file.seek(0, 2)
        file.write(b"x" * 100)

def overwrite():
    open(log, "r+b").close()

def move_away():
    os.rename(log, log + ".moved")
    os.rename(log + ".moved", log)

def watch():
    with socket.socket(socket.AF_UNIX) as watcher:
        os.chdir(os.path.dirname(live))
        watcher.connect(os.path.basename(live))

def stand_in():
    os.unlink(live)

for attack in (answer, answer_through_the_write_ahead_log, overwrite, move_away, watch, stand_in):
    try:
        attack()
    except Exception as error:
        print(attack.__name__, "failed:", error)
    else:
        print(attack.__name__, "WORKED")
print("END")
"""
BODY = PermissionQuestion(tool="Bash", input={}, title="Bash()", options=(Option("once", "Yes", allows=True),))


class Waiting:
    """A session with a question that waits, and its socket."""

    def __init__(self, log: Log, held: HeldInbox, live: Path) -> None:
        self.log, self.held, self.live = log, held, live


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder outside /tmp, which sandboxes hide anyway, with a data folder and a project."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        base = Path(name)
        for folder in ("data", "project"):
            (base / folder).mkdir()
        monkeypatch.setenv("OUTRIDER_HOME", str(base / "data"))
        (base / "project" / "link").symlink_to(base / "data")
        yield base


@pytest.fixture
async def waiting(base: Path) -> AsyncIterator[Waiting]:
    with Log(base / "data" / "sessions") as log:
        journal = log.create()
        held = log.inbox.listen(journal.id)
        await held.ask(asked("call_1", BODY))
        shown = LiveSocket(log.live_socket(journal.id), journal.id)
        shown.start()
        await until_so(log.live_socket(journal.id).exists)
        yield Waiting(log, held, log.live_socket(journal.id))
        shown.close()


def bench_in(folder: Path) -> Workbench:
    return Workbench(Settings(permissions=PermissionSettings(mode="all")), folder)


async def output_of(bench: Workbench, tool: str, *, approved: bool, **input: object) -> str:
    """What the model reads of a call: one that is approved, or one that the policy of the mode `all` decides about."""
    model = ScriptedModel([call(tool, **input), "Done."])
    approve = None if approved else bench.permissions
    session = Session(Agent(model=model, tools=bench.tools), cwd=bench.folder, approve=approve)
    result = await session.run("Go")
    return result.messages[-2].tool_results[0].text


WORKING_FOLDERS = {"elsewhere": "project", "above": ".", "the data": "data", "the log": "data/sessions"}
CASES = pytest.mark.parametrize("folder", WORKING_FOLDERS.values(), ids=WORKING_FOLDERS)


def attack(waiting: Waiting) -> str:
    """Return the command that attacks. A sandbox may let it read no file outside its working folder."""
    places = {"LOG": waiting.log.folder / "log.db", "LIVE": waiting.live}
    code = ATTACK
    for name, place in places.items():
        code = code.replace(name, repr(str(place)))
    return shlex.join([PYTHON, "-c", code])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("access", ["read", "write", "network"])
@CASES
async def test_a_command_cannot_answer_nor_watch(waiting: Waiting, base: Path, folder: str, access: str) -> None:
    command = attack(waiting)
    bench = bench_in(base / folder)
    if bench._tools.sandbox is None:
        pytest.skip("no sandbox works here")
    said = await output_of(bench, "Bash", approved=True, command=command, access=access)
    if folder in (WORKING_FOLDERS["the data"], WORKING_FOLDERS["the log"]):
        assert "holds Outrider's own data" in said
    else:
        assert "END" in said
    assert "WORKED" not in said
    assert [each.answer for each in waiting.log.inbox.questions()] == [None]
    bench.close()


async def test_the_attack_works_without_a_sandbox(waiting: Waiting, base: Path) -> None:
    """So that the test above can fail."""
    bench = bench_in(base / "project")
    command = attack(waiting)
    said = await output_of(bench, "Bash", approved=True, command=command, access="full")
    for name in ("answer", "overwrite", "move_away", "watch", "stand_in"):
        assert f"{name} WORKED" in said
    assert waiting.log.inbox.questions() == []
    bench.close()


async def test_a_command_that_names_the_log_is_not_permitted(waiting: Waiting, base: Path) -> None:
    bench = bench_in(base / "project")
    command = shlex.join(["sqlite3", str(waiting.log.folder / "log.db"), "UPDATE question SET answer = 1"])
    said = await output_of(bench, "Bash", approved=False, command=command, access="full")
    assert "was not run: this is not permitted" in said
    bench.close()


@CASES
async def test_the_file_tools_cannot_write_there(waiting: Waiting, base: Path, folder: str) -> None:
    bench = bench_in(base / folder)
    before = (waiting.log.folder / "log.db").read_bytes()
    names = [
        (waiting.log.folder / "log.db"),
        base / "data" / "sessions" / "log.db-wal",
        waiting.live,
        base / "data" / "new",
    ]
    calls = {"Write": {"content": "mine"}, "Edit": {"old_string": "SQLite format 3", "new_string": "SQLite format 4"}}
    for path in (*names, *(base / "project" / "link" / name.relative_to(base / "data") for name in names)):
        for tool, arguments in calls.items():
            said = await output_of(bench, tool, approved=False, file_path=str(path), **arguments)
            assert "was not run: this is not permitted" in said, (tool, path)
    assert (waiting.log.folder / "log.db").read_bytes() == before
    bench.close()
