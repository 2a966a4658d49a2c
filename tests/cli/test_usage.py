"""`outrider usage`: sums by day, model or folder, and today's cost against the budget."""

from __future__ import annotations

import json
from pathlib import Path

from outrider.conversation.messages import Message
from outrider.conversation.usage import Usage
from outrider.log.entries import MessageEntry, SessionSettings
from outrider.sync import default_log
from tests.cli.program import outrider


def test_it_sums_up_and_compares_with_the_budget(tmp_path: Path) -> None:
    with default_log() as log:
        for model, cost in (("openai/a", 0.25), ("openai/b", 0.5)):
            journal = log.create(SessionSettings(cwd=str(tmp_path), model=model))
            journal.write_now(MessageEntry(Message.assistant("Yes."), Usage(1_000, 10, 250, cost=cost), model=model))
            journal.close()
    shown = outrider("usage", "--by", "model", cwd=tmp_path)
    assert [line.split() for line in shown.stdout.splitlines()[1:4]] == [
        ["openai/a", "1", "1,000", "25%", "10", "$0.2500"],
        ["openai/b", "1", "1,000", "25%", "10", "$0.5000"],
        ["all", "2", "2,000", "25%", "20", "$0.7500"],
    ]
    assert "No budget is set" in shown.stdout
    (tmp_path / ".outrider").mkdir()
    (tmp_path / ".outrider/config.toml").write_text("[budget]\nday = 3.0\nfolder_day = 1.5\n")
    found = json.loads(outrider("usage", "--json", "--days", "1", cwd=tmp_path).stdout)
    assert found["today"] == [
        {"name": "day", "cost": 0.75, "budget": 3.0},
        {"name": "folder_day", "cost": 0.75, "budget": 1.5},
    ]
    assert [row["requests"] for row in found["rows"]] == [2]
    assert outrider("usage", "--days", "0").returncode == 2
