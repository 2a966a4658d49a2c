"""Where the servers of files start."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from outrider.coding.consent.item import Consents
from outrider.coding.mcp.server_files import PROJECT_FILE, find_servers, user_file
from outrider.environment import config_file, data_folder
from outrider.mcp.servers import StdioServer
from tests.mcp.starting import HERE, Pool

PIDS = "pids"
"""The file that the server writes to the folder in which it starts."""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a file that has the name of a module, as a clone may have it. This process is in it."""
    monkeypatch.delenv("OUTRIDER_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("OUTRIDER_HOME", str(tmp_path / "data"))
    config_file().parent.mkdir(parents=True)
    project = tmp_path / "project"
    (project / "deep").mkdir(parents=True)
    (project / "scripted_server.py").write_text(f"open({str(tmp_path / 'bait')!r}, 'w')\n")
    monkeypatch.chdir(project)
    return project


def write(file: Path, **fields: Any) -> None:
    """Write a server that is a module, beside a pid file."""
    args = ["-S", "-m", "scripted_server", json.dumps({"pid_file": PIDS})]
    entry = {"command": sys.executable, "args": args, "env": {"PYTHONPATH": str(HERE)}, **fields}
    file.write_text(json.dumps({"mcpServers": {"own": entry}}))


async def states(folder: Path) -> list[str]:
    async with Pool(*find_servers(folder).servers) as pool:
        return [each.state for each in pool.statuses()]


async def test_a_server_of_the_user_runs_no_module_of_a_project_that_nobody_trusts(
    project: Path, tmp_path: Path
) -> None:
    write(user_file())
    assert await states(project) == ["ready"]
    assert not (tmp_path / "bait").exists()
    assert (user_file().parent / PIDS).exists()
    assert not (project / PIDS).exists()


@pytest.mark.parametrize(("cwd", "place"), [(".", "project"), ("deep", "project/deep"), ("${ELSEWHERE}", "else")])
async def test_a_server_of_the_user_starts_where_its_cwd_says(
    project: Path, tmp_path: Path, cwd: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative one is in the project, wherever this process is."""
    (tmp_path / "else").mkdir()
    monkeypatch.setenv("ELSEWHERE", str(tmp_path / "else"))
    (project / "scripted_server.py").unlink()
    monkeypatch.chdir(tmp_path)
    write(user_file(), cwd=cwd)
    assert await states(project) == ["ready"]
    assert (tmp_path / place / PIDS).exists()


@pytest.mark.parametrize(("fields", "place"), [({}, "."), ({"cwd": "deep"}, "deep")])
async def test_a_server_of_the_project_starts_in_the_folder_of_its_file(
    project: Path, fields: dict[str, str], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "scripted_server.py").unlink()
    write(project / PROJECT_FILE, **fields)
    os.mkdir(project / ".git")
    monkeypatch.chdir(project / "deep")
    Consents(data_folder()).give(find_servers(project / "deep").waiting)
    assert await states(project / "deep") == ["ready"]
    assert (project / place / PIDS).exists()


def test_a_path_in_the_users_file_is_relative_to_that_file(project: Path) -> None:
    write(user_file(), command="bin/server")
    (server,) = find_servers(project).servers
    assert isinstance(server, StdioServer)
    assert server.cwd == str(user_file().parent)
