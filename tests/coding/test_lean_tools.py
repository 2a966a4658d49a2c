"""The lean form of the coding agent: small, chosen by the window, and as able as its tools."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from outrider.coding.config.settings import PermissionSettings, Settings
from outrider.coding.workbench import Workbench
from outrider.conversation.store import MemoryStore
from outrider.providers.adapters.hosted import CompatibleServer
from outrider.providers.catalogue.capabilities import Capabilities
from outrider.providers.catalogue.windows import estimated_tokens
from outrider.runtime.agent import Agent
from outrider.runtime.context import tool_tokens
from outrider.runtime.recall import RememberedPast, recall_tool
from outrider.runtime.session import Session
from outrider.runtime.toolset import specs_of
from tests.cli.asking import MODEL, ask
from tests.modelserver import Answer, ModelServer
from tests.smallmodel import SmallModel, running

PAGE = Path(__file__).parents[2] / "docs" / "providers" / "local.md"
FEW = ["Read", "Write", "Edit", "Glob", "Grep", "Bash"]


def agent(folder: Path, *, window: int | None = None, **settings: object) -> Agent:
    provider = CompatibleServer("small", "http://127.0.0.1:1/v1", capabilities=Capabilities(context_tokens=window))
    return Workbench(Settings(**settings), folder).agent(model=provider)  # type: ignore[arg-type]


def tokens(of: Agent) -> int:
    return estimated_tokens(of.system_prompt) + estimated_tokens(msgspec.json.encode(specs_of(of.tools)))


def test_the_lean_form_has_at_most_a_thousand_tokens(tmp_path: Path) -> None:
    lean, full = agent(tmp_path, lean="on"), agent(tmp_path, lean="off")
    assert [tool.name for tool in lean.tools] == FEW
    assert tokens(lean) <= 1_000
    assert tokens(full) <= 3_500


def test_the_page_says_how_many_tokens_each_form_has(tmp_path: Path) -> None:
    page = " ".join(PAGE.read_text().split())
    said = re.search(r"about ([\d,]+) tokens, against ([\d,]+) in the full form .* `Recall` adds about (\d+)", page)
    assert said
    store = MemoryStore()
    recall = specs_of([recall_tool(RememberedPast("", list, store), store)])
    forms = tokens(agent(tmp_path, lean="on")), tokens(agent(tmp_path, lean="off")), tool_tokens(recall)
    for number, form in zip(said.groups(), forms, strict=True):
        assert int(number.replace(",", "")) == pytest.approx(form, rel=0.08)


@pytest.mark.parametrize(
    ("setting", "window", "is_lean"),
    [("auto", 8192, True), ("auto", 16384, True), ("auto", 32768, False), ("auto", None, False), ("off", 8192, False)],
)
def test_the_window_chooses(tmp_path: Path, setting: str, window: int | None, is_lean: bool) -> None:
    names = [tool.name for tool in agent(tmp_path, window=window, lean=setting).tools]
    assert (names == FEW) is is_lean


def test_chosen_tools_stay(tmp_path: Path) -> None:
    lean = agent(tmp_path, lean="on", tools=("Read", "WebFetch"))
    assert [tool.name for tool in lean.tools] == ["Read", "WebFetch"]


async def test_a_window_that_a_server_told_counts_in_the_next_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_MODEL_LOOKUP", "on")
    async with running(SmallModel(["Hello."])) as model:
        await Session(Agent(model.url)).run("Hello")
        assert len(Workbench(Settings(), tmp_path).agent(model=model.url).tools) == len(FEW)


async def test_the_lean_tools_work(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    calls = [
        '{"name": "Read", "arguments": {"file_path": "a.txt"}}',
        '{"name": "Edit", "arguments": {"file_path": "a.txt", "old_string": "one", "new_string": "two"}}',
    ]
    async with running(SmallModel([*calls, "Done."])) as model:
        bench = Workbench(Settings(lean="on", permissions=PermissionSettings(mode="edits")), tmp_path)
        session = Session(bench.agent(model=model.url), cwd=tmp_path, approve=bench.permissions)
        run = await session.run("Write two instead of one.")
    assert (run.text, (tmp_path / "a.txt").read_text()) == ("Done.", "two\n")
    sent = model.requests[0]["tools"][0]["function"]["parameters"]
    assert sent["required"] == ["file_path"]


def test_no_description_has_a_path_that_a_model_may_take_for_real(tmp_path: Path) -> None:
    for form in ("on", "off"):
        for tool in agent(tmp_path, lean=form).tools:
            text = msgspec.json.encode([tool.description, tool.parameters]).decode()
            assert not re.search(r"\b(?:src|lib|docs?)/|\*\.\w", text), tool.name


async def test_wire_shows_the_lean_form_of_a_session_that_had_it(tmp_path: Path) -> None:
    async with ModelServer([Answer("One.")]) as server:
        ended = await ask(server, "-p", "Hi", "--lean", "--output-format", "json", cwd=tmp_path)
        session = json.loads(ended.stdout)["session"]
        shown = await ask(server, "wire", session, "--as", MODEL, "--full", cwd=tmp_path)
    sent = server.requests[0].json
    assert json.loads(shown.stdout)["tools"] == sent["tools"]
    assert len(sent["tools"]) == 6


def test_what_differs_between_sessions_ends_the_prompt(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    one, two = (agent(tmp_path / name).system_prompt for name in ("one", "two"))
    stable = one.index("# Where you are")
    assert one[:stable] == two[:stable]
    assert "Available sub-agents" in one[:stable], "the guidance of tools is stable"
    assert one[stable:].count("\n") < 6
