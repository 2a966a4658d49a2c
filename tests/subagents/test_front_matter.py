"""Front matter of profiles: parsed as in YAML, or refused with the line."""

from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from outrider.coding.project_texts import as_list, split_fields
from tests.lengths import examples


@pytest.mark.parametrize(
    ("lines", "fields"),
    [
        ("name: reader", {"name": "reader"}),
        ("name:   reader  ", {"name": "reader"}),
        ('name: "reader"', {"name": "reader"}),
        ("name: 'it''s'", {"name": "it's"}),
        (r'name: "a \"b\" \\ c\nd"', {"name": 'a "b" \\ c\nd'}),
        ("name: reader # of books", {"name": "reader"}),
        ('name: "reader" # of books', {"name": "reader"}),
        ("name: 'it''s' # so", {"name": "it's"}),
        ("name: C# and F#", {"name": "C# and F#"}),
        ("description: use: when needed", {"description": "use: when needed"}),
        ("tools: [Read, 'Grep', \"Glob\"]", {"tools": ["Read", "Grep", "Glob"]}),
        ("tools: []", {"tools": []}),
        ("tools:\n  - Read\n  - Grep # find", {"tools": ["Read", "Grep"]}),
        ("tools:\n- Read\n- Grep\nname: x", {"tools": ["Read", "Grep"], "name": "x"}),
        ("tools: Read, Grep", {"tools": "Read, Grep"}),
        ("limits: {max_turns: 20, max_cost: 0.5}", {"limits": {"max_turns": "20", "max_cost": "0.5"}}),
        ("limits:\n  max_turns: 20\n  max_cost: 0.5 # dollars", {"limits": {"max_turns": "20", "max_cost": "0.5"}}),
        ("description: >\n  two\n  lines\nname: x", {"description": "two lines", "name": "x"}),
        ("description: |-\n  two\n  lines", {"description": "two\nlines"}),
        ("description: two\n  lines", {"description": "two lines"}),
        ("# a remark\n\nname: x\n  # another\n", {"name": "x"}),
        ("name:", {"name": ""}),
        ("", {}),
        ("tools: *", {"tools": "*"}),
        ("tools: [\"a, b\", 'c']", {"tools": ["a, b", "c"]}),
        ("tools: [Read,\n  Grep]", {"tools": ["Read", "Grep"]}),
        ("argument-hint: [file] [style]", {"argument-hint": ["file] [style"]}),
        ("description: @user said `x`: !y", {"description": "@user said `x`: !y"}),
        ("description: |\n  two\n    lines", {"description": "two\n  lines"}),
        ('description: "two\n  lines"', {"description": "two lines"}),
        (
            "hooks:\n  Stop:\n    - matcher: Bash\n      command: ls\nname: x",
            {"hooks": {"Stop": [{"matcher": "Bash", "command": "ls"}]}, "name": "x"},
        ),
    ],
)
def test_what_such_files_use_is_read(lines: str, fields: dict[str, Any]) -> None:
    assert split_fields(f"---\n{lines}\n---\nYou read.\n") == (fields, "You read.")
    windows = f"---\n{lines}\n---\nYou read.\n".replace("\n", "\r\n")
    assert split_fields(windows) == (fields, "You read.")


@pytest.mark.parametrize(
    "text",
    ["You read.", "", "--- \nname: x\n", "----\nname: x\n----\n", "\n---\nname: x\n---\n", "---\nname: x\n--- no\n"],
)
def test_a_text_without_a_closed_block_has_no_fields(text: str) -> None:
    assert split_fields(text) == ({}, text)


def test_what_follows_the_block_is_text_whatever_it_looks_like() -> None:
    assert split_fields("---\nname: x\n---\nBefore.\n---\nnot: a field\n---\n") == (
        {"name": "x"},
        "Before.\n---\nnot: a field\n---",
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("---\nname: x\nno field here\n---\n", 3),
        ("---\n{json: 1}\n---\n", 2),
        ("---\n\n# fine\n- a list\n---\n", 4),
        ("---\nname:x\n---\n", 2),
        ("---\nname: x\nname: y\n---\n", 3),
        ("---\nname: x\ndescription: 'never closed\n---\n", 3),
        ('---\nname: x\ndescription: "a" b\n---\n', 3),
        ("---\nname: x\nlimits:\n\tmax_turns: 3\n---\n", 4),
        ("---\nname: x\ndescription: \x1b[31mred\n---\n", 3),
    ],
)
def test_a_line_that_cannot_be_read_is_named(text: str, line: int) -> None:
    with pytest.raises(ValueError, match=f"^line {line}: "):
        split_fields(text)


def test_fields_without_end_are_refused() -> None:
    with pytest.raises(ValueError, match="more than 32,768 characters"):
        split_fields("---\n" + "".join(f"a{number}: 'b\n  c'\n" for number in range(4000)) + "---\n")
    with pytest.raises(ValueError, match="nested too deeply"):
        split_fields("---\n" + "".join(f"{' ' * number}a:\n" for number in range(100)) + "---\n")


@given(st.text() | st.text(alphabet="-: \t\n\"'[]{},#|>ab\\\r\u2028\x85\x00"))
@example("---\n---")
@example("---\n[\n---")
def test_any_text_is_read_or_refused_and_nothing_else_happens(text: str) -> None:
    for each in (text, f"---\n{text}\n---\n"):
        try:
            fields, rest = split_fields(each)
        except ValueError:
            continue
        assert isinstance(rest, str)
        for name, value in fields.items():
            assert name
            assert isinstance(value, str | list | dict)


NAMES = st.text(alphabet=string.ascii_letters + "_", min_size=1, max_size=8)
PLAIN = st.text(alphabet=string.ascii_letters + string.digits + "äß✓ .;/!?-", min_size=1, max_size=20).map(str.strip)
SIMPLE = PLAIN.filter(lambda text: text and not text.startswith("-"))


@settings(max_examples=examples(40))
@given(st.dictionaries(NAMES, SIMPLE, max_size=5), st.text(alphabet="ab #\n", max_size=20).map(str.strip))
def test_plain_fields_come_back_as_they_were_written(fields: dict[str, str], text: str) -> None:
    written = "".join(f"{name}: {value}\n" for name, value in fields.items())
    assert split_fields(f"---\n{written}---\n{text}\n") == (fields, text)


@settings(max_examples=examples(40))
@given(st.dictionaries(NAMES, st.text(alphabet="ab\\\"' #:,äß✓[]{}|>&*!%@`-", max_size=20), max_size=5))
def test_quoted_fields_come_back_as_they_were_written(fields: dict[str, str]) -> None:
    def quoted(value: str) -> str:
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'

    written = "".join(f"{name}: {quoted(value)}\n" for name, value in fields.items())
    assert split_fields(f"---\n{written}---\n")[0] == fields


@settings(max_examples=examples(40))
@given(st.lists(SIMPLE, min_size=1, max_size=5), st.sampled_from(["inline", "below", "indented"]))
def test_lists_come_back_as_they_were_written(items: list[str], style: str) -> None:
    match style:
        case "inline":
            written = f"tools: [{', '.join(items)}]"
        case "below":
            written = "tools:\n" + "\n".join(f"- {item}" for item in items)
        case _:
            written = "tools:\n" + "\n".join(f"  - {item}" for item in items)
    assert split_fields(f"---\n{written}\n---\n")[0] == {"tools": items}


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("Read, Grep", ["Read", "Grep"]),
        (["Read", "Grep"], ["Read", "Grep"]),
        ("", []),
        (" , ", []),
        ("Bash(git add:*, git push:*), Read", ["Bash(git add:*, git push:*)", "Read"]),
        ("Agent(Explore, Bash, Plan), Read", ["Agent(Explore, Bash, Plan)", "Read"]),
    ],
)
def test_names_with_commas_between_them_are_a_list(value: Any, names: list[str]) -> None:
    assert as_list(value) == names


@pytest.mark.parametrize("value", [{"a": "b"}, ["Read", {"a": "b"}], [["Read"]], {}])
def test_a_list_of_names_has_only_names(value: Any) -> None:
    with pytest.raises(ValueError, match="one name a line"):
        as_list(value)
