"""Match rules with commands: allow rules narrowly, deny and ask rules widely; suggest rules for a beginning."""

from __future__ import annotations

import os.path
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from outrider.coding.permissions.file_access import ResolvedPath, is_inside, resolve_shell_path
from outrider.coding.permissions.policy import Policy
from outrider.coding.permissions.rules import Rule
from outrider.coding.permissions.shell.plain_line import Command, NotPlainError, read_plain_line, rough_commands
from outrider.coding.permissions.shell.wide_match import matches_widely, subcommand_places
from outrider.coding.protected_paths import is_configuration, is_in_git, is_own_setting
from outrider.text import word_set

MAX_DEPTH = 3
"""Levels of command lines inside command lines that are searched."""

SHELLS = word_set(
    "sh bash dash zsh ksh mksh oksh loksh pdksh ash fish rbash csh tcsh yash posh nu elvish xonsh pwsh osh ysh "
    "git-shell"
)
RUNNERS = SHELLS | word_set(
    "sudo doas su runuser env xargs nohup time timeout nice ionice chrt taskset stdbuf unbuffer setsid exec command "
    "builtin eval watch parallel strace ltrace script flock chroot unshare nsenter setarch busybox toybox "
    "caffeinate trap alias ssh pkexec systemd-run firejail bwrap proot rlwrap entr hyperfine perf gdb valgrind "
    "dbus-run-session xvfb-run direnv dotenv prlimit setpriv fakeroot numactl torsocks proxychains cgexec runcon sg "
    "capsh tsp nix-shell gosu su-exec setuidgid chpst softlimit eatmydata tini dumb-init start-stop-daemon "
    "daemonize screen tmux dtach chronic cross-env dotenvx concurrently nodemon foreman honcho aws-vault find fd "
    "npx bunx uvx pipx docker podman kubectl make uv poetry pdm hatch rye pixi mise conda mamba bundle ifne sem "
    "env_parallel run0 sudo-rs systemd-inhibit systemd-nspawn machinectl coreutils uutils schroot faketime ts "
    "catchsegv aa-exec cpulimit dbus-launch ssh-agent gpg-agent sshpass autossh mosh pssh asdf nvm rbenv pyenv op "
    "infisical doppler chamber envdir multitime memusage heaptrack rr uftrace bpftrace lxc incus nerdctl crictl oc "
    "buildah wsl pipenv newgrp abduco zellij reptyr rush"
)
"""Programs with a command among their arguments, which deny rules must find."""

INPUT_RUNNERS = SHELLS | word_set("xargs parallel sem env_parallel rush at batch ssh crontab")
"""Programs that make commands of their input."""

CARRIERS = word_set("npm pnpm yarn bun cargo")
"""Programs with a command among their arguments only if the sub-command is one of `CARRYING`."""
CARRYING = word_set("exec x dlx watch")

OPERANDS_DECIDE = RUNNERS | word_set(
    "git npm pnpm yarn bun deno cargo go rustup dotnet mvn gradle helm terraform gh glab pip pip3 brew apt apt-get "
    "dnf systemctl aws gcloud az openssl sed gsed awk gawk mawk jq yq tar ar ps ed ex vi vim nvim emacs psql mysql "
    "sqlite3 python python3 node ruby perl php lua tsx ts-node R Rscript just rake ninja tox nox gulp invoke source "
    "."
)
"""Programs whose first argument is a sub-command, a script or letters of options: a rule must name it."""

TARGETS = word_set("make gmake just rake ninja nox gulp invoke")
"""Programs whose every argument is one more task."""
_GOALS = TARGETS | word_set("mvn gradle")
"""Programs that take several tasks: what a deny rule names may come behind others."""

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
    return any(matches_widely(words, wanted, _has_subcommands) for words in _possible_commands(text))


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


def _has_subcommands(name: str) -> bool:
    return name in OPERANDS_DECIDE and name not in _GOALS


def _possible_commands(text: str) -> Iterator[Sequence[str]]:
    """Yield each command of a line, and each command that it may run."""
    for words in all_commands(text):
        for at in range(len(words) if _runs_others(words) else 1):
            yield words[at:]
        if program_name(words[0]).startswith("python") and "-m" in words[:-1]:  # `python3 -m pip install x`
            yield words[words.index("-m") + 1 :]


def all_commands(text: str, depth: int = 0) -> Iterator[list[str]]:
    """Yield each command of a line, and of the lines among the arguments of commands that run others."""
    for words in _commands(text):
        yield words
        if depth < MAX_DEPTH:
            for inner in _inner_lines(words):
                yield from all_commands(inner, depth + 1)


def _runs_others(words: Sequence[str]) -> bool:
    name, given = program_name(words[0]), words[1:]
    if name in CARRIERS and any(given[at] in CARRYING for at in subcommand_places(given)):
        return True
    return name in RUNNERS or name.startswith(("ld-", "ld.so"))  # the dynamic loader runs any program


def _commands(text: str) -> list[list[str]]:
    try:
        return [list(command.words) for command in read_plain_line(text)]
    except NotPlainError:
        return rough_commands(text)


def _inner_lines(words: Sequence[str]) -> Iterator[str]:
    """Yield arguments that may be command lines: `'rm x'`, `-S'rm x'`, `--exec='rm x'`, `alias.x='!rm x'`."""
    runs_others, is_git = _runs_others(words), program_name(words[0]) == "git"
    for before, word, at in zip(words, words[1:], range(2, len(words) + 1), strict=False):
        if is_git and word in ("foreach", "run"):
            yield " ".join(words[at:])
        elif is_git and (before in ("-c", "-x", "--exec") or before.endswith("-filter") or word.startswith("--exec=")):
            yield (word.partition("=")[2] or word).lstrip("!")
        elif runs_others and " " in word:
            yield word
            if word.startswith("-"):
                yield from (word[2:], word[3:])
            yield word.partition("=")[2]


_PACKAGES = word_set("test t start")
SUBCOMMANDS: Mapping[str, frozenset[str]] = {
    "git": word_set(
        "add commit status diff log show blame branch checkout switch restore stash merge tag cherry-pick revert reset "
        "mv rm ls-files rev-parse describe"
    ),
    "npm": _PACKAGES,
    "pnpm": _PACKAGES,
    "yarn": _PACKAGES,
    "bun": word_set("test build"),
    "deno": word_set("test lint fmt check"),
    "cargo": word_set("test build check clippy fmt bench doc tree metadata run"),
    "go": word_set("test build vet fmt doc list version"),
    "dotnet": word_set("build test format restore"),
    "swift": word_set("build test"),
    "docker": word_set("build ps images logs inspect"),
    "podman": word_set("build ps images logs inspect"),
    "kubectl": word_set("get describe logs top explain"),
    "helm": word_set("lint list template"),
    "terraform": word_set("plan validate fmt show"),
    "uv": word_set("sync lock tree"),
    "pip": word_set("list show freeze check"),
    "poetry": word_set("check show lock"),
    "pdm": word_set("list show lock"),
    "mvn": word_set("test verify compile package"),
    "gradle": word_set("test build check assemble"),
    "gradlew": word_set("test build check assemble"),
    "systemctl": word_set("status"),
}
"""Programs whose subcommand says what is done. One that installs or runs what its arguments name is not here."""
PLAIN_SUBCOMMANDS: Mapping[str, frozenset[str]] = {"git": word_set("push pull fetch rebase grep")}
"""Those with options that run any program (`--upload-pack`, `--exec`): only arguments without options may follow."""
GROUPS: Mapping[tuple[str, str], frozenset[str]] = {
    ("docker", "compose"): word_set("up down ps logs build"),
    ("gh", "pr"): word_set("view list status diff checks"),
    ("gh", "issue"): word_set("view list status"),
    ("gh", "run"): word_set("view list watch"),
    ("python", "-m"): word_set("pytest unittest mypy ruff black isort flake8 pylint build"),
}
"""Programs with a subcommand, or `-m`, below which a third word says what is done."""
SCRIPTS = {(name, "run") for name in ("npm", "pnpm", "yarn", "bun")}
"""Programs that run a script of the project by its name."""
WRAPPERS = {
    *((name, "run") for name in ("uv", "poetry", "pdm", "pipenv", "rye", "pixi")),
    *((name, "exec") for name in ("bundle", "pnpm", "yarn")),
    ("npx",),
    ("bunx",),
    ("uvx",),
}
"""Words before a command, which has a prefix of its own."""
NEVER = (RUNNERS | OPERANDS_DECIDE | STATE_CHANGERS) | word_set(
    # Interpreters, and programs with a language of their own.
    "python2 pypy ipython bpython ptpython jython graalpy luajit luau qjs d8 zx babel-node vite-node esno jiti java "
    "kotlin jshell irb pry ghci runghc iex julia octave scala groovy tclsh wish expect osascript guile racket sbcl "
    "clisp ecl clojure clj bb erl elixir m4 dc bc gnuplot maxima mlr lldb cscript wscript cmd powershell forth "
    "mongosh redis-cli duckdb sqlplus sqlite-utils litecli mycli pgcli usql clickhouse-client datasette "
    # Editors, pagers and viewers, which start shells.
    "nano pico micro joe jed kak helix hx emacsclient gvim mvim vimdiff gvimdiff nvimdiff view rview gview rvim nvr "
    "less more most man info lynx w3m elinks mutt mc ranger nnn lf vifm tig lazygit code open xdg-open "
    # Programs that fetch, overwrite or remove what they are told.
    "rm rmdir dd shred truncate chmod chown chgrp ln mv cp install tee sponge curl wget nc ncat socat telnet ftp lftp "
    "sftp scp rsync rclone aria2c kill pkill killall reboot shutdown mount umount crontab at batch "
    # Package managers, builders and those who carry tasks of others.
    "nix flatpak snap yum pacman zypper apk port rpm dpkg gem composer corepack volta fnm cmake ctest meson bazel "
    "bazelisk buck buck2 pants sbt lein ant mill zig nim dart flutter crystal v task poe doit snakemake luigi dagger "
    "earthly act tilt skaffold pre-commit prek lefthook husky lerna nx turbo rushx coverage kernprof scalene "
    # Other machines, containers and the system.
    "ansible ansible-playbook ansible-console vagrant heroku fly flyctl wrangler vercel netlify railway busctl "
    "dbus-send gdbus loginctl run-parts ip iptables nft useradd usermod passwd visudo ssh-keygen hg svn"
)
"""Programs that run, fetch, remove or overwrite whatever their arguments name."""
HARMLESS = word_set(
    "pytest ruff mypy pyright basedpyright ty pyrefly black isort flake8 pylint pyflakes pycodestyle pydocstyle yapf "
    "autopep8 bandit vulture codespell typos eslint prettier tsc biome oxlint stylelint jest vitest rubocop rspec "
    "phpstan phpunit golangci-lint gofmt goimports staticcheck rustfmt clang-format shellcheck shfmt hadolint "
    "actionlint zizmor yamllint markdownlint taplo tflint sqlfluff swiftlint swiftformat ktlint "
    "touch mkdir ls cat head tail wc grep nl cut stat du df cmp diff comm basename dirname realpath readlink"
)
"""Programs that do the same with any arguments: they check, format or test the project, or show files."""


def _without_version(name: str) -> str:
    return re.sub(r"(?<=[a-z])[0-9.]+$", "", name)  # python3.12


_NEVER_NAMES = frozenset(map(_without_version, NEVER))
_WORD = re.compile(r"[A-Za-z0-9_][\w.+:-]*")
_PROGRAM = re.compile(r"(?:\./)?[\w.][\w.+-]*(?:/[\w.+-]+)*")


def prefix_of(words: Sequence[str]) -> str:
    """Return the pattern of a rule for commands that begin as this one does; "" if that would allow anything.

    >>> prefix_of(["pytest", "-q"]), prefix_of(["git", "commit", "-m", "x"]), prefix_of(["git", "push", "origin"])
    ('pytest:**', 'git commit:**', 'git push:*')
    >>> prefix_of(["uv", "run", "pytest"]), prefix_of(["bash", "-c", "ls"]), prefix_of(["pip", "install", "x"])
    ('uv run pytest:**', '', '')
    >>> prefix_of(["rg", "x"])  # it has options that run programs, as unknown programs may have
    'rg:*'
    """
    name = _without_version(program_name(words[0]))
    if not _PROGRAM.fullmatch(words[0]) or ".." in words[0].split("/"):
        return ""
    second, third = (*words[1:3], "", "")[:2]
    for wrapper in WRAPPERS:
        if (name, *words[1 : len(wrapper)]) == wrapper:
            inner = prefix_of(words[len(wrapper) :]) if len(words) > len(wrapper) else ""
            return f"{shlex.join(words[: len(wrapper)])} {inner}" if inner else ""
    if second in PLAIN_SUBCOMMANDS.get(name, ()):
        return f"{shlex.join(words[:2])}:*"
    if third in GROUPS.get((name, second), ()) or ((name, second) in SCRIPTS and _WORD.fullmatch(third)):
        return f"{shlex.join(words[:3])}:**"
    if second in SUBCOMMANDS.get(name, ()) or (name in TARGETS and _WORD.fullmatch(second)):
        return f"{shlex.join(words[:2])}:**"
    if name in SUBCOMMANDS or name in _NEVER_NAMES:
        return ""
    return f"{shlex.join(words[:1])}:{'**' if name in HARMLESS else '*'}"
