"""A bug in a tool: its traceback is in the logger, and the model reads one sentence."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from outrider import ToolResultBlock, run
from outrider.errors import ConversationError
from outrider.testing import ScriptedModel, call


def find_order(number: int, code: str) -> str:
    "Find an order."
    return {}[number]  # the bug


def result_of(tool: Any, **arguments: object) -> ToolResultBlock:
    model = ScriptedModel([call(tool.__name__, **arguments), "Done."])
    [result] = run("Go.", tools=[tool], model=model).conversation[2].tool_results
    return result


def test_the_logger_has_the_traceback_and_the_model_the_sentence(caplog: pytest.LogCaptureFixture) -> None:
    assert result_of(find_order, number=7, code="open sesame").text == "find_order failed: KeyError: 7"
    [record] = caplog.records
    assert (record.name, record.levelno) == ("outrider", logging.WARNING)
    assert "the tool find_order failed" in caplog.text
    assert "return {}[number]  # the bug" in caplog.text
    assert "sesame" not in caplog.text


def test_a_key_in_the_error_is_masked(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "very-secret-value")

    def connect() -> str:
        "Connect."
        raise ConnectionError("refused with very-secret-value")

    result_of(connect)
    assert "ConnectionError: refused with" in caplog.text
    assert "very-secret-value" not in caplog.text


def test_characters_that_cannot_be_written_are_replaced(caplog: pytest.LogCaptureFixture) -> None:
    def read() -> str:
        "Read."
        raise OSError("no \udcff here")

    result_of(read)
    assert "OSError: no \ufffd here" in caplog.text.encode().decode()


def test_even_an_exit_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def leave() -> None:
        "Leave."
        sys.exit("out of paper")

    assert result_of(leave).text == "leave failed: SystemExit: out of paper"
    assert "SystemExit: out of paper" in caplog.text


def test_wrong_arguments_and_our_own_errors_are_no_bugs(caplog: pytest.LogCaptureFixture) -> None:
    def refuse() -> None:
        "Refuse."
        raise ConversationError("nothing to say")

    assert "ConversationError: nothing to say" in result_of(refuse).text
    assert result_of(find_order, number="seven").is_error
    assert not caplog.records


ADD = """
from outrider import tool


@tool(effect="read")
def add(a: float, b: float) -> float:
    "Add two numbers."
    raise KeyError("no such sum")
"""


def test_the_terminal_program_does_not_print_it_between_its_lines(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(ADD)
    command = [sys.executable, "-m", "outrider", "-p", "Use add for 2 plus 3", "--model", "demo", "--tools", "tools.py"]

    def said(**more: str) -> str:
        ended = subprocess.run(
            command,
            cwd=tmp_path,
            env={**os.environ, **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return ended.stdout + ended.stderr

    shown = said(OUTRIDER_DEBUG=str(tmp_path / "debug.log"))
    assert "Traceback" in (tmp_path / "debug.log").read_text()
    for text in (shown, said()):
        assert "add failed: KeyError: 'no such sum'" in text
        assert "Traceback" not in text
