"""One session with sub-agents, its lives and its deaths."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tests.crash.child import play_with_children
from tests.crash.family_judge import Family, family_of, faults_of_family
from tests.crash.ledger import lines_of
from tests.crash.nursery import Ended, Nursery


class FamilyTrial:
    """Lets processes live on the sessions of one folder, one after the other, and looks at what each leaves."""

    def __init__(self, nursery: Nursery, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.lives: list[Family] = []
        """What each life left on disk."""
        self._nursery = nursery

    def live(self, **options: Any) -> Ended:
        """One more life, to its end or to its death."""
        ended = self._nursery.run(play_with_children, str(self.folder), len(self.lives) + 1, **options)
        assert not ended.error, ended.error
        self.lives.append(family_of(self.folder))
        return ended

    def verdict(self, last: Ended) -> list[str]:
        """All that is wrong after the last life, which was to come to the end of the conversation."""
        assert not last.signal, f"the last life ended by signal {last.signal}"
        return faults_of_family(self.folder, self.lives, last.value)

    def points(self, life: int) -> list[str]:
        """The points that a life passed, in order, if it recorded them."""
        return [line["point"] for line in lines_of(self.folder, "points", life)]

    def remove(self) -> None:
        """Leave nothing behind, if all went well: there are hundreds of trials."""
        shutil.rmtree(self.folder)
