"""Rules as a person writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.coding.permissions.decision import Call, decide
from outrider.coding.permissions.policy import Policy
from outrider.coding.permissions.question import Mode
from outrider.coding.permissions.rules import Rule
from outrider.errors import ConfigError
from tests.coding.permissions.workspace import Ground


@pytest.mark.parametrize(
    ("text", "tool", "pattern"),
    [
        ("Bash", "Bash", None),
        ("Bash(*)", "Bash", None),
        (" Read ", "Read", None),
        ("Read(**)", "Read", None),
        ("Bash(git status)", "Bash", "git status"),
        ("Bash(npm run test:*)", "Bash", "npm run test:*"),
        ("Bash(echo (a) | cat)", "Bash", "echo (a) | cat"),
        ("Read(src/**)", "Read", "src/**"),
        ("WebFetch(domain:Example.COM.)", "WebFetch", "domain:example.com"),
        ("my_tool", "my_tool", None),
        ("Bash(pytest:**)", "Bash", "pytest:**"),
        ("mcp__server__tool", "mcp__server__tool", None),
        ("mcp__server__*", "mcp__server__*", None),
    ],
)
def test_a_rule_is_a_tool_and_perhaps_a_pattern(text: str, tool: str, pattern: str | None) -> None:
    assert Rule.parse(text) == Rule(tool, pattern)
    assert Rule.parse(Rule.parse(text).text) == Rule.parse(text)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("", "is not a rule"),
        ("Bash(", "is not a rule"),
        ("Bash)", "is not a rule"),
        ("Bash()", "empty pattern"),
        ("Read( )", "empty pattern"),
        ("*", "mode `all`"),
        ("bash(ls)", "did you mean Bash"),
        ("webfetch", "did you mean WebFetch"),
        ("task", "did you mean Task"),
        ("Writes(x)", "did you mean Write"),
        ("mcp__x*", "not a valid tool name"),
        ("mcp__git__log*", "not a valid tool name"),
        ("my_*", "not a valid tool name"),
        ("Bash(npm run *)", r"Bash\(npm run:\*\)"),
        ("Bash(:*)", "no words"),
        ("Bash('a:*)", "quotes"),
        ("my_tool(x)", "take no pattern"),
        ("Todo(x)", "take no pattern"),
        ("WebFetch(example.com)", "domain:example.com"),
        ("WebFetch(domain:*.example.com)", "sub-domains"),
        ("WebFetch(domain:)", "domain:example.com"),
        ("Read(a/../../b)", "only at the beginning"),
        ("Read(~bob/x)", "write the path"),
        ("Read({a,b}{c,d}{e,f}{g,h}{i,j}{k,l}{m,n}{o,p}{q,r})", "cannot be used"),
        ("Bash(a\0b)", "NUL"),
        (7, "is not a rule"),
        ("Read(x) full", "only rules for Bash take an access level"),
        ("Bash(x) admin", "is not a rule"),
        ("Bash(:**)", "no words"),
    ],
)
def test_what_is_no_rule_is_refused_with_advice(text: str, advice: str) -> None:
    with pytest.raises(ConfigError, match=advice):
        Rule.parse(text)


@pytest.mark.parametrize(
    ("pattern", "path", "narrow", "wide"),
    [
        ("src/**", "/w/src/a/b.py", True, True),
        ("src/**", "/w/src", True, True),
        ("src/**", "/w/srcs/a", False, False),
        ("src/", "/w/src/a", True, True),
        ("src", "/w/src", True, True),
        ("src", "/w/src/a", False, True),
        ("docs/*.md", "/w/docs/a.md", True, True),
        ("docs/*.md", "/w/docs/a/b.md", False, False),
        ("docs/*", "/w/docs/a/b.md", False, True),
        ("*.md", "/w/a/b.md", True, True),
        ("*.md", "/x/b.md", False, True),
        ("./a.md", "/w/a.md", True, True),
        ("./a.md", "/w/b/a.md", False, False),
        ("../x/*", "/x/a", True, True),
        ("/data/**", "/data/a/b", True, True),
        ("/data/**", "/database", False, False),
        ("a?c/x", "/w/abc/x", True, True),
        ("a?c/x", "/w/a/c/x", False, False),
        ("[ab]/x", "/w/a/x", True, True),
        ("[!ab]/x", "/w/a/x", False, False),
        ("{a,b}/x", "/w/b/x", True, True),
        ("a\\*/x", "/w/a*/x", True, True),
        ("a\\*/x", "/w/ab/x", False, False),
        ("**/t/*.py", "/w/a/b/t/x.py", True, True),
        ("**/t/*.py", "/w/t/x.py", True, True),
        ("SRC/a", "/w/src/a", False, True),
    ],
)
def test_patterns_of_paths_are_narrow_to_allow_and_wide_to_deny(
    pattern: str, path: str, narrow: bool, wide: bool
) -> None:
    rule = Rule.parse(f"Read({pattern})")
    assert rule.covers_path(path, "/w", wide=False) is narrow
    assert rule.covers_path(path, "/w", wide=True) is wide


@pytest.mark.parametrize(
    ("text", "access", "meaning"),
    [
        ("Bash", None, "every command"),
        ("Bash network", "network", "every command, up to access network"),
        ("Bash(npm test) write", "write", "exactly `npm test`, up to access write"),
        ("Bash(echo (a) full) full", "full", "exactly `echo (a) full`, up to access full"),
        ("Bash(npm test:*)  read ", "read", "`npm test` and further arguments without options, up to access read"),
        ("Bash(pytest:**)", None, "commands that begin with `pytest`"),
        ("Read(/data/**)", None, "reading /data/**"),
        ("Edit(./x.md)", None, "changing ./x.md"),
        ("WebFetch(domain:a.net)", None, "fetching from a.net and its sub-domains"),
        ("my_tool", None, "every call of my_tool"),
    ],
)
def test_a_rule_for_commands_has_a_level_and_a_meaning_in_words(text: str, access: str | None, meaning: str) -> None:
    rule = Rule.parse(text)
    assert (rule.access, rule.meaning) == (access, meaning)
    assert Rule.parse(rule.text) == rule


@pytest.mark.parametrize("host", ["example.com", "www.example.com", "a.b.example.com"])
def test_a_domain_has_its_sub_domains(host: str) -> None:
    assert Rule.parse("WebFetch(domain:example.com)").covers_host(host)
    assert not Rule.parse("WebFetch(domain:example.com)").covers_host(f"{host}.evil.net")
    assert not Rule.parse("WebFetch(domain:example.com)").covers_host(f"evil{host}"[:-4] + "-com")


@pytest.mark.parametrize(
    ("rule", "command", "allowed"),
    [
        ("Bash(foo)", "foo", True),
        ("Bash(foo)", "  foo  ", True),
        ("Bash(foo)", "foo x", False),
        ("Bash(foo x)", "foo   x", True),
        ("Bash(foo x)", "foo 'x'", True),
        ("Bash(foo 'a b')", 'foo "a b"', True),
        ("Bash(foo 'a b')", "foo a b", False),
        ("Bash(foo:*)", "foo", True),
        ("Bash(foo:*)", "foo x y", True),
        ("Bash(foo:*)", "foox", False),
        ("Bash(foo:*)", "foo-x", False),
        ("Bash(foo x:*)", "foo x y", True),
        ("Bash(foo x:*)", "foo xy", False),
        ("Bash(foo x:*)", "foo y x", False),
        ("Bash(foo:*)", "foo $x", False),
        ("Bash(foo:*)", "foo *.py", False),
        ("Bash(foo $x | bar)", "foo $x | bar", True),
        ("Bash(foo $x | bar)", "foo $x | bar; ls", False),
        ("Bash(foo $x)", "x=1; foo $x", False),
        ("Bash(foo:*)", "foo | bar", False),
        ("Bash(./run.sh:*)", "./run.sh a", True),
        ("Bash(./run.sh:*)", "cd src && ./run.sh a", False),
        ("Bash(xargs grep:*)", "xargs grep x", False),
        ("Bash(xargs grep x)", "xargs grep x", True),
        ("Bash(foo:**)", "foo -x --y=z 'a b'", True),
        ("Bash(foo:*)", "foo a", True),
        ("Bash(foo:*)", "foo -x", False),
        ("Bash(foo:*)", "foo a -x", False),
        ("Bash(foo:*)", "foo x=y", False),
        ("Bash(foo:*)", "foo @args", False),
        ("Bash(foo:*)", "foo +x", False),
        ("Bash(foo:*)", "foo 'a b'", False),
        ("Bash(foo:*)", "foo ../x", False),
        ("Bash(foo:*)", "foo to_outside/x", False),
        ("Bash(foo:*)", "foo a:/etc/passwd", False),
        ("Bash(foo:*)", "foo ext::./x", False),
        ("Bash(foo:*)", "foo src/main.py::test_x", True),
        ("Bash(foo:*)", "foo | foo", False),
        ("Bash(foo)", "foo && foo", True),
        ("Bash(foo)", "cd src && foo", False),
        ("Bash(foo)", "ls | foo", False),
        ("Bash(xargs:*)", "xargs grep x", False),
        ("Bash(foo:*)", "timeout 5 foo x", False),
        ("Bash(foo:*)", "CI=1 foo x", False),
        ("Bash(foo:*)", "PATH=. foo x", False),
        ("Bash(foo:*)", "foo x > out.txt", False),
        ("Bash(foo:*)", "foo x > /dev/null 2>&1", True),
        ("Bash", "whatever $x | y > /tmp/z", True),
    ],
)
def test_rules_for_commands(ground: Ground, rule: str, command: str, allowed: bool) -> None:
    assert (ground.bash(command, allow=[rule]).verdict == "allow") is allowed


@pytest.mark.parametrize(
    ("rule", "covered", "others"),
    [
        ("mcp__git__log", ["mcp__git__log"], ["mcp__git__log2", "mcp__git"]),
        ("mcp__git__*", ["mcp__git__log", "mcp__git__a__b"], ["mcp__github__log", "mcp__git", "git"]),
    ],
)
def test_a_rule_for_a_server_covers_its_tools_alone(rule: str, covered: list[str], others: list[str]) -> None:
    parsed = Rule.parse(rule)
    assert all(map(parsed.covers_tool, covered))
    assert not any(map(parsed.covers_tool, others))


def test_rules_for_servers_are_told_in_words() -> None:
    assert Rule.parse("mcp__git__*").meaning == "every tool of the MCP server git"
    assert Rule.parse("mcp__git__log").meaning == "every call of log of the MCP server git"


@pytest.mark.parametrize(
    ("rules", "mode", "verdict"),
    [
        ({}, "ask", "ask"),
        ({}, "plan", "deny"),
        ({}, "all", "allow"),
        ({"allow": ["mcp__git__*"]}, "ask", "allow"),
        ({"allow": ["mcp__git__log"]}, "ask", "allow"),
        ({"allow": ["mcp__other__*"]}, "ask", "ask"),
        ({"ask": ["mcp__git__*"]}, "all", "ask"),
        ({"deny": ["mcp__git__*"], "allow": ["mcp__git__log"]}, "all", "deny"),
    ],
)
def test_rules_decide_about_tools_of_servers(rules: dict[str, list[str]], mode: Mode, verdict: str) -> None:
    lists = {name: tuple(map(Rule.parse, texts)) for name, texts in rules.items()}
    policy = Policy(folder=Path("/"), mode=mode, **lists)
    assert decide(policy, Call("mcp__git__log", "write", {}, Path("/"))).verdict == verdict


def test_a_trusted_server_reads_without_asking() -> None:
    assert decide(Policy(folder=Path("/")), Call("mcp__git__log", "read", {}, Path("/"))).verdict == "allow"
