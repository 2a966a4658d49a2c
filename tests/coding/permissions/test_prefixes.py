"""Rules for commands that begin alike: which are offered, and what they allow."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from outrider.coding.permissions.decision import Call, Decision, decide
from outrider.coding.permissions.policy import Policy
from outrider.coding.permissions.shell.command_rules import prefix_of


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("pytest -q tests", "pytest:**"),
        (".venv/bin/pytest -q", ".venv/bin/pytest:**"),
        ("git commit -m x", "git commit:**"),
        ("git push origin main", "git push:*"),
        ("npm run build -- --prod", "npm run build:**"),
        ("npm test", "npm test:**"),
        ("cargo test -p x", "cargo test:**"),
        ("go vet ./...", "go vet:**"),
        ("make test -j4", "make test:**"),
        ("docker compose up -d", "docker compose up:**"),
        ("kubectl get pods", "kubectl get:**"),
        ("uv run pytest -x", "uv run pytest:**"),
        ("python3.12 -m pytest -q", "python3.12 -m pytest:**"),
        ("uv run python -m mypy src", "uv run python -m mypy:**"),
        ("npx eslint .", "npx eslint:**"),
        ("ruff check", "ruff:**"),
        ("rg foo", "rg:*"),
        ("./check.sh x", "./check.sh:*"),
        ("unheard-of -x", "unheard-of:*"),
    ],
)
def test_a_prefix_says_what_is_done(line: str, wanted: str) -> None:
    assert prefix_of(shlex.split(line)) == wanted


@pytest.mark.parametrize(
    "line",
    [
        *("bash x.sh", "sh -c ls", "/bin/bash x", "python x.py", "python3 -c 1", "python -m http.server", "node x.js"),
        *(
            "env pytest",
            "sudo pytest",
            "xargs rm",
            "find . -exec rm {} +",
            "ssh host ls",
            "timeout 5 pytest",
            "time ls",
        ),
        *("git", "git config alias.x !sh", "git submodule foreach ls", "git -c a=b commit", "git bisect run x"),
        *("npm", "npm install x", "npm exec x", "npx", "npx -p x y", "pip install x", "uv add x", "uv run --with x y"),
        *("uv run bash x", "cargo install x", "go run x", "docker run x", "docker exec x sh", "docker compose run x"),
        *("kubectl exec x", "kubectl delete x", "make", "make -f other", "make X=1", "gh api x", "gh pr merge"),
        *("rm -rf x", "curl x", "chmod +x x", "mv a b", "../x/run", "/tmp/run", "~/run", "sed -i x", "awk x", "perl x"),
        *("csh -c x", "tcsh x", "ipython -c x", "pypy3 x", "pypy3.10 x", "nu -c x", "elvish x", "luajit x", "dc -e x"),
        *("view x", "vimdiff x", "emacsclient -e x", "less x", "man x", "sem rm x", "ifne rm x", "run-parts d"),
        *(
            "sshpass -p x ssh h",
            "ansible-playbook x",
            "lftp -c x",
            "systemd-nspawn x",
            "nerdctl run x",
            "crictl exec x",
        ),
        *(
            "oc exec x",
            "cmake -P x",
            "bazel run x",
            "zig run x",
            "task x",
            "sqlite3 x",
            "sqlite3.45 x",
            "hg log",
            "nvim9",
        ),
        *("python3 -m coverage run x", "npx zx x", "uv run ipython"),
        *("vim x", "crontab x", "eval x", "source x", "watch ls", "tar xf x", "java -jar x", "psql -c x"),
    ],
)
def test_what_would_allow_anything_has_none(line: str) -> None:
    assert prefix_of(shlex.split(line)) == ""


def decided(policy: Policy, command: str, cwd: Path | None = None) -> Decision:
    given = {"command": command, "access": "write"}
    return decide(policy, Call("Bash", "write", given, cwd or policy.folder, built_in=True))


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    top = tmp_path / "top"
    for name in (".git", "sub", "vendor/.git"):
        (top / name).mkdir(parents=True)
    return Policy(folder=top, repository=top, sandboxed=True)


def test_each_part_of_a_line_needs_one(policy: Policy) -> None:
    assert decided(policy, "git add -A && git commit -m x").prefix == (
        "Bash(git add:**) write",
        "Bash(git commit:**) write",
    )
    assert decided(policy, "pytest -q | tail -3").prefix == ("Bash(pytest:**) write",)
    for line in ("git add -A && rm -rf x", "pytest > out.txt", "pytest $X", "echo x | pytest", "cd .. && pytest"):
        assert decided(policy, line).prefix == (), line
    assert decided(policy, "pytest > out.txt").always == ("Bash(pytest > out.txt) write",)


def test_it_allows_what_begins_alike_in_the_whole_repository(policy: Policy, tmp_path: Path) -> None:
    sub = policy.folder / "sub"
    asked = decided(policy, "pytest -q", sub)
    assert (asked.always, asked.prefix) == (("Bash(pytest -q) write",), ("Bash(pytest:**) write",))
    wide = policy.allowing(asked.prefix, shared=True)
    for line, cwd in (("pytest -x a", None), ("pytest", sub), ("cd sub && pytest -q", None)):
        assert decided(wide, line, cwd).verdict == "allow", line
    assert decided(wide, "pytest", policy.folder / "vendor").verdict == "ask"
    assert decided(wide, "pytest", tmp_path).verdict == "ask"
    for line in ("pytester", "pytest && rm x", "bash -c pytest", "pytest > x"):
        assert decided(wide, line).verdict == "ask", line
    own = policy.allowing(asked.prefix)
    assert (decided(own, "pytest").verdict, decided(own, "pytest", sub).verdict) == ("allow", "ask")
    path = policy.allowing(["Bash(bin/check:**) write"], shared=True)
    assert (decided(path, "bin/check x").verdict, decided(path, "bin/check x", sub).verdict) == ("allow", "ask")


def test_a_program_that_is_not_known_to_be_harmless_takes_no_options(policy: Policy) -> None:
    wide = policy.allowing(decided(policy, "rg foo").prefix, shared=True)
    assert decided(wide, "rg bar src").verdict == "allow"
    assert decided(wide, "rg --pre ./evil bar").verdict == "ask"
    assert decided(policy, "rg --hidden foo").prefix == ()


def test_a_subcommand_that_can_run_programs_takes_no_options(policy: Policy) -> None:
    wide = policy.allowing(decided(policy, "git fetch origin").prefix, shared=True)
    assert decided(wide, "git fetch upstream main").verdict == "allow"
    assert decided(wide, "git fetch --upload-pack=evil x").verdict == "ask"
