"""`outrider demo`: nine demos that check themselves, as a new user sees them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from outrider.cli.demo.runner import STORIES, program
from outrider.cli.demo.story import SAMPLE
from tests.cli.chat.terminal import Terminal, until
from tests.cli.program import clean_environment, run

WITHOUT_PROGRAMS = """
import sys, pathlib
from outrider.cli.demo.runner import run_stories
sys.executable = {program!r}
sys.exit(run_stories(pathlib.Path({sample!r})))
"""
"""The demo with another sample folder, where no process of its own can do anything."""
PAGE = Path(__file__).parents[2] / "docs" / "stories" / "1-a-coding-task.md"
SHOWN = (
    r"Bash\(python3 -m unittest -q\) +✗ exit code 1",
    r"\+    return round\(sum\(prices\) \* \(1 - discount / 100\), 2\)",
    r"Bash\(python3 -m unittest -q\) +✓ ",
    "Anthropic Messages +image, in the result +document, in the result",
    "OpenAI Chat +image_url, moved +file, moved",
    "a small local model +a note: no image input +converted to text",
    '← tool_call_update .*"status":"completed"',
    r"Bytes: [\d.]+ KiB in full, [\d.]+ (KiB|bytes) sent, \d+% saved\.",
    '{"file":"notes.txt","kind":"text","lines":7}',
    r"total 9 turns, \$0\.0000",
    "a second process: max_turns, 5 messages",
    "a third process: done, 6 messages",
    "The context was full: [2-9] compactions",
    r"What is the code of room 3\? +The code of room 3 is 23757\.",
    '"structured_output":\\[{"file":"notes.txt","kind":"text","lines":7}\\]',
    r"✗ Bash\(rm times.txt\) +Bash was not run: a hook blocked it: Nothing is deleted here\.",
    "Mistral +image_url, moved +as words",
    "- A refund approved later needs a browser: docs/stories/11-a-refund-approved-later.md",
    "- A batch on Postgres needs a database: docs/stories/8-a-batch-on-postgres.md",
    r"Next:\n  (python -P -m )?outrider +chat in this folder\n",
)
"""What each story is there to show."""


def demo(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end, which takes longer on a busy machine than other commands may."""
    env = clean_environment() | environment
    ended = run("demo", timeout=280, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder, env=env)
    return subprocess.CompletedProcess(ended.args, ended.returncode, ended.stdout.decode(), ended.stderr.decode())


def held(said: str) -> int:
    """How many stories held."""
    return len(re.findall("^✓ ", said, re.M))


@pytest.mark.long
@pytest.mark.timeout(300)
def test_it_tells_nine_stories_all_of_which_hold_and_leaves_nothing_behind(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    elsewhere.mkdir()
    ended = demo(elsewhere, OUTRIDER_HOME=str(home), TMPDIR=str(elsewhere), OUTRIDER_MODEL="no-such/model")
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout
    assert not home.exists(), "it writes to the user's data folder"
    assert not [*elsewhere.iterdir()]
    assert held(ended.stdout) == len(STORIES) == 9
    assert "✗" not in ended.stdout.replace("✗ exit code 1", "", 1).replace("✗ Bash(rm times.txt)", "", 1)
    assert "\x1b" not in ended.stdout, "no colours where there is no terminal"
    for number, title in enumerate(STORIES, 1):
        assert f"\n{number} of 9  {title} · " in ended.stdout
    for pattern in SHOWN:
        assert re.search(pattern, ended.stdout), pattern
    shown = PAGE.read_text().partition("```text\n")[2].partition("```")[0]
    assert set(shown.splitlines()) <= set(ended.stdout.splitlines()), "the page shows other output"
    words = [line for line in ended.stdout.splitlines() if not line.startswith("  ")]  # those are cut to the terminal
    assert [line for line in words if len(line) > 100] == []


@pytest.mark.parametrize(
    ("started_as", "shown"),
    [
        (".venv/bin/outrider", ".venv/bin/outrider"),
        ("/somewhere/outrider/__main__.py", "python -P -m outrider"),
    ],
)
def test_the_next_commands_can_be_typed_where_outrider_is_not_on_the_path(
    started_as: str, shown: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", [started_as])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program() == shown
    (tmp_path / "outrider").touch(0o755)
    assert program() == "outrider"


@pytest.mark.long
@pytest.mark.timeout(300)
def test_what_does_not_hold_is_said_in_a_sentence_and_the_other_stories_are_told(tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, tmp_path / "sample")
    (tmp_path / "sample" / "chart.png").unlink()
    script = WITHOUT_PROGRAMS.format(program=shutil.which("false"), sample=str(tmp_path / "sample"))
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=clean_environment(), timeout=280
    )
    assert (ended.returncode, ended.stderr) == (1, ""), ended.stdout
    assert held(ended.stdout) == 2, "the coding task and the typed report"
    for sentence in (
        r"✗ A picture from a tool: expected an image and a PDF, not \['application/pdf'\]\.",
        r"✗ Watching from an editor: the demo failed \(.+\)\.",
        r"✗ A script that holds its conversation: the demo failed \(.*the other process failed.*\)\.",
    ):
        assert re.search(sentence, ended.stdout), sentence


async def test_ctrl_c_ends_it_in_a_terminal(tmp_path: Path) -> None:
    async with Terminal("demo", cwd=tmp_path, columns=100, lines=40, TMPDIR=str(tmp_path)) as terminal:
        await terminal.wait_for(re.compile(r"Read\(test_prices.py\) +✓ 6 lines"))
        assert b"\x1b[" in terminal.raw, "a terminal has colours"
        terminal.press("c-c")
        await until(lambda: terminal.process.poll() is not None)
        assert terminal.process.returncode == 130
        assert "Traceback" not in terminal.screen
    assert not [name for name in os.listdir(tmp_path) if name.startswith("outrider-demo")]
