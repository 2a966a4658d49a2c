"""Command lines made by chance: a deed in many disguises, or harmless ones with a few slips of the pen."""

from __future__ import annotations

import shlex
from random import Random

HARMLESS = (
    "ls",
    "ls src",
    "echo hello",
    "cat notes.txt",
    "git status",
    "true",
    "wc -l notes.txt",
    "echo 'a b' \"c d\"",
)

SECRET_SPELLINGS = (
    ".env",
    "./.env",
    "src/../.env",
    "to_env",
    "src/up/.env",
    "'.env'",
    '".env"',
    ".e''nv",
    "\\.env",
    "$'.env'",
)
OUTSIDE_SPELLINGS = (
    "../outside/canary",
    "to_outside/canary",
    "src/../../outside/canary",
    "src/up/../outside/canary",
    "'../outside'/canary",
    '..\\/outside/can"ary"',
    "$'\\x2e./outside/canary'",
)
NAME_SPELLINGS = (
    "forbidden",
    "'forbidden'",
    '"forbidden"',
    "f\\orbidden",
    "for''bidden",
    'for"bid"den',
    "$'forbidden'",
    "$'\\x66orbidden'",
    "$'\\146orbidden'",
    "$(echo forbidden)",
    "`echo forbidden`",
    "for\\\nbidden",
    "${y:-forbidden}",
)

CONTEXTS = (
    "{deed}; {other}",
    "{other}; {deed}",
    "{other} && {deed}",
    "false || {deed}",
    "{other} | {deed}",
    "{deed} | {other}",
    "{deed} & wait",
    "{other}\n{deed}",
    "{other} # comment\n{deed}",
    "({deed})",
    "( {other}; ({deed}) )",
    "{{ {deed}; }}",
    "! {deed}",
    "if true; then {deed}; fi",
    "if {deed}; then {other}; else {other}; fi",
    "if false; then {other}; else {deed}; fi",
    "for i in 1; do {deed}; done",
    "while {deed}; do break; done",
    "until false; do {deed}; break; done",
    "case a in a) {deed};; esac",
    "f() {{ {deed}; }}; f",
    "ls() {{ {deed}; }}; ls",
    "echo $({deed})",
    'echo "a $({deed}) b"',
    "echo $({other}; {deed})",
    "x=$({deed})",
    'x=$({deed}); echo "$x"',
    "x=(a $({deed}))",
    '[ -n "$({deed})" ]',
    "[[ -n $({deed}) ]]",
    "echo ${{x:-$({deed})}}",
    "echo $((1 + $({deed}; echo 1)))",
    "cat < <({deed})",
    "echo <({deed})",
    "cat <<E\na $({deed})\nE",
    "cat <<E\nx\nE\n{deed}",
    "cat <<'E' >/dev/null\nE x\nE\n{deed}",
    "cat <<-E\n\tx\n\tE\n{deed}",
    "{deed} 2>/dev/null",
    "{deed} <<< x",
    "{other} \\\n && {deed}",
    "eval {quoted}",
    "bash -c {quoted}",
    "sh -c {quoted} x",
    "time {{ {deed}; }}",
    "trap {quoted} EXIT",
    "cd src && cd .. && {deed}",
    "set -e; {deed}",
    "echo `{other}`; {deed}",
)

SIMPLE_CONTEXTS = (
    "{deed}",
    "command {deed}",
    "env {deed}",
    "env A=1 {deed}",
    "exec {deed}",
    "nohup {deed}",
    "timeout 5 {deed}",
    "nice {deed}",
    "time {deed}",
    "A=1 {deed}",
    "CI=1 {deed}",
    "LANG=C command {deed}",
    "echo x | xargs {deed}",
    "find . -maxdepth 0 -exec {deed} ';'",
    "builtin command {deed}",
    "  {deed}  ",
    "{deed} # x",
)


def deed(random: Random) -> tuple[str, str]:
    """Something forbidden as a simple command, and what it does: run, read or write."""
    match random.randrange(3):
        case 0:
            return f"{random.choice(NAME_SPELLINGS)}{random.choice(('', ' x', ' notes.txt'))}", "run"
        case 1:
            path = random.choice(SECRET_SPELLINGS)
            forms = (f"cat {path}", f"cat < {path}", f"cat notes.txt {path}", f"head -n 5 {path}", f"cat -- {path}")
            return random.choice(forms), "read"
    path = random.choice(OUTSIDE_SPELLINGS)
    forms = (f"echo x > {path}", f"echo x >> {path}", f"echo x >| {path}", f"echo x &> {path}", f"> {path} echo x")
    return random.choice(forms), "write"


def escape(random: Random) -> tuple[str, str]:
    """A forbidden deed in zero to three disguises, and what it does."""
    text, kind = deed(random)
    if kind != "write":
        text = random.choice(SIMPLE_CONTEXTS).format(deed=text)
    for _ in range(random.choice((0, 1, 1, 2, 2, 3))):
        text = disguised(random, text)
    return text, kind


def disguised(random: Random, text: str) -> str:
    """The command line inside another."""
    other = random.choice(HARMLESS)
    context = random.choice(CONTEXTS)
    if "<<" in text and "\n" in text and not context.startswith(("{other}", "cat <<E\nx")):
        text += "\n"
    return context.format(deed=text, other=other, quoted=shlex.quote(text))


SLIPS = (
    *("'", '"', "`", "$(", ")", "(", "{", "}", ";", "&", "|", "\n", "#", "\\", "\\\n", " ", "  ", "\t"),
    *(
        "<<E",
        "\nE\n",
        "E",
        "<<'E'\n",
        "$x",
        "${x}",
        "x=1 ",
        "!",
        "[[",
        "]]",
        "[",
        "]",
        "<",
        ">",
        "2>&1",
        "$'",
        "~",
        "*",
    ),
    *(
        "forbidden",
        " forbidden ",
        ";forbidden",
        "\nforbidden\n",
        "time ",
        "do ",
        "done",
        "then",
        "fi",
        "esac",
        "in ",
        "=",
        ",",
    ),
    *(
        "$",
        "<<<",
        "<(",
        ">(",
        "&&",
        "||",
        "case a in ",
        "a)",
        "''",
        '""',
        "\\'",
        '\\"',
        "\\`",
        "\\$",
        "\\\\",
        "#\n",
        " #",
    ),
)


def slip(random: Random) -> str:
    """A harmless command line, nested or not, with up to three slips."""
    text = random.choice(HARMLESS)
    for _ in range(random.choice((0, 1, 1, 2))):
        text = disguised(random, text)
    for _ in range(random.choice((0, 1, 1, 2, 3))):
        at = random.randrange(len(text) + 1)
        if random.random() < 0.25 and at < len(text):
            text = text[:at] + text[at + 1 :]
        else:
            text = text[:at] + random.choice(SLIPS) + text[at:]
    return text


QUOTING = (
    *(
        "'",
        "'",
        '"',
        '"',
        "\\",
        "$",
        "$'",
        '$"',
        "{",
        "}",
        "~",
        "#",
        "=",
        "[",
        "]",
        "*",
        "?",
        "!",
        " ",
        "  ",
        "\t",
        "\n",
        "\\\n",
    ),
    *(
        "a",
        "b",
        "-",
        "/",
        ".",
        ",",
        ":",
        "^",
        "%",
        "@",
        "+",
        "\\x41",
        "\\101",
        "\\'",
        "é",
        "1",
        "2>",
        "<",
        ">",
        "&",
        "(",
        ")",
        "`",
    ),
)


def quoted(random: Random) -> str:
    """A call of one program with words in a confusion of quotes."""
    return "ls " + "".join(random.choice(QUOTING) for _ in range(random.randrange(1, 9)))


TOKENS = (
    *(
        "ls",
        "echo",
        "cat",
        "wc",
        "git status",
        "a",
        "b",
        "x=1",
        "notes.txt",
        "src",
        "true",
        "cd src",
        "cd ..",
        "test",
        "-f",
    ),
    *(
        "if",
        "then",
        "else",
        "elif",
        "fi",
        "for x in",
        "do",
        "done",
        "case a in",
        "a)",
        ";;",
        "esac",
        "function f",
        "f()",
    ),
    *("{", "}", "(", ")", "[", "]", "!", "&&", "||", ";", "|", "&", "\n", "=", "time", "command", "nice", "timeout 5"),
    *(
        "2>&1",
        ">out",
        "<notes.txt",
        "<<<",
        "$(ls)",
        "`ls`",
        '"$(ls)"',
        "'q'",
        "$'a'",
        "\\\n",
        "# c\n",
        "coproc",
        "exit",
    ),
)


def soup(random: Random) -> str:
    """Words and signs of the shell in any order."""
    return "".join(
        random.choice(TOKENS) + random.choice("  \t" + "\0").strip("\0") for _ in range(random.randrange(1, 8))
    )


DOCUMENT_LINES = (
    *(
        "E",
        "E ",
        "\tE",
        " E",
        "x",
        "$(forbidden)",
        "`forbidden`",
        "\\",
        "E\\",
        "a\\",
        "'",
        '"',
        "ls",
        "forbidden",
        "",
        "\t",
    ),
    *("$(ls", "ls)", "#", "\\E", "E;", "'E'", "é", "x)", "\\$(forbidden)", "\\`forbidden\\`"),
)
DOCUMENT_MARKS = ("E", "'E'", '"E"', "\\E", " E", "E\\\n", "E'", "EE", "E;", "'E", "$E", "E F")
DOCUMENT_ENDS = ("\nE\n", "\nE", "\n\tE\n", "\nE \n")


def document(random: Random) -> str:
    """A here-document whose end is hard to tell."""
    head = random.choice(("cat", "wc -l", "git status", "ls src", "echo a | cat"))
    mark = random.choice(("", "-", " ")) + random.choice(DOCUMENT_MARKS)
    beside = random.choice(("", "", " | wc", " ; ls", " && ls", " > out", " 2>&1", " x", " # c"))
    lines = "\n".join(random.choice(DOCUMENT_LINES) for _ in range(random.randrange(0, 4)))
    end = random.choice(DOCUMENT_ENDS) + random.choice(("ls", "", "git status", "; ls"))
    text = f"{head} <<{mark}{beside}\n{lines}{end}"
    return random.choice(("{}", "{}", "{}", "echo $({})", 'echo "$({}\n)"', "if true; then {}\nfi")).format(text)
