"""docs/configuration.md is true: its examples load, and its table is the settings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from outrider.coding.config.keys import DEFAULTS, KEYS
from tests.coding.config import Home

PAGE = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text()
EXAMPLES = re.findall(r"^```toml\n(.*?)^```", PAGE, re.M | re.S)
ROWS = [[cell.strip() for cell in row.split("|")[1:-1]] for row in re.findall(r"^\| `.*$", PAGE, re.M)]


def as_written(value: object) -> str:
    """A default as the table has it."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, float):
        return f"`{value:g}`"
    return f'`"{value}"`' if isinstance(value, str) else "`[]`" if value == () else f"`{value}`"


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_loads_as_your_own_file_and_as_a_projects(home: Home, example: str) -> None:
    home.user_says(example)
    assert "config.toml" in "".join(home.load().origins.values())
    home.user_file.unlink()
    home.project_says(example)
    assert "config.toml" in "".join(home.load().origins.values())


def test_there_are_examples_and_the_last_one_waits_for_what_it_says(home: Home) -> None:
    assert len(EXAMPLES) >= 3
    home.project_says(EXAMPLES[-1])
    waiting = home.load().waiting
    assert waiting
    assert [each.key for each in waiting.widenings] == ["permissions.allow", "sandbox.use"]


def test_the_table_has_every_setting_with_its_default_variable_and_flag() -> None:
    assert [row[0].strip("`") for row in ROWS] == list(KEYS)
    for name, default, variable, flag, about in ROWS:
        key = name.strip("`")
        limit = key.startswith("limits.") and DEFAULTS[key] is None
        assert default == ('`"none"`' if limit else as_written(DEFAULTS[key])), key
        assert variable.strip(" `") == KEYS[key].variable, key
        assert flag.strip(" `") == KEYS[key].flag, key
        assert about
