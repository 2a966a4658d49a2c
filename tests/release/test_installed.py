"""The sdist, the wheel and each extra, installed from the registry into an environment of its own, and used there."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.program import clean_environment
from tests.postgres import own_server

ROOT = Path(__file__).parent.parent.parent
UV = Path(sys.executable).with_name("uv")
EXTRAS = sorted(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
DATABASES = {"dbos", "postgres"}

pytestmark = [pytest.mark.long, pytest.mark.skipif(not UV.exists(), reason="uv is not installed in this environment")]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("dist")
    ended = _run(UV, "build", "--quiet", "--out-dir", folder, ROOT)
    if ended.returncode:
        pytest.skip(f"not tested: the distribution cannot be built here: {ended.stderr[-500:]}")
    return folder


@pytest.fixture
def try_out(tmp_path: Path) -> Callable[..., None]:
    """Install a requirement into a new environment and use what came."""

    def work(requirement: str, *arguments: str) -> None:
        python = tmp_path / "environment" / "bin" / "python"
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        assert not _run(UV, "venv", "--quiet", "--python", sys.executable, python.parent.parent).returncode
        ended = _run(UV, "pip", "install", "--quiet", "--python", python, requirement)
        if "No solution found" in ended.stderr or "Failed to fetch" in ended.stderr:
            pytest.skip(f"not tested: the registry cannot give what {Path(requirement).name} needs: {ended.stderr}")
        assert ended.returncode == 0, ended.stderr
        ended = _run(python, Path(__file__).with_name("smoke.py"), tmp_path, *arguments, cwd=elsewhere)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert "all of it works" in ended.stdout

    return work


@pytest.mark.parametrize("ending", [".whl", ".tar.gz"])
def test_a_distribution_works_in_a_fresh_environment(ending: str, built: Path, try_out: Callable[..., None]) -> None:
    (distribution,) = built.glob(f"*{ending}")
    try_out(str(distribution))


@pytest.mark.parametrize("extra", EXTRAS)
def test_each_extra_works_alone(extra: str, built: Path, try_out: Callable[..., None]) -> None:
    (wheel,) = built.glob("*.whl")
    if extra not in DATABASES:
        try_out(f"{wheel}[{extra}]", extra)
        return
    with own_server() as server:
        try_out(f"{wheel}[{extra}]", extra, server.url())


def test_the_sdist_has_what_the_tests_and_the_docs_need(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"CHANGELOG.md", "LICENSE", "Makefile", "docs/api.md", "tests/conftest.py", "scripts/setup"} <= names
    assert "evals/tasks/fix-median/tests/check.py" in names
    assert not [name for name in names if "__pycache__" in name or name.startswith((".venv", "dist/"))]


def _run(*command: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run uv with the environment of the machine, which may name a registry; a Python without keys and paths."""
    env = dict(os.environ) if command[0] == UV else clean_environment()
    env.pop("PYTHONPATH", None)
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=300)
