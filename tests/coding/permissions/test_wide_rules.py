"""Deny and ask rules hold however a command is spelled, and leave other commands alone."""

from __future__ import annotations

import pytest

from outrider.coding.permissions.shell.command_rules import all_commands
from tests.coding.permissions.workspace import Ground

SPELLED = {
    "git push:*": (
        *("git --git-dir .git push", "git --work-tree . push o m", "git-push origin", "/usr/lib/git-core/git-push o"),
        *("git --namespace x push", "git --attr-source HEAD push", "git subtree push", "git lfs push"),
    ),
    "git reset --hard:*": (
        "git -C . reset --hard",
        "git reset -q --hard",
        "git reset HEAD~1 --hard",
        "git reset --har",
    ),
    "git push --force:*": ("git push -f", "git push origin main --force", "git push -uf", "git -C x push --force"),
    "kubectl delete:*": (
        "kubectl -n prod delete x",
        "kubectl --namespace prod delete x",
        "kubectl --context=c delete x",
    ),
    "npm publish:*": ("npm --prefix . publish", "npm -w pkg publish"),
    "yarn publish:*": ("yarn --cwd x publish", "yarn workspace x publish", "yarn npm publish"),
    "cargo publish:*": ("cargo +nightly publish", "cargo --config x publish"),
    "gh pr merge:*": ("gh -R o/r pr merge", "gh pr -R o/r merge 1"),
    "aws s3 rm:*": ("aws --profile p s3 rm", "aws s3 --region r rm s3://x"),
    "docker push:*": ("docker --context p push", "docker -H tcp://x push i"),
    "docker compose down:*": (
        "docker compose -f x down",
        "docker compose --profile p down",
        "docker-compose -f x down",
    ),
    "docker-compose down:*": ("docker compose down", "docker-compose -f x down"),
    "make deploy:*": ("make -C . deploy", "make -j 4 deploy", "make test deploy"),
    "sed -i:*": ("sed -i.bak s/x/y/ a", "sed -n -i~ p a", "sed -Ei.bak s/x/y/ a"),
    "curl -X POST:*": ("curl -XPOST http://h", "curl -s http://h -XPOST", "curl -sX POST http://h"),
    "curl --request POST:*": ("curl --request=POST http://h",),
    "docker run --network=host:*": ("docker run --network host x", "docker run --network=host x"),
    "mvn deploy:*": ("mvn clean deploy", "mvn -B clean deploy"),
    "gradle publish:*": ("gradle clean publish", "./gradle build publish"),
    "sudo rm:*": ("sudo A=1 rm x", "sudo -u root A=1 rm x"),
    "pip install:*": ("pip --cache-dir x install y", "python -m pip install y", "python3.12 -m pip -v install y"),
    "rm -rf:*": ("rm -r -f x", "rm -fr x", "rm -Rf x", "rm x -rvf", "rm --recursive --force x", "sudo rm -f -r x"),
    "rm:*": (
        *("csh -c 'rm x'", "tcsh -c 'rm x'", "nu -c 'rm x'", "npm exec rm x", "npm x -- rm y", "pnpm exec rm x"),
        *(
            "ifne rm x",
            "run0 rm x",
            "sem rm x",
            "doppler run -- rm x",
            "rbenv exec rm x",
            "ld.so rm x",
            "RM x",
            "rm.exe",
        ),
        "git filter-branch --tree-filter 'rm x'",
    ),
}


@pytest.mark.parametrize(("rule", "command"), [(rule, each) for rule, lines in SPELLED.items() for each in lines])
def test_a_rule_holds_however_a_command_is_spelled(ground: Ground, rule: str, command: str) -> None:
    assert ground.bash(command, "all", access="full", sandboxed=True, deny=[f"Bash({rule})"]).verdict == "deny"
    assert ground.bash(command, "all", access="full", sandboxed=True, ask=[f"Bash({rule})"]).verdict == "ask"
    assert ground.bash(command, sandboxed=True, access="write", allow=[f"Bash({rule})"]).verdict == "ask"


@pytest.mark.parametrize("shell", ["csh", "tcsh", "nu", "sem", "env_parallel sh"])
def test_a_shell_that_reads_its_commands_is_asked_about(ground: Ground, shell: str) -> None:
    assert ground.bash(f"echo rm x | {shell}", "all", deny=["Bash(rm:*)"]).verdict in ("ask", "deny")


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        *(
            ("git push:*", line)
            for line in ("git log --grep push", "git stash push", "git commit -m push", "git show push")
        ),
        *(("git push --force:*", line) for line in ("git push", "git push -u origin main", "git fetch --force")),
        *(("git reset --hard:*", line) for line in ("git reset --soft", "git reset x", "git commit -m --hard")),
        *(("sed -i:*", line) for line in ("sed -n p a", "sed -e s/i/x/ a")),
        *(("curl -X POST:*", line) for line in ("curl http://h/POST", "curl -X GET http://h", "curl -XPOSTS h")),
        *(("mvn deploy:*", line) for line in ("mvn clean install", "mvn -Dname=deploy test")),
        *(("npm publish:*", line) for line in ("npm run publish", "npm test", "npm-check publish")),
        *(("rm -rf:*", line) for line in ("rm x", "rm -r x", "rm -f x", "cp -rf a b")),
        *(("rm:*", line) for line in ("npm rm x", "git rm x", "docker-rm x", "rm-x", "echo rm")),
        *(("ssh:*", line) for line in ("ssh-keygen -l", "git commit -m ssh")),
        *(("docker push:*", line) for line in ("docker run x push", "docker pull x")),
        *(("find . -delete:*", line) for line in ("find . -name x", "find . -type d")),
    ],
)
def test_a_rule_leaves_other_commands_alone(ground: Ground, rule: str, command: str) -> None:
    assert ground.bash(command, "all", access="full", sandboxed=True, deny=[f"Bash({rule})"]).verdict == "allow"


def test_a_line_inside_a_line_is_read_once() -> None:
    assert len(list(all_commands("sudo '   sudo \"   sudo a b\"'"))) == 3
