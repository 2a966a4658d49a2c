"""A script that goes on with a saved conversation: python -m outrider.cli.demo.other_process saved.json 10"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from outrider import dumps, loads, run
from outrider.cli.demo.sample import list_files, read_file
from outrider.providers.base import Reply, Request
from outrider.providers.testing.demo import DemoModel
from outrider.runtime.events import Delta


class Eager(DemoModel):
    """The demo model, if it did not listen when it is told that this is its last turn: as others sometimes do not."""

    def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
        """As the demo model, without the reminder."""
        return super().stream(msgspec.structs.replace(request, reminder=""))


def go_on(saved: Path, turns: int) -> None:
    """Run for at most so many turns, save the conversation again, and print how it ended."""
    conversation = loads(saved.read_text(encoding="utf-8"))
    result = run(conversation, tools=[list_files, read_file], max_turns=turns, model=Eager())
    saved.write_text(dumps(result.conversation), encoding="utf-8")
    ended = {"status": result.status, "messages": len(result.conversation), "text": result.text}
    print(json.dumps(ended))


if __name__ == "__main__":
    go_on(Path(sys.argv[1]), int(sys.argv[2]))
