"""docs/configuration.md is true: its examples load, and its table is the settings."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from outrider.coding.config.settings import SETTINGS
from tests.coding.config import Home

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "configuration.md").read_text()
EXAMPLES = re.findall(r"^```toml\n(.*?)^```", PAGE, re.M | re.S)
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "settings-page"))


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_loads_as_your_own_file_and_as_a_projects(home: Home, example: str) -> None:
    home.user_says(example)
    assert "config.toml" in "".join(home.load().origins.values())
    home.user_file.unlink()
    home.project_says(example)
    assert "config.toml" in "".join(home.load().origins.values())


def test_there_are_examples_and_the_last_one_waits_for_what_it_says(home: Home) -> None:
    assert len(EXAMPLES) >= 2
    home.project_says(EXAMPLES[-1])
    waiting = home.load().waiting
    assert waiting
    assert [item.name for item in waiting] == ["permissions.allow", "sandbox.use"]


def test_the_page_is_as_the_script_generates_it() -> None:
    assert SCRIPT["page"](PAGE) == PAGE, "run scripts/settings-page"
    assert [row.split("`")[1] for row in SCRIPT["table"]().splitlines()[2:]] == list(SETTINGS)


def test_the_table_says_what_is_declared() -> None:
    rows = {row.split("`")[1]: row for row in SCRIPT["table"]().splitlines()[2:]}
    turns = SETTINGS["limits.max_turns"].help
    row = f'| `limits.max_turns` | `"none"` | `OUTRIDER_MAX_TURNS`, `--max-turns` | {turns} |'
    assert rows["limits.max_turns"] == row
    assert rows["limits.max_cost"].startswith('| `limits.max_cost` | `"none"` | `OUTRIDER_MAX_COST`, `--max-cost` |')
    assert rows["model"].startswith("| `model` | a balanced one of the first provider with a key | `OUTRIDER_MODEL`")
    assert rows["permissions.mode"].startswith('| `permissions.mode` | `"ask"` |')
    assert rows["permissions.allow"].startswith("| `permissions.allow` | `[]` | `--allow` |")
    assert rows["web.private_addresses"].startswith("| `web.private_addresses` | `false` |")
    assert all(row.count("|") == 5 for row in rows.values())
