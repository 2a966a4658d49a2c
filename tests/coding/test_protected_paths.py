"""The lists of secrets and protected paths, and what the file tools may do with them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from outrider.coding.permissions.decision import Call, Decision, decide
from outrider.coding.permissions.policy import Policy
from outrider.coding.permissions.question import Mode
from outrider.coding.permissions.rules import Rule
from outrider.coding.protected_paths import (
    CONFIGURATION,
    PROTECTED,
    SECRETS,
    git_folders,
    is_configuration,
    is_in_git,
    is_secret,
    present_configuration,
)
from outrider.coding.sandbox.sandbox import Confinement


def git(folder: Path, *arguments: str) -> None:
    identity = {
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a",
    }
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), **identity}
    subprocess.run(["git", *arguments], cwd=folder, env=environment, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = (tmp_path / "main").resolve()
    folder.mkdir()
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    return folder


def test_protected_paths_are_listed_whether_they_exist_or_not(tmp_path: Path) -> None:
    places = Confinement(folder=tmp_path, cwd=tmp_path, temporary=tmp_path)
    entries = {tmp_path.resolve() / Path(name).parts[0] for name in PROTECTED}
    assert {Path(path) for path in places.protected} >= entries


def test_the_repository_around_a_folder_is_protected(repository: Path) -> None:
    inner = repository / "src/deep"
    inner.mkdir(parents=True)
    assert git_folders(inner) == (inner / ".git", repository / ".git")


def test_the_folders_behind_a_worktree_are_protected(repository: Path) -> None:
    tree = repository.parent / "tree"
    git(repository, "worktree", "add", "-q", str(tree))
    assert set(git_folders(tree)) == {tree / ".git", repository / ".git/worktrees/tree", repository / ".git"}
    assert is_in_git(str(repository / ".git/hooks/post-checkout"), str(tree))


def test_a_repository_with_its_folder_elsewhere_is_protected(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path.resolve() / "project", tmp_path.resolve() / "data"
    folder.mkdir()
    git(folder, "init", "-q", f"--separate-git-dir={elsewhere}")
    assert git_folders(folder) == (folder / ".git", elsewhere)
    assert is_in_git(str(elsewhere / "config"), str(folder))
    assert not is_in_git(str(tmp_path.resolve() / "database"), str(folder))


@pytest.mark.parametrize(
    "text", ["", "gitdir: /", "gitdir: \0", "gitdir: ../..", "nonsense", "gitdir: " + "x" * 20_000]
)
def test_a_git_file_that_names_no_repository_is_not_believed(tmp_path: Path, text: str) -> None:
    (tmp_path / ".git").write_text(text)
    assert git_folders(tmp_path) == (tmp_path / ".git",)


def test_a_git_that_is_a_link_protects_both_ends(repository: Path) -> None:
    other = repository.parent / "other"
    other.mkdir()
    (other / ".git").symlink_to(repository / ".git")
    assert git_folders(other) == (other / ".git", repository / ".git")


def test_git_may_read_its_own_folder() -> None:
    assert not is_secret("/w/.git/config", SECRETS, "/w")
    assert is_secret("/w/.git-credentials", SECRETS, "/w")


@pytest.mark.parametrize(
    "name",
    [
        *(".claude/.credentials.json", ".claude.json", ".claude/history.jsonl", ".claude/projects/x/1.jsonl"),
        *(".codex/auth.json", ".codex/history.jsonl", ".codex/sessions/2026/x.jsonl", ".gemini/oauth_creds.json"),
        *(".local/share/opencode/auth.json", ".s3cfg", ".config/rclone/rclone.conf", ".m2/settings.xml"),
        *(".m2/settings-security.xml", ".gradle/gradle.properties", ".bash_history", ".psql_history"),
        *(".python_history", ".node_repl_history", ".local/share/fish/fish_history", ".lesshst", ".config/hub"),
        *(".config/glab-cli/config.yml", ".terraformrc", ".boto", ".databrickscfg", ".aider.chat.history.md"),
        *(".config/github-copilot/apps.json", ".config/op/config", ".mozilla/firefox/x/cookies.sqlite"),
    ],
)
def test_logins_and_histories_are_secrets(name: str) -> None:
    assert is_secret(f"/home/me/{name}", SECRETS, "/w")
    assert is_secret(f"/w/{name}", SECRETS, "/w")


@pytest.mark.parametrize(
    "name",
    [
        *("settings.xml", "gradle.properties", "gradle/wrapper/gradle-wrapper.properties", ".mvn/settings.xml"),
        *(".claude/settings.json", ".claude/commands/x.md", ".codex/config.toml", ".gemini/settings.json"),
        *("auth.json", "src/history.py", "docs/history.md", "browser_history", "src/sessions/x.py", "hub/main.go"),
        *(".config/app.json", ".cache/x", "projects/x.py", "main.tf", ".terraform.lock.hcl", "keyboard.py"),
    ],
)
def test_ordinary_files_are_no_secrets(name: str) -> None:
    assert not is_secret(f"/w/{name}", SECRETS, "/w")


@pytest.mark.parametrize(
    "path", [".vscode/tasks.json", ".VSCODE/x", ".github/workflows/ci.yml", "a/.idea/x", ".mcp.json"]
)
def test_configuration_is_recognised_in_any_spelling_and_depth(path: str) -> None:
    assert is_configuration(f"/w/{path}", "/w")


@pytest.mark.parametrize(
    "path",
    [
        *(
            ".hg/hgrc",
            ".vimrc",
            ".codex/config.toml",
            ".gemini/settings.json",
            "opencode.json",
            ".opencode/plugin/x.ts",
        ),
        *("my.code-workspace", "a/My.CODE-WORKSPACE", ".woodpecker.yml", ".woodpecker.yaml", ".lefthook.yml"),
        *(".forgejo/workflows/ci.yml", ".gitea/workflows/ci.yml", "lefthook.yaml", "lefthook-local.yml"),
    ],
)
def test_what_other_programs_obey_asks_before_it_is_edited(tmp_path: Path, path: str) -> None:
    assert verdict(tmp_path, path) == "ask"


@pytest.mark.parametrize(
    "path",
    [
        *(".helix/languages.toml", ".vim/coc-settings.json", "my.sublime-project", ".gitpod.yml", ".idx/dev.nix"),
        *(
            ".aider.conf.yml",
            ".amazonq/mcp.json",
            ".kilocode/mcp.json",
            ".factory/settings.json",
            ".pi/extensions/x.ts",
        ),
        *(".openhands/setup.sh", ".github/hooks/x.json", "lefthook.toml", "lefthook.json", ".lintstagedrc.json"),
        *("lint-staged.config.js", "prek.toml", ".config/mise/config.toml", "mise.dev.toml", ".cirrus.yml"),
        *("appveyor.yml", ".semaphore/semaphore.yml", ".tekton/x.yaml", ".teamcity/settings.kts", ".builds/x.yml"),
        *("sub/HEAD", "sub/deep/HEAD", "sub/.config/mise.toml"),
    ],
)
def test_more_of_what_other_programs_obey_asks_too(repository: Path, path: str) -> None:
    assert verdict(repository, path) == "ask"
    assert verdict(repository, path, allow=f"Edit(./{path})") == "allow"


@pytest.mark.parametrize("path", ["config", "objects/x", "refs/x", "hooks/pre-commit", "config.worktree"])
def test_what_git_obeys_beside_a_head_asks(repository: Path, path: str) -> None:
    assert verdict(repository, f"sub/{path}") == "allow"
    (repository / "sub").mkdir()
    (repository / "sub/HEAD").write_text("ref: refs/heads/main\n")
    assert verdict(repository, f"sub/{path}") == "ask"
    assert verdict(repository, "sub/a.py") == "allow"
    (repository / "sub/.git").mkdir()
    assert verdict(repository, f"sub/{path}") == "allow", "git there obeys .git, and not the folder"


def test_a_folder_for_more_than_configuration_is_protected_only_with_it(tmp_path: Path) -> None:
    for name in (".config/nextest.toml", "mise/main.go"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    assert present_configuration(str(tmp_path)) == []
    (tmp_path / ".config/mise.toml").touch()
    assert present_configuration(str(tmp_path)) == [".config"]


@pytest.mark.parametrize("name", ["my.code-workspace", ".woodpecker.yml", ".forgejo", "lefthook-local.json"])
def test_less_usual_configuration_is_protected_in_the_sandbox_where_it_exists(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    places = Confinement(folder=tmp_path, cwd=tmp_path, temporary=tmp_path)
    assert str(tmp_path.resolve() / name) in places.protected
    (tmp_path / name).unlink()
    assert str(tmp_path.resolve() / name) not in places.protected


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ("[core]\n\thooksPath = .githooks\n", ".githooks"),
        ('[CORE]\nbare=false\n HooksPath = "tools/hooks" ; ours\n', "tools"),
        ("[user]\nname = x\n[core] hooksPath = ./a/../.githooks\n", ".githooks"),
    ],
)
def test_the_hooks_of_a_repository_are_protected_wherever_they_are(repository: Path, config: str, path: str) -> None:
    (repository / ".git/config").write_text(config)
    hook = f"{path}/hooks/pre-commit" if path == "tools" else f"{path}/pre-commit"
    assert verdict(repository, hook) == "ask"
    assert verdict(repository, hook, allow=f"Edit(./{hook})") == "allow"
    assert verdict(repository, "src/pre-commit") == "allow"
    places = Confinement(folder=repository, cwd=repository, temporary=repository)
    assert str(repository / path) in places.protected


@pytest.mark.parametrize("value", [".", "/usr/share/hooks", "..", '""', "\0", "x" * 10_000])
def test_hooks_outside_of_the_folder_protect_nothing_in_it(repository: Path, value: str) -> None:
    (repository / ".git/config").write_text(f"[core]\nhooksPath = {value}\n")
    assert verdict(repository, "src/a.py") == "allow"


@pytest.mark.parametrize("path", ["vscode/tasks.json", ".github/CODEOWNERS", "src/a.py", ".vscodes", "Makefile"])
def test_other_files_are_not_configuration(path: str) -> None:
    assert not is_configuration(f"/w/{path}", "/w")


def decision_on(policy: Policy, tool: str, path: str) -> Decision:
    effect = "read" if tool == "Read" else "write"
    return decide(policy, Call(tool, effect, {"file_path": path}, policy.folder, built_in=True))


def verdict(tmp_path: Path, path: str, mode: Mode = "edits", allow: str = "", tool: str = "Write") -> str:
    policy = Policy(folder=tmp_path, mode=mode, allow=(Rule.parse(allow),) if allow else ())
    return decision_on(policy, tool, path).verdict


@pytest.mark.parametrize("mode", ["ask", "edits", "all"])
@pytest.mark.parametrize(
    "path", [".git/config", "a/.git/hooks/x", ".git", ".outrider/config.toml", ".outrider/agents/x.md"]
)
def test_git_and_own_settings_are_never_written(tmp_path: Path, mode: Mode, path: str) -> None:
    assert verdict(tmp_path, path, mode) == "deny"
    assert verdict(tmp_path, path, mode, f"Edit(./{path})") == "deny"


def test_the_file_tools_do_not_read_inside_git(tmp_path: Path) -> None:
    decision = decision_on(Policy(folder=tmp_path, mode="all"), "Read", ".git/config")
    assert decision.reason == ".git/config is inside .git, which the file tools do not open; use git itself"


@pytest.mark.parametrize("name", [each for each in CONFIGURATION if each != ".envrc"])
def test_configuration_asks_where_other_edits_run(tmp_path: Path, name: str) -> None:
    name = name.replace("*", "x")
    path = f"{name}/x" if "." not in name.rpartition("/")[2][1:] and name != "Jenkinsfile" else name
    assert verdict(tmp_path, path) == "ask"
    assert verdict(tmp_path, path, allow="Edit(**)") == "ask", "a wide rule does not name it"
    assert verdict(tmp_path, path, allow=f"Edit(./{path})") == "allow"
    assert verdict(tmp_path, path, "ask", f"Edit(./{path})") == "allow"
    assert verdict(tmp_path, path, "all") == "allow", "in this mode any command may change it"
    assert verdict(tmp_path, path, "plan") == "deny"


def test_always_offers_the_rule_for_this_file_alone(tmp_path: Path) -> None:
    policy = Policy(folder=tmp_path, mode="edits")
    path = ".github/workflows/ci.yml"
    decision = decision_on(policy, "Edit", path)
    assert decision.always == (f"Edit(./{path})",)
    assert verdict(tmp_path, path, allow="Edit(./.github/workflows/**)") == "allow"


def test_a_link_to_configuration_is_configuration(tmp_path: Path) -> None:
    (tmp_path / ".vscode").mkdir()
    (tmp_path / "plain").symlink_to(".vscode")
    assert verdict(tmp_path, "plain/tasks.json") == "ask"
