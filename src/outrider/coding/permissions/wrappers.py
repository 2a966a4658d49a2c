"""Commands that run other commands: what they run is what counts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from outrider.coding.permissions.naming import names
from outrider.coding.permissions.script import Command
from outrider.coding.permissions.words import Word

WRAPPERS = names(
    "sudo doas su runuser env xargs nohup time timeout nice ionice chrt taskset stdbuf unbuffer setsid exec command "
    "builtin eval source . watch parallel strace ltrace script flock chroot unshare nsenter setarch busybox toybox "
    "caffeinate coproc trap ssh pkexec systemd-run firejail bwrap proot rlwrap entr hyperfine perf gdb valgrind "
    "dbus-run-session xvfb-run direnv dotenv prlimit setpriv fakeroot numactl torsocks proxychains cgexec runcon sg "
    "capsh tsp nix-shell gosu su-exec setuidgid chpst softlimit eatmydata tini dumb-init start-stop-daemon daemonize "
    "screen tmux dtach chronic cross-env dotenvx concurrently nodemon foreman honcho aws-vault"
)
"""Commands with a command among their arguments. A rule for how commands begin covers them only if it says which."""

CARRIERS = WRAPPERS | names(
    "find fd npx bunx uvx pipx docker podman kubectl make uv poetry pdm hatch rye pixi mise conda mamba bundle then do "
    "else if while until ! {"
)
"""Words behind which a command may stand that a rule denies."""

SHELLS = names("sh bash dash zsh ksh mksh ash fish rbash")

MOVERS = names("pushd popd dirs eval trap")
"""Commands of the shell after which it is not known where it stands."""

CHANGERS = MOVERS | names(
    "read getopts mapfile readarray declare typeset local export readonly let unset alias unalias set shopt enable "
    "hash bind source . exec"
)
"""Commands of the shell that change it: where it stands, its variables, what its commands mean. Whether that is
harmless depends on the arguments, so a rule for how they begin does not hold."""

_DURATION = re.compile(r"[0-9]+(?:\.[0-9]+)?[smhd]?")
_SCRIPT_OPTION = re.compile(r"-[a-zA-Z]*c[a-zA-Z]*")


def base_name(word: str) -> str:
    """The name of a program without its folder."""
    return word.rpartition("/")[2]


def unwrapped(words: Sequence[Word]) -> Sequence[Word]:
    """The words of the command that really runs: without `time`, `timeout 5`, `nice`, `command`.

    Only where nothing but the bare wrapper stands before it; otherwise the words are given back as they are.
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
    """Command lines among the arguments that are known: of `sh -c`, `eval`, `trap`, of whatever runs others."""
    values = [value if value is not None else "" for value in command.values]
    match base_name(values[0]) if values else "":
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
        if base_name(value) in SHELLS:
            options = [i for i, each in enumerate(values) if i > at and _SCRIPT_OPTION.fullmatch(each)]
            found.extend(values[options[0] + 1 : options[0] + 2] if options else [])
    return found


def _scripts_of_git(values: Sequence[str]) -> list[str]:
    """What it is told to run: by a setting, for each commit, in each module."""
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
    """An argument, and the value that is attached to an option in it: `-S'rm x'`, `--run='rm x'`."""
    if value.startswith("--"):
        return [value.partition("=")[2]]
    return [value[2:], value[3:]] if value.startswith("-") else [value]


def runs_the_unknown(command: Command) -> bool:
    """Whether it runs a command line that cannot be seen: a variable, or the content of a file."""
    name = command.name
    if name is None or name in ("source", "."):
        return True
    return not command.is_literal and (name == "eval" or base_name(name) in SHELLS)
