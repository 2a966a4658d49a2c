"""MCP servers of a project and of the user, in `outrider -p`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from outrider.environment import config_file
from outrider.mcp.servers import StdioServer
from tests.cli.asking import ask, everywhere, messages, running
from tests.cli.chat.terminal import until
from tests.cli.program import outrider
from tests.mcp.login_server import Browser, login_server
from tests.mcp.starting import scripted, servers_json
from tests.mcp.test_hostile_servers import is_running
from tests.modelserver import ModelServer
from tests.streams import Answer

ALLOWED = ("--permissions", "all")
MODELS = (
    "anthropic/claude-sonnet-4-5",
    "openai/gpt-5",
    "openai-chat/gpt-5",
    "gemini/gemini-2.5-pro",
)


def call(name: str, **arguments: Any) -> Answer:
    return Answer("", (("call_1", name, arguments),))


def body(server: ModelServer, number: int = -1) -> str:
    return json.dumps(server.requests[number].json)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    write_servers(folder, scripted())
    return folder


def write_servers(project: Path, *servers: StdioServer) -> None:
    """Write the project's file, and agree to it."""
    (project / ".mcp.json").write_text(servers_json(*servers))
    assert outrider("trust", "--yes", cwd=project).returncode == 0


async def test_a_project_that_is_trusted_gives_its_tools(project: Path) -> None:
    async with ModelServer([call("mcp__scripted__echo", text="hello there"), Answer("Done.")]) as server:
        ended = await ask(server, "-p", "Go", *ALLOWED, cwd=project)
        assert (ended.returncode, ended.stdout) == (0, "Done.\n"), ended.stderr
        assert "mcp__scripted__echo" in body(server, 0)
        assert "hello there" in body(server, 1)


async def test_without_consent_nothing_of_the_project_is_started(project: Path, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    (project / ".mcp.json").write_text(servers_json(scripted(pid_file=str(pids))))
    async with ModelServer([Answer("Done.")]) as server:
        ended = await ask(server, "-p", "Go", cwd=project)
        assert ended.returncode == 0
        assert "1 MCP server waits for your consent, not used until you agree: outrider trust" in ended.stderr
        assert "mcp__" not in body(server, 0)
    assert not pids.exists()


async def test_consent_holds_until_a_value_changes(project: Path) -> None:
    outrider("trust", "--revoke", cwd=project)
    trusted = outrider("trust", "--yes", cwd=project)
    assert trusted.returncode == 0
    assert "scripted_server.py" in trusted.stdout, "the person sees what is started"
    async with ModelServer([Answer("One."), Answer("Two.")]) as server:
        await ask(server, "-p", "Go", cwd=project)
        assert "mcp__scripted__echo" in body(server, 0)
        content = json.loads((project / ".mcp.json").read_text())
        (project / ".mcp.json").write_text(json.dumps(content, indent=7))
        assert "Nothing to agree to" in outrider("trust", cwd=project).stdout, "the form of the file does not count"
        content["mcpServers"]["scripted"]["args"][0] += " "
        (project / ".mcp.json").write_text(json.dumps(content))
        ended = await ask(server, "-p", "Go", cwd=project)
        assert "not used until you agree" in ended.stderr
        assert "mcp__" not in body(server, 1)


async def test_a_changed_script_of_the_project_needs_consent_again(project: Path) -> None:
    script = project / "server.py"
    script.write_text("print(1)")
    (project / ".mcp.json").write_text('{"mcpServers": {"own": {"command": "python3", "args": ["server.py"]}}}')
    assert outrider("trust", "--yes", cwd=project).returncode == 0
    assert "Nothing to agree to" in outrider("trust", cwd=project).stdout
    script.write_text("print(2)")
    assert "not used until you agree" in outrider("mcp", "list", cwd=project).stdout


async def test_the_users_own_servers_need_no_consent(tmp_path: Path) -> None:
    config_file().parent.mkdir(parents=True, exist_ok=True)
    (config_file().parent / "mcp.json").write_text(servers_json(scripted("mine")))
    async with ModelServer([Answer("Done.")]) as server:
        await ask(server, "-p", "Go", cwd=tmp_path)
        assert "mcp__mine__echo" in body(server, 0)


async def test_calls_need_permission_and_rules_name_them(project: Path) -> None:
    steps = [call("mcp__scripted__echo", text="x"), Answer("Done.")]
    async with ModelServer([*steps, *steps]) as server:
        await ask(server, "-p", "Go", cwd=project)
        assert "echo of the MCP server scripted may change something" in body(server, 1)
        config_file().parent.mkdir(parents=True, exist_ok=True)
        config_file().write_text('[permissions]\nallow = ["mcp__scripted__*"]\n')
        await ask(server, "-p", "Go", cwd=project)
        assert messages()[2].tool_results[0].text == "x"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("model", MODELS)
async def test_a_picture_reaches_every_api(project: Path, model: str) -> None:
    async with ModelServer([call("mcp__scripted__picture"), Answer("I see.")]) as server:
        ended = await ask(server, "-p", "Go", *ALLOWED, "--model", model, cwd=project)
        assert ended.stdout == "I see.\n", ended.stderr
        assert "iVBORw0KGgo" in body(server, 1), "the picture, in base64"
        assert "A picture:" in body(server, 1)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("model", "heard"), [*((model, False) for model in MODELS), ("openai-chat/gpt-audio", True)])
async def test_a_sound_reaches_models_that_hear_and_is_named_to_others(project: Path, model: str, heard: bool) -> None:
    async with ModelServer([call("mcp__scripted__sound"), Answer("I hear.")]) as server:
        ended = await ask(server, "-p", "Go", *ALLOWED, "--model", model, cwd=project)
        assert ended.stdout == "I hear.\n", ended.stderr
        sent = body(server, 1)
    assert ("UklGRiYAAAB" in sent) is (heard or model.startswith("gemini/"))
    assert "sound-1.wav" in sent, "its name at least"


async def test_a_question_of_a_server_is_refused(project: Path) -> None:
    async with ModelServer([call("mcp__scripted__ask", text="Who?"), Answer("Done.")]) as server:
        ended = await ask(server, "-p", "Go", *ALLOWED, cwd=project)
    assert ended.stdout == "Done.\n"
    assert "Ada" not in messages()[2].tool_results[0].text


async def test_a_resource_in_the_prompt_is_attached(project: Path) -> None:
    async with ModelServer([Answer("Read.")]) as server:
        ended = await ask(server, "-p", "Look at @scripted:memo://7, please", cwd=project)
        assert ended.stdout == "Read.\n", ended.stderr
        assert "text of memo://7" in body(server, 0)
    assert "no file" not in ended.stderr


async def test_a_missing_file_beside_a_resource_is_named(project: Path) -> None:
    async with ModelServer([Answer("Read.")]) as server:
        ended = await ask(server, "-p", "See @scripted:memo://7 and @gone.txt and @nobody:memo://7", cwd=project)
    assert "no file gone.txt: sent as text" in ended.stderr
    assert "no file nobody:memo://7: sent as text" in ended.stderr
    assert "no file scripted" not in ended.stderr


async def test_a_slow_server_is_named_and_not_waited_for(project: Path) -> None:
    write_servers(project, scripted("slow", wait_for="/nonexistent"))
    config_file().parent.mkdir(parents=True, exist_ok=True)
    config_file().write_text("[mcp]\nstart_seconds = 0.1\n")
    async with ModelServer([Answer("Done.")]) as server:
        ended = await ask(server, "-p", "Go", cwd=project)
    assert ended.stdout == "Done.\n"
    assert "The MCP server slow is still starting." in ended.stderr


async def test_a_server_that_cannot_start_is_one_notice(project: Path) -> None:
    (project / ".mcp.json").write_text('{"mcpServers": {"gone": {"command": "no-such-program-here"}}}')
    assert outrider("trust", "--yes", cwd=project).returncode == 0
    async with ModelServer([Answer("Done.")]) as server:
        ended = await ask(server, "-p", "Go", cwd=project)
    assert ended.stdout == "Done.\n"
    assert "gone" in ended.stderr
    assert "no-such-program-here" in ended.stderr


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{\n"mcpServers": {,}}', ".mcp.json, line 2: this is not JSON"),
        ("[]", '.mcp.json must be a table, as in {"mcpServers": {…}}, not a list'),
        ('{"mcpServers": []}', ".mcp.json: mcpServers must be a table of servers, not a list"),
        ('{"mcpServers": {"a": 1}}', ".mcp.json: the server 'a' must be a table"),
        ('{"mcpServers": {"a": {}}}', ".mcp.json: the server 'a': command is missing"),
        ('{"mcpServers": {"a": {"command": "x", "args": "y"}}}', "args must be a list of texts, not a text"),
        ('{"mcpServers": {"a": {"command": "x", "env": {"A": 1}}}}', "env.A must be a text, not a whole number"),
        ('{"mcpServers": {"a": {"command": "${NOT_SET_HERE}"}}}', "uses the variable NOT_SET_HERE, which is not set"),
        ('{"mcpServers": {"a": {"type": "carrier", "url": "https://x"}}}', 'type must be "stdio" or "http", not "car'),
        ('{"mcpServers": {"a": {"url": "ftp://x"}}}', "must begin with https:// or http://"),
        (b'{"mcpServers": {"\xff": {}}}', "the file is not UTF-8 text"),
    ],
)
async def test_a_bad_file_is_a_sentence_with_its_place(project: Path, content: str | bytes, said: str) -> None:
    (project / ".mcp.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    outrider("trust", "--yes", cwd=project)
    async with ModelServer([Answer("Done.")]) as server:
        ended = await ask(server, "-p", "Go", cwd=project)
    assert ended.stdout == "Done.\n"
    assert said in ended.stderr


async def test_killing_outrider_ends_its_servers(project: Path, tmp_path: Path) -> None:
    pids, record = tmp_path / "pids", tmp_path / "record"
    write_servers(project, scripted(pid_file=str(pids), record=str(record)))
    async with ModelServer([call("mcp__scripted__slow"), Answer("I see.")]) as server:
        with running("-p", "Go", *ALLOWED, cwd=project, **everywhere(server)) as process:
            await until(lambda: record.exists() and '"slow"' in record.read_text(), what="the call")
            process.kill()
        pid = int(pids.read_text().split()[0])
        await until(lambda: not is_running(pid), what="the end of the server")
        ended = await ask(server, "-p", "--continue", *ALLOWED, cwd=project)
    assert ended.stdout == "I see.\n", ended.stderr
    assert record.read_text().count('"slow"') == 1, "a call that may have changed something is not repeated"


async def test_a_login_in_a_browser_lets_the_next_run_in(tmp_path: Path) -> None:
    async with (
        login_server() as mcp_server,
        ModelServer([Answer("One."), call("mcp__docs__echo", text="with a token"), Answer("Two.")]) as server,
    ):
        added = await asyncio.to_thread(outrider, "mcp", "add", "docs", f"{mcp_server.address}/mcp", cwd=tmp_path)
        assert added.returncode == 0
        assert "It needs a login: outrider mcp login docs" in added.stdout
        before = await ask(server, "-p", "Go", *ALLOWED, cwd=tmp_path)
        assert "outrider mcp login docs" in before.stderr
        with running("mcp", "login", "docs", "--no-browser", cwd=tmp_path) as process:
            assert process.stdout
            line = await asyncio.to_thread(process.stdout.readline)
            await Browser()(line.removeprefix("Log in here: ").strip())
            out, _ = await asyncio.to_thread(process.communicate)
        assert (process.returncode, out) == (0, "Logged in to docs.\n")
        ended = await ask(server, "-p", "Go", *ALLOWED, cwd=tmp_path)
        assert ended.stdout == "Two.\n", ended.stderr
        assert "mcp__docs__echo" in body(server, 1)
        removed = await asyncio.to_thread(outrider, "mcp", "remove", "docs", cwd=tmp_path)
        assert "and the login to it" in removed.stdout
