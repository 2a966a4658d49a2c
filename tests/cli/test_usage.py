"""`outrider usage`: sums by day, model or folder, and today's cost against the budget."""

from __future__ import annotations

import json
from pathlib import Path

from outrider.conversation.messages import Message
from outrider.conversation.usage import Usage
from outrider.log.entries import MessageEntry, SessionSettings
from outrider.sync import default_log
from outrider.web.figures import Figures
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


def test_what_has_no_known_price_is_not_shown_as_free(tmp_path: Path) -> None:
    with default_log() as log:
        for model, cost in (("openai/a", 0.25), ("ollama/b", None), ("ollama/b", None)):
            journal = log.create(SessionSettings(cwd=str(tmp_path), model=model))
            journal.write_now(MessageEntry(Message.assistant("Yes."), Usage(1_000, 10, 250, cost=cost), model=model))
            journal.close()
        (day,) = Figures(log).by("day")["rows"]
        models = {row["name"]: row["cost"] for row in Figures(log).by("model")["rows"]}
    assert (day["cost"], day["unpriced"], models) == (0.25, 2, {"openai/a": 0.25, "ollama/b": None})
    (tmp_path / ".outrider").mkdir()
    (tmp_path / ".outrider/config.toml").write_text("[budget]\nday = 1.0\nfolder_day = 1.0\n")
    lines = outrider("usage", "--by", "model", cwd=tmp_path).stdout.splitlines()
    assert [line.split()[5:] for line in lines[1:4]] == [["–"], ["$0.2500"], ["≥", "$0.2500"]]
    assert lines[4] == "2 requests of 3 without a known price."
    assert lines[5] == "Budget: $0.2500 of $1.00 today (budget.day); 2 requests without a known price not counted"
    assert lines[6].endswith("(budget.folder_day); 2 requests without a known price not counted")
    found = json.loads(outrider("usage", "--by", "model", "--json", cwd=tmp_path).stdout)
    assert [(row["cost"], row["unpriced"]) for row in found["rows"]] == [(None, 2), (0.25, 0)]
    (tmp_path / "other/.outrider").mkdir(parents=True)
    (tmp_path / "other/.outrider/config.toml").write_text("[budget]\nfolder_day = 1.0\n")
    elsewhere = outrider("usage", cwd=tmp_path / "other").stdout.splitlines()
    assert elsewhere[-1] == "Budget: $0.0000 of $1.00 of this folder today (budget.folder_day)"
