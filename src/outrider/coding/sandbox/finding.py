"""Find the sandbox that works on this machine."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from outrider.coding.sandbox.bubblewrap import Bubblewrap
from outrider.coding.sandbox.sandbox import Confinement, Sandbox
from outrider.text import clean

TRIAL_SECONDS = 5.0


def find_sandbox(program: str | None = None) -> Sandbox | None:
    """Return a sandbox that works here, or None."""
    return try_sandbox(program)[0]


def try_sandbox(program: str | None = None) -> tuple[Sandbox | None, str]:
    """Return a working sandbox or None, and a sentence about it. Bubblewrap may be installed but forbidden."""
    found = shutil.which(program or "bwrap")
    if found is None:
        return None, "commands run without a sandbox: bubblewrap is not installed"
    sandbox = Bubblewrap(found)
    if error := _trial_error(sandbox):
        return None, f"commands run without a sandbox: bubblewrap does not work here ({error})"
    return sandbox, "commands run in a sandbox (bubblewrap)"


def _trial_error(sandbox: Sandbox) -> str:
    """Run an empty command in the sandbox and return why it failed, or ""."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        places = Confinement(folder=folder, cwd=folder, temporary=folder)
        argv = sandbox.wrap(["/bin/sh", "-c", ":"], "read", places)
        try:
            trial = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=TRIAL_SECONDS, cwd="/")
        except subprocess.TimeoutExpired:
            return f"it did not answer within {TRIAL_SECONDS:g} seconds"
        except OSError as error:
            return error.strerror or str(error)
    if trial.returncode == 0:
        return ""
    lines = clean(trial.stderr.decode(errors="replace")).strip().splitlines()
    return lines[-1][:200] if lines else f"exit code {trial.returncode}"
