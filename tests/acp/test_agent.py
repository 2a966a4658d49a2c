"""The agent and its sessions, in the real process: introduction, opening, listing, choosing, closing."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from outrider.providers.credentials.keys import store_key
from outrider.sync import default_log
from outrider.version import __version__
from tests.acp.editor import DEADLINE, allowing, introduced, running
from tests.cli.program import clean_environment

NOTICES = {"session": {"notices": {}}}

COMPACT = [{"type": "text", "text": "/compact"}]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("version", [1, 2, 0, 65535])
async def test_an_editor_of_any_version_is_answered_with_the_one_that_is_spoken(version: int) -> None:
    async with running() as editor:
        introduced = await editor.initialize(version=version)
    assert introduced["protocolVersion"] == 1
    assert introduced["agentInfo"] == {"name": "outrider", "title": "Outrider", "version": __version__}
    assert introduced["agentCapabilities"]["loadSession"] is True
    assert introduced["agentCapabilities"]["promptCapabilities"] == {"image": True, "embeddedContext": True}
    assert set(introduced["agentCapabilities"]["sessionCapabilities"]) >= {"list", "delete", "resume", "close"}
    assert len(editor.received) == 1, "nothing is said before or beside the introduction"


async def test_an_editor_that_offers_the_draft_of_version_2_is_answered_with_version_1() -> None:
    async with running() as editor:
        info = {"name": "tests", "version": "1"}
        answer = await editor.ask("initialize", protocolVersion=2, info=info, capabilities={})
    assert answer["protocolVersion"] == 1
    assert answer["agentCapabilities"]["loadSession"] is True


async def test_the_program_from_scratch_says_nothing_but_the_protocol_even_if_a_tool_prints(tmp_path: Path) -> None:
    tool = tmp_path / "loud.py"
    tool.write_text(
        "import os, subprocess, sys\n"
        "from outrider import tool\n"
        "print('while it is imported')\n"
        "@tool\n"
        "def add(a: int, b: int) -> str:\n"
        "    'Add.'\n"
        "    print('from Python'); os.write(1, b'raw\\n'); subprocess.run(['echo', 'from a child'])\n"
        "    return f'{a + b} {sys.stdin.read()!r}'\n"
    )
    settings = Path(os.environ["XDG_CONFIG_HOME"]) / "outrider" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'tool_files = ["{tool}"]\n[permissions]\nmode = "all"\n')
    async with running(from_scratch=True, stderr=subprocess.PIPE) as editor:
        await editor.initialize()
        session = await editor.new(tmp_path)
        await editor.prompt(session, "add 2 + 3")
        assert editor.seen(session).call("add")["content"][0]["content"]["text"] == "5 ''"
        assert await editor.close() == 0
        said = editor.process.stderr.read().decode()  # type: ignore[union-attr]
    assert said.split("\n") == ["while it is imported", "from Python", "raw", "from a child", ""]


async def test_what_is_no_message_of_the_protocol_is_refused_with_its_code(tmp_path: Path) -> None:
    async with introduced() as editor:
        assert (await editor.refusal("session/fly")).code == -32601
        assert (await editor.refusal("session/new", cwd=str(tmp_path), mcpServers=3)).code == -32602
        assert (await editor.refusal("session/new", mcpServers=[])).code == -32602
        refused = await editor.refusal("authenticate", methodId="oauth")
        assert refused.code == -32602
        assert "oauth" in refused.message
        assert await editor.ask("logout") == {}


@pytest.mark.parametrize("cwd", ["relative/folder", ".", "", "/no/such/folder", "/etc/passwd"])
async def test_a_folder_that_is_not_absolute_or_not_there_is_refused(cwd: str) -> None:
    async with introduced() as editor:
        refused = await editor.refusal("session/new", cwd=cwd, mcpServers=[])
    assert refused.code == -32602
    assert "absolute" in refused.message


async def test_a_session_that_nobody_knows_is_not_found(tmp_path: Path) -> None:
    folder = {"cwd": str(tmp_path), "mcpServers": []}
    async with introduced() as editor:
        for method, params in [
            ("session/prompt", {"prompt": [{"type": "text", "text": "hello"}]}),
            ("session/load", folder),
            ("session/resume", folder),
            ("session/fork", folder),
            ("session/close", {}),
            ("session/delete", {}),
            ("session/set_mode", {"modeId": "plan"}),
            ("session/set_config_option", {"configId": "mode", "value": "plan"}),
        ]:
            refused = await editor.refusal(method, sessionId="0" * 32, **params)
            assert refused.code == -32002, method
        editor.tell("session/cancel", sessionId="0" * 32)
        assert await editor.new(tmp_path), "the agent goes on"


async def test_sessions_are_listed_by_folder_and_page_and_can_be_deleted(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir(), two.mkdir()
    async with introduced() as editor:
        here, there, silent = [await editor.new(folder) for folder in (one, two, one)]
        await editor.prompt(here, "What is 1 + 1?")
        await editor.prompt(there, "What is 2 + 2?")
        with default_log() as log:
            sessions = {here, *(log.fork(here) for _ in range(50))}
        first = await editor.ask("session/list", cwd=str(one))
        assert len(first["sessions"]) == 50
        rest = await editor.ask("session/list", cwd=str(one), cursor=first["nextCursor"])
        assert {each["sessionId"] for each in first["sessions"] + rest["sessions"]} == sessions, silent
        assert "nextCursor" not in rest
        (only,) = (await editor.ask("session/list", cwd=str(two)))["sessions"]
        assert only["title"] == "What is 2 + 2?"
        assert only["cwd"] == str(two)
        assert len((await editor.ask("session/list"))["sessions"]) == 50
        for cursor in ("tomorrow", "-1", "²", "9" * 30):
            assert (await editor.refusal("session/list", cursor=cursor)).code == -32602
        assert (await editor.refusal("session/delete", sessionId=there[:8])).code == -32002
        await editor.ask("session/delete", sessionId=there)
        assert (await editor.ask("session/list", cwd=str(two)))["sessions"] == []
        assert (await editor.refusal("session/prompt", sessionId=there, prompt=[])).code == -32002


async def test_a_session_that_was_closed_must_be_loaded_again(tmp_path: Path) -> None:
    async with introduced() as editor:
        session = await editor.new(tmp_path)
        await editor.ask("session/close", sessionId=session)
        assert (await editor.refusal("session/prompt", sessionId=session, prompt=[])).code == -32002
        assert (await editor.refusal("session/close", sessionId=session)).code == -32002
        await editor.load(session, tmp_path)
        assert await editor.prompt(session, "What is 2 + 2?") == "end_turn"


async def test_a_mode_is_chosen_in_three_ways_and_holds(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one\n")
    async with introduced(handlers=allowing("no")) as editor:
        opened = await editor.ask("session/new", cwd=str(tmp_path), mcpServers=[])
        session, seen = opened["sessionId"], editor.seen(opened["sessionId"])
        assert opened["modes"]["currentModeId"] == "ask"
        assert [mode["id"] for mode in opened["modes"]["availableModes"]] == ["ask", "edits", "all", "plan"]
        assert [option["id"] for option in opened["configOptions"]] == ["mode", "model"]

        await editor.ask("session/set_mode", sessionId=session, modeId="plan")
        assert seen.mode == "plan"
        assert current(seen.options)["mode"] == "plan"
        await editor.prompt(session, "run `touch made`")
        assert seen.call("Bash")["status"] == "failed"
        assert not editor.asked, "a plan is not asked about"

        changed = await editor.ask("session/set_config_option", sessionId=session, configId="mode", value="all")
        assert current(changed["configOptions"]) == {"mode": "all", "model": "demo"}
        assert seen.mode == "all"
        await editor.prompt(session, "run `touch made`")
        assert (tmp_path / "made").exists()

        assert await editor.prompt(session, "/permissions ask") == "end_turn"
        assert seen.mode == "ask"
        for wrong in ({"modeId": "yolo"}, {"modeId": ""}):
            assert (await editor.refusal("session/set_mode", sessionId=session, **wrong)).code == -32602


def current(options: list[dict[str, Any]]) -> dict[str, str]:
    return {option["id"]: option["currentValue"] for option in options}


async def test_another_model_answers_from_then_on_and_a_wrong_name_changes_nothing(tmp_path: Path) -> None:
    async with introduced() as editor:
        session = await editor.new(tmp_path)
        name = "openai/gpt-4.1-mini"
        changed = await editor.ask("session/set_config_option", sessionId=session, configId="model", value=name)
        assert current(changed["configOptions"])["model"] == name
        assert name in [choice["value"] for choice in changed["configOptions"][1]["options"]]
        for config, value in [("model", "nobody/knows"), ("model", "gpt 4"), ("mode", "yolo"), ("colour", "red")]:
            refused = await editor.refusal("session/set_config_option", sessionId=session, configId=config, value=value)
            assert refused.code == -32602, value
        await editor.prompt(session, "/model demo")
        assert await editor.prompt(session, "What is 2 + 2?") == "end_turn"
        assert editor.seen(session).text().endswith("4")
        await editor.ask("session/close", sessionId=session)
        loaded = await editor.load(session, tmp_path)
        assert current(loaded["configOptions"])["model"] == "demo"


SET_UP = ("/config", "/config set limits.max_turns x", "/agents", "/skills")


async def test_commands_are_told_of_and_answered_without_the_model(tmp_path: Path) -> None:
    async with introduced() as editor:
        session = await editor.new(tmp_path)
        seen = editor.seen(session)
        await editor.until(lambda: seen.commands, "the commands")
        assert (
            " ".join(seen.commands)
            == "model effort permissions tools context mcp cost config hooks skills agents compact goal rewind "
            "undo redo tasks continue init"
        )
        answers = {}
        for command in (
            "/model",
            "/model nobody/knows",
            "/permissions",
            "/permissions yolo",
            "/tools",
            "/cost",
            *SET_UP,
        ):
            before = len(seen.text())
            assert await editor.prompt(session, command) == "end_turn"
            answers[command] = seen.text()[before:]
        assert answers["/model"] == "Model: demo."
        assert "other settings at the default: /config all" in answers["/config"]
        assert "max_turns must be a whole number" in answers["/config set limits.max_turns x"]
        assert "Explore (built in): " in answers["/agents"]
        assert answers["/skills"].startswith("```\nNo skills.\n```\n\nTo add one: ")
        assert "nobody" in answers["/model nobody/knows"]
        assert answers["/permissions"] == "Permissions: ask. You are asked before anything is changed."
        assert answers["/permissions yolo"].startswith("Unknown permission mode 'yolo'")
        assert "**Read**" in answers["/tools"]
        assert answers["/cost"].startswith("0 input tokens")
        await editor.prompt(session, "/unknown What is 3 + 4?")
        assert seen.text().endswith("7"), "what is no command is for the model"


@pytest.mark.parametrize("capabilities", [{}, NOTICES])
async def test_what_is_not_used_is_said_and_where_it_can_be_as_a_notice(
    tmp_path: Path, capabilities: dict[str, Any]
) -> None:
    (tmp_path / ".outrider").mkdir()
    (tmp_path / ".outrider" / "config.toml").write_text('[permissions]\nmode = "all"\n')
    (tmp_path / ".claude" / "agents").mkdir(parents=True)
    (tmp_path / ".claude" / "agents" / "broken.md").write_text("---\nname: [\n---\n")
    servers = [{"type": "pigeon", "name": "mail", "url": "http://127.0.0.1:9/", "headers": []}]
    async with introduced(capabilities=capabilities) as editor:
        opened = await editor.ask("session/new", cwd=str(tmp_path), mcpServers=servers)
        session = opened["sessionId"]
        assert opened["modes"]["currentModeId"] == "ask", "what a project wants is not done before the user agrees"
        seen = editor.seen(session)
        await editor.until(lambda: "outrider trust" in "".join((*seen.notices, seen.text("thought"))), "a note")
        said = seen.notices if capabilities else seen.text("thought").splitlines()
    assert any("The MCP server mail is not used" in note for note in said)
    assert any("broken.md" in note for note in said)
    first = next(number for number, each in enumerate(editor.received) if "update" in each.get("params", {}))
    assert any("result" in each and "sessionId" in each["result"] for each in editor.received[:first])


def put_settings(text: str) -> None:
    settings = Path(os.environ["XDG_CONFIG_HOME"]) / "outrider" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(text)


async def updates_of_a_read(folder: Path, *arguments: str, name: str | None) -> list[dict[str, Any]]:
    """The changes of a call after its announcement, as an editor gets them that may not say its name."""
    (folder / "notes.txt").write_text("one\n")
    async with running(*arguments) as editor:
        introduction = {"clientInfo": {"name": name, "version": "1"}} if name else {}
        await editor.ask("initialize", protocolVersion=1, clientCapabilities={}, **introduction)
        session = await editor.new(folder)
        await editor.prompt(session, "read notes.txt")
        assert editor.seen(session).call("Read")["status"] == "completed"
        (call_id,) = editor.seen(session).calls
        return editor.seen(session).of_call(call_id)[1:]


def are_whole(updates: list[dict[str, Any]]) -> bool:
    return all({"title", "name", "kind", "status"} <= set(update) for update in updates)


async def test_an_editor_that_forgets_is_sent_each_update_whole(tmp_path: Path) -> None:
    put_settings('[acp]\nfull_updates = ["forgetful"]\n')
    assert are_whole(await updates_of_a_read(tmp_path, name="forgetful"))
    assert not are_whole(await updates_of_a_read(tmp_path, name="mindful"))
    assert not are_whole(await updates_of_a_read(tmp_path, name=None))


@pytest.mark.parametrize("name", ["any", None])
async def test_every_editor_is_sent_whole_updates_if_that_is_set(tmp_path: Path, name: str | None) -> None:
    put_settings('[acp]\nfull_updates = ["*"]\n')
    assert are_whole(await updates_of_a_read(tmp_path, name=name))


async def test_a_flag_sends_whole_updates_to_an_editor_without_a_name(tmp_path: Path) -> None:
    assert are_whole(await updates_of_a_read(tmp_path, "--full-updates", name=None))


async def test_how_long_changes_wait_for_each_other_is_a_flag(tmp_path: Path) -> None:
    def statuses(updates: list[dict[str, Any]]) -> list[Any]:
        return [update.get("status") for update in updates]

    at_once = await updates_of_a_read(tmp_path, "--update-interval", "0", name="any")
    assert "in_progress" in statuses(at_once)
    assert "completed" in statuses(at_once)
    assert len(at_once) >= 3, "title, arguments, status and end come as they are known"
    together = await updates_of_a_read(tmp_path, "--update-interval", "1", name="any")
    assert statuses(together) == ["completed"]


async def test_an_interval_that_cannot_be_is_an_error_that_says_what_can(tmp_path: Path) -> None:
    put_settings("[acp]\nupdate_interval = 5\n")
    async with introduced() as editor:
        refused = await editor.refusal("session/new", cwd=str(tmp_path), mcpServers=[])
    assert "acp.update_interval" in refused.message
    assert "from 0 to 1" in refused.message


async def test_folders_that_belong_to_the_work_are_open_too_beside_those_of_the_settings(tmp_path: Path) -> None:
    for name in ("project", "more", "set"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.txt").write_text(f"text of {name}\n")
    settings = Path(os.environ["XDG_CONFIG_HOME"]) / "outrider" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'[permissions]\nfolders = ["{tmp_path}/set"]\n')
    async with introduced(handlers=allowing("no")) as editor:
        session = await editor.new(tmp_path / "project", additionalDirectories=[str(tmp_path / "more")])
        await editor.prompt(session, "read ../more/more.txt and ../set/set.txt")
        assert [call["status"] for call in editor.seen(session).calls.values()] == ["completed", "completed"]
        assert not editor.asked
        other = await editor.new(tmp_path / "project")
        await editor.prompt(other, "read ../more/more.txt")
        assert len(editor.asked) == 1
        refused = await editor.refusal(
            "session/new", cwd=str(tmp_path), mcpServers=[], additionalDirectories=["relative"]
        )
        assert refused.code == -32602


async def test_two_sessions_work_at_once_and_are_not_mixed(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "notes.txt").write_text(f"{name} {name} {name}\n")
    together = asyncio.Barrier(2)

    async def permit(params: dict[str, Any]) -> dict[str, Any]:
        await together.wait()  # both questions are open at the same time
        return {"outcome": {"outcome": "selected", "optionId": "once"}}

    async with introduced(handlers={"session/request_permission": permit}) as editor:
        sessions = {name: await editor.new(tmp_path / name) for name in ("one", "two")}
        asked = [editor.say(session, f"run `cat notes.txt; touch {name}`") for name, session in sessions.items()]
        for number in asked:
            assert (await editor.answer(number))["stopReason"] == "end_turn"
        for name, other in (("one", "two"), ("two", "one")):
            seen = editor.seen(sessions[name])
            assert f"{name} {name}" in json.dumps(seen.updates)
            assert f"{other} {other}" not in json.dumps(seen.updates)
            assert f"touch {other}" not in json.dumps(seen.updates)
            assert (tmp_path / name / name).exists()


async def test_a_prompt_during_a_prompt_is_answered_in_its_turn(tmp_path: Path) -> None:
    answered = asyncio.Event()

    async def permit(params: dict[str, Any]) -> dict[str, Any]:
        await answered.wait()
        return {"outcome": {"outcome": "selected", "optionId": "once"}}

    async with introduced(handlers={"session/request_permission": permit}) as editor:
        session = await editor.new(tmp_path)
        first = editor.say(session, "run `touch made`")
        await editor.until(lambda: editor.asked, "a question")
        second = editor.say(session, "What is 2 + 2?")
        refused = await editor.refusal(
            "session/set_config_option", sessionId=session, configId="model", value="openai/gpt-4.1-mini"
        )
        assert "during a turn" in refused.message
        assert "busy" in (await editor.refusal("session/prompt", sessionId=session, prompt=COMPACT)).message
        answered.set()
        for number in (first, second):
            assert (await editor.answer(number))["stopReason"] == "end_turn"
        assert (tmp_path / "made").exists()
        assert "4" in editor.seen(session).text()


async def test_an_editor_learns_how_to_enter_a_key_and_whether_there_is_one(tmp_path: Path) -> None:
    async with introduced() as editor:
        [method] = editor.received[0]["result"]["authMethods"]
        assert "outrider login" in method["description"]
        refused = await editor.refusal("authenticate", methodId=method["id"])
        assert refused.code == -32000
        assert "outrider login" in refused.message
        assert (await editor.refusal("authenticate", methodId="magic")).code == -32602
        store_key("ANTHROPIC_API_KEY", "stored-key")
        assert await editor.ask("authenticate", methodId=method["id"]) == {}
        assert "stored-key" not in str(editor.received)


async def test_a_session_without_a_key_needs_authentication(tmp_path: Path) -> None:
    async with introduced(OUTRIDER_MODEL="") as editor:
        refused = await editor.refusal("session/new", cwd=str(tmp_path), mcpServers=[])
        assert refused.code == -32000
        assert "ANTHROPIC_API_KEY" in refused.message


FORMER = {"_meta": {"terminal-auth": True}}


@pytest.mark.parametrize("capabilities", [{"auth": {"terminal": True}}, FORMER])
async def test_an_editor_with_terminals_lets_the_user_enter_a_key_there(capabilities: dict[str, Any]) -> None:
    async with introduced(capabilities=capabilities) as editor:
        methods = editor.received[0]["result"]["authMethods"]
        assert [each["id"] for each in methods] == ["anthropic-key", "openai-key", "gemini-key", "outrider-login"]
        method = methods[1]
        assert (await editor.refusal("authenticate", methodId=method["id"])).code == -32000
        if capabilities is FORMER:
            command = method["_meta"]["terminal-auth"]
            started = [command["command"], *command["args"]]
        else:
            assert method["type"] == "terminal"
            started = [sys.executable, "-m", "outrider", "acp", *method["args"]]
        run = partial(subprocess.run, started, input=b"not a key\n", capture_output=True, env=clean_environment())
        login = await asyncio.to_thread(run, timeout=DEADLINE)
    assert login.returncode == 2
    assert b"this is not a key" in login.stderr
