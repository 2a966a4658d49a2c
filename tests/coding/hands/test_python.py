"""Tools in another place for agents in Python: `workspace_at` and `standard_tools`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

import outrider
from outrider import Agent, Deny
from outrider.coding import Workspace, standard_tools, workspace_at
from outrider.coding.hands.hands import WorkspaceElsewhere
from outrider.coding.toolbox.search import ripgrep
from outrider.coding.toolbox.shell.shell import Shell
from outrider.conversation.messages import ToolResultBlock
from outrider.errors import ConfigError, HandsError
from outrider.runtime.run import RunResult
from outrider.testing import ScriptedModel, call, tool_context
from outrider.tools.tool import Tool
from tests.coding.hands.elsewhere import PipeStarter, hands_of
from tests.coding.toolbox.shelling import new_nap, sleepers, until


def place(folder: Path) -> str:
    """`outrider hands` on this machine, with the code that is tested."""
    source = Path(outrider.__file__).parents[1]
    command = ["env", f"PYTHONPATH={source}", sys.executable, "-P", "-m", "outrider", "hands", "--folder", str(folder)]
    return shlex.join(command)


def texts(result: RunResult) -> list[str]:
    blocks = [block for message in result.conversation for block in message.content]
    return [block.text for block in blocks if isinstance(block, ToolResultBlock)]


async def test_an_agent_works_there_and_everything_ends_with_the_block(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("KEY=1")
    nap = new_nap()
    calls = [
        call("Write", file_path="a.txt", content="hello"),
        call("Bash", command="cat a.txt .env; pwd"),
        call("Bash", command=f"sleep {nap}", run_in_background=True),
    ]
    async with workspace_at(place(tmp_path)) as workspace:
        agent = Agent(ScriptedModel([*([each] for each in calls), "done"]), tools=standard_tools(workspace))
        result = await agent.run("go")
        assert sleepers(nap)
    assert texts(result)[1] == f"helloKEY=1{tmp_path}"
    assert (tmp_path / "a.txt").read_text() == "hello"
    await until(lambda: not sleepers(nap))
    again = await agent.replace(model=ScriptedModel([[call("Read", file_path="a.txt")], "done"])).run("go")
    assert "were closed" in texts(again)[0]


def no_writing(use: object, tool: Tool) -> bool | Deny:
    return tool.effect == "read" or Deny("this agent only reads")


async def test_approve_decides_as_it_does_here(tmp_path: Path) -> None:
    workspace = hands_of(PipeStarter(tmp_path)).workspace
    (tmp_path / "a.txt").write_text("hello")
    calls = [call("Read", file_path="a.txt"), call("Write", file_path="b.txt", content="x")]
    agent = Agent(ScriptedModel([calls, "done"]), tools=standard_tools(workspace))
    async with workspace:
        read, denied = texts(await agent.run("go", approve=no_writing))
    assert "hello" in read
    assert "this agent only reads" in denied
    assert not (tmp_path / "b.txt").exists()


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"workspace_at\(…\) for a place"):
        standard_tools("ssh://build/srv")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="is not a workspace; write ssh://"):
        workspace_at("no-such-place")
    elsewhere = workspace_at("ssh://build/srv")
    with pytest.raises(TypeError, match="leave shell= out"):
        standard_tools(elsewhere, shell=Shell(Workspace(tmp_path)))
    with pytest.raises(HandsError, match=r"cannot be reached: .*no such folder"), workspace_at(place(tmp_path / "no")):
        pass


# Searches


SEARCHES = [
    ("Glob", {"pattern": "**/*.py"}),
    ("Glob", {"pattern": "*.{md,txt}", "path": "docs"}),
    ("Glob", {"pattern": "nothing*"}),
    ("Glob", {"pattern": "["}),
    ("Grep", {"pattern": "hel+o"}),
    ("Grep", {"pattern": "(?i)HELLO", "glob": "*.py", "output_mode": "content"}),
    ("Grep", {"pattern": "hello", "output_mode": "count", "path": "src"}),
    ("Grep", {"pattern": "hello", "path": "gone"}),
    ("Grep", {"pattern": "("}),
    ("Grep", {"pattern": "line", "output_mode": "content", "path": "long.txt"}),
]


async def test_searches_find_there_what_they_find_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("src/a.py", "src/b/c.py", "docs/d.md", "docs/e.txt", "ignored.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("say hello\n")
    (tmp_path / "long.txt").write_text("".join(f"line {number}\n" for number in range(5_000)))
    (tmp_path / ".ignore").write_text("ignored.py\n")
    workspace = hands_of(PipeStarter(tmp_path)).workspace
    assert isinstance(workspace, WorkspaceElsewhere)
    here = {each.name: each for each in standard_tools(Workspace(tmp_path))}
    there = {each.name: each for each in standard_tools(workspace)}
    async with workspace:
        for tool, arguments in SEARCHES:
            expected, found = [await each[tool].invoke(arguments, tool_context()) for each in (here, there)]
            assert (found.text, found.is_error) == (expected.text, expected.is_error)
        monkeypatch.setattr(ripgrep, "find", lambda _: None)
        for tool in ("Glob", "Grep"):
            missing = await there[tool].invoke({"pattern": "a"}, tool_context())
            assert missing.is_error
            assert missing.text == ripgrep.MISSING
