"""Escapes made by chance, thousands of them; and what was allowed, run for real."""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.coding.permissions.question import Mode
from outrider.coding.permissions.shell.plain_line import read_plain_line
from tests.coding.permissions.canaries import Cage
from tests.coding.permissions.grammar import document, escape, quoted, slip, soup
from tests.coding.permissions.workspace import Ground
from tests.lengths import examples, only_long

RULES = (
    ("Bash(git status:*)", "Bash(ls:*)", "Bash(cat:*)", "Bash(echo:*)", "Bash(true)"),
    ("Bash(timeout:*)", "Bash(env:*)", "Bash(xargs:*)", "Bash(time:*)", "Bash(find:*)", "Bash(nice:*)", "Bash(cat:*)"),
    ("Edit(src/**)", "Read(src/**)", "Bash(wc:*)"),
    (),
)
MODES: tuple[Mode, ...] = ("ask", "edits", "plan")


def assert_no_escape(ground: Ground, seed: int, count: int) -> None:
    random = Random(seed)
    policies = [ground.policy(mode, rules) for mode in MODES for rules in RULES]
    for _ in range(count):
        command, kind = escape(random)
        decision = ground.decide(random.choice(policies), "Bash", command=command)
        assert decision.verdict != "allow", (command, kind)


def test_a_thousand_escapes_are_not_allowed(ground: Ground) -> None:
    assert_no_escape(ground, 20_260_101, 1_000)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_thirty_thousand_escapes_are_not_allowed(ground: Ground, seed: int) -> None:
    assert_no_escape(ground, seed, 3_000)


def test_what_is_generated_are_escapes_indeed(own_ground: Ground) -> None:
    """Run without asking, they do the forbidden: otherwise the test above would show nothing."""
    cage = Cage(own_ground)
    random = Random(1)
    done = 0
    for _ in range(80):
        command, _kind = escape(random)
        calls, _output = cage.run(command)
        words = {word.rpartition("/")[2] for call in calls for word in call}
        # what programs get from a redirection cannot be seen from how they are called
        done += bool(words & {"forbidden", ".env", "to_env"}) or cage.canary.exists() or "< " in command
    assert done > 65


@pytest.mark.sampled(1)
@pytest.mark.parametrize("count", [400, *only_long(4_000)])
@pytest.mark.parametrize(("make", "least"), [(slip, 100), (quoted, 100), (soup, 30)])
def test_what_is_allowed_calls_what_it_seems_to_call(
    own_ground: Ground, make: Callable[[Random], str], least: int, count: int
) -> None:
    """Command lines with slips of the pen or a confusion of quotes: what is allowed, bash reads as it was read here."""
    cage = Cage(own_ground)
    random = Random(7)
    policy = own_ground.policy("edits", ("Bash(git status:*)", "Bash(ls:**)", "Bash(wc:**)"))
    commands = {make(random) for _ in range(count)}
    allowed = sorted(each for each in commands if own_ground.decide(policy, "Bash", command=each).verdict == "allow")
    assert len(allowed) > least * count // 2_000
    for command in random.sample(allowed, min(len(allowed), count // 40)):
        assert_bash_agrees(cage, command)


def test_a_document_is_never_plain(ground: Ground) -> None:
    random = Random(5)
    for _ in range(500):
        assert ground.bash(document(random), "edits").verdict == "ask"


def assert_bash_agrees(cage: Cage, command: str) -> None:
    """Run the command: every program that is called was seen in it, with these arguments, and nothing else happens."""
    calls, output = cage.run(command)
    assert "SECRET-CONTENT" not in output, command
    assert not cage.canary.exists(), command
    believed = [list(each.words) for each in read_plain_line(command)]
    for call in calls:
        assert call[0] != "forbidden", command
        assert call in believed, (command, call)


STEPS = st.sampled_from(["src/..", ".", "", "src/up", "docs/..", "src/deep/../..", "to_src/..", "has space/.."])


@settings(max_examples=examples(300))
@given(
    steps=st.lists(STEPS, max_size=5), absolute=st.booleans(), target=st.sampled_from([".env", "keys/id_rsa", "to_env"])
)
def test_a_secret_is_found_by_whatever_way(ground: Ground, steps: list[str], absolute: bool, target: str) -> None:
    path = "/".join([*([str(ground.work)] if absolute else []), *steps, target])
    path = path.lstrip("/") if not absolute else path
    if os.path.realpath(ground.work / path) not in {os.path.realpath(ground.work / each) for each in (target, ".env")}:
        return
    for mode in (*MODES, "all"):
        policy = ground.policy(mode, ("Read", "Bash"))
        assert ground.decide(policy, "Read", file_path=path).verdict == "deny"
        assert ground.decide(policy, "Bash", command=f"cat '{path}'").verdict == "deny"


@settings(max_examples=examples(300))
@given(st.text(alphabet="./~abcsrcto_outside\\ \n'\"$*{},", max_size=30))
def test_a_path_that_leads_out_is_never_allowed(ground: Ground, path: str) -> None:
    decision = ground.decide(ground.policy("edits"), "Write", file_path=path, content="")
    if decision.verdict == "allow":
        assert os.path.realpath(ground.work / os.path.expanduser(path)).startswith(str(ground.work))


@settings(max_examples=examples(500))
@given(st.text(max_size=60), st.sampled_from(["Bash", "Read", "Glob", "Grep", "WebFetch", "other"]))
def test_nothing_makes_the_decision_fail(ground: Ground, text: str, tool: str) -> None:
    policy = ground.policy("ask", ("Bash(ls:*)",), ("Bash(x:*)",), ("Bash(rm:*)", "Read(x/**)"))
    for name in ("command", "file_path", "pattern", "path", "url"):
        decision = ground.decide(policy, tool, **{name: text})
        assert "could not be checked" not in decision.reason
