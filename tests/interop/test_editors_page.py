"""The page about editors: the commands in its snippets start an agent that answers."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.cli.program import clean_environment
from tests.interop.features import CLIENTS, TABLE, YES
from tests.interop.installing import RELEASES

PAGE = (Path(__file__).parents[2] / "docs" / "editors.md").read_text()
HELLO = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}


def test_the_settings_on_the_page_start_the_agent() -> None:
    settings = [json.loads(block) for block in re.findall(r"^```json\n(.*?)^```", PAGE, re.M | re.S)]
    agents = [(each.get("agent_servers") or each["acp.agents"])["Outrider"] for each in settings]
    assert len(agents) == 3
    commands = {(Path(agent["command"]).name, *agent["args"]) for agent in agents}
    assert commands == {("outrider", "acp")}
    program = shutil.which("outrider", path=str(Path(sys.executable).parent))
    assert program
    ended = subprocess.run(
        [program, "acp"],
        input=json.dumps(HELLO).encode() + b"\n",
        capture_output=True,
        env=clean_environment(),
        timeout=60,
    )
    assert json.loads(ended.stdout)["result"]["agentInfo"]["name"] == "outrider"
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_the_snippets_for_neovim_and_emacs_name_the_same_command() -> None:
    snippets = re.findall(r"^```(?:lua|elisp)\n(.*?)^```", PAGE, re.M | re.S)
    assert len(snippets) == 3
    for snippet in snippets:
        assert re.search(r'"outrider"[^"]*"acp"', snippet), snippet
        assert snippet.count("(") == snippet.count(")")
        assert snippet.count("{") == snippet.count("}")


def test_the_table_of_clients_says_what_the_tests_try_with_each() -> None:
    before, _, table = Path(__file__).with_name("README.md").read_text().partition("| feature ")
    lines = ("| feature " + table).partition("\n\n")[0].splitlines()
    heading, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    names = [f"{client} {'.'.join(RELEASES[client].split('.')[:2])}" for client in CLIENTS]
    assert heading == ["feature", *names]
    passed = {item for item, cells in TABLE.items() if {*cells} == {YES}}
    assert {item: tuple(cells) for item, *cells in rows} == {item: TABLE[item] for item in TABLE if item not in passed}
    (named,) = re.findall(r"All four clients pass (.*?)\.", " ".join(before.split()))
    assert passed <= {each.removeprefix("and ") for each in named.split(", ")}
