"""Plain command lines: what is read as bash reads it, and what is not plain."""

from __future__ import annotations

import pytest

from outrider.coding.permissions.shell.plain_line import NotPlainError, read_plain_line, rough_commands


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("a 'b c' \"d\" e\\ f", [["a", "b c", "d", "e f"]]),
        ("'r'm r\\m \"r\"m", [["rm", "rm", "rm"]]),
        ("a | b && c || d; e", [["a"], ["b"], ["c"], ["d"], ["e"]]),
        ("a\nb\n\nc\n", [["a"], ["b"], ["c"]]),
        ("a &&\n b", [["a"], ["b"]]),
        ("a b 2>&1 c >/dev/null", [["a", "b", "c"]]),
        ("a < /dev/null 2> /dev/null | b", [["a"], ["b"]]),
        (
            "a b~c d#e HEAD~1 HEAD^ -n5 --x=y a@b c,d",
            [["a", "b~c", "d#e", "HEAD~1", "HEAD^", "-n5", "--x=y", "a@b", "c,d"]],
        ),
        ("a '$(b)' '*' '{x}' '`'", [["a", "$(b)", "*", "{x}", "`"]]),
        ('a "b\'c" \'d"e\' "\\$x\\"\\\\\\n"', [["a", "b'c", 'd"e', '$x"\\\\n']]),
        ("a \\\n  b \\\n c", [["a", "b", "c"]]),
        ("a '' \"\"", [["a", "", ""]]),
        ("a é ü", [["a", "é", "ü"]]),
    ],
)
def test_the_commands_of_a_plain_line(text: str, commands: list[list[str]]) -> None:
    assert [list(command.words) for command in read_plain_line(text)] == commands


@pytest.mark.parametrize(
    "text",
    [
        *("", "  ", "# c", "a # c", "a; # c", "a &", "a & b", "a |& b", "a ;; b", "; a", "a && ", "| a", "&& a"),
        *("$x", "a $x", 'a "$x"', "a ${x}", "a $(b)", "a `b`", 'a "`b`"', "a $'b'", 'a $"b"', "a $((1))"),
        *("a *", "a ?", "a [b]", "a {b,c}", "a {}", "a ~", "a ~/x", "a x=~/y", "a b:~/c", "a ~root"),
        *(
            "a > b",
            "a >> b",
            "a < b",
            "a <> b",
            "a >| b",
            "a &> b",
            "a >&b",
            "a 3>&1",
            "a 2>&-",
            "a <&0",
            "a>/dev/null",
        ),
        *("a >/dev/nullx", "a >/dev/null/../x", "a 12>/dev/null", "a2>&1", "a <<E\nE", "a <<< b", "a <(b)", "a >(b)"),
        *("x=1", "x=1 a", "x+=1 a", "x[1]=2", "'x=1'", "if a", "then", "! a", "time a", "{ a", "[[ a", "for x", "(a)"),
        *(
            "f() { a; }",
            "a (b)",
            "[ a ]",
            "a '",
            'a "',
            "a \\",
            "r\\\nm",
            "a\\\nb",
            "\\\na",
            'a "b\\\nc"',
            "a\rb",
            "a\0",
        ),
        *(
            "a\u00a0b",
            "a\u2028b",
            "a \u200b",
            "a \ud800",
            "a" * 10_001,
            "coproc a",
            "'' a",
            "a @(b)",
            "a !(b)",
            "a ! b",
        ),
    ],
    ids=lambda text: repr(text)[:40],
)
def test_everything_else_is_not_plain(text: str) -> None:
    with pytest.raises(NotPlainError):
        read_plain_line(text)


def test_the_operator_before_a_command() -> None:
    commands = read_plain_line("a | b && c || d; e\nf")
    assert [command.operator for command in commands] == ["", "|", "&&", "||", ";", ";"]


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("f() { case a in a) rm x;; esac; }", ["rm", "x"]),
        ("for x in a; do rm $x; done", ["rm", "$x"]),
        ("A=1 B=2 rm x", ["rm", "x"]),
        ("echo $(rm x)", ["rm", "x"]),
        ("echo `rm x`", ["rm", "x"]),
        ("! time rm x", ["rm", "x"]),
        ("r\\\nm 'x' (", ["rm", "x"]),
    ],
)
def test_what_is_not_plain_is_still_looked_into(text: str, command: list[str]) -> None:
    assert command in rough_commands(text)


def test_long_lines_take_no_time() -> None:
    for text in ("ls|" * 10_000, "((a" * 10_000, "$(" * 10_000, "'" * 10_001, "x " * 20_000):
        with pytest.raises(NotPlainError, match="too long"):
            read_plain_line(text)
        assert len(str(rough_commands(text))) < 100_000
