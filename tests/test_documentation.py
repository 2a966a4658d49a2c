"""README, docs, examples and docstrings say what is true: all of their code runs."""

from __future__ import annotations

import doctest
import os
import re
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from docsite.files import files

from outrider import Log
from tests.cli.program import clean_environment, run

ROOT = Path(__file__).parent.parent
PNG = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + (64).to_bytes(4, "big") + (48).to_bytes(4, "big") + b"\0" * 8
OF_THE_PROJECT = [
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md"),
    *("bench/README.md", "bench/RESULTS.md", "evals/README.md", "tests/interop/README.md"),
]
ALL_PAGES = OF_THE_PROJECT + sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
RUN_ELSEWHERE = ("README.md", "docs/tutorial.md", "docs/print.md")
"""Pages whose examples run in tests of their own: below, test_tutorial.py, cli/test_prompt_page.py."""
PYTHON = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
PAGES = [page for page in ALL_PAGES if page not in RUN_ELSEWHERE and PYTHON.search((ROOT / page).read_text())]
ELSEWHERE = ("inspect_eval.py", "harbor_agent.py")
"""Examples that need large packages: tests/examples/test_evaluators.py runs them."""
SERVERS = ("fastapi_app.py",)
"""Examples that run until they are stopped. tests/examples has tests of them."""
MAPS = ["CONTRIBUTING.md", "docs/architecture.md"]
MODULES = sorted(
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
    for path in (ROOT / "src").rglob("*.py")
    if path.name not in ("__init__.py", "__main__.py") and ">>> " in path.read_text()
)
"""Modules with examples in their docstrings."""


def run_python(code: str, folder: Path) -> str:
    """Run code as a module of this folder, and return what it prints."""
    (folder / "of_the_page.py").write_text(code)
    environment = clean_environment() | {"OTEL_SDK_DISABLED": "true"}  # there is no endpoint to send to
    ended = run(
        module="of_the_page", cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert ended.returncode == 0, ended.stderr
    return str(ended.stdout)


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run_one_after_the_other(page: str, tmp_path: Path) -> None:
    blocks = PYTHON.findall((ROOT / page).read_text())
    (tmp_path / "main.py").write_text("print('hello')\n")
    (tmp_path / "chart.png").write_bytes(PNG)
    run_python("\n".join(blocks), tmp_path)


def test_the_readme_prints_what_it_says(tmp_path: Path) -> None:
    blocks = PYTHON.findall((ROOT / "README.md").read_text())
    (tmp_path / "main.py").write_text("print('hello')\n")
    (tmp_path / "chart.png").write_bytes(PNG)
    printed = run_python("\n".join(blocks), tmp_path)
    lines = printed.splitlines()
    said = ["Refund 80 for A-17?", "Resolution(refunded=80, reply='Sorry!')"]
    assert lines[:4] == [*said, "4", "done 2"]
    calls = lines.index("[{'path': 'main.py'}, {'path': 'chart.png'}]")
    assert lines[calls + 1].startswith("done 1 Usage(")
    assert "chart.png: a picture of 64 × 48 pixels" in printed


def test_the_first_python_example_goes_on_after_a_kill(tmp_path: Path) -> None:
    code = PYTHON.findall((ROOT / "README.md").read_text().partition("\n## From Python\n")[2])[0]
    killed = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    for place in ("for question in", 'print(asyncio.run(support("case-17", "")))'):
        assert place in code
        ended = subprocess.run([sys.executable, "-c", code.replace(place, f"{killed}\n{place}")], cwd=tmp_path)
        assert ended.returncode == -signal.SIGKILL
    assert run_python(code, tmp_path).endswith("Resolution(refunded=80, reply='Sorry!')\n")
    with Log(tmp_path / "cases") as log:
        messages = log.messages("case-17")
    assert [message.text for message in messages if message.text] == ["A-17 came broken."]
    assert [call.name for message in messages for call in message.tool_calls] == ["find_order", "refund", "report_back"]
    assert messages[4].tool_results[0].text.startswith("refunded 80, receipt")


@pytest.mark.parametrize(
    "example", sorted({path.name for path in (ROOT / "examples").glob("*.py")} - {*SERVERS, *ELSEWHERE})
)
def test_an_example_runs(example: str, tmp_path: Path) -> None:
    with_pytest = ["-m", "pytest", "-q"] if example.startswith("test_") else []
    ended = subprocess.run(
        [sys.executable, *with_pytest, ROOT / "examples" / example],
        cwd=tmp_path,
        env=os.environ | {"OUTRIDER_MODEL": "demo"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_in_docstrings_are_true(module: str) -> None:
    outcome = doctest.testmod(import_module(module))
    assert outcome.failed == 0


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page: of its headings, as GitHub and the site make them, and its own."""
    text = re.sub(r"^(`{3,})[^`\n]*\n.*?^\1$", "", page.read_text(), flags=re.M | re.S)
    headings = re.findall(r"^#+ +(.*)$", text, re.M)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r'<a id="([^"]+)">', text))


@pytest.mark.parametrize("page", ALL_PAGES)
def test_links_between_the_pages_lead_somewhere(page: str) -> None:
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(), flags=re.M | re.S)
    for target in re.findall(r"\]\((?!https?://)([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        led_to = (ROOT / page).parent / path if path else ROOT / page
        assert led_to.exists(), f"{page} links to {target}"
        assert not anchor or anchor in anchors_of(led_to), f"{page} links to {target}"


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs/index.md").read_text()
    assert [path.name for path in (ROOT / "docs").glob("*.md") if f"]({path.name})" not in index] == ["index.md"]


def rooms() -> list[str]:
    found = (path for path in (ROOT / "src/outrider").iterdir() if not path.name.startswith(("_", "py.")))
    return [path.stem for path in found if path.is_file() or any(path.glob("*.py"))]  # not what an older checkout left


def test_the_map_has_every_room() -> None:
    (layers,) = re.findall(r"^```\n(mcp_server.*?)^```", (ROOT / "docs/architecture.md").read_text(), re.M | re.S)
    assert set(rooms()) - {"version"} <= set(re.findall(r"\w+", layers))


def test_every_file_of_the_list_says_what_it_is_for() -> None:
    listed = dict(files([]))
    assert len(listed) == len([*(ROOT / "src/outrider").rglob("*.py")])
    assert [place for place, sentence in listed.items() if len(sentence) < 10] == []


def test_the_list_of_files_can_be_of_some_rooms() -> None:
    assert [place for place, _ in files(["version", "skills"])][-1] == "skills/skill.py"


@pytest.mark.parametrize("page", MAPS)
def test_every_file_on_the_map_exists(page: str) -> None:
    for name in re.findall(r"`([\w/]+\.py|(?:{})/[\w/]*)`".format("|".join(rooms())), (ROOT / page).read_text()):
        assert (ROOT / "src/outrider" / name).exists() or (ROOT / name).exists(), f"{page} names {name}"
