"""The session of a chat: what it keeps when it is resumed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from outrider.cli.chat.current_session import CurrentSession
from outrider.coding.config.settings import PermissionSettings, Settings
from outrider.coding.front_end import FrontEnd
from outrider.coding.permissions.question import Answer, Mode, Question
from outrider.runtime.events import Event, Notice


async def deny(question: Question) -> Answer:
    return Answer("no")


class Opened:
    """A chat's session in a folder, and the notices that it shows."""

    def __init__(self, folder: Path, mode: Mode = "ask") -> None:
        self.events: list[Event] = []
        settings = Settings(model="demo", permissions=PermissionSettings(mode=mode))
        self.current = CurrentSession(settings, folder, None, self.events.append)
        self.current.front_end = FrontEnd(deny)

    @property
    def notices(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Notice)]

    def close(self) -> None:
        self.current.leave()
        self.current.log.close()


def session_in(folder: Path, mode: Mode) -> str:
    """A session that was left in a mode."""
    opened = Opened(folder)
    session = opened.current.open()
    opened.current.use_mode(mode)
    opened.close()
    return session.id


@pytest.mark.parametrize(
    ("stored", "settings", "mode", "said"),
    [
        ("plan", "ask", "plan", "Permissions: plan"),
        ("ask", "edits", "ask", "Permissions: ask"),
        ("ask", "ask", "ask", ""),
        ("all", "ask", "ask", "This session was in the mode all. It starts in ask"),
    ],
)
async def test_a_resumed_session_keeps_a_mode_that_allows_no_more(
    tmp_path: Path, stored: Mode, settings: Mode, mode: Mode, said: str
) -> None:
    id = session_in(tmp_path, stored)  # noqa: A001
    again = Opened(tmp_path, settings)
    again.current.go_to(id)
    assert (again.current.mode, again.current.bench.permissions.mode) == (mode, mode)
    assert again.current.open().id == id
    assert again.current.bench.permissions.mode == mode
    assert [said in notice for notice in again.notices] == ([True] if said else [])
    again.close()


async def test_the_mode_that_is_chosen_before_the_first_message_is_kept(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    opened.current.use_mode("plan")
    id = opened.current.open().id  # noqa: A001
    opened.close()
    again = Opened(tmp_path)
    again.current.go_to(id)
    assert again.current.mode == "plan"
    again.close()


async def test_the_mode_of_the_command_line_wins(tmp_path: Path) -> None:
    id = session_in(tmp_path, "plan")  # noqa: A001
    again = Opened(tmp_path, "edits")
    again.current.has_given_mode = True
    again.current.go_to(id)
    assert (again.current.mode, again.notices) == ("edits", [])
    again.close()


SCRIPT = """\
import asyncio, sys
from pathlib import Path
from outrider.cli.chat.current_session import CurrentSession
from outrider.coding.config.settings import Settings
from outrider.coding.front_end import FrontEnd

async def main():
    current = CurrentSession(Settings(model="http://127.0.0.1:9/v1#m"), Path.cwd(), None, print)
    await asyncio.to_thread(current.prepare)
    before = set(sys.modules)
    current.open()
    print("later:", *sorted(set(sys.modules) - before), "httptools" in before)
    current.close()

asyncio.run(main())
"""


def test_the_first_message_imports_nothing(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=90
    )
    assert "later: True" in ended.stdout
