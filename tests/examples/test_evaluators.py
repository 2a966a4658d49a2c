"""Our agent in the programs that evaluate agents: Harbor and Inspect, the real packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop.installing import FOLDER, NotInstalledError, add_packages, build_wheel, installed, make_environment

ROOT = Path(__file__).parent.parent.parent
pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
HARBOR, INSPECT = "harbor==0.24.0", "inspect_ai==0.3.285"


def newer_python() -> str:
    """A Python of version 3.12 or newer; raises NotInstalledError where there is none."""
    if sys.version_info >= (3, 12):
        return sys.executable
    for version in ("3.14", "3.13", "3.12"):
        found = subprocess.run(
            ["/usr/bin/env", f"python{version}", "-c", "import sys; print(sys.executable)"],
            env={**os.environ, "PYENV_VERSION": version},  # where versions are managed, this one is meant
            capture_output=True,
            text=True,
        )
        if found.returncode == 0:
            return found.stdout.strip()
    raise NotInstalledError("there is no Python 3.12 or newer")


def environment(requirement: str, find: Callable[[], str]) -> Path:
    """The interpreter of an environment with this package."""

    def install(folder: Path, wanted: str) -> None:
        make_environment(folder, wanted, python=find())

    return installed(requirement, FOLDER / requirement.partition("=")[0], requirement, install) / "bin" / "python"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


def test_harbor_runs_our_agent_and_reads_its_trajectory(tmp_path: Path, wheel: Path) -> None:
    python = environment(HARBOR, newer_python)
    ended = subprocess.run(
        [python, ROOT / "tests/examples/harbor_trial.py", tmp_path / "container", wheel, "read notes.txt"],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "examples")},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    known = json.loads(ended.stdout.splitlines()[-1])
    assert known["version"].startswith("outrider ")
    assert known["n_input_tokens"] > 0
    steps = json.loads((tmp_path / "container/logs/agent/trajectory.json").read_text())["steps"]
    assert any("The total is 42." in str(step.get("observation")) for step in steps)


def test_inspect_runs_our_agent(tmp_path: Path, wheel: Path) -> None:
    python = environment(INSPECT, lambda: sys.executable)
    add_packages(python, str(wheel))
    ended = subprocess.run(
        [python, ROOT / "examples/inspect_eval.py"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "INSPECT_DISPLAY": "plain"},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert ended.stdout.startswith("success: accuracy ")
