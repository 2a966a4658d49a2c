"""Shell lines made by chance, with the options that programs name in their own help."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from random import Random

from tests.coding.permissions.grammar import document, escape, quoted, slip, soup

HELP = {
    "sed": ("--help",),
    "awk": ("--help",),
    "find": ("--help",),
    "tar": ("--help",),
    "npm": ("help",),
    "git": ("help", "-a"),
    "sort": ("--help",),
    "grep": ("--help",),
    "ls": ("--help",),
    "head": ("--help",),
    "tail": ("--help",),
    "uniq": ("--help",),
    "cut": ("--help",),
    "wc": ("--help",),
    "cat": ("--help",),
    "du": ("--help",),
    "stat": ("--help",),
    "date": ("--help",),
    "tr": ("--help",),
    "nl": ("--help",),
    "readlink": ("--help",),
    "realpath": ("--help",),
}
"""How each program is asked for its options."""
GIT = ("status", "diff", "log", "show", "grep", "add", "commit", "config", "submodule", "credential-store", "archive")
MORE = ("echo", "pwd", "true", "basename", "dirname", "seq", "id", "uname", "which", "md5sum", "printf", "tee", "rm")
MORE += ("touch", "cp", "mv", "env", "xargs", "sh", "bash", "python3", "make", "tac", "nproc", "sha256sum", "cd", "dd")

_OPTION = re.compile(r"(?<![\\w-])(--?[A-Za-z0-9][A-Za-z0-9-]*)(=?)")

OPERANDS = (
    *("notes.txt", "src", "src/main.py", ".", "docs/a.md", "-", "--", "1", "1,2p", "p", "x", "'has space/b.txt'", "/"),
    *(
        "../outside/other.txt",
        ".env",
        "to_env",
        "to_outside",
        "new",
        "1q",
        "$p",
        "'1e touch new'",
        "'w new'",
    ),
    *("'{print > \"new\"}'", "'BEGIN{system(\"touch new\")}'", "+%F", "*", "{}", "~", "tIf", "cf", "xf", "./run"),
    *("'s/[/]/;/w new/p'", "'s/[/]/;/e#/p'", "-delete", "-exec", "touch", "';'", "HEAD", "@x", "x=y", "+x", "''", "-n"),
)
JOINTS = (" ", " ", " ", " | ", " && ", "; ", " || ", "\n", " & ", " > ", " >> ", " < ", " 2>&1 | ", " 2>/dev/null; ")


@functools.cache
def options_of(program: str) -> tuple[str, ...]:
    """The options that the help of a program names; a few common ones if it is not installed."""
    common = ("-i", "-o", "-e", "-f", "-n", "-c", "--output", "--file", "--exec")
    if shutil.which(program) is None:
        return common
    texts = [_help(program, *HELP[program])]
    if program == "git":
        texts += [_help("git", sub, "-h") for sub in GIT]
    return tuple(sorted({option for text in texts for option, _ in _OPTION.findall(text)} | {*common}))


def _help(*argv: str) -> str:
    ended = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    return (ended.stdout + ended.stderr).decode(errors="replace")


def command(random: Random) -> str:
    """A program with some of its options, with values attached or not, and operands."""
    program = random.choice((*HELP, *HELP, *MORE))
    words = [program]
    if program == "git":
        words.append(random.choice(GIT))
    for _ in range(random.choice((0, 0, 1, 1, 2, 3))):
        option = random.choice(options_of(program) if program in HELP else ("-n", "-a", "-c", "--x"))
        if random.random() < 0.15:
            option = random.choice(("-", "---")) + option.lstrip("-")
        if random.random() < 0.3:
            option += random.choice(("", "=")) + random.choice(("new", "1", "./run", "x", "../outside/new"))
        words.append(option)
    words += [random.choice(OPERANDS) for _ in range(random.choice((0, 1, 1, 1, 2, 3)))]
    return " ".join(words)


def shell_line(random: Random) -> str:
    """One to three commands, or a line from the grammar of escapes."""
    if random.random() < 0.2:
        return random.choice((slip, quoted, soup, document, lambda random: escape(random)[0]))(random)
    line = command(random)
    for _ in range(random.choice((0, 0, 0, 1, 1, 2))):
        joint = random.choice(JOINTS)
        line += joint + (random.choice(OPERANDS) if joint.strip() in (">", ">>", "<", "") else command(random))
    return line
