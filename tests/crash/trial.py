"""One session, its lives and its deaths."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from outrider.log.entries import Record
from tests.crash.child import play
from tests.crash.judge import faults_at_the_end, faults_of_lives, faults_of_requests, state_of
from tests.crash.nursery import DEADLINE, ROOT, Ended, Nursery


class Trial:
    """Lets processes live on the session of one folder, one after the other, and looks at what each leaves."""

    def __init__(self, nursery: Nursery, folder: Path, states: Sequence[list[Record]] = ()) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.states = list(states)
        """What each life left on disk."""
        self.settle: Callable[[], None] = lambda: None
        """Called before the test looks at what a life has left."""
        self._nursery = nursery

    def live(self, **options: Any) -> Ended:
        """One more life, to its end or to its death."""
        ended = self._nursery.run(play, str(self.folder), self._next_life, **options)
        assert not ended.error, ended.error
        self.settle()
        self.states.append(state_of(self.folder))
        return ended

    def live_in_an_interpreter_of_its_own(self, kill_at: str = "") -> Ended:
        """The same without a warm parent, as a person would start it."""
        options = ["--life", str(self._next_life), *(["--kill-at", kill_at] if kill_at else [])]
        command = [sys.executable, "-m", "tests.crash.child", str(self.folder), *options]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=DEADLINE, check=False)
        assert done.returncode <= 0, done.stderr.decode()
        self.states.append(state_of(self.folder))
        return Ended(-done.returncode, 0, msgspec.json.decode(done.stdout) if done.stdout else None)

    def verdict(self, last: Ended) -> list[str]:
        """All that is wrong after the last life, which was to come to the end of the conversation."""
        found = faults_of_lives(self.folder, self.states)
        if last.signal:
            return [*found, f"the last life ended by signal {last.signal}"]
        found += faults_at_the_end(self.folder, last.value, self.states[:-1])
        return [*found, *faults_of_requests(self.folder, last.value["id"])]

    def copy(self, folder: Path) -> Trial:
        """The same session with the same past, for another future."""
        shutil.copytree(self.folder, folder)
        return Trial(self._nursery, folder, self.states)

    def remove(self) -> None:
        """Leave nothing behind, if all went well: there are hundreds of trials."""
        shutil.rmtree(self.folder)

    @property
    def _next_life(self) -> int:
        return len(self.states) + 1
