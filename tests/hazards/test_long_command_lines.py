"""A model repeats itself: a command line of thousands of words is judged in a moment, whatever the rules are."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from outrider.coding.permissions.decision import Call, decide
from outrider.coding.permissions.policy import Policy
from outrider.coding.permissions.rules import Rule

DENIED = ("rm:*", "git push:*", "sed -i:*", "npm run x:*", "docker run -v:*")


@pytest.mark.parametrize(
    "piece", ["rm a/b; ", "run npm -i ", "-X sed ", "sudo git -c x ", "'a b' ", "$x | npm -i run ", "a/b ", "$("]
)
@pytest.mark.parametrize("characters", [9_900, 100_000])
def test_the_time_does_not_explode(piece: str, characters: int) -> None:
    policy = Policy(mode="edits", folder=Path("/"), deny=tuple(Rule.parse(f"Bash({each})") for each in DENIED))
    line = "sudo " + piece * (characters // len(piece))
    began = time.process_time()
    decision = decide(policy, Call("Bash", "write", {"command": line}, Path("/"), built_in=True))
    assert time.process_time() - began < 10
    assert decision.verdict != "allow"
