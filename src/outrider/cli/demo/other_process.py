"""A script that resumes a saved conversation: python -m outrider.cli.demo.other_process saved.json 10"""

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


class IgnoresLastTurn(DemoModel):
    """A demo model that ignores the reminder of its last turn, as real models sometimes do."""

    def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
        """Stream the demo model's reply without the reminder."""
        return super().stream(msgspec.structs.replace(request, reminder=""))


def resume(saved: Path, turns: int) -> None:
    """Run for at most `turns` turns, save the conversation again, and print the outcome as JSON."""
    conversation = loads(saved.read_text(encoding="utf-8"))
    result = run(conversation, tools=[list_files, read_file], max_turns=turns, model=IgnoresLastTurn())
    saved.write_text(dumps(result.conversation), encoding="utf-8")
    print(json.dumps({"status": result.status, "messages": len(result.conversation), "text": result.text}))


if __name__ == "__main__":
    resume(Path(sys.argv[1]), int(sys.argv[2]))
