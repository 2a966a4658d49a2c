"""Demo 1: a small coding task. The agent reads files, runs a failing test, edits a file and runs the test again."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from outrider.cli.chat.tool_call_lines import diff_lines
from outrider.cli.demo.story import Story
from outrider.cli.styles import unstyled
from outrider.coding.config.settings import PermissionSettings, SandboxSettings, Settings
from outrider.coding.workbench import Workbench
from outrider.conversation.messages import ToolResultBlock
from outrider.conversation.store import MemoryStore
from outrider.processes.programs import Programs
from outrider.runtime.events import Event, ToolFinished
from outrider.runtime.session import Session
from outrider.testing import ScriptedModel, Step, call

PROMPT = "The test fails. Fix the bug."
PROGRAM = '''\
def total(prices: list[float], discount: float = 0) -> float:
    """Return the sum of the prices, less a discount in percent."""
    return round(sum(prices) * (1 - discount), 2)
'''
TEST = """\
import unittest
from prices import total

class TotalTest(unittest.TestCase):
    def test_discount_is_in_percent(self):
        self.assertEqual(total([40.0, 60.0], discount=25), 75.0)
"""
WRONG, RIGHT = "(1 - discount)", "(1 - discount / 100)"
WIDTH = 100


def coding_task(story: Story) -> str:
    """Fix a bug in a project of two files; the replies are scripted, the tools are real."""
    story.heading("the replies are scripted, the tools are real")
    project = story.folder / "shop"
    project.mkdir()
    (project / "prices.py").write_text(PROGRAM)
    (project / "test_prices.py").write_text(TEST)
    results: list[ToolResultBlock] = []

    def observe(event: Event) -> None:
        story.printer.show(event)
        if isinstance(event, ToolFinished):
            results.append(event.result)
            _show_diff(story, event)

    permissions = PermissionSettings(mode="edits", allow=(f"Bash({_test_command()})",))
    bench = Workbench(Settings(permissions=permissions, sandbox=SandboxSettings(use="off")), project)
    try:
        agent = bench.agent(model=ScriptedModel(_replies()))
        session = Session(agent, store=MemoryStore(), cwd=project, observer=observe, approve=bench.permissions)
        story.printer.question(PROMPT)
        result = asyncio.run(session.run(PROMPT))
    finally:
        bench.close()
    story.check(_checks(result.status, results, project))
    return "Coding task: the test failed, the agent edited the file, the test passes."


def _test_command() -> str:
    return f"{'python3' if Programs([Path.cwd()]).find('python3') else sys.executable} -m unittest -q"


def _replies() -> Sequence[Step]:
    test = call("Bash", command=_test_command(), description="Run the test")
    return [
        [
            "I will read both files and run the test.",
            call("Read", file_path="prices.py"),
            call("Read", file_path="test_prices.py"),
            test,
        ],
        [
            "`discount` is in percent, but the sum is multiplied by `1 - discount`.",
            call("Edit", file_path="prices.py", old_string=WRONG, new_string=RIGHT),
        ],
        ["Now I run the test again.", test],
        "Fixed in `prices.py:3`: the discount is now divided by 100. The test passes.",
    ]


def _show_diff(story: Story, event: ToolFinished) -> None:
    details = event.details if isinstance(event.details, dict) else {}
    if isinstance(diff := details.get("diff"), str):
        lines = diff_lines(diff, WIDTH)
        story.print_lines(*(lines if story.printer.live else map(unstyled, lines)))


def _checks(status: str, results: Sequence[ToolResultBlock], project: Path) -> dict[str, bool]:
    failed = [result.is_error for result in results]
    return {
        f"the run ended with status {status!r}, not 'done'": status == "done",
        f"expected the first test run to fail and the second to pass, but is_error was {failed}": failed
        == [False, False, True, False, False],
        "the bug is still there": RIGHT in (project / "prices.py").read_text(),
    }
