"""Which program a server's command means: a name is never a program of the project, a path is what it says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from outrider.errors import McpError
from outrider.mcp.client import Client
from outrider.mcp.server_limits import ServerHost
from outrider.mcp.servers import StdioServer
from outrider.mcp.stdio import program_of
from outrider.processes.programs import ProgramNotFoundError, Programs


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a program that leaves a trace beside it."""
    folder = tmp_path / "project"
    (folder / "bin").mkdir(parents=True)
    for name in ("server", "sh"):
        (folder / "bin" / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        (folder / "bin" / name).chmod(0o755)
    return folder


def path_of(project: Path) -> dict[str, str]:
    return {"PATH": f"{project}/bin:{os.environ['PATH']}"}


def test_a_name_is_looked_up_outside_the_project(project: Path) -> None:
    server = StdioServer("a", "sh", cwd=project)
    assert program_of(server, path_of(project)) != str(project / "bin" / "sh")
    assert program_of(server, path_of(project), Programs([project])) != str(project / "bin" / "sh")


async def test_a_program_only_in_the_project_is_an_error_that_says_what_to_do(project: Path, tmp_path: Path) -> None:
    client = Client(StdioServer("a", "server", cwd=project), host=ServerHost(environment=path_of(project)))
    with pytest.raises(McpError, match=r"bin/server is inside the working folder .* write its path instead"):
        await client.connect()
    await client.close()
    assert not (tmp_path / "ran").exists()


def test_the_path_variable_of_a_server_is_searched_in_the_same_way(project: Path) -> None:
    server = StdioServer("a", "server", (), {"PATH": f"{project}/bin"}, cwd=project)
    with pytest.raises(ProgramNotFoundError, match="inside the working folder"):
        program_of(server, {}, Programs([project]))


def test_a_path_is_relative_to_the_folder_of_the_server(project: Path) -> None:
    for command in ("./bin/server", "bin/server", str(project / "bin" / "server")):
        found = program_of(StdioServer("a", command, cwd=project), {"PATH": "/usr/bin"})
        assert os.path.realpath(found) == str(project / "bin" / "server")
