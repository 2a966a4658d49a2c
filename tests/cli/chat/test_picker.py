"""A list to choose from: its columns, its marks, its preview, in windows of every size."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from outrider.cli.chat import picker as picker_module
from outrider.cli.chat.picker import Picker, PickerChoice, Table, model_choices
from outrider.cli.styles import columns, unstyled
from tests.cli.chat.terminal import Terminal

CHOICES = [
    PickerChoice("a", "alpha", "the first", ("$1 / $5", "200k")),
    PickerChoice("b", "a much longer name", "the second", ("$10 / $50", "1M"), is_current=True),
]


def lines(width: int) -> list[str]:
    return [unstyled(Table(CHOICES).line(each, width, is_chosen=each.is_current)) for each in CHOICES]


def test_columns_are_aligned_and_the_current_row_is_marked() -> None:
    assert lines(60) == [
        "    alpha               $1 / $5    200k  the first",
        "❯ ● a much longer name  $10 / $50  1M    the second",
    ]
    assert lines(48)[1] == "❯ ● a much longer name  $10 / $50  1M    the se…"
    assert lines(36)[1] == "❯ ● a much longer …  $10 / $50  1M  "
    assert lines(30)[1] == "❯ ● a much longer …  $10 / $50"
    assert lines(20)[1] == "❯ ● a much longer n…"
    assert all(columns(line) <= max(5, width) for width in range(1, 70) for line in lines(width))


def drawn(picker: Picker, size: tuple[int, int]) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(picker_module, "get_terminal_size", lambda: os.terminal_size(size))
        above, below = picker._rows().value.split("\n"), picker._below().value.split("\n")
        assert len(above) + len(below) + 2 <= max(size[1], 6)
        return [unstyled(line) for line in above + below]


def test_many_rows_and_a_preview_fit_into_small_windows() -> None:
    many = [PickerChoice(str(at), f"row {at}", facts=(f"fact {at}",)) for at in range(3_000)]
    picker = Picker("Choose", many, lambda value: [f"about {value}"] * 300, "2999")
    for size in ((20, 8), (80, 24), (300, 100)):
        shown = drawn(picker, size)
        assert any(line.startswith("❯ row 2999") for line in shown)
        assert any("about 2999" in line for line in shown)
        assert "more lines" in shown[-1]
        assert all(columns(line) < size[0] for line in shown)
    picker._search.text = "row 17"
    assert [each.value for each in picker._found][:2] == ["17", "117"]
    assert drawn(picker, (24, 8))[0] == "❯ row 17    fact 17  "


def test_models_have_a_price_and_a_window_and_the_current_one_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "correct-horse-battery-staple")
    current = "anthropic/claude-sonnet-4-5"
    choices = {each.value: each for each in model_choices(current, ["demo", "openai/gpt-5.4", "nonsense/x"])}
    assert choices[current].facts == ("$3 / $15", "200k context")
    assert [each.value for each in choices.values() if each.is_current] == [current]
    assert "demo" in choices
    assert "nonsense/x" not in choices
    assert choices["anthropic/claude-haiku-5-5"].detail == "fast"


async def test_the_list_of_models_in_a_terminal_that_is_resized(project: Path) -> None:
    keys = {"ANTHROPIC_API_KEY": "correct-horse-battery-staple"}
    async with Terminal("--model", "demo", cwd=project, columns=120, lines=40, **keys) as terminal:
        await terminal.wait_for_prompt()
        terminal.say("/model")
        await terminal.wait_for(re.compile("❯ ● demo .*not an LLM"))
        await terminal.wait_for(re.compile(r"anthropic/claude-sonnet-5-5 +\$[0-9.]+ / \$[0-9.]+ +1M context +balanced"))
        terminal.resize(40, 10)
        await terminal.wait_for(re.compile(r"anthropic/claude-\w*…? +\$"))
        terminal.resize(20, 8)
        await terminal.wait_for("anthropic/clau…")
        terminal.type("opus")
        await terminal.wait_for(re.compile("^1 of 4", re.MULTILINE))
        terminal.press("enter")
        await terminal.wait_for(lambda: "Model:anthropic/claude-opus-5-5." in "".join(terminal.transcript.split()))
