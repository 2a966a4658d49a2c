"""Commands that run other commands: the inner command must be checked."""

from __future__ import annotations

import re
from collections.abc import Sequence

from outrider.coding.permissions.shell.script import Command
from outrider.coding.permissions.shell.words import Word
from outrider.coding.permissions.word_set import word_set

WRAPPERS = word_set(
    "sudo doas su runuser env xargs nohup time timeout nice ionice chrt taskset stdbuf unbuffer setsid exec command "
    "builtin eval source . watch parallel strace ltrace script flock chroot unshare nsenter setarch busybox toybox "
    "caffeinate coproc trap ssh pkexec systemd-run firejail bwrap proot rlwrap entr hyperfine perf gdb valgrind "
    "dbus-run-session xvfb-run direnv dotenv prlimit setpriv fakeroot numactl torsocks proxychains cgexec runcon sg "
    "capsh tsp nix-shell gosu su-exec setuidgid chpst softlimit eatmydata tini dumb-init start-stop-daemon daemonize "
    "screen tmux dtach chronic cross-env dotenvx concurrently nodemon foreman honcho aws-vault"
)
"""Commands with a command among their arguments. A prefix rule covers them only if it names that command."""

COMMAND_RUNNERS = WRAPPERS | word_set(
    "find fd npx bunx uvx pipx docker podman kubectl make uv poetry pdm hatch rye pixi mise conda mamba bundle then do "
    "else if while until ! {"
)
"""Words that may be followed by a command, which deny rules must match."""

SHELLS = word_set("sh bash dash zsh ksh mksh ash fish rbash")

CWD_CHANGERS = word_set("pushd popd dirs eval trap")
"""Shell builtins after which its folder is unknown."""

STATE_CHANGERS = CWD_CHANGERS | word_set(
    "read getopts mapfile readarray declare typeset local export readonly let unset alias unalias set shopt enable "
    "hash bind source . exec"
)
"""Shell builtins that change its folder, its variables or the meaning of its commands. Whether that is harmless depends
on the arguments, so prefix rules do not apply."""

_DURATION = re.compile(r"[0-9]+(?:\.[0-9]+)?[smhd]?")
_SCRIPT_OPTION = re.compile(r"-[a-zA-Z]*c[a-zA-Z]*")


def program_name(word: str) -> str:
    """Return the name of a program without its folder."""
    return word.rpartition("/")[2]


def unwrap(words: Sequence[Word]) -> Sequence[Word]:
    """Return the words of the command that really runs: without `time`, `timeout 5`, `nice`, `command`.

    Only wrappers without options are removed; otherwise the words are returned as they are.
    """
    while len(words) > 1:
        name = words[0].value
        if name in ("time", "nice", "command", "builtin") and _is_name(words[1]):
            words = words[1:]
        elif name == "timeout" and len(words) > 2 and _is_duration(words[1]) and _is_name(words[2]):
            words = words[2:]
        else:
            break
    return words


def _is_name(word: Word) -> bool:
    return word.value is not None and not word.value.startswith("-")


def _is_duration(word: Word) -> bool:
    return word.value is not None and _DURATION.fullmatch(word.value) is not None


def inner_scripts(command: Command) -> list[str]:
    """Return the known command lines among the arguments: of `sh -c`, `eval`, `trap` and other wrappers."""
    values = [value if value is not None else "" for value in command.values]
    match program_name(values[0]) if values else "":
        case "eval":
            return [" ".join(values[1:])]
        case "trap":
            return values[1:2]
        case "alias":
            return [value.partition("=")[2] for value in values[1:]]
        case "git":
            return _scripts_of_git(values)
        case name if name in WRAPPERS:
            return _scripts_of_shells(values) + [text for value in values[1:] for text in _texts(value) if " " in text]
    return _scripts_of_shells(values)


def _scripts_of_shells(values: Sequence[str]) -> list[str]:
    found: list[str] = []
    for at, value in enumerate(values):
        if program_name(value) in SHELLS:
            options = [i for i, each in enumerate(values) if i > at and _SCRIPT_OPTION.fullmatch(each)]
            found.extend(values[options[0] + 1 : options[0] + 2] if options else [])
    return found


def _scripts_of_git(values: Sequence[str]) -> list[str]:
    """Return the commands that git is told to run: by a setting, for each commit, in each module."""
    found = [value.partition("=")[2] for value in values if value.startswith("--exec=")]
    for at, value in enumerate(values[1:], 1):
        match values[at - 1]:
            case "-c":
                found.append(value.partition("=")[2].removeprefix("!"))
            case "-x" | "--exec":
                found.append(value)
            case "foreach" | "run":
                found.append(" ".join(values[at:]))
    return found


def _texts(value: str) -> list[str]:
    """Return an argument, or the value attached to its option: `-S'rm x'`, `--run='rm x'`."""
    if value.startswith("--"):
        return [value.partition("=")[2]]
    return [value[2:], value[3:]] if value.startswith("-") else [value]


def runs_unknown_code(command: Command) -> bool:
    """Return whether it runs code that cannot be checked: a variable, or the content of a file."""
    name = command.name
    if name is None or name in ("source", "."):
        return True
    return not command.is_literal and (name == "eval" or program_name(name) in SHELLS)
