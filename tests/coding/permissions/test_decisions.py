"""What may run: ordinary work goes through, in the order of precedence that the policy promises."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from outrider.coding.access import ACCESS_LEVELS, Access
from outrider.coding.permissions.decision import Call, decide
from outrider.coding.permissions.file_access import is_hidden
from outrider.coding.permissions.policy import Policy
from outrider.coding.permissions.question import MODES, Mode, access_table
from tests.coding.permissions.workspace import Ground

PLAIN_READS = (
    "ls",
    "ls -la src",
    "pwd",
    "cat notes.txt",
    "cat 'has space/b.txt'",
    "cat has\\ space/b.txt",
    "cat .env.example",
    "head -20 src/main.py",
    "head -n 20 src/main.py | tail -5",
    "cat src/main.py | grep -n foo | wc -l",
    "grep -n '.env' notes.txt",
    "grep -c 'a|b' src/main.py docs/a.md",
    "sed -n '1,20p' src/main.py",
    "find . -name '*.py' -type f",
    "find src -maxdepth 2 -not -path './.git/*'",
    "sort -u notes.txt | uniq -c | sort -rn",
    "cut -d: -f1 notes.txt",
    "echo hello world",
    "cd src && ls",
    "ls > /dev/null 2>&1",
    "ls 2>/dev/null | wc -l",
    "ls \\\n  -la",
    "cat src/up/notes.txt",
    "stat notes.txt; du -sh src",
    "cd src && cat main.py | head -3",
    "ls\npwd\n",
    "cd src",
    "date +%F && uname -a",
    "sed -n 5q notes.txt",
)
"""Plain commands of the short list."""

SHELL_READS = (
    "sed 's/a/b/g' notes.txt | head",
    'echo "it is $(date +%F) in $PWD"',
    'x=1; echo "$x ${x}" $? $((2 + 3))',
    "echo *.txt src/*",
    'for f in src/*.py *.md; do echo "$f"; done',
    'if [ "$(pwd)" != x ] && [ 1 -lt 2 ]; then echo y; fi',
    "sed -n '/foo/,/bar/p' notes.txt",
    "sed -n '/a/Ip; 3,$d' notes.txt",
    'for f in a b c; do echo "$f"; done',
    "if [ -f notes.txt ]; then cat notes.txt; else echo none; fi",
    "[ -d src ] && echo yes || echo no",
    "test -f x || true",
    "cd src && cat main.py && cd deep && cat x.py",
    "(cd docs; ls) && ls src",
    "which python3; command -v git",
    "echo $((1 + 2))",
    "# what is here?\nls",
    "cat <<'E'\n$(not run) `nor this`\nE",
    "cat <<E\nplain text, costs 5\nE",
    "cat < notes.txt",
    "wc -l < notes.txt",
    "set -euo pipefail; ls",
    "time ls",
    "timeout 5 cat notes.txt",
    "LC_ALL=C sort notes.txt",
    "! grep -q foo notes.txt",
    "{ ls; pwd; }",
    "ls & wait",
    "printf '%s\\n' a b",
    "stat -c %s notes.txt; du -sh src; file notes.txt",
)
"""Lines that only read, but that are not plain or not on the short list."""


@pytest.mark.parametrize("command", PLAIN_READS)
def test_plain_reads_inside_run_in_every_mode_also_without_a_sandbox(ground: Ground, command: str) -> None:
    for mode in MODES:
        for sandboxed in (False, True):
            decision = ground.bash(command, mode, sandboxed=sandboxed)
            assert decision.verdict == "allow", (mode, decision)


@pytest.mark.parametrize("command", SHELL_READS)
def test_other_reads_need_the_sandbox(ground: Ground, command: str) -> None:
    for mode in MODES:
        assert ground.bash(command, mode, sandboxed=True).verdict == "allow"
        assert ground.bash(command, mode).verdict == {"all": "allow", "plan": "deny"}.get(mode, "ask")


TABLE = {
    "plan": {"read": "allow", "write": "deny", "network": "deny", "full": "deny"},
    "ask": {"read": "allow", "write": "ask", "network": "ask", "full": "ask"},
    "edits": {"read": "allow", "write": "allow", "network": "ask", "full": "ask"},
    "all": {"read": "allow", "write": "allow", "network": "allow", "full": "allow"},
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("access", ACCESS_LEVELS)
@pytest.mark.parametrize("command", ["make", "curl x | sh", "for f in a; do rm $f; done", "python3 -c 'x'", "ls"])
def test_with_a_sandbox_the_mode_decides_about_the_access_level(
    ground: Ground, mode: Mode, access: Access, command: str
) -> None:
    verdict = ground.bash(command, mode, access=access, sandboxed=True).verdict
    expected = TABLE[mode][access]
    assert verdict == ("allow" if command == "ls" and expected == "ask" and access != "full" else expected)


@pytest.mark.parametrize("mode", MODES)
def test_the_table_for_people_is_the_table_of_decisions(ground: Ground, mode: Mode) -> None:
    words = {"allow": "runs", "ask": "asks", "deny": "refused"}
    for sandboxed in (True, False):
        shown = {level: verdict for level, (verdict, _) in access_table(mode, sandboxed=sandboxed).items()}
        for level in ACCESS_LEVELS:
            assert shown[level] == words[ground.bash("make", mode, access=level, sandboxed=sandboxed).verdict]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("access", ACCESS_LEVELS)
def test_without_a_sandbox_every_level_is_full_access(ground: Ground, mode: Mode, access: Access) -> None:
    decision = ground.bash("make", mode, access=access)
    assert decision.verdict == {"plan": "deny", "all": "allow"}.get(mode, "ask")
    if decision.verdict == "ask":
        assert decision.reason.endswith("access full: runs without a sandbox, as you")
        assert decision.always == ("Bash(make) full",)


@pytest.mark.parametrize("access", ["admin", "", None, 1, ["full"]])
def test_an_unknown_access_level_is_denied(ground: Ground, access: object) -> None:
    for sandboxed in (True, False):
        policy = ground.policy("all", sandboxed=sandboxed)
        assert ground.decide(policy, "Bash", command="ls", access=access).verdict == "deny"


def test_rules_come_before_the_sandbox(ground: Ground) -> None:
    for command in ("git push", "ls | sudo git push", "env A=1 git push", "echo $(git push)", "sh -c 'git push'"):
        for access in ACCESS_LEVELS:
            denied = ground.bash(command, "all", access=access, sandboxed=True, deny=("Bash(git push:*)",))
            assert denied.verdict == "deny", command
            asked = ground.bash(command, "all", access=access, sandboxed=True, ask=("Bash(git push:*)",))
            assert asked.verdict == "ask", command
    assert ground.bash("$x push", sandboxed=True, deny=("Bash(git push:*)",)).verdict == "ask"
    assert ground.bash("$x push", sandboxed=True).verdict == "allow"


def test_rules_about_a_level_deny_and_ask_from_that_level_on(ground: Ground) -> None:
    expected = {"read": "allow", "write": "allow", "network": "ask", "full": "ask"}
    for access, verdict in expected.items():
        assert ground.bash("make", "all", access=access, sandboxed=True, ask=("Bash network",)).verdict == verdict


@pytest.mark.parametrize(
    ("rule", "levels"),
    [
        ("Bash(npm test) read", ("read",)),
        ("Bash(npm test)", ("read", "write")),
        ("Bash(npm test) write", ("read", "write")),
        ("Bash(npm test) network", ("read", "write", "network")),
        ("Bash(npm test) full", ACCESS_LEVELS),
        ("Bash", ("read", "write")),
        ("Bash full", ACCESS_LEVELS),
    ],
)
def test_a_rule_allows_up_to_its_level(ground: Ground, rule: str, levels: tuple[str, ...]) -> None:
    allowed = [
        level
        for level in ACCESS_LEVELS
        if ground.bash("npm test", access=level, sandboxed=True, allow=(rule,)).verdict == "allow"
    ]
    assert tuple(allowed) == levels
    unconfined = ground.bash("npm test", allow=(rule,)).verdict
    assert unconfined == ("ask" if rule.split()[-1] in ("read", "write", "network") else "allow")


def test_secrets_are_named_only_where_the_sandbox_does_not_mask_them(ground: Ground) -> None:
    assert ground.bash("rg '.env' src", sandboxed=True).verdict == "allow"
    assert ground.bash("cp .env x", "all", access="write", sandboxed=True).verdict == "allow"
    assert ground.bash("cp .env x", "all", access="full", sandboxed=True).verdict == "deny"


def test_rules_about_files_cover_the_names_in_commands(ground: Ground) -> None:
    for command in ("cp a docs/x", "rm -r doc?", "echo x > docs/x", "cd docs && touch x", "tee docs/x"):
        denied = ground.bash(command, "edits", access="write", sandboxed=True, deny=("Edit(docs/**)",))
        assert denied.verdict != "allow", command
    assert ground.bash("git diff docs", sandboxed=True, deny=("Edit(docs/**)",)).verdict == "allow"
    assert ground.bash("cat docs/a.md", sandboxed=True, deny=("Read(docs/**)",)).verdict == "deny"


def test_files_that_rules_deny_are_masked_in_the_sandbox(ground: Ground) -> None:
    masked = ground.policy(deny=["Read(docs/**)", "Read(*.sql)", "Read({a,b}/x)", "Edit(src/**)"]).masked
    assert masked[-4:] == (f"{ground.work}/docs", "*.sql", f"{ground.work}/a/x", f"{ground.work}/b/x")
    assert ground.policy(deny=["Read(./**)"]).masked[-1] == f"{ground.work}/**", "commands start in the folder"


@pytest.mark.parametrize(
    ("command", "rules"),
    [
        ("git status && git diff | head -20", ["Bash(git status:*)", "Bash(git diff:*)"]),
        ("git diff src/main.py docs", ["Bash(git diff:*)"]),
        ("git diff --stat -- src/main.py", ["Bash(git diff:**)"]),
        ("git log --oneline -n 5 | cat", ["Bash(git log --oneline -n 5)"]),
        ("npm run test -- --watch=false", ["Bash(npm run test:**)"]),
        ("cd src && npm run test", ["Bash(cd src && npm run test)"]),
        ("npm run test 2>&1 | tail -50", ["Bash(npm run test:*)"]),
        ("pytest tests/test_x.py src/main.py::test_y", ["Bash(pytest:*)"]),
        ("pytest -q tests/test_x.py -k 'a and b'", ["Bash(pytest:**)"]),
        ("make test", ["Bash(make test:*)"]),
        ('git commit -m "fix: the .env loader, see server.key"', ["Bash(git commit:**)"]),
        ("grep -rn foo --exclude-dir=.git .", ["Bash(grep:**)"]),
        ("jq -r '.items[].key' data.json", ["Bash(jq:**)"]),
        ("find . -type f -name '*.tmp' -delete", ["Bash(find . -type f -name '*.tmp' -delete)"]),
        ("for i in 1 2 3; do make test; done", ["Bash(for i in 1 2 3; do make test; done)"]),
    ],
)
def test_ordinary_work_runs_under_ordinary_rules(ground: Ground, command: str, rules: list[str]) -> None:
    assert ground.bash(command).verdict == "ask"
    assert ground.bash(command, allow=rules).verdict == "allow"


@pytest.mark.parametrize("mode", MODES)
def test_reads_inside_are_free_in_every_mode(ground: Ground, mode: Mode) -> None:
    policy = ground.policy(mode)
    assert ground.decide(policy, "Read", file_path="src/main.py").verdict == "allow"
    assert ground.decide(policy, "Read", file_path=str(ground.work / "notes.txt")).verdict == "allow"
    assert ground.decide(policy, "Read", file_path="attachment:0123abcd").verdict == "allow"
    assert ground.decide(policy, "Glob", pattern="**/*.{py,md}").verdict == "allow"
    assert ground.decide(policy, "Glob", pattern="*.py", path="src").verdict == "allow"
    assert ground.decide(policy, "Glob", pattern=f"{ground.work}/src/*").verdict == "allow"
    assert ground.decide(policy, "Grep", pattern="../..", path="src", glob="*.py").verdict == "allow"
    assert ground.decide(policy, "Todo", todos=[]).verdict == "allow"


@pytest.mark.parametrize(
    ("mode", "inside", "outside"), [("ask", "ask", "ask"), ("edits", "allow", "ask"), ("all", "allow", "allow")]
)
def test_the_mode_decides_about_edits(ground: Ground, mode: Mode, inside: str, outside: str) -> None:
    policy = ground.policy(mode)
    for tool in ("Write", "Edit"):
        assert ground.decide(policy, tool, file_path="src/new.py").verdict == inside
        assert ground.decide(policy, tool, file_path="../outside/new.py").verdict == outside
    assert ground.bash("echo x > src/new.py", mode, access="write", sandboxed=True).verdict == inside
    assert ground.decide(policy, "Bash", command="echo x > src/new.py").verdict == outside


@pytest.mark.parametrize("rules", [(), ("Bash", "Write", "Edit", "WebFetch", "my_tool", "Bash(make test)")])
def test_plan_mode_only_reads_whatever_is_allowed(ground: Ground, rules: tuple[str, ...]) -> None:
    policy = ground.policy("plan", rules)
    for decision in (
        ground.decide(policy, "Write", file_path="x", content=""),
        ground.decide(policy, "Bash", command="make test"),
        ground.decide(policy, "Bash", command="ls > x"),
        decide(policy, Call("my_tool", "write", {}, ground.work)),
        decide(policy, Call("my_tool", "idempotent", {}, ground.work)),
    ):
        assert decision.verdict == "deny"
        assert "plan mode" in decision.reason
    assert decide(policy, Call("my_reader", "read", {}, ground.work)).verdict == "allow"


def test_in_plan_mode_a_rule_opens_reads_outside(ground: Ground) -> None:
    path = str(ground.outside / "other.txt")
    assert ground.decide(ground.policy("plan"), "Read", file_path=path).verdict == "ask"
    assert (
        ground.decide(ground.policy("plan", [f"Read({ground.outside}/**)"]), "Read", file_path=path).verdict == "allow"
    )


def test_deny_wins_over_ask_and_allow_and_ask_over_allow(ground: Ground) -> None:
    rules = {"allow": ["Edit(src/**)"], "ask": ["Edit(src/**)"], "deny": ["Edit(src/deep/**)"]}
    for mode in ("ask", "edits", "all"):
        policy = ground.policy(mode, **rules)
        assert ground.decide(policy, "Write", file_path="src/deep/x.py").verdict == "deny"
        assert ground.decide(policy, "Edit", file_path="src/main.py").verdict == "ask"
        assert ground.decide(policy, "Edit", file_path="src/main.py").always == ()


def test_a_rule_that_asks_is_heeded_if_all_is_allowed(ground: Ground) -> None:
    assert ground.bash("git push", "all", ask=["Bash(git push:*)"]).verdict == "ask"
    assert ground.bash("ls; git push -f", "all", ask=["Bash(git push:*)"]).verdict == "ask"
    assert ground.bash("git pull", "all", ask=["Bash(git push:*)"]).verdict == "allow"


def test_a_rule_for_edit_is_one_for_write_but_not_the_other_way_round(ground: Ground) -> None:
    edit, write = ground.policy(allow=["Edit(docs/*.md)"]), ground.policy(allow=["Write(docs/*.md)"])
    assert ground.decide(edit, "Write", file_path="docs/a.md").verdict == "allow"
    assert ground.decide(write, "Write", file_path="docs/a.md").verdict == "allow"
    assert ground.decide(write, "Edit", file_path="docs/a.md").verdict == "ask"


def test_a_rule_for_read_is_one_for_searches_and_for_what_the_shell_reads(ground: Ground) -> None:
    allowed = ground.policy(allow=[f"Read({ground.outside}/**)"])
    denied = ground.policy("all", deny=["Read(docs/**)"])
    for call in (
        {"tool": "Grep", "pattern": "x", "path": "{}"},
        {"tool": "Glob", "pattern": "*", "path": "{}"},
        {"tool": "Bash", "command": "ls {}"},
    ):
        outside = {key: value.format(ground.outside) for key, value in call.items()}
        docs = {key: value.format("docs") for key, value in call.items()}
        assert ground.decide(allowed, **outside).verdict == "allow"
        assert ground.decide(denied, **docs).verdict == "deny"


def test_other_folders_count_as_inside(ground: Ground) -> None:
    policy = msgspec.structs.replace(ground.policy("edits"), folders=(ground.outside,))
    assert ground.decide(policy, "Write", file_path=str(ground.outside / "x")).verdict == "allow"
    assert ground.decide(policy, "Bash", command="cat ../outside/other.txt").verdict == "allow"


def test_the_shell_may_stand_elsewhere_than_the_files_are(ground: Ground) -> None:
    policy = ground.policy()
    assert ground.decide(policy, "Bash", cwd=ground.work / "src", command="cat main.py ../notes.txt").verdict == "allow"
    assert ground.decide(policy, "Bash", cwd=ground.work / "src", command="cat ../../x").verdict == "ask"
    assert ground.decide(policy, "Read", cwd=ground.work / "src", file_path="../notes.txt").verdict == "ask"


def test_a_secret_opens_only_by_the_list_of_secrets(ground: Ground) -> None:
    policy = ground.policy("all", ["Read", "Read(.env)"])
    assert ground.decide(policy, "Read", file_path=".env").verdict == "deny"
    opened = msgspec.structs.replace(policy, secrets=("*.pem",))
    assert ground.decide(opened, "Read", file_path=".env").verdict == "allow"
    assert ground.decide(opened, "Read", file_path="server.pem").verdict == "deny"


def test_a_search_can_ask_what_to_leave_out(ground: Ground) -> None:
    policy = ground.policy("all", deny=["Read(docs/**)"])
    assert is_hidden(policy, "src/.env")
    assert is_hidden(policy, "to_env")
    assert is_hidden(policy, str(ground.work / "docs/a.md"))
    assert not is_hidden(policy, "src/main.py")


def test_tools_that_only_have_a_name(ground: Ground) -> None:
    for mode, verdict in (("ask", "ask"), ("edits", "ask"), ("all", "allow"), ("plan", "deny")):
        assert decide(ground.policy(mode), Call("my_tool", "write", {}, ground.work)).verdict == verdict
    assert decide(ground.policy(allow=["my_tool"]), Call("my_tool", "write", {}, ground.work)).verdict == "allow"
    assert decide(ground.policy(deny=["my_tool"]), Call("my_tool", "read", {}, ground.work)).verdict == "deny"
    assert decide(ground.policy("all", ask=["my_tool"]), Call("my_tool", "read", {}, ground.work)).verdict == "ask"


def test_addresses(ground: Ground) -> None:
    policy = ground.policy(allow=["WebFetch(domain:example.com)"], deny=["WebFetch(domain:bad.example.com)"])
    assert ground.decide(policy, "WebFetch", url="https://docs.example.com:8443/a?b#c").verdict == "allow"
    assert ground.decide(policy, "WebFetch", url="https://BAD.example.com./").verdict == "deny"
    other = ground.decide(policy, "WebFetch", url="https://other.net/x")
    assert (other.verdict, other.always) == ("ask", ("WebFetch(domain:other.net)",))
    for mode, verdict in (("ask", "ask"), ("edits", "ask"), ("plan", "ask"), ("all", "allow")):
        assert ground.decide(ground.policy(mode), "WebFetch", url="https://other.net/x").verdict == verdict


def test_a_folder_that_is_a_link_is_known_by_its_real_name(ground: Ground, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(ground.work)
    policy = Policy(folder=link)
    assert decide(policy, Call("Read", "read", {"file_path": "notes.txt"}, link, built_in=True)).verdict == "allow"
    assert decide(policy, Call("Bash", "write", {"command": "cat notes.txt"}, link, built_in=True)).verdict == "allow"
    assert decide(policy, Call("Bash", "write", {"command": "cd .. && ls"}, link, built_in=True)).verdict == "ask"
