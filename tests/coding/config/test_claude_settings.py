"""`.claude/settings.json`: rules that narrow count, what widens is named and not read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from outrider.coding.config.loading import Loaded, load
from outrider.coding.config.remembered import RememberedRules
from outrider.coding.permissions.decision import Call, decide
from outrider.coding.toolbox.workspace import Workspace
from outrider.coding.user_policy import user_policy


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path.resolve() / "home"
    (home / "project").mkdir(parents=True)
    (home / "project/.git").mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def project(home: Path) -> Path:
    return home / "project"


def write(folder: Path, content: Any, name: str = "settings.json") -> None:
    (folder / ".claude").mkdir(exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / ".claude" / name).write_text(text)


def loaded(folder: Path, mode: str = "all", **flags: Any) -> Loaded:
    return load(folder, environment={}, flags={"permissions.mode": mode, **flags})


def verdict(folder: Path, tool: str, mode: str = "all", **given: Any) -> str:
    """Return what happens to a call. In the mode `all`, only rules make a difference."""
    settings = loaded(folder, mode).settings
    workspace = Workspace(folder)
    try:
        policy = user_policy(settings, workspace, RememberedRules(folder / "data", folder))
        effect = "read" if tool in ("Read", "Grep") else "write"
        return decide(policy, Call(tool, effect, given, folder, built_in=not tool.startswith("mcp__"))).verdict
    finally:
        workspace.close()


@pytest.mark.parametrize(
    ("rule", "tool", "denied", "free"),
    [
        ("Bash(npm run test:*)", "Bash", {"command": "npm run test unit"}, {"command": "npm run build"}),
        ("Bash(curl *)", "Bash", {"command": "curl x.example"}, {"command": "ls"}),
        ("Bash(curl*)", "Bash", {"command": "curl x.example"}, {"command": "ls"}),
        ("Bash(git push)", "Bash", {"command": "git push"}, {"command": "git status"}),
        ("Bash", "Bash", {"command": "ls"}, None),
        ("Bash(*)", "Bash", {"command": "ls"}, None),
        ("Read(./notes.txt)", "Read", {"file_path": "notes.txt"}, {"file_path": "other.txt"}),
        ("Read(/notes.txt)", "Read", {"file_path": "notes.txt"}, {"file_path": "a/notes.txt"}),
        ("Read(private/**)", "Read", {"file_path": "private/a/b"}, {"file_path": "public/a"}),
        ("Read(*.sql)", "Read", {"file_path": "a/b.sql"}, {"file_path": "a/b.py"}),
        ("Read(~/outside/**)", "Read", {"file_path": "../outside/x"}, {"file_path": "../inside/x"}),
        ("Read(//etc/hosts)", "Read", {"file_path": "/etc/hosts"}, {"file_path": "/etc/hostname"}),
        ("Edit(src/**)", "Write", {"file_path": "src/a.py"}, {"file_path": "docs/a.md"}),
        ("Write(src/**)", "Edit", {"file_path": "src/a.py"}, {"file_path": "docs/a.md"}),
        (
            "WebFetch(domain:evil.example)",
            "WebFetch",
            {"url": "https://x.evil.example/"},
            {"url": "https://a.example/"},
        ),
        (
            "WebFetch(domain:*.evil.example)",
            "WebFetch",
            {"url": "https://x.evil.example/"},
            {"url": "https://a.example/"},
        ),
        ("mcp__git", "mcp__git__log", {}, None),
        ("mcp__git__*", "mcp__git__log", {}, None),
        ("mcp__*", "mcp__git__log", {}, None),
        ("mcp__git__log", "mcp__git__log", {}, None),
    ],
)
def test_a_rule_denies_what_it_denies_there(project: Path, rule: str, tool: str, denied: Any, free: Any) -> None:
    assert verdict(project, tool, **denied) == "allow"
    write(project, {"permissions": {"deny": [rule]}})
    assert verdict(project, tool, **denied) == "deny"
    assert free is None or verdict(project, tool, **free) == "allow"
    write(project, {"permissions": {"ask": [rule]}})
    assert verdict(project, tool, **denied) == "ask"
    assert loaded(project).notes == ()


@pytest.mark.parametrize(
    ("rule", "tool", "asked"),
    [
        ("Bash(git * main)", "Bash", {"command": "git push origin main"}),
        ("Bash(* install)", "Bash", {"command": "npm install"}),
        ("Task(Explore)", "Task", {}),
        ("WebFetch(https://x)", "WebFetch", {"url": "https://x/"}),
        ("Read(a/../../b)", "Read", {"file_path": "a"}),
        ("rm -rf /", "Bash", {"command": "ls"}),
        (7, "Bash", {"command": "ls"}),
        ("mcp__g*t__x", "mcp__git__x", {}),
    ],
)
def test_a_rule_that_cannot_be_expressed_asks(project: Path, rule: Any, tool: str, asked: Any) -> None:
    write(project, {"permissions": {"deny": [rule]}})
    assert verdict(project, tool, **asked) == "ask"
    (note,) = loaded(project).notes
    assert "cannot express" in note
    assert str(rule) in note


@pytest.mark.parametrize("rules", ["Bash(ls)", {"Bash": 1}, ["Bash(x)"] * 1_001])
def test_rules_that_are_no_list_ask_about_everything(project: Path, rules: Any) -> None:
    write(project, {"permissions": {"deny": rules}})
    assert verdict(project, "Bash", command="ls") == "ask"
    assert "permissions.deny" in loaded(project).notes[0]


def test_what_widens_is_named_and_not_read(project: Path) -> None:
    permissions = {"allow": ["Bash"], "defaultMode": "bypassPermissions", "additionalDirectories": ["/"], "deny": []}
    write(project, {"permissions": permissions, "env": {"SECRET": "hunter2"}, "theme": "dark"})
    found = load(project, environment={})
    assert found.settings == load(project.parent, environment={}).settings
    (note,) = found.notes
    for key in ("permissions.allow", "permissions.defaultMode", "permissions.additionalDirectories", "env"):
        assert key in note
    assert "hunter2" not in note
    assert "theme" not in note


def test_the_files_of_user_project_and_folder_count_together(home: Path, project: Path) -> None:
    inner = project / "inner"
    inner.mkdir()
    write(home, {"permissions": {"deny": ["Bash(a:*)"]}})
    write(project, {"permissions": {"deny": ["Bash(b:*)"]}})
    write(project, {"permissions": {"ask": ["Bash(c:*)"]}}, "settings.local.json")
    write(inner, {"permissions": {"deny": ["Read(/x)"]}})
    found = [verdict(inner, "Bash", command=f"{name} 1") for name in "abcd"]
    assert found == ["deny", "deny", "ask", "allow"]
    assert verdict(inner, "Read", file_path="x") == "deny"
    assert "~/.claude/settings.json" in loaded(inner).origins["permissions.deny"]


@pytest.mark.parametrize("text", ["", "{", "[1", "\udcff", "[" * 100_000, "null", "[]", '"x"', '{"permissions": 3}'])
def test_a_broken_file_is_named_and_does_no_harm(project: Path, text: str) -> None:
    (project / ".claude").mkdir()
    (project / ".claude/settings.json").write_bytes(text.encode(errors="surrogateescape"))
    assert verdict(project, "Bash", command="ls") == "allow"
    is_json = text in ("null", "[]", '"x"', '{"permissions": 3}')
    assert [("cannot be read" in note) for note in loaded(project).notes] == ([] if is_json else [True])
