"""One key of a TOML file is changed, and everything else stays as it was written."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.coding.config.editing import EditableFile, as_toml, with_value, without_value
from outrider.errors import ConfigError

FILE = """\
# Mine. Do not lose this.
model = "a#b"  # the one

# What it may cost
[limits]
max_turns = 3
max_cost = 0.5 # dollars

[permissions]
allow = [
    "Bash(ls)",  # harmless
    "Bash(a = [1])",
]
deny = ["Bash(rm:*)"]
"""


@pytest.mark.parametrize(
    ("key", "value", "before", "after"),
    [
        ("model", '"demo"', 'model = "a#b"  # the one', 'model = "demo"  # the one'),
        ("limits.max_cost", "2", "max_cost = 0.5 # dollars", "max_cost = 2 # dollars"),
        ("limits.max_seconds", "9", "# dollars\n", "# dollars\nmax_seconds = 9\n"),
        ("effort", '"low"', "  # the one\n", '  # the one\neffort = "low"\n'),
        ("permissions.deny", "[]", 'deny = ["Bash(rm:*)"]', "deny = []"),
        ("chat.notify", '"bell"', '(rm:*)"]\n', '(rm:*)"]\n\n[chat]\nnotify = "bell"\n'),
    ],
)
def test_one_line_changes(key: str, value: str, before: str, after: str) -> None:
    assert with_value(FILE, key, value) == FILE.replace(before, after, 1)


def test_a_list_in_several_lines_is_replaced_and_removed_whole() -> None:
    listed = FILE[FILE.index("allow") : FILE.index("deny")]
    assert with_value(FILE, "permissions.allow", "[]") == FILE.replace(listed, "allow = []\n")
    assert without_value(FILE, "permissions.allow") == FILE.replace(listed, "")
    assert without_value(FILE, "permissions.mode") == FILE


def test_a_key_of_the_top_goes_above_the_tables() -> None:
    text = "# Mine.\n\n# About chats\n[chat]\nvi_keys = true\n"
    assert with_value(text, "lean", '"on"') == text.replace("# About", 'lean = "on"\n\n# About')
    assert with_value("", "lean", '"on"') == 'lean = "on"\n'
    assert with_value("# only a comment", "lean", '"on"') == '# only a comment\n\nlean = "on"\n'


def test_dotted_keys_and_foreign_line_breaks_stay() -> None:
    text = 'limits.max_turns = 3\r\npermissions.allow = [\r\n  "Bash(ls)"\r\n]\r\n'
    assert with_value(text, "limits.max_turns", "4") == text.replace("3", "4")
    assert with_value(text, "permissions.allow", "[]") == "limits.max_turns = 3\r\npermissions.allow = []\r\n"


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=3))
def test_every_text_can_be_written(texts: list[str]) -> None:
    assert tomllib.loads(with_value(FILE, "hooks.files", as_toml(texts)))["hooks"]["files"] == texts


def test_a_key_in_an_inline_table_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / ".outrider/config.toml"
    file.parent.mkdir()
    file.write_text("limits = { max_turns = 3 }\n")
    with pytest.raises(ConfigError, match=r"line 1: limits.max_turns cannot be changed .* edit the file by hand"):
        EditableFile(tmp_path, project=True).set("limits.max_turns", ["4"])
    assert file.read_text() == "limits = { max_turns = 3 }\n"
