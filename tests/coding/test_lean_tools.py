"""The lean form of the coding agent: small, chosen by the window, and as able as its tools."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from outrider.coding.config.settings import PermissionSettings, Settings
from outrider.coding.front_end import FrontEnd
from outrider.coding.workbench import Workbench
from outrider.conversation.store import MemoryStore
from outrider.log.log import Log
from outrider.providers.adapters.hosted import CompatibleServer
from outrider.providers.catalogue.capabilities import Capabilities
from outrider.providers.catalogue.windows import estimated_tokens
from outrider.runtime.agent import Agent
from outrider.runtime.context import tool_tokens
from outrider.runtime.limits import Limits
from outrider.runtime.recall import RememberedPast, recall_tool
from outrider.runtime.run import RunResult
from outrider.runtime.session import Session
from outrider.runtime.toolset import specs_of
from outrider.testing import replay
from tests.cli.asking import MODEL, ask
from tests.modelserver import Answer, ModelServer
from tests.smallmodel import SmallModel, running

PAGE = Path(__file__).parents[2] / "docs" / "providers" / "local.md"
FEW = ["Read", "Write", "Edit", "Grep", "Bash"]


def agent(folder: Path, *, window: int | None = None, **settings: object) -> Agent:
    provider = CompatibleServer("small", "http://127.0.0.1:1/v1", capabilities=Capabilities(context_tokens=window))
    return Workbench(Settings(**settings), folder).agent(model=provider)  # type: ignore[arg-type]


def tokens(of: Agent) -> int:
    return estimated_tokens(of.system_prompt) + estimated_tokens(msgspec.json.encode(specs_of(of.tools)))


def test_the_lean_form_has_at_most_a_thousand_tokens(tmp_path: Path) -> None:
    lean, full = agent(tmp_path, lean="on"), agent(tmp_path, lean="off")
    assert [tool.name for tool in lean.tools] == FEW
    assert tokens(lean) <= 1_000
    assert tokens(full) <= 3_600


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


async def test_the_window_of_a_server_counts_in_the_first_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_MODEL_LOOKUP", "on")
    async with running(SmallModel([])) as model:
        for model.window in (8192, 65536, 16384):  # the server may be started again with another one
            made = await asyncio.to_thread(Workbench(Settings(), tmp_path).agent, model=model.url)
            assert (len(made.tools) == len(FEW)) is (model.window < 32_768)


async def test_models_says_what_the_server_says(tmp_path: Path) -> None:
    async with running(SmallModel([], window=8192)) as model, ModelServer([]) as server:
        shown = await ask(server, "models", model.url, cwd=tmp_path, OUTRIDER_MODEL_LOOKUP="on")
    assert re.search(r"context +8,192 tokens", shown.stdout), shown.stdout


async def run_lean(model: SmallModel, folder: Path, prompt: str, **settings: object) -> RunResult[Any]:
    """Run the lean agent as `-p` does: nobody can be asked."""
    bench = Workbench(Settings(lean="on", permissions=PermissionSettings(mode="all"), **settings), folder)  # type: ignore[arg-type]
    return await Session(bench.agent(model=model.url), cwd=folder, approve=bench.permissions).run(prompt)


def forms(request: Any) -> list[str]:
    """What the server holds a reply to: the names of tools, and `final`."""
    branches = request["response_format"]["json_schema"]["schema"]["oneOf"]
    return [each["properties"].get("tool", {"const": "final"})["const"] for each in branches]


async def test_the_lean_tools_work_with_decoded_calls(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    (tmp_path / "z.txt").write_text("one more line of many\n" * 400)
    calls = [
        '{"tool": "Grep", "arguments": {"pattern": "one"}}',
        '{"tool": "Edit", "arguments": {"file_path": "a.txt", "old_string": "one", "new_string": "two"}}',
        '{"tool": "Bash", "arguments": {"command": "echo three >> a.txt"}}',
        '{"final": "Done."}',
    ]
    async with running(SmallModel(calls, takes_schemas=True)) as model:
        run = await run_lean(model, tmp_path, "Write two instead of one.")
    assert (run.text, (tmp_path / "a.txt").read_text()) == ("Done.", "two\nthree\n")
    first, *later = model.requests
    assert all("tools" not in each and each["temperature"] == 0 for each in model.requests)
    assert forms(first) == ["Read", "Grep", "Bash"], "a run that nobody watches begins with a look"
    assert forms(later[0]) == [*FEW, "final"]
    found = later[0]["messages"][-2]["content"]
    assert "a.txt:1:one" in found, "Grep shows lines"
    assert "[401 lines match.]" in found
    assert len(found) < 2_500
    for request in later:
        assert "request of the user is:\n\nWrite two instead of one." in request["messages"][-1]["content"]
    assert "the result of Grep now" in later[0]["messages"][-1]["content"]
    assert "If the request is fulfilled now" in later[1]["messages"][-1]["content"], "after a change"
    assert "request of the user" not in str(first)
    assert str(tmp_path) not in str(model.requests), "a small model would write the whole path in each call"


async def test_a_file_that_the_request_names_must_be_there_in_the_end(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("b\na\n")
    calls = [
        '{"tool": "Read", "arguments": {"file_path": "in.txt"}}',
        '{"final": "out/sorted.txt has been written."}',
        '{"tool": "Write", "arguments": {"file_path": "out/sorted.txt", "content": "a\\nb\\n"}}',
        '{"final": "Done."}',
    ]
    async with running(SmallModel(calls, takes_schemas=True)) as model:
        run = await run_lean(model, tmp_path, "Sort in.txt into out/sorted.txt.")
    assert (run.text, (tmp_path / "out/sorted.txt").read_text()) == ("Done.", "a\nb\n")
    said = model.requests[2]["messages"][-1]["content"]
    assert "there is no file out/sorted.txt" in said
    assert "Sort in.txt into out/sorted.txt." in said
    assert "There is no file out/sorted.txt yet." in model.requests[1]["messages"][-2]["content"], "told with a result"
    assert "no file" not in str([model.requests[0], model.requests[3]["messages"][-1]]), "once it is there"


async def test_the_request_is_known_after_the_end_of_the_process(tmp_path: Path) -> None:
    calls = ['{"tool": "Bash", "arguments": {"command": "true"}}', *['{"final": "It is written."}'] * 3]
    settings = Settings(lean="on", permissions=PermissionSettings(mode="all"))
    async with running(SmallModel(calls, takes_schemas=True)) as model:
        with Log(tmp_path / "log") as log:
            async with Workbench(settings, tmp_path).open(log, model=model.url) as session:
                await session.run("Write out.txt.", limits=Limits(max_turns=1))
            async with Workbench(settings, tmp_path).open(log, session.id, model=model.url) as session:
                run = await session.run()
    assert (run.status, len(model.requests)) == ("done", 4)
    assert "The request of the user is:\n\nWrite out.txt.\n" in model.requests[2]["messages"][-1]["content"]


async def test_a_run_that_was_sent_back_replays(tmp_path: Path) -> None:
    calls = ['{"tool": "Bash", "arguments": {"command": "true"}}', *['{"final": "It is written."}'] * 3]
    bench = Workbench(Settings(lean="on", permissions=PermissionSettings(mode="all")), tmp_path)
    with Log(tmp_path / "log") as log:
        async with running(SmallModel(calls, takes_schemas=True)) as model:
            agent = bench.agent(model=model.url)
            async with await Session.open(log, agent=agent, cwd=tmp_path, approve=bench.permissions) as session:
                await session.run("Write out.txt.")
        assert len(model.requests) == 4
        replayed = await replay(log, session.id)
    assert replayed.difference is None
    assert replayed.entries > 10


async def test_a_run_ends_all_the_same_without_the_file(tmp_path: Path) -> None:
    calls = ['{"tool": "Bash", "arguments": {"command": "true"}}', *['{"final": "a.txt is gone."}'] * 4]
    async with running(SmallModel(calls, takes_schemas=True)) as model:
        run = await run_lean(model, tmp_path, "Remove a.txt.")
    assert (run.status, run.text, len(model.requests)) == ("done", "a.txt is gone.", 4)


async def test_most_of_a_file_is_not_lost_by_a_careless_write(tmp_path: Path) -> None:
    text = "".join(f"line {number}\n" for number in range(9))
    (tmp_path / "a.txt").write_text(text)
    calls = [
        '{"tool": "Read", "arguments": {"file_path": "a.txt"}}',
        '{"tool": "Write", "arguments": {"file_path": "a.txt", "content": "line 9"}}',
        '{"tool": "Edit", "arguments": {"file_path": "a.txt", "old_string": "", "new_string": "line 9"}}',
        '{"final": "Done."}',
    ]
    async with running(SmallModel(calls, takes_schemas=True)) as model:
        await run_lean(model, tmp_path, "Add a line to a.txt.")
    assert "9 of its 9 lines would be lost" in str(model.requests[2]["messages"])
    assert (tmp_path / "a.txt").read_text() == f"{text}line 9\n"


async def test_a_server_that_refuses_schemas_gets_the_tools_in_the_prompt_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    calls = ["", '{"name": "Write", "arguments": {"file_path": "b.txt", "content": "b"}}', "Done."]
    async with running(SmallModel(calls)) as model:
        run = await run_lean(model, tmp_path, "Write b.", temperature=0.5)
    assert (run.text, (tmp_path / "b.txt").read_text()) == ("Done.", "b")
    assert ["response_format" in each for each in model.requests] == [True, False, False]
    assert {each["temperature"] for each in model.requests} == {0.5}


async def test_the_calls_can_be_native(tmp_path: Path) -> None:
    async with running(SmallModel(["Hello."])) as model:
        await run_lean(model, tmp_path, "Hi", tool_calls="native")
    (request,) = model.requests
    assert [each["function"]["name"] for each in request["tools"]] == FEW
    assert not {"temperature", "tool_choice", "response_format"} & request.keys()


def test_a_chat_may_begin_with_words_and_a_large_model_is_asked_as_before(tmp_path: Path) -> None:
    provider = CompatibleServer("small", "http://127.0.0.1:1/v1", capabilities=Capabilities(context_tokens=8192))

    async def asked(_: object) -> Any:
        raise AssertionError

    chat = Workbench(Settings(), tmp_path, front_end=FrontEnd(asked)).agent(model=provider)
    assert (chat.tool_choice, chat.keeps_on_task) == (None, True)
    assert Workbench(Settings(), tmp_path).agent(model=provider).tool_choice == "required"
    large = agent(tmp_path, window=200_000)
    assert (large.tool_choice, large.keeps_on_task, large.temperature) == (None, False, None)
    assert large.provider.capabilities.tools  # type: ignore[attr-defined]


def test_in_plan_mode_commands_of_the_lean_form_only_read(tmp_path: Path) -> None:
    bench = Workbench(Settings(lean="on"), tmp_path)
    bash = next(tool for tool in bench.agent(model="demo").tools if tool.name == "Bash")
    assert bash.stands_for
    assert bash.stands_for({"command": "ls"})[1]["access"] == "write"  # type: ignore[index]
    bench.permissions.mode = "plan"
    assert bash.stands_for({"command": "ls"})[1]["access"] == "read"  # type: ignore[index]


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
    assert len(sent["tools"]) == len(FEW)
