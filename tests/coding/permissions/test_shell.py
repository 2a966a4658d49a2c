"""What is read in a command line, and where the reading is not relied on."""

from __future__ import annotations

import pytest

from outrider.coding.permissions.shell.parser import parse_script


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("a 'b c' \"d\" e\\ f", [["a", "b c", "d", "e f"]]),
        ("'r'm r\\m $'\\x72m' \"r\"m", [["rm", "rm", "rm", "rm"]]),
        ("a | b && c || d; e & f", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]]),
        ('a $(b `c`) "$(d)" <(e)', [["a", None, None, None], ["b", None], ["c"], ["d"], ["e"]]),
        ('a *.py ~/x {b,c} $d "$e"', [["a", None, None, None, None, None]]),
        ("if a; then b; elif c; then d; else e; fi", [["a"], ["b"], ["c"], ["d"], ["e"]]),
        ("for x in 1; do a; done; while b; do c; done", [["a"], ["b"], ["c"]]),
        ("(a; { b; })", [["a"], ["b"]]),
        ("a > x b 2>&1 c", [["a", "b", "c"]]),
        ("> x a b", [["a", "b"]]),
        ("a <<E b\nE\nc", [["a", "b"], ["c"]]),
        ("a <<'E'\n$(b)\nE\nc", [["a"], ["c"]]),
        ("a <<E\n$(b)\nE\nc", [["a"], ["b"], ["c"]]),
        ("a b~c d#e '#f' # g", [["a", "b~c", "d#e", "#f"]]),
        ("a \\\n  b", [["a", "b"]]),
        ("[ -f a ]", [["[", "-f", "a", "]"]]),
        ("x=1; y=$(a)", [["a"]]),
    ],
)
def test_the_commands_of_a_command_line(text: str, commands: list[list[str | None]]) -> None:
    script = parse_script(text)
    assert [command.values for command in script.commands] == commands
    assert script.doubts == ()


@pytest.mark.parametrize(
    "text",
    [
        "r\\\nm x",  # one word for bash, two for tree-sitter
        "sort -ox2>&1 y",  # -ox2 is an argument for bash, a file descriptor for tree-sitter
        "wc >x y\n\\\ngit s",  # two commands for bash, one for tree-sitter
        "cat <<\\E # c\n\\\nx\ny\nE",  # x is text for bash, an argument for tree-sitter
        "cat <<E\n`a`\nE",  # a command for bash, text for tree-sitter
        "cat <<E\n a $(b)\n c `d`\nE",
        'echo "${x:-`a`}"',
        "[ a > b ]",  # a redirection for bash, an operator for tree-sitter
        "cat <<E F\nx\nE\\\nF\nE",
        "ls\r",
        "ls \u00a0",
        "ls (",
        "ls <<E",
        "case a in a) b;; esac",
        "f() { a; }",
        "[[ a ]]",
        "((a))",
        "$((a))",
        "a=(b)",
        "a[1]=b",
        "export a=b",
        "${a:=b}",
        "${!a}",
        "`a \\`b\\``",
        "coproc a",
        "(" * 200 + "a" + ")" * 200,
    ],
)
def test_what_bash_may_read_otherwise_is_in_doubt(text: str) -> None:
    assert parse_script(text).doubts


def test_what_is_in_doubt_is_still_looked_into() -> None:
    assert ["rm", "x"] in [command.values for command in parse_script("f() { case a in a) rm x;; esac; }").commands]


def test_files_that_the_shell_opens() -> None:
    script = parse_script("a < b > c 2>> d &> e 3>&1 >&- <&0")
    opened = [(each.access, each.target.value) for each in script.redirections]
    assert opened == [("read", "b"), ("write", "c"), ("write", "d"), ("write", "e")]


def test_long_command_lines_take_no_time() -> None:
    for text in ("ls|" * 10_000, "((a" * 10_000, "$(" * 10_000, "'" * 10_001, "x " * 20_000):
        assert parse_script(text).doubts == ("it is too long",)
