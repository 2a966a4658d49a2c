"""Match rules with commands: allow rules narrowly, deny and ask rules widely."""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator, Sequence

from outrider.coding.permissions.paths import ResolvedPath, is_inside, resolve_shell_path
from outrider.coding.permissions.policy import Policy
from outrider.coding.permissions.rules import Rule
from outrider.coding.permissions.shell.plain_line import Command, NotPlainError, read_plain_line, rough_commands
from outrider.coding.protected_paths import is_configuration, is_in_git, is_own_setting
from outrider.text import word_set

MAX_DEPTH = 3
"""Levels of command lines inside command lines that are searched."""

SHELLS = word_set("sh bash dash zsh ksh mksh ash fish rbash")
RUNNERS = SHELLS | word_set(
    "sudo doas su runuser env xargs nohup time timeout nice ionice chrt taskset stdbuf unbuffer setsid exec command "
    "builtin eval watch parallel strace ltrace script flock chroot unshare nsenter setarch busybox toybox "
    "caffeinate trap alias ssh pkexec systemd-run firejail bwrap proot rlwrap entr hyperfine perf gdb valgrind "
    "dbus-run-session xvfb-run direnv dotenv prlimit setpriv fakeroot numactl torsocks proxychains cgexec runcon sg "
    "capsh tsp nix-shell gosu su-exec setuidgid chpst softlimit eatmydata tini dumb-init start-stop-daemon "
    "daemonize screen tmux dtach chronic cross-env dotenvx concurrently nodemon foreman honcho aws-vault find fd "
    "npx bunx uvx pipx docker podman kubectl make uv poetry pdm hatch rye pixi mise conda mamba bundle"
)
"""Programs with a command among their arguments, which deny rules must find."""

INPUT_RUNNERS = SHELLS | word_set("xargs parallel at batch ssh crontab")
"""Programs that make commands of their input."""

OPERANDS_DECIDE = RUNNERS | word_set(
    "git npm pnpm yarn bun deno cargo go rustup dotnet mvn gradle helm terraform gh glab pip pip3 brew apt apt-get "
    "dnf systemctl aws gcloud az openssl sed gsed awk gawk mawk jq yq tar ar ps ed ex vi vim nvim emacs psql mysql "
    "sqlite3 python python3 node ruby perl php lua tsx ts-node R Rscript just rake ninja tox nox gulp invoke source "
    "."
)
"""Programs whose first argument is a sub-command, a script or letters of options: a rule must name it."""

TARGETS = word_set("make gmake just rake ninja nox gulp invoke")
"""Programs whose every argument is one more task."""

STATE_CHANGERS = word_set(
    "cd pushd popd dirs eval trap source . exec printf read getopts mapfile readarray declare typeset local export "
    "readonly let unset alias unalias set shopt enable hash bind wait test command builtin umask ulimit"
)
"""Shell builtins that can change its folder, its variables or the meaning of the commands after them."""

_ARGUMENT = re.compile(r"(?![-+@:~])[\w.,:/@%^~+-]+")


def allow_rule_covers(rule: Rule, words: tuple[str, ...], policy: Policy) -> bool:
    """Return whether an allow rule for commands covers these words.

    `:*` covers further arguments that cannot change what the command does: no options, no assignments, no scripts, no
    paths out of the folder. `:**` covers every further argument.
    """
    wanted = rule.words
    if not wanted or words[: len(wanted)] != wanted:
        return False
    further, name = words[len(wanted) :], program_name(words[0])
    if rule.form != "arguments":
        return rule.form == "any" or not further
    if (len(wanted) == 1 and _operands_decide(name)) or (further and name in RUNNERS | TARGETS | STATE_CHANGERS):
        return False
    return all(_is_harmless_argument(word, policy) for word in further)


def _operands_decide(name: str) -> bool:
    return name in OPERANDS_DECIDE or re.sub(r"[0-9.]+$", "", name) in OPERANDS_DECIDE


def _is_harmless_argument(word: str, policy: Policy) -> bool:
    if not _ARGUMENT.fullmatch(word):
        return False
    head, double, _ = word.partition("::")
    if double and not os.path.isfile(policy.folder / head):  # `test_x.py::test_y`, but not `ext::./run`
        return False
    paths = (resolve_shell_path(part, str(policy.folder)) for part in (word, *word.split(":")) if part)
    return all(
        not path.problem and is_inside(path.resolved, policy.inside) and not _is_obeyed(path, policy) for path in paths
    )


def _is_obeyed(path: ResolvedPath, policy: Policy) -> bool:
    """Return whether other programs obey a file: `cp x y` is not the same command if y is a hook of git."""
    checks, folder = (is_in_git, is_configuration, is_own_setting), str(policy.folder)
    return any(policy.is_obeyed(each) or any(check(each, folder) for check in checks) for each in path.all_paths)


def deny_rule_matches(rule: Rule, text: str) -> bool:
    """Return whether a deny or ask rule for commands matches a command anywhere in a line."""
    if rule.pattern is None:
        return True
    wanted = rule.words or tuple(re.sub(r":\*{1,2}$", "", rule.pattern).split())
    return any(_begins(words, wanted) for words in _possible_commands(text))


def runs_unseen_code(commands: Sequence[Command]) -> bool:
    """Return whether a shell reads commands that are not in the line: from a pipe or a file."""
    for command in commands:
        names = [program_name(word) for word in command.words]
        fed = command.operator == "|" and not INPUT_RUNNERS.isdisjoint(names)
        if names[0] in ("xargs", "parallel"):  # a fixed program with more arguments, unless that runs others
            fed = fed and not RUNNERS.isdisjoint(names[1:])
        if fed or names[0] in ("source", "."):
            return True
    return False


def program_name(word: str) -> str:
    """Return the name of a program without its folder."""
    return word.rpartition("/")[2]


def _begins(words: Sequence[str], wanted: Sequence[str]) -> bool:
    if len(words) < len(wanted) or not wanted:
        return False
    return program_name(words[0]) in (wanted[0], program_name(wanted[0])) and tuple(words[1 : len(wanted)]) == tuple(
        wanted[1:]
    )


def _possible_commands(text: str) -> Iterator[Sequence[str]]:
    """Yield each command of a line, with and without its options, and each command that it may run."""
    for words in all_commands(text):
        for at in range(len(words) if _runs_others(words[0]) else 1):
            yield words[at:]
            yield _without_options(words[at:])


def all_commands(text: str, depth: int = 0) -> Iterator[list[str]]:
    """Yield each command of a line, and of the lines among the arguments of commands that run others."""
    for words in _commands(text):
        yield words
        if depth < MAX_DEPTH:
            for inner in _inner_lines(words):
                yield from all_commands(inner, depth + 1)


def _runs_others(word: str) -> bool:
    name = program_name(word)
    return name in RUNNERS or name.startswith("ld-")  # the dynamic loader runs any program


def _commands(text: str) -> list[list[str]]:
    try:
        return [list(command.words) for command in read_plain_line(text)]
    except NotPlainError:
        return rough_commands(text)


def _inner_lines(words: Sequence[str]) -> Iterator[str]:
    """Yield arguments that may be command lines: `'rm x'`, `-S'rm x'`, `--exec='rm x'`, `alias.x='!rm x'`."""
    runs_others, is_git = _runs_others(words[0]), program_name(words[0]) == "git"
    for before, word, at in zip(words, words[1:], range(2, len(words) + 1), strict=False):
        if is_git and word in ("foreach", "run"):
            yield " ".join(words[at:])
        elif is_git and (before in ("-c", "-x", "--exec") or word.startswith("--exec=")):
            yield (word.partition("=")[2] or word).lstrip("!")
        elif runs_others and " " in word:
            yield from (word, word[2:], word[3:], word.partition("=")[2])


def _without_options(words: Sequence[str]) -> list[str]:
    kept: list[str] = []
    skip = False
    for word in words:
        if not skip and not word.startswith("-"):
            kept.append(word)
        skip = not skip and word in ("-C", "-c") and kept[:1] == ["git"]
    return kept
