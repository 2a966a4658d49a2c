"""Conversations in a notebook, executed by a real kernel."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

SETUP = """
import io
from PIL import Image
from outrider import Agent, Attachment, Message, Session, ToolResult, run, think
from outrider.notebook import LiveView
from outrider.testing import ScriptedModel
from outrider.testing import call

def picture():
    file = io.BytesIO()
    Image.new("RGB", (2, 2), "red").save(file, "PNG")
    return Attachment(file.getvalue(), "image/png", name="plot.png")

def plot(title: str) -> ToolResult:
    "Plot."
    return ToolResult("plotted", attachments=[picture()])

def agent():
    return Agent(ScriptedModel([["Let me plot.", call("plot", title="sales")], "**Sales** grow."]), tools=[plot])
"""
CELLS = [
    "result = await agent().run('Plot the sales.'); result",
    "session = Session(agent()); await session.run('Plot the sales.'); session",
    "session.history",
    "Message.assistant('**bold**')",
    "picture()",
    "turn = think('What is 2+2?', conversation=[], model='demo'); turn",
    "run('What is 2+2?', model='demo')",
    "live = await agent().run('Plot the sales.', observer=LiveView())",
]

pytestmark = pytest.mark.long  # the libraries of notebooks take seconds to import

EXAMPLE = Path(__file__).parents[2] / "examples" / "sales_report.ipynb"
FOLDERS = ("OUTRIDER_HOME", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR")


def executed(notebook: Any, folder: Path) -> list[list[str]]:
    """Return the HTML that each cell shows, executed by a kernel of its own."""
    from nbclient import NotebookClient  # as nbformat, it takes seconds

    with pytest.MonkeyPatch.context() as patch:
        for variable in FOLDERS:
            patch.setenv(variable, str(folder / variable))
        client = NotebookClient(notebook, timeout=100, startup_timeout=100, kernel_name="python3")
        client.create_kernel_manager().kernel_spec.argv[0] = sys.executable  # not a kernel that the user has installed
        client.execute()
    return [_html(cell) for cell in notebook.cells if cell.cell_type == "code"]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    import nbformat

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in (SETUP, *CELLS)])
    return executed(notebook, tmp_path_factory.mktemp("notebook"))[1:]


def test_the_example_runs_and_shows_its_chart(tmp_path: Path) -> None:
    import nbformat

    notebook = nbformat.read(EXAMPLE, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    *_, live, result = executed(notebook, tmp_path)
    assert "<code>draw_chart</code>" in live[0]
    assert 'src="data:image/png;base64,' in result[0]
    assert "<strong>April</strong> was best" in result[0]


def _html(cell: Any) -> list[str]:
    return [output["data"]["text/html"] for output in cell.outputs if "text/html" in output.get("data", {})]


def test_everything_shows_itself(shown: list[list[str]]) -> None:
    result, session, history, message, picture, turn, sync, live = shown
    assert all(len(html) == 1 for html in shown)
    assert "<b>done</b> after 2 turns" in result[0]
    assert "<strong>Sales</strong> grow." in result[0]
    assert "<b>agent</b> with scripted, 4 messages" in session[0]
    assert "<strong>Sales</strong>" in history[0]
    assert "<strong>bold</strong>" in message[0]
    assert 'src="data:image/png;base64,' in picture[0]
    assert "What is 2+2?" in turn[0]
    assert "<b>done</b>" in sync[0]
    assert "✅ done" in live[0]


def test_pictures_of_calls_are_inline_and_calls_are_folded(shown: list[list[str]]) -> None:
    for html in (shown[0][0], shown[1][0]):
        assert html.count('src="data:image/png;base64,') == 1
        assert "<details><summary>✅ <code>plot</code>" in html


def test_a_live_view_shows_the_calls_of_the_run(shown: list[list[str]]) -> None:
    assert "<code>plot</code>" in shown[7][0]
    assert "<strong>Sales</strong> grow." in shown[7][0]
