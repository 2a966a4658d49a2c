"""`outrider mcp`: add, list, remove, test, login and trust."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path

import pytest

from outrider.environment import config_file
from tests.cli.program import outrider
from tests.mcp.starting import scripted, servers_json

SERVER = scripted()
COMMAND = (SERVER.command, *SERVER.args)


def own_file() -> Path:
    return config_file().parent / "mcp.json"


def test_a_program_is_added_listed_tested_and_removed(tmp_path: Path) -> None:
    added = outrider("mcp", "add", "time", "--env", "TZ=UTC", "--", *COMMAND, cwd=tmp_path)
    assert (added.returncode, added.stderr) == (0, "")
    assert stat.S_IMODE(os.stat(own_file()).st_mode) == 0o600
    entry = json.loads(own_file().read_text())["mcpServers"]["time"]
    assert entry == {"command": COMMAND[0], "args": list(COMMAND[1:]), "env": {"TZ": "UTC"}}
    listed = outrider("mcp", "list", cwd=tmp_path)
    assert (listed.returncode, "scripted_server.py" in listed.stdout) == (0, True)
    tested = outrider("mcp", "test", "time", cwd=tmp_path)
    assert tested.returncode == 0
    assert "✓ time: scripted 1, protocol 2026-07-28, ready after" in tested.stdout
    assert re.search(r"\d+ tools in \d+", tested.stdout)
    assert "    memo://1" in tested.stdout
    assert "    greet" in tested.stdout
    assert outrider("mcp", "remove", "time", cwd=tmp_path).returncode == 0
    assert "No MCP servers" in outrider("mcp", "list", cwd=tmp_path).stdout


def test_a_test_lists_the_templates_of_resources(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text(servers_json(scripted()))
    outrider("trust", "--yes", cwd=tmp_path)
    shown = outrider("mcp", "test", cwd=tmp_path)
    assert re.search(r"^  1 resource template in .*\n    memo://\{number\}$", shown.stdout, re.M), (
        shown.stdout + shown.stderr
    )
    assert "left out: " in shown.stdout, "the resource without a uri is still named"


def test_an_address_is_added_with_headers(tmp_path: Path) -> None:
    token = "sk-" + "a1" * 20
    added = outrider(
        "mcp", "add", "docs", "https://example.org/mcp", "--unchecked", "--header", f"X-Key={token}", cwd=tmp_path
    )
    assert added.returncode == 0
    entry = json.loads(own_file().read_text())["mcpServers"]["docs"]
    assert entry == {"type": "http", "url": "https://example.org/mcp", "headers": {"X-Key": token}}
    for arguments in (("list",), ("list", "--json")):
        listed = outrider("mcp", *arguments, cwd=tmp_path)
        assert "https://example.org/mcp" in listed.stdout
        assert token not in listed.stdout + listed.stderr


def test_the_rest_of_a_file_stays(tmp_path: Path) -> None:
    own_file().parent.mkdir(parents=True, exist_ok=True)
    own_file().write_text('{"other": [1], "mcpServers": {"old": {"command": "x", "theirs": true}}}')
    outrider("mcp", "add", "new", "--unchecked", "--", "y", cwd=tmp_path)
    outrider("mcp", "remove", "new", cwd=tmp_path)
    kept = {"other": [1], "mcpServers": {"old": {"command": "x", "theirs": True}}}
    assert json.loads(own_file().read_text()) == kept


def test_a_server_that_is_added_to_a_project_is_approved(tmp_path: Path) -> None:
    assert outrider("mcp", "add", "time", "--project", "--", *COMMAND, cwd=tmp_path).returncode == 0
    assert "scripted_server.py" in outrider("mcp", "list", cwd=tmp_path).stdout
    data = json.loads((tmp_path / ".mcp.json").read_text())
    data["mcpServers"]["evil"] = {"command": "evil"}
    (tmp_path / ".mcp.json").write_text(json.dumps(data))
    assert "not used until you agree" in outrider("mcp", "list", cwd=tmp_path).stdout
    outrider("mcp", "add", "more", "--unchecked", "--project", "--", "x", cwd=tmp_path)
    assert "not used until you agree" in outrider("mcp", "list", cwd=tmp_path).stdout, "adding one approves no other"


def test_a_project_cannot_vouch_for_its_servers(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"a": {"command": "x", "trusted": true}}}')
    outrider("trust", "--yes", cwd=tmp_path)
    (server,) = json.loads(outrider("mcp", "list", "--json", cwd=tmp_path).stdout)["servers"]
    assert server["trusted"] is False
    outrider("mcp", "add", "b", "--unchecked", "--trusted", "--", "x", cwd=tmp_path)
    servers = json.loads(outrider("mcp", "list", "--json", cwd=tmp_path).stdout)["servers"]
    assert {each["name"]: each["trusted"] for each in servers} == {"a": False, "b": True}


def test_variables_are_replaced(tmp_path: Path) -> None:
    server = scripted()
    entry = {"command": "${PYTHON_HERE}", "args": [*server.args[:-1], '{"version": "1"}'], "env": {"A": "${B:-c}"}}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"s": entry}}))
    outrider("trust", "--yes", cwd=tmp_path)
    assert outrider("mcp", "test", "s", cwd=tmp_path, PYTHON_HERE=server.command).returncode == 0
    failed = outrider("mcp", "test", "s", cwd=tmp_path)
    assert failed.returncode == 2
    assert "uses the variable PYTHON_HERE, which is not set; export it, or write ${PYTHON_HERE:-default}" in (
        failed.stderr
    )


def test_a_new_server_is_tried_and_one_whose_program_is_missing_is_not_added(tmp_path: Path) -> None:
    added = outrider("mcp", "add", "time", "--", *COMMAND, cwd=tmp_path)
    assert added.returncode == 0
    assert re.search(r"Added time to .*\n✓ time: .*ready after.*\n  \d+ tools in", added.stdout)
    missing = outrider("mcp", "add", "gone", "--", "no-such-program-here", cwd=tmp_path)
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "no-such-program-here" in missing.stderr
    assert "the server was not added (--unchecked adds it anyway)" in missing.stderr
    broken = outrider("mcp", "add", "broken", "--", "false", cwd=tmp_path)
    assert broken.returncode == 1
    assert "✗ broken: The MCP server broken ended" in broken.stdout
    assert json.loads(own_file().read_text())["mcpServers"].keys() == {"time", "broken"}


def test_a_failed_test_says_why_and_sets_the_exit_code(tmp_path: Path) -> None:
    outrider("mcp", "add", "gone", "--unchecked", "--", "no-such-program-here", cwd=tmp_path)
    ended = outrider("mcp", "test", cwd=tmp_path)
    assert ended.returncode == 1
    assert ended.stdout.startswith("✗ gone: ")
    report = json.loads(outrider("mcp", "test", "gone", "--json", cwd=tmp_path).stdout)["gone"]
    assert "no-such-program-here" in report["error"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("add", "x"), "give either an address, or a program after --"),
        (("add", "x", "https://a", "--", "b"), "give either an address, or a program after --"),
        (("add", "x", "ftp://a"), "must begin with https:// or http://"),
        (("add", "x" * 100, "--", "b"), "The name of an MCP server has 1 to"),
        (("add", "x", "https://a", "--header", "nothing"), "--header takes a name and a value"),
        (("add", "x", "--header", "a=b", "--", "c"), "--header is for an address"),
        (("add", "x", "https://a", "--env", "a=b"), "--env is for a program"),
        (("remove", "x"), "has no server x; for one of the project, add --project"),
        (("test", "x"), "there is no server x; the servers are: none"),
        (("login", "x"), "there is no server x"),
    ],
)
def test_a_mistake_is_a_sentence_and_code_2(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    ended = outrider("mcp", *arguments, cwd=tmp_path)
    assert (ended.returncode, said in ended.stderr) == (2, True), ended.stderr


def test_a_program_needs_no_login(tmp_path: Path) -> None:
    outrider("mcp", "add", "time", "--", *COMMAND, cwd=tmp_path)
    ended = outrider("mcp", "login", "time", cwd=tmp_path)
    assert (ended.returncode, "there is nothing to log in to" in ended.stderr) == (2, True)


def test_nothing_is_approved_without_a_terminal_or_yes(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text(servers_json(scripted()))
    ended = outrider("trust", cwd=tmp_path)
    assert ended.returncode == 1
    assert "add --yes" in ended.stderr
    assert "not used until you agree" in outrider("mcp", "list", cwd=tmp_path).stdout


def test_revoking_takes_the_consent_back(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text(servers_json(scripted()))
    outrider("trust", "--yes", cwd=tmp_path)
    assert "Revoked: 1 consent." in outrider("trust", "--revoke", cwd=tmp_path).stdout
    assert "not used until you agree" in outrider("mcp", "list", cwd=tmp_path).stdout


def test_the_doctor_names_the_servers_and_starts_none(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"theirs": {"command": "x"}}}')
    outrider("mcp", "add", "mine", "--unchecked", "--", *scripted(pid_file=str(pids)).args, cwd=tmp_path)
    outrider("mcp", "remove", "mine", cwd=tmp_path)
    server = scripted(pid_file=str(pids))
    outrider("mcp", "add", "mine", "--unchecked", "--", server.command, *server.args, cwd=tmp_path)
    outrider("mcp", "add", "gone", "--unchecked", "--", "no-such-program-here", cwd=tmp_path)
    outrider("mcp", "add", "docs", "https://example.org/mcp", "--unchecked", cwd=tmp_path)
    said = outrider("doctor", cwd=tmp_path).stdout
    assert f": {server.command} is installed" in said
    assert "there is no program no-such-program-here" in said
    assert "https://example.org/mcp, no login stored" in said
    assert "not used until you agree: outrider trust" in said
    assert not pids.exists()


def test_the_doctor_starts_the_servers_that_may_be_used_if_it_is_asked_to(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    (tmp_path / ".mcp.json").write_text(servers_json(scripted("theirs", pid_file=str(theirs))))
    server = scripted()
    outrider("mcp", "add", "mine", "--unchecked", "--", server.command, *server.args, cwd=tmp_path)
    outrider("mcp", "add", "gone", "--unchecked", "--", "no-such-program-here", cwd=tmp_path)
    ended = outrider("doctor", "--mcp", cwd=tmp_path)
    assert re.search(r"✓ MCP server mine \(.*\): works, 13 tools, ready after", ended.stdout)
    assert re.search(r"✗ MCP server gone \(.*no-such-program-here", ended.stdout)
    assert not theirs.exists(), "the project's servers need consent"
    assert ended.returncode == 1
    (tmp_path / ".mcp.json").unlink()
    assert "no MCP servers" not in outrider("doctor", "--mcp", cwd=tmp_path).stdout


def test_a_file_of_the_command_is_the_same_in_every_folder(tmp_path: Path) -> None:
    (tmp_path / "library.py").write_text("")
    outrider("mcp", "add", "lib", "--unchecked", "--", "python3", "library.py", "--data", "missing.db", cwd=tmp_path)
    entry = json.loads(own_file().read_text())["mcpServers"]["lib"]
    assert entry["args"] == [str(tmp_path / "library.py"), "--data", "missing.db"]


def test_a_program_without_two_dashes_is_told_of_them(tmp_path: Path) -> None:
    ended = outrider("mcp", "add", "lib", "python3", "my library.py", cwd=tmp_path)
    assert ended.returncode == 2
    assert "a program follows --, as in: outrider mcp add lib -- python3 'my library.py'" in ended.stderr
    assert not own_file().exists()
