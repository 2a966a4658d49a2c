"""The ports of other frameworks' examples: they run, and docs/comparison.md counts their lines as they are."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

from outrider.testing import ScriptedModel, call
from ports import airline, bank_support, human_in_the_loop

ROOT = Path(__file__).parents[2]
RUFF = [Path(sys.executable).with_name("ruff"), "format", "-", "--line-length", "120"]
NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def code_lines(text: str) -> int:
    """Count the lines with code after formatting: no blank lines, comments or docstrings, no lines of text alone."""
    formatting = [*RUFF, "--config", "format.skip-magic-trailing-comma=true"]
    text = subprocess.run(formatting, input=text, capture_output=True, text=True, check=True).stdout
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines, inside = set(), 0
    for token in tokens:
        kind = tokenize.tok_name[token.type]
        inside += kind == "FSTRING_START"  # Python 3.12 divides a formatted string into tokens
        if not inside and token.type not in (*NO_CODE, tokenize.STRING):
            lines.add(token.start[0])
        inside -= kind == "FSTRING_END"
    return len(lines)


def test_the_table_counts_lines_as_they_are() -> None:
    row = re.compile(r"^\| .*\(\.\./examples/ports/(\w+)\.py\) \| (\d+) \| (\d+) \|$", re.M)
    rows = row.findall((ROOT / "docs" / "comparison.md").read_text())
    files = {path.stem: code_lines(path.read_text()) for path in (ROOT / "examples" / "ports").glob("*.py")}
    assert {name: int(ours) for name, _, ours in rows} == files
    assert all(int(ours) < int(original) for _, original, ours in rows)


TEXT = """
'''A program.

It has comments.'''

# why
first = call(1,
    2,
)


def second():
    "Do it."
    return (
        "a long text on a line of its own, which does not fit on one line with the next one, whatever it says"
        "and more text, so that both of them together are longer than a line of 120 columns can be"
    )
"""


def test_lines_are_those_with_code() -> None:
    assert code_lines(TEXT) == 4


def test_the_bank_gives_typed_advice(capsys: pytest.CaptureFixture[str]) -> None:
    balance = call("report_back", text="You have $123.45, John.", block_card=False, risk=1)
    lost = call("report_back", text="We block your card, John.", block_card=True, risk=8)
    with ScriptedModel([call("customer_balance"), balance, lost]) as model:
        bank_support.main(bank_support.support.replace(model=model))
    assert "the customer, John, by name" in model.requests[0].system
    assert model.requests[1].messages[-1].tool_results[0].text == "$123.45"
    assert capsys.readouterr().out.splitlines()[1] == (
        "Advice(text='We block your card, John.', block_card=True, risk=8)"
    )


async def test_the_chatbot_waits_for_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with ScriptedModel([call("human_assistance", query="How?"), "Look at Outrider."]) as model:
        await human_in_the_loop.main(human_in_the_loop.chatbot.replace(model=model))
    assert "runs survive a restart" in model.requests[1].messages[-1].tool_results[0].text
    assert capsys.readouterr().out.splitlines()[-1] == "assistant: Look at Outrider."


def test_the_airline_hands_over_and_back(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    said = iter(["Is there wifi?", "I want another seat.", "X1, 4A", ""])
    monkeypatch.setattr("builtins.input", lambda _: next(said))
    steps = [
        *(call("handoff", to="faq"), call("faq_lookup", question="Is there wifi?"), "Yes."),
        *(call("handoff", to="triage"), call("handoff", to="seats"), "Which?"),
        *(call("update_seat", confirmation_number="X1", new_seat="4A"), "It is yours."),
    ]
    with ScriptedModel(steps) as model:
        airline.main(airline.team(model))
    assert [each.name for each in model.requests[-1].tools] == ["update_seat", "handoff"]
    printed = capsys.readouterr().out
    assert re.findall(r"\w+ hands over to \w+", printed) == [
        *("triage hands over to faq", "faq hands over to triage", "triage hands over to seats"),
    ]
    assert "→ the seat of X1 is 4A now" in printed
