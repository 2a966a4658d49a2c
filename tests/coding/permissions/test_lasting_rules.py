"""What "always" would store: the narrowest useful rule, and one that works."""

from __future__ import annotations

from random import Random

import pytest

from outrider.coding.permissions.decision import Call, decide
from outrider.coding.toolbox import ALL_NAMES
from tests.coding.permissions.grammar import escape, slip
from tests.coding.permissions.workspace import EFFECTS, Ground
from tests.lengths import examples


@pytest.mark.parametrize(
    ("command", "rules"),
    [
        ("git status --short", ("Bash(git status --short) full",)),
        ("npm run build -- --x", ("Bash(npm run build -- --x) full",)),
        ("npm test", ("Bash(npm test) full",)),
        ("make lint", ("Bash(make lint) full",)),
        ("git push --force", ("Bash(git push --force) full",)),
        ("git -C .. status", ("Bash(git -C .. status) full",)),
        ("git diff --output=x", ("Bash(git diff --output=x) full",)),
        ("rm -rf build", ("Bash(rm -rf build) full",)),
        ("curl http://x", ("Bash(curl http://x) full",)),
        ("python3 -c 'print(1)'", ("Bash(python3 -c 'print(1)') full",)),
        ("sudo make install", ("Bash(sudo make install) full",)),
        ("npx foo", ("Bash(npx foo) full",)),
        ("make lint && git push", ("Bash(make lint && git push) full",)),
        ("make lint | tee out.txt", ("Bash(make lint | tee out.txt) full",)),
        ("make lint > out.txt", ("Bash(make lint > out.txt) full",)),
        ("foo $x", ("Bash(foo $x) full",)),
        ("foo *.py | bar", ("Bash(foo *.py | bar) full",)),
        ("foo (", ("Bash(foo () full",)),
        ('npm   "test" | tail -5', ("Bash(npm test) full",)),
        ("foo \\\n  bar", ("Bash(foo bar) full",)),
        ("foo $x\nbar", ()),
        ("foo $x a:*", ()),
        ("foo *", ()),
        ("echo " + "$y" * 400, ()),
    ],
)
def test_rules_for_commands(ground: Ground, command: str, rules: tuple[str, ...]) -> None:
    decision = ground.bash(command)
    assert (decision.verdict, set(decision.always)) == ("ask", set(rules))


def test_rules_for_files(ground: Ground) -> None:
    policy = ground.policy()
    outside = str(ground.outside)
    assert ground.decide(policy, "Read", file_path="../outside/other.txt").always == (f"Read({outside}/**)",)
    assert ground.decide(policy, "Read", file_path="to_file").always == (f"Read({outside}/**)",)
    assert ground.decide(policy, "Grep", pattern="x", path="../outside").always == (f"Read({outside}/**)",)
    assert ground.decide(policy, "Read", file_path="/etc/passwd").always == ("Read(/etc/passwd)",)
    assert f"Read({ground.work.parent}/**)" not in ground.bash("ls ..").always
    assert ground.decide(policy, "Edit", file_path="notes.txt").always == ("Edit(./notes.txt)",)
    assert ground.decide(policy, "Write", file_path="../outside/n").always == (f"Edit({outside}/n)",)
    assert ground.decide(policy, "Write", file_path="a*[b]{c,d}.md").always == ("Edit(./a\\*\\[b\\]\\{c,d\\}.md)",)


def test_a_rule_for_one_file_does_not_allow_its_neighbour(ground: Ground) -> None:
    (rule,) = ground.decide(ground.policy(), "Write", file_path="a*.md").always
    policy = ground.policy(allow=[rule])
    assert ground.decide(policy, "Write", file_path="a*.md").verdict == "allow"
    assert ground.decide(policy, "Write", file_path="ab.md").verdict == "ask"
    assert ground.decide(policy, "Write", file_path="src/a*.md").verdict == "ask"


CALLS = (
    ("Read", {"file_path": "/etc/hosts"}),
    ("Read", {"file_path": "~/x/y"}),
    ("Read", {"file_path": "to_outside/other.txt"}),
    ("Write", {"file_path": "src/with [brackets] {and,braces}.py", "content": ""}),
    ("Edit", {"file_path": "../outside/ünïcode"}),
    ("Glob", {"pattern": "../outside/*"}),
    ("Glob", {"pattern": "*", "path": "/usr/share"}),
    ("Grep", {"pattern": "x", "path": "/"}),
    ("WebFetch", {"url": "http://127.0.0.1:8000/"}),
    ("WebFetch", {"url": "http://[::1]:8000/"}),
    ("my_tool", {}),
)


def _assert_it_works(ground: Ground, tool: str, input: dict[str, str]) -> bool:
    policy = ground.policy()
    effect = EFFECTS.get(tool, "write")
    call = Call(tool, effect, input, ground.work, tool in ALL_NAMES)
    decision = decide(policy, call)
    if decision.verdict != "ask" or not decision.always:
        return False
    assert decide(policy.allowing(decision.always), call).verdict == "allow"
    return True


@pytest.mark.parametrize(("tool", "input"), CALLS, ids=str)
def test_what_is_offered_allows_the_call(ground: Ground, tool: str, input: dict[str, str]) -> None:
    assert _assert_it_works(ground, tool, input)


def test_what_is_offered_for_a_command_allows_the_command(ground: Ground) -> None:
    random = Random(3)
    commands = [make(random) for _ in range(examples(750)) for make in (slip, lambda random: escape(random)[0])]
    offered = sum(_assert_it_works(ground, "Bash", {"command": command}) for command in commands)
    assert offered > 200
