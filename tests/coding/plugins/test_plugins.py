"""Plugins: our reading against the published JSON Schema, what they bring, and what waits for consent."""

from __future__ import annotations

import copy
import json
import random
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from outrider.cli import main
from outrider.coding.extensions import Extensions
from outrider.coding.plugins import SCHEMA, SERVERS_SCHEMA, read_entry, read_manifest, read_servers
from outrider.environment import config_file
from outrider.mcp.servers import StdioServer
from tests.coding.test_found_skills import home, project
from tests.coding.test_workbench import bench_in
from tests.skills.samples import write_skill

__all__ = ["home", "project"]

FULL = {
    "$schema": SCHEMA,
    "name": "plugin-name",
    "version": "1.2.0",
    "description": "Brief plugin description",
    "author": {"name": "Author Name", "email": "author@example.com", "url": "https://example.com"},
    "homepage": "https://docs.example.com/plugin",
    "repository": "https://github.com/example/plugin",
    "license": "MIT",
    "keywords": ["keyword1", "keyword2"],
    "extensions": {"com.example.client": {"setting": True}},
}
SERVERS: dict[str, dict[str, Any]] = {
    "local-validator": {
        "type": "stdio",
        "command": "./bin/validator",
        "args": ["--data", "${PLUGIN_DATA}/validator"],
        "env": {"CONFIG": "${PLUGIN_ROOT}/config.json"},
        "cwd": "${PLUGIN_ROOT}",
    },
    "deployment-api": {
        "type": "streamable-http",
        "url": "https://deploy.example.com/mcp",
        "headers": {"X-Tenant": "public-tenant"},
    },
    "legacy-events": {"type": "sse", "url": "https://legacy.example.com/sse"},
}
NAMES = ("my-plugin", "acme.tools", "lint3r", "a", "My-Plugin", "-start", "has--double", "too.many..dots", "", "a\n")
VALUES = (None, True, 3, 1.5, "", "x", "-x", "A", "a" * 70, [], ["x"], [3], {}, {"x": "y"}, {"x": {}}, {"name": 3})


def schema(name: str) -> Any:
    """The schema as it is published; a linter for such files carries it."""
    return json.loads((files("skillsaw") / f"schemas/agent_plugins/v1_0_0/{name}.schema.json").read_text())


def mutated(value: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    changed = copy.deepcopy(value)
    for _ in range(draw.choice((0, 1, 1, 2))):
        inner = draw.choice([changed, *(each for each in changed.values() if isinstance(each, dict))])
        name = draw.choice([*inner, "type", "cwd", "env", "PLUGIN_ROOT", "another"])
        match draw.choice("abc"):
            case "a":
                inner.pop(name, None)
            case "b":
                inner[name] = copy.deepcopy(draw.choice(VALUES))
            case "c":
                inner[name] = draw.choice(
                    [*NAMES, "stdio", "sse", "./x", "../x", "${PLUGIN_DATA}/x", "${PLUGIN_ROOT}x"]
                )
    return changed


def test_manifests_are_judged_as_by_the_published_schema() -> None:
    published = jsonschema_rs.validator_for(schema("plugin"))
    draw = random.Random(24)
    manifests: list[Any] = [FULL, {"$schema": SCHEMA, "name": "minimal-plugin"}, [], "x", None]
    manifests += [{"$schema": SCHEMA, "name": name} for name in NAMES]
    manifests += [mutated(FULL, draw) for _ in range(400)]
    judged = []
    for data in manifests:
        # The specification wants two mistakes to be reported and ignored: unknown fields, and odd extensions.
        forgiven = data
        if isinstance(data, dict):
            forgiven = {name: value for name, value in data.items() if name in FULL}
            if not isinstance(forgiven.get("extensions", {}), dict):
                del forgiven["extensions"]
        try:
            _, remarks = read_manifest(data)
            is_read = True
        except ValueError:
            is_read, remarks = False, []
        assert is_read == published.is_valid(forgiven), data
        assert (is_read and not remarks) == published.is_valid(data), data
        judged.append(is_read)
    assert 100 < sum(judged) < 350


def test_servers_are_judged_as_by_the_published_schema() -> None:
    whole = schema("mcp")
    published = jsonschema_rs.validator_for({"$ref": "#/$defs/server", "$defs": whole["$defs"]})
    draw = random.Random(24)
    entries = [*SERVERS.values(), *(mutated(draw.choice([*SERVERS.values()]), draw) for _ in range(400))]
    judged = []
    for entry in entries:
        try:
            read_entry(entry)
            is_read = True
        except ValueError:
            is_read = False
        assert is_read == published.is_valid(entry), entry
        judged.append(is_read)
    assert 80 < sum(judged) < 350


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"type": "stdio", "command": "../bin/server"}, "begins with ./"),
        ({"type": "stdio", "command": "./../server"}, "leads out"),
        ({"type": "stdio", "command": "x", "cwd": "./../.."}, "leads out"),
        ({"type": "stdio", "command": "x", "cwd": "${PLUGIN_DATA}/.."}, "leads out"),
        ({"type": "streamable-http", "url": "http://example.com"}, "https"),
        ({"type": "streamable-http", "url": "https://me:secret@example.com"}, "password"),
        ({"type": "streamable-http", "url": "ftp://example.com"}, "https"),
        ({"type": "streamable-http", "url": "https://a.test", "headers": {"X": "1", "x": "2"}}, "twice"),
    ],
)
def test_a_server_that_breaks_a_rule_is_left_out_alone(fields: Any, problem: str, tmp_path: Path) -> None:
    data = {"$schema": SERVERS_SCHEMA, "mcpServers": {"bad": fields, "good": {"type": "stdio", "command": "x"}}}
    servers, notes = read_servers(data, tmp_path, lambda: tmp_path / "data")
    assert [server.name for server in servers] == ["good"]
    assert len(notes) == 1
    assert problem in notes[0]


def test_variables_are_filled_in_once(tmp_path: Path) -> None:
    root, data = tmp_path / "${PLUGIN_DATA}", tmp_path / "data"
    entry = {"type": "stdio", "command": "x", "args": ["${PLUGIN_ROOT}/a", "${OTHER}"], "env": {"A": "${PLUGIN_DATA}"}}
    (server,), _ = read_servers({"$schema": SERVERS_SCHEMA, "mcpServers": {"s": entry}}, root, lambda: data)
    assert isinstance(server, StdioServer)
    assert server.args == (f"{root}/a", "${OTHER}")
    assert server.env == {"A": str(data), "PLUGIN_ROOT": str(root), "PLUGIN_DATA": str(data)}
    assert server.cwd == str(root)


def write_plugin(folder: Path, name: str = "reports", **fields: Any) -> Path:
    root = folder / name
    root.mkdir(parents=True)
    (root / "plugin.json").write_text(json.dumps({"$schema": SCHEMA, "name": name, **fields}))
    return root


def test_a_plugin_brings_skills_commands_and_sub_agents_at_once(home: Path, project: Path) -> None:
    root = write_plugin(project / ".agents/plugins")
    write_skill(root / "skills", "summarize", "Sum up a report")
    write_skill(root / "skills", "Bad_Name", "Not as the specification has it")
    (root / "commands").mkdir()
    (root / "commands/weekly.md").write_text("Write the weekly report.")
    (root / "agents").mkdir()
    (root / "agents/writer.md").write_text("---\nname: writer\ndescription: Writes\n---\nYou write.")
    bench = bench_in(project)
    assert [skill.name for skill in bench.project.skills.skills] == ["reports:summarize"]
    assert len(bench.project.skills.refused) == 1
    assert bench.prompt_commands.has("/reports:weekly")
    assert "writer" in [profile.name for profile in bench.found_profiles.profiles]
    assert "reports:summarize: Sum up a report" in bench.agent(model="demo").system_prompt
    bench.close()


def test_servers_and_hooks_of_a_plugin_wait_for_consent_and_any_changed_byte_asks_again(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write_plugin(project / ".agents/plugins", description="Reports")
    server = {"type": "stdio", "command": sys.executable, "args": ["${PLUGIN_ROOT}/server.py"]}
    server["command"] = "python3"
    (root / "mcp.json").write_text(json.dumps({"$schema": SERVERS_SCHEMA, "mcpServers": {"db": server}}))
    (root / "hooks").mkdir()
    hook = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": '"$PLUGIN_ROOT"/check.sh'}]}]}}
    (root / "hooks/hooks.json").write_text(json.dumps(hook))
    (root / "check.sh").write_text("exit 0")

    def used() -> tuple[int, int]:
        extensions = Extensions(project)
        return len(extensions.plugins.servers), len(extensions.hooks.hooks)

    assert used() == (0, 0)
    assert [item.kind for item in Extensions(project).waiting] == ["plugin"]
    monkeypatch.chdir(project)
    assert main(["plugins"]) == 0
    printed = capsys.readouterr().out
    assert "server db: python3" in printed
    assert "not used until you agree" in printed
    assert main(["trust", "--yes"]) == 0
    assert used() == (1, 1)
    (root / "check.sh").write_text("exit 1")
    assert used() == (0, 0)
    assert main(["trust", "--yes"]) == 0
    (root / "new.txt").write_text("")
    assert used() == (0, 0)


def write_hook(root: Path, command: str) -> None:
    (root / "hooks").mkdir()
    hook = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}}
    (root / "hooks/hooks.json").write_text(json.dumps(hook))


@pytest.mark.parametrize("is_folder", [True, False])
def test_a_consent_covers_where_links_lead(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch, is_folder: bool
) -> None:
    root = write_plugin(project / ".agents/plugins")
    write_hook(root, '"$PLUGIN_ROOT"/lib/check.sh')
    for name in ("good", "bad"):
        (root / name).mkdir()
        (root / name / "check.sh").write_text(name)
    link = root / "lib" if is_folder else root / "lib/check.sh"
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(root / "good" if is_folder else root / "good/check.sh")
    monkeypatch.chdir(project)
    assert main(["trust", "--yes"]) == 0
    assert len(Extensions(project).hooks.hooks) == 1
    link.unlink()
    link.symlink_to(root / "bad" if is_folder else root / "bad/check.sh")
    assert not Extensions(project).hooks.hooks
    link.unlink()
    link.symlink_to(project / "src" if is_folder else project / "check.sh")
    extensions = Extensions(project)
    assert not extensions.plugins.plugins
    assert "is a link that leads out of the plugin" in extensions.plugins.refused[0]


def test_a_plugin_of_the_project_does_not_replace_one_of_the_user(home: Path, project: Path) -> None:
    own = write_plugin(config_file().parent / "plugins", "guard")
    write_hook(own, "exit 2")
    write_plugin(project / ".agents/plugins", "guard")
    extensions = Extensions(project)
    assert [each.place.path for each in extensions.plugins.plugins] == [own]
    assert len(extensions.hooks.hooks) == 1
    assert "you have a plugin of this name" in extensions.plugins.refused[0]


def test_hostile_plugins_are_refused_with_a_sentence(home: Path, project: Path, tmp_path: Path) -> None:
    folder = project / ".agents/plugins"
    write_plugin(tmp_path / "elsewhere", "outside")
    folder.mkdir(parents=True)
    (folder / "outside").symlink_to(tmp_path / "elsewhere/outside")
    (folder / "linked").mkdir()
    (folder / "linked/plugin.json").symlink_to(tmp_path / "elsewhere/outside/plugin.json")
    (folder / "deep").mkdir()
    (folder / "deep/plugin.json").write_text("[" * 100_000)
    (folder / "named").mkdir()
    (folder / "named/plugin.json").write_text(json.dumps({"$schema": SCHEMA, "name": "\x1b[31mred"}))
    (folder / "old").mkdir()
    (folder / "old/plugin.json").write_text(json.dumps({"$schema": SCHEMA.replace("1.0.0", "9.9.9"), "name": "old"}))
    good = write_plugin(folder, "good", commands=["./x.md"], extensions=3)
    (good / "skills").mkdir()
    (tmp_path / "secrets").mkdir()
    write_skill(tmp_path / "secrets", "leak")
    (good / "skills/leak").symlink_to(tmp_path / "secrets/leak")
    (good / "mcp.json").write_text("{")
    extensions = Extensions(project)
    (plugin,) = extensions.plugins.plugins
    assert plugin.manifest.name == "good"
    assert len(plugin.remarks) == 3
    assert len(extensions.plugins.refused) == 5
    assert not extensions.skills.skills
    assert "leads out" in extensions.skills.refused[0]
    assert "\x1b" not in "".join(extensions.plugins.refused)
