"""The proof that `outrider doctor` gives: it must notice a sandbox that does not hold."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from outrider.coding.access import Access
from outrider.coding.sandbox.available import try_sandbox
from outrider.coding.sandbox.landlock import Landlock
from outrider.coding.sandbox.proof import SandboxProofError, try_escapes
from outrider.coding.sandbox.sandbox import Confinement, Host
from tests.coding.sandbox.world import mechanisms


class NoSandbox:
    """Confines nothing, or runs another command."""

    name = "none"

    def __init__(self, *instead: str) -> None:
        self.instead = list(instead)

    def doubts(self, access: Access, places: Confinement) -> tuple[str, ...]:
        return ()

    def wrap(self, argv: Sequence[str], access: Access, places: Confinement) -> list[str]:
        return self.instead or list(argv)


def test_without_a_sandbox_the_attempts_succeed() -> None:
    attempts = try_escapes(NoSandbox())
    by_machine = {"changing kernel settings", "reading kernel keys", "making a namespace"}
    assert all(succeeded for name, succeeded in attempts.items() if name not in by_machine)
    assert attempts["changing kernel settings"] == (os.getuid() == 0) or not os.access("/proc/sys", os.W_OK)


def test_in_the_sandbox_of_this_machine_none_succeeds() -> None:
    sandbox, state = try_sandbox()
    if sandbox is None:
        pytest.skip(state)
    assert not any(try_escapes(sandbox).values())


@pytest.mark.skipif("Landlock" not in mechanisms(), reason="the kernel has no Landlock")
def test_with_landlock_none_succeeds() -> None:
    assert not any(try_escapes(Landlock(Host.of(os.environ))).values())


def test_attempts_that_do_not_run_prove_nothing() -> None:
    with pytest.raises(SandboxProofError, match="no permission"):
        try_escapes(NoSandbox("/bin/sh", "-c", "echo no permission >&2; exit 1"))
    with pytest.raises(SandboxProofError, match="No such file"):
        try_escapes(NoSandbox("/missing"))
